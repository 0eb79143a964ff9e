"""The line that repeats a finding, with every option that changes how the kernel is asked.

| found by | is repeated by |
|---|---|
| verify of a name | ``dmverify verify NAME --contract C [--timeout S] ... --case ID`` |
| verify of an object | ``dmverify.verify(kernel, 'C', cases=['ID'])``, kernel being that object |
| check | ``dmverify check RECORDING [--expect FILE] --case ID`` |
| replay | ``dmverify replay ID --kernel NAME --contract C`` |

Seed and level are not among them: ids say all that inputs depend on. Where a case fails only after
others (``conformance.reproduce``), those come first. The line of a case of a file names the file.
Not covered: the environment.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from dmverify.conformance.tensor_files import sources_of, words_for
from dmverify.conformance.verdict import Finding

Repeat: TypeAlias = Callable[[Finding, tuple[str, ...]], str]
"""``repeat(finding, ids of the cases to ask before)``."""


def by_verify(
    kernel: str,
    contract: str = "",
    *,
    timeout: float | None = None,
    in_process: bool = False,
    expect: Path | None = None,
) -> Repeat:
    """The command that judges the case again."""
    words = ["dmverify", "verify", *([kernel] if kernel else [])]
    words += ["--contract", contract] if contract else []
    words += [] if timeout is None else ["--timeout", str(timeout)]
    words += ["--in-process"] if in_process else []
    return _with_case([*words, *_expecting(expect)])


def by_call(contract: str, *, expect: Path | None = None) -> Repeat:
    """The call, for a kernel that has no name."""
    more = "" if expect is None else f", expect=Path({str(expect)!r})"

    def line(finding: Finding, before: tuple[str, ...]) -> str:
        cases = (*before, finding.case)
        sources = sources_of(cases)
        files = f", inputs={[*map(str, sources)]!r}" if sources else ""
        return f"dmverify.verify(kernel, {contract!r}, cases={list(cases)!r}{files}{more})"

    return line


def by_check(recording: Path, *, expect: Path | None = None) -> Repeat:
    """The command that judges the recorded answer again."""
    return _with_case(["dmverify", "check", str(recording), *_expecting(expect)])


def by_replay(kernel: str, contract: str) -> Repeat:
    """The command that runs the case again."""
    more = ["--kernel", kernel, "--contract", contract]
    return lambda f, _: shlex.join(["dmverify", "replay", f.case, *more, *words_for((f.case,))])


def _expecting(expect: Path | None) -> list[str]:
    return [] if expect is None else ["--expect", str(expect)]


def _with_case(words: list[str]) -> Repeat:
    def line(finding: Finding, before: tuple[str, ...]) -> str:
        ids = (*before, finding.case)
        cases = [word for case in ids for word in ("--case", case)]
        return shlex.join([*words, *words_for(ids), *cases])

    return line
