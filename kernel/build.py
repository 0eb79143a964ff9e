"""Builds the kernels: CUDA text to an sm_90a cubin, by NVRTC or nvcc, with no GPU needed.

A build is named by the SHA-256 of everything that can change it: the expanded text with its edits,
the flags and the compiler's version. The cache holds one file per name and is written by atomic
rename, so processes may share it. Its place is ``$DMVERIFY_CACHE`` or the user's cache directory.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .errors import BuildError

HERE = Path(__file__).resolve().parent
ARCH = "sm_90a"
KERNELS = ("quantise", "forward", "query", "key")
HEAD_DIMS = (64, 128, 256)
MODES = ("stale", "consistent", "matched", "renormalized", "shifted", "associated")
INCLUDE = re.compile(r'^#include "(\w+\.cuh)"\n', re.MULTILINE)


class Edit(NamedTuple):
    """A change of the source before it is compiled: how seeded faults are made.

    Attributes:
        file: A source file of the kernels, such as ``query.cu`` or ``tasks.cuh``.
        old: What it takes out: text that occurs exactly once in the file.
        new: What it puts there.
    """

    file: str
    old: str
    new: str


Edits = tuple[Edit, ...]


@dataclass(frozen=True)
class BuildVariant:
    """One compile-time choice of a kernel.

    Attributes:
        kernel: File stem and role: ``quantise``, ``forward``, ``query`` or ``key``.
        head_dim: 64, 128 or 256.
        causal: Bottom-right causal mask.
        mode: Delta mode, an entry of ``MODES`` (query only).
        zero_sum: Zero-sum cast of dS (query only).
        split: dV and dK are separate tasks (key only; always at D = 256).
        centred: K loses its mean over tokens (quantise only).
        unrounded: O is divided by the sum of the unrounded e, not of the codes (forward only).
        dump: Also write the numbers inside (forward and query).
        watchdog: Trap instead of waiting for ever.

    Raises:
        BuildError: A kernel, head dim or mode that there is no source for.
    """

    kernel: str
    head_dim: int
    causal: bool = True
    mode: str = "matched"
    zero_sum: bool = False
    split: bool = False
    centred: bool = True
    unrounded: bool = False
    dump: bool = False
    watchdog: bool = False

    def __post_init__(self) -> None:
        """Refuses what no source text serves."""
        known: tuple[tuple[object, tuple[object, ...]], ...] = (
            (self.kernel, KERNELS),
            (self.head_dim, HEAD_DIMS),
            (self.mode, MODES),
        )
        for value, choices in known:
            if value not in choices:
                raise BuildError(value, rule=f"it is one of {choices}", fix="name one of them")

    def macros(self) -> dict[str, int]:
        """The preprocessor definitions of this variant."""
        return {
            "HEAD_DIM": self.head_dim,
            "CAUSAL": int(self.causal),
            "MODE": MODES.index(self.mode),
            "ZERO_SUM": int(self.zero_sum),
            "SPLIT": int(self.split or self.head_dim == 256),
            "CENTRED": int(self.centred),
            "UNROUNDED": int(self.unrounded),
            "DUMP": int(self.dump),
            "WATCHDOG": int(self.watchdog),
        }


@dataclass(frozen=True)
class Build:
    """A compiled variant: its cubin, the digest that names it, and the compiler's report."""

    variant: BuildVariant
    cubin: bytes
    digest: str
    compiler: str
    report: str


# A dump build stores to global memory inside its loops. A load from shared memory can wait behind
# those stores, and the arrival that gives the place back does not wait for the load: at D = 256,
# from the third of 18 tiles on, outputs fit the scales of four tiles later. So there a predicate
# of a store needs what was loaded, and the arrival comes after the store, which is never done: no
# scale is the negative number next to 0. Other builds have no such stores in their loops; their
# text is left as it is, since recordings name it by its hash.
DUMP_EDITS = (
    Edit(
        "async.cuh",
        """ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
""",
        """{\\n\\t.reg .pred p;\\n\\tld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\\n\\t"
               "setp.eq.b32 p, %0, 0x80000001;\\n\\t@p st.shared.f32 [%4], %0;\\n\\t}"
""",
    ),
)


def source(kernel: str, *, edits: Edits = ()) -> str:
    """The kernel's text with every header in place, each once.

    Args:
        kernel: File stem.
        edits: Changes, in order; those of files that this kernel does not include leave it alone.

    Raises:
        BuildError: An edit names no source file, or its old text does not occur exactly once.
    """
    texts = edited(edits)
    seen: set[str] = set()

    def expand(name: str) -> str:
        if name in seen:
            return ""
        seen.add(name)
        text = texts.get(name) or (HERE / name).read_text()
        text = text.replace("#pragma once\n", "")
        return INCLUDE.sub(lambda found: expand(found[1]), text)

    return expand(f"{kernel}.cu")


