"""Asks peers on a GPU machine and keeps what they say: each in a process of its own, side by side.

| file | holds |
|---|---|
| PEER/ | the answers, a recording of ``conformance.store``; a journal until all are there |
| PEER.repeats.json | what made it, and what repeated calls differed in |

What a peer does not promise to serve (``supports``) is asked all the same, since its answer tells
something: a causal mask on unequal lengths, NaN and infinity. One that crashes or hangs spares the
others; the same command goes on where it stopped, and does not ask again who has answered all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from dmverify.conformance.adapter import Forward, Kernel, Supported
from dmverify.conformance.process import ProcessKernel
from dmverify.conformance.resolve import resolve_kernel
from dmverify.conformance.store import FOOTER
from dmverify.conformance.three_steps import run_cases
from dmverify.errors import DmverifyError, unknown_name
from dmverify.files import write_atomically
from dmverify.lab.third_party.kernels import ASKED
from dmverify.lab.third_party.questions import keys_of
from dmverify.lab.third_party.repeats import REPEATS, repeats
from dmverify.spec.case import Case, Outputs
from dmverify.spec.recording import Provenance

REPEATS_ONLY = ("cudnn-fp8-deterministic",)
"""Who is not asked everything."""


class Insisting:
    """A kernel that is asked what it declines too; see ``dmverify.conformance.adapter.Kernel``."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @property
    def info(self) -> Provenance:
        """The kernel's."""
        return self._kernel.info

    @property
    def contract(self) -> str:
        """The kernel's."""
        return self._kernel.contract

    def supports(self, case: Case) -> Supported:
        """Always: what the kernel then says is its answer."""
        return Supported()

    def forward(self, case: Case) -> Forward:
        """The kernel's."""
        return self._kernel.forward(case)

    def backward(self, case: Case) -> Outputs:
        """The kernel's."""
        return self._kernel.backward(case)


def ask_all(names: Sequence[str], out: Path, *, seconds: float, say: Callable[[str], None]) -> bool:
    """Asks every peer.

    Args:
        names: Keys of ``ASKED``.
        out: Folder of the files.
        seconds: For one answer; a peer that takes longer is stopped and started again.
        say: Called with a line a peer.

    Returns:
        Whether all of them could be asked.

    Raises:
        UnknownNameError: If one is no peer; nobody is asked then.
    """
    for name in names:
        if name not in ASKED:
            raise unknown_name("peer", name, ASKED)
    out.mkdir(parents=True, exist_ok=True)

    def asked(name: str) -> bool:
        try:
            kernel = resolve_kernel(ASKED[name], timeout=seconds)
            try:
                ask(kernel, name, out)
            finally:
                if isinstance(kernel, ProcessKernel):
                    kernel.close()
        except DmverifyError as error:
            say(f"{name}: {error}")
            return False
        say(f"{name}: asked")
        return True

    with ThreadPoolExecutor(len(names)) as pool:
        return all(list(pool.map(asked, names)))


def ask(kernel: Kernel, name: str, out: Path) -> None:
    """Asks one peer what is not in the folder yet.

    Raises:
        NothingRanError: If it answers nothing.
        DmverifyError: If it cannot be asked, or the folder holds something else.
    """
    if name not in REPEATS_ONLY and not (out / name / FOOTER).exists():
        run_cases(Insisting(kernel), keys_of(name), out=out / name)
    path = out / f"{name}{REPEATS}"
    if not path.exists():
        rows = list(repeats(kernel, name))
        text = {"peer": name, "producer": asdict(kernel.info), "repeats": rows}
        write_atomically(path, json.dumps(text, indent=1) + "\n")
