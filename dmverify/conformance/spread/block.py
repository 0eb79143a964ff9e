"""Some cases, judged by a worker: all that travels is plain data, and all of it pure functions.

A worker keeps the kernel that it loaded for the blocks that follow. On a GPU that changes between
two blocks (a cluster gives a worker another one) the kernel starts again, since a process that has
used a GPU stays on it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from dmverify.conformance.adapter import Kernel, contracts_of, describe
from dmverify.conformance.checks import get_check
from dmverify.conformance.contracts import resolve_contract
from dmverify.conformance.events import CaseStarted, CheckDone, Event
from dmverify.conformance.families import generate
from dmverify.conformance.gpus import VISIBLE
from dmverify.conformance.pool import Makers
from dmverify.conformance.process import ProcessKernel
from dmverify.conformance.resolve import under_test
from dmverify.conformance.runner import How, judge_cases
from dmverify.conformance.selection import Asked
from dmverify.conformance.tensor_files import Source, bring_file, brought_ids
from dmverify.conformance.verdict import Finding
from dmverify.errors import DmverifyError
from dmverify.memory import give_back_long_arrays
from dmverify.spec.recording import Provenance

Found: TypeAlias = tuple[tuple[Finding, ...], ...]
"""The findings of each case of a block."""


@dataclass(frozen=True)
class Asking:
    """How a kernel is asked.

    Attributes:
        kernel: Its name.
        timeout: Seconds for one answer; None sets no limit.
        in_process: Whether it runs in the worker's own process.
        gpus: GPUs that it needs, perhaps a part of one. Then it has a process of its own.
        files: Where cases of files lie, for every worker: path, prefix, causal, softmax scale.
    """

    kernel: str
    timeout: float | None = None
    in_process: bool = False
    gpus: float = 0.0
    files: tuple[tuple[str, str, bool | None, float | None], ...] = ()


@dataclass(frozen=True)
class Block:
    """Cases that a worker judges one after the other.

    Attributes:
        places: Where they are in the run.
        asked: Their ids and contracts.
        checks: Ids of the checks.
    """

    places: tuple[int, ...]
    asked: tuple[Asked, ...]
    checks: tuple[str, ...]


@dataclass(frozen=True)
class Introduced:
    """What a kernel says of itself.

    Attributes:
        producer: What it is.
        contracts: Names of the contracts that it serves, its own first.
    """

    producer: Provenance
    contracts: tuple[str, ...]


@dataclass(frozen=True)
class Failed:
    """A deliberate error, which travels as its words.

    Attributes:
        code: Code of its class.
        value: What was met.
        rule: The rule that it breaks.
        fix: What the caller can do.
    """

    code: str
    value: str
    rule: str
    fix: str

    @classmethod
    def of(cls, error: DmverifyError) -> Failed:
        """What travels of an error."""
        return cls(error.code, str(error.value), error.rule, error.fix)

    def again(self) -> DmverifyError:
        """The error, of its class."""
        kinds: list[type[DmverifyError]] = [DmverifyError]
        for kind in kinds:
            kinds += kind.__subclasses__()
        kind = next((one for one in kinds if one.code == self.code), DmverifyError)
        return kind(self.value, rule=self.rule, fix=self.fix)


@dataclass(frozen=True)
class Done:
    """What became of a block.

    Attributes:
        block: The block.
        found: The findings of each case; None if its worker was lost.
    """

    block: Block
    found: Found | None


class Workers(Protocol):
    """What judges blocks elsewhere."""

    @property
    def count(self) -> int:
        """How many blocks are judged at a time; it may change."""

    @property
    def most_large(self) -> int:
        """How many large cases may be judged at a time; at least 1."""

    def introduce(self) -> Introduced:
        """What the kernel says of itself, where it runs.

        Raises:
            DmverifyError: If it cannot be loaded.
        """

    def submit(self, block: Block) -> None:
        """Has a block judged."""

    def wait(self) -> Iterable[Done]:
        """Blocks that are done, at least one of those that were submitted."""


class _Loaded:
    """The kernel that this process asks."""

    key: tuple[Asking, str] | None = None
    kernel: Kernel | None = None


def introduce(asking: Asking) -> Introduced | Failed:
    """What a kernel says of itself, in a worker."""
    try:
        kernel = _kernel(asking)
        names = (kernel.contract, *contracts_of(kernel))
        own = tuple(dict.fromkeys(resolve_contract(name).name for name in names))
        return Introduced(describe(kernel), own)
    except DmverifyError as error:
        return Failed.of(error)


def judge_block(asking: Asking, block: Block, pool: Makers | None = None) -> Found | Failed:
    """Judges a block, in a worker.

    Args:
        asking: How the kernel is asked.
        block: The cases.
        pool: Makes references elsewhere; None makes them here.

    Returns:
        The findings of each case, or why the run cannot go on.
    """
    found: list[list[Finding]] = []

    def keep(event: Event) -> None:
        match event:
            case CaseStarted():
                found.append([])
            case CheckDone(finding=finding):
                found[-1].append(finding)

    try:
        kernel = _kernel(asking)
        cases = (generate(case_id, contract=contract) for case_id, contract in block.asked)
        for _ in judge_cases(
            kernel, cases, How(tuple(map(get_check, block.checks)), keep, pool=pool)
        ):
            pass  # what is kept is kept by case
    except DmverifyError as error:
        return Failed.of(error)
    return tuple(map(tuple, found))


def _kernel(asking: Asking) -> Kernel:
    key = (asking, os.environ.get(VISIBLE, ""))
    if _Loaded.kernel is None or _Loaded.key != key:
        if isinstance(_Loaded.kernel, ProcessKernel):
            _Loaded.kernel.close()
        give_back_long_arrays()
        _bring(asking)
        no_limit = math.inf if asking.gpus else None  # a limit gives a built-in one a process too
        timeout = no_limit if asking.timeout is None else asking.timeout
        _Loaded.kernel = None
        _Loaded.kernel = under_test(asking.kernel, timeout=timeout, in_process=asking.in_process)
        _Loaded.key = key
    return _Loaded.kernel


def _bring(asking: Asking) -> None:
    if asking.files and not brought_ids():
        for path, prefix, causal, scale in asking.files:
            bring_file(Source(Path(path), prefix, causal, scale))