def edited(edits: Edits) -> dict[str, str]:
    """The texts of the files that the edits change, by name.

    Args:
        edits: Changes, in order: a later one sees what the earlier ones left.

    Raises:
        BuildError: An edit names no source file, or its old text does not occur exactly once.
    """
    texts: dict[str, str] = {}
    for file, old, new in edits:
        path = HERE / file
        if path.suffix not in (".cu", ".cuh") or path.parent != HERE or not path.exists():
            raise BuildError(file, rule="an edit names a source file", fix="name one, as query.cu")
        text = texts.get(file) or path.read_text()
        if text.count(old) != 1:
            rule = f"the old text of an edit occurs exactly once in {file}"
            raise BuildError(f"{text.count(old)} times {old!r}", rule=rule, fix="quote more of it")
        texts[file] = text.replace(old, new)
    return texts


@cache
def nvrtc_version() -> str:
    """The version of the NVRTC that is loaded, as text.

    Raises:
        BuildError: The Python bindings are not installed, or NVRTC does not say its version.
        RuntimeError: The bindings are installed and find no NVRTC library; the error is theirs.
    """
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise BuildError(
            "no NVRTC", rule="kernels are compiled through cuda-core", fix="install the extra 'gpu'"
        ) from error
    status, major, minor = nvrtc.nvrtcVersion()
    if int(status) != 0:
        raise BuildError(status, rule="NVRTC answers", fix="reinstall nvidia-cuda-nvrtc 13.0")
    return f"nvrtc {major}.{minor}"


@cache
def nvcc_version() -> str:
    """The version of the nvcc on PATH, as text.

    Raises:
        BuildError: None is on PATH.
        subprocess.CalledProcessError: It is there and cannot say its version.
    """
    path = shutil.which("nvcc")
    if path is None:
        raise BuildError("no nvcc", rule="compiler 'nvcc' is on PATH", fix="use compiler 'nvrtc'")
    text = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"V[\d.]+", text)
    return f"nvcc {found[0] if found else text.strip()}"


def compile_nowhere(text: str, flags: tuple[str, ...]) -> tuple[bytes, str]:
    """What a machine does whose NVRTC is another: it takes such builds from the cache alone.

    Args:
        text: Not looked at, nor are the flags: the cache was asked before.
        flags: Not looked at.

    Raises:
        BuildError: Always.
    """
    raise BuildError(
        "not in the cache",
        rule=f"{OTHER_NVRTC} is loaded, or has filled the cache before",
        fix=f"compile where {OTHER_NVRTC} is installed, and carry the cache here",
    )


# A second minor version, whose builds share the cache. Two of its 101 variants spill 4 bytes of a
# register (forward, D = 256, without a mask); the version that is pinned spills in none.
OTHER_NVRTC = "nvrtc 13.2"
VERSIONS: dict[str, Callable[[], str]] = {
    "nvrtc": nvrtc_version,
    "nvcc": nvcc_version,
    "nvrtc-other": lambda: OTHER_NVRTC,
}


def build(
    variant: BuildVariant,
    *,
    compiler: str = "nvrtc",
    flags: tuple[str, ...] = (),
    edits: Edits = (),
) -> Build:
    """Compiles a variant, or takes it from the cache.

    Args:
        variant: What to compile.
        compiler: ``nvrtc``, ``nvcc``, or ``nvrtc-other``: what NVRTC 13.2 has left in the cache.
        flags: Extra compiler flags, such as ``-use_fast_math``; they may not change the bits.
        edits: Changes of the source, see ``source``.

    Raises:
        BuildError: Unknown compiler, compiler missing, an edit that fits nowhere, the text does
            not compile, or serialised multiplies in a build as users run it.
        OSError: The cache cannot be read or written.
        RuntimeError: The bindings find no NVRTC library, see `nvrtc_version`.
    """
    if compiler not in VERSIONS:
        raise BuildError(
            compiler, rule=f"compiler is one of {tuple(VERSIONS)}", fix="name one of them"
        )
    text = source(variant.kernel, edits=(*edits, *(DUMP_EDITS if variant.dump else ())))
    defines = tuple(f"-D{name}={value}" for name, value in variant.macros().items())
    version = VERSIONS[compiler]()
    key = "\0".join((text, *defines, *flags, version, ARCH))
    digest = hashlib.sha256(key.encode()).hexdigest()
    stored = cache_directory() / f"{digest}.cubin"
    log = stored.with_suffix(".log")
    if not (stored.exists() and log.exists()):
        cubin, report = COMPILERS[compiler](text, (*defines, *flags))
        write_atomic(log, report.encode())
        write_atomic(stored, cubin)
    report = log.read_text()
    # Of builds that users run; nvcc's forward at D = 256 without a mask is serialised.
    shipped = compiler == "nvrtc" and not (edits or flags or variant.dump)
    if shipped and (slow := serialised(report)):
        rule = f"{version} lets the matrix multiplies of {variant} run on (no note C75xx)"
        raise BuildError(slow[0], rule=rule, fix="compile with NVRTC 13.0")
    return Build(variant, stored.read_bytes(), digest, version, report)


