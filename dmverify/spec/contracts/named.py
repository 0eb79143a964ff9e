"""The named contracts, and how a name with modifiers is read.

Sources: ``article`` is the simulation behind the published figures of "Delta-Matching"
(2026-10-30); ``upstream`` the geometry of Tang et al., arXiv 2609.37852, appendix B.6; ``bundled``
the kernel in ``kernel/``.
"""

from __future__ import annotations

from dataclasses import replace

from dmverify.errors import ContractError, unknown_name
from dmverify.spec.contracts.contract import DELTAS, DS_CASTS, MODIFIERS, Contract, register
from dmverify.spec.contracts.peers import PEER_CONTRACTS
from dmverify.spec.contracts.schedule import Rows, Windows

ARTICLE = Contract(
    base="article",
    summary="fp32 simulation: row maximum, 64-key P groups, 64x64 dS tiles, amax/448 everywhere",
    operand_rule="amax",
    schedule=Rows(p_group=64, tile=64),
)
UPSTREAM = replace(
    ARTICLE,
    base="upstream",
    summary="the paper's kernel geometry: like article, with P on a 32-key basis",
    schedule=Rows(p_group=32),
)
BUNDLED = Contract(
    base="bundled",
    summary="the Hopper kernel of this project: online softmax, wgmma order, every bit known",
    operand_rule="amax-clamped",
    schedule=Windows(window=64, row_sum="quad"),
    centre_k="blocked-mean",
    normaliser="codes",
    saturate=True,
)
CONTRACTS: dict[str, Contract] = {
    c.base: register(c) for c in (ARTICLE, UPSTREAM, BUNDLED, *PEER_CONTRACTS)
}


def get_contract(name: str, **changes: str) -> Contract:
    """The contract called ``base`` or ``base:key=value,...``.

    Args:
        name: For example ``article`` or ``bundled:delta=stale,ds_cast=zero-sum``.
        **changes: The same modifiers as keywords; they win.

    Raises:
        UnknownNameError: If no contract has that base.
        ContractError: For a modifier that is not delta, ds_cast or normaliser, or an unknown value.
    """
    base, colon, tail = name.partition(":")
    if base not in CONTRACTS:
        raise unknown_name("contract", base, CONTRACTS, shown_by="dmverify list contracts")
    words = _modifiers(tail) if colon else {}
    merged = words | changes
    for key in merged:
        if key not in MODIFIERS:
            raise ContractError(
                f"modifier {key!r}",
                rule=f"a contract name may change {', '.join(MODIFIERS)}",
                fix="write base:delta=stale or build a Contract of your own",
            )
    return replace(CONTRACTS[base], **merged)  # type: ignore[arg-type]


def every_mode(base: str) -> tuple[str, ...]:
    """The names of a contract in every delta mode and cast.

    Raises:
        UnknownNameError, ContractError: As for ``get_contract``.

    >>> every_mode("bundled")[:2]
    ('bundled:delta=stale', 'bundled:delta=stale,ds_cast=zero-sum')
    """
    changes = ({"delta": delta, "ds_cast": cast} for delta in DELTAS for cast in DS_CASTS)
    return tuple(get_contract(base, **change).name for change in changes)


def _modifiers(tail: str) -> dict[str, str]:
    pairs = [_modifier(word) for word in tail.split(",")]
    if len(dict(pairs)) < len(pairs):
        raise ContractError(tail, rule="a modifier stands once", fix="keep one of the two")
    return dict(pairs)


def _modifier(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals:
        raise ContractError(
            f"modifier {word!r}", rule="modifiers are key=value", fix="write delta=stale"
        )
    return key, value
