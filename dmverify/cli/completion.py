"""What a shell offers for a value; ``dmverify`` itself says how a shell is told (docs/ci.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

from dmverify.conformance.checks import CHECKS
from dmverify.conformance.contracts import offered_contracts
from dmverify.conformance.kernels import KERNELS
from dmverify.conformance.resolve import offered_kernels
from dmverify.conformance.selection import LEVELS
from dmverify.spec.contracts import CONTRACTS


def one_of(
    *tables: Callable[[], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """The names of tables that begin as what is typed.

    Args:
        *tables: Each gives names.
    """

    def offered(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return [name for table in tables for name in table() if name.startswith(incomplete)]

    return offered


kernels = one_of(lambda: KERNELS, offered_kernels)
contracts = one_of(lambda: CONTRACTS, offered_contracts)
checks = one_of(lambda: CHECKS)
levels = one_of(lambda: LEVELS)