def serialised(report: str) -> list[str]:
    """What ptxas says of multiplies that it makes wait for each other: same bits, a longer time."""
    return [line.strip() for line in report.splitlines() if "(C75" in line]


def compile_nvrtc(text: str, flags: tuple[str, ...]) -> tuple[bytes, str]:
    """Compiles text to a cubin in this process; returns it with the assembler's report.

    Args:
        text: Text with no header left to include.
        flags: Compiler flags beside those for the architecture and the language.

    Returns:
        The cubin, and what the compiler said of it: registers, spills, warnings.

    Raises:
        BuildError: The text does not compile; the fix is what the compiler said.
        ImportError: The Python bindings are not installed; `build` asks before it calls this.
    """
    from cuda.bindings import nvrtc

    def call(result: tuple[object, ...]) -> tuple[object, ...]:
        status, *rest = result
        if int(status) != 0:  # type: ignore[call-overload]
            raise BuildError(status, rule="NVRTC compiles the text", fix=program_log())
        return tuple(rest)

    def program_log() -> str:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        buffer = b" " * (size + 1)  # NVRTC writes into it, and Python shares bytes of length 1
        nvrtc.nvrtcGetProgramLog(program, buffer)
        return str(buffer.decode(errors="replace").strip("\0 \n"))

    (program,) = call(nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], []))
    fixed = (f"-arch={ARCH}", "-std=c++17", "-diag-suppress=177", "--ptxas-options=-v")
    options = [*fixed, *flags]
    try:
        call(nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options]))
        (size,) = call(nvrtc.nvrtcGetCUBINSize(program))
        cubin = b" " * int(size)  # type: ignore[call-overload]
        call(nvrtc.nvrtcGetCUBIN(program, cubin))
        return cubin, program_log()
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def compile_nvcc(text: str, flags: tuple[str, ...]) -> tuple[bytes, str]:
    """Compiles text to a cubin with the nvcc on PATH; returns it with the assembler's report.

    Args:
        text: Text with no header left to include.
        flags: Compiler flags beside those for the architecture and the language.

    Returns:
        The cubin, and what the compiler said of it: registers, spills, warnings.

    Raises:
        BuildError: The text does not compile; the fix is what the compiler said.
        FileNotFoundError: No nvcc is on PATH; `build` asks before it calls this.
    """
    with tempfile.TemporaryDirectory() as folder:
        written, made = Path(folder, "kernel.cu"), Path(folder, "kernel.cubin")
        # nvcc declares C's fma, add and the like before our text; a namespace hides them.
        written.write_text(f"namespace kernels {{\n{text}\n}}\n")
        target = f"-gencode=arch=compute_90a,code={ARCH}"
        command = ["nvcc", "-cubin", target, "-std=c++17", "-diag-suppress=177", "-Xptxas", "-v"]
        run = subprocess.run(
            [*command, *flags, "-o", str(made), str(written)],
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode != 0:
            raise BuildError(run.returncode, rule="nvcc compiles the text", fix=run.stderr)
        return made.read_bytes(), run.stderr


COMPILERS = {"nvrtc": compile_nvrtc, "nvcc": compile_nvcc, "nvrtc-other": compile_nowhere}


def cache_directory() -> Path:
    """Where cubins are kept; made on first use.

    Raises:
        OSError: It cannot be made.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    path = Path(os.environ.get("DMVERIFY_CACHE", home / "dmverify"))
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a file so that a reader sees all of it or none.

    Args:
        path: The target; its folder exists.
        data: What it holds afterwards.

    Raises:
        OSError: It cannot be written.
    """
    handle, name = tempfile.mkstemp(dir=path.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
