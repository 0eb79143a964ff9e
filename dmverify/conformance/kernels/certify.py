"""Which builds of the bundled kernel are certified, and what makes two builds the same.

A build is one compiler with one set of flags over every variant of the kernel. What runs is the
machine code, so a build is identified by the SHA-256 of the code sections of its cubins: debug
sections, symbol names and the compiler's notes do not count. A certificate lists, for each build
that ran on a Hopper GPU and gave the recorded bits, the hash of every variant.

    same machine code   -> same bits, no run needed
    other machine code  -> nothing is known until it has run; the recordings decide

Source: ELF-64 layout, as the System V ABI states it. Not covered: what the driver does to a cubin
(it is loaded as it is; there is no PTX in it to compile again).
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dmverify.errors import RecordingError
from dmverify.kernel.build import MODES, VERSIONS, BuildVariant, Edits, build, source
from dmverify.kernel.errors import BuildError

HEAD_DIMS = (64, 128, 256)
KERNELS = ("quantise", "forward", "query", "key")
FORWARD_MODES = ("matched", "shifted", "associated")  # what the forward keeps differs only in these
CERTIFICATE = Path(__file__).with_name("certificate.json")
VERSION = 1


@dataclass(frozen=True)
class FlagSet:
    """A compiler and its flags beyond those of every build."""

    compiler: str
    flags: tuple[str, ...] = ()


FLAG_SETS: MappingProxyType[str, FlagSet] = MappingProxyType(
    {
        "default": FlagSet("nvrtc"),
        "fast-math": FlagSet("nvrtc", ("--use_fast_math",)),
        "no-fmad": FlagSet("nvrtc", ("-fmad=false",)),
        "ftz": FlagSet("nvrtc", ("-ftz=true",)),
        "approximate": FlagSet("nvrtc", ("-prec-div=false", "-prec-sqrt=false")),
        "ptxas-O1": FlagSet("nvrtc", ("--ptxas-options=-O1",)),
        "ptxas-O2": FlagSet("nvrtc", ("--ptxas-options=-O2",)),
        "lineinfo": FlagSet("nvrtc", ("-lineinfo",)),
        "nvcc": FlagSet("nvcc"),
        "nvcc-fast-math": FlagSet("nvcc", ("--use_fast_math",)),
        "nvcc-O1": FlagSet("nvcc", ("-O1", "-Xptxas", "-O1")),
        "nvcc-O0": FlagSet("nvcc", ("-O0", "-Xptxas", "-O0")),
        "device-debug": FlagSet("nvrtc", ("-G",)),
        "nvrtc-other": FlagSet("nvrtc-other"),
    }
)
"""Builds whose bits must agree, by name."""

SAMPLE = (
    BuildVariant("quantise", 128, causal=False),
    *(BuildVariant(kernel, 128) for kernel in ("forward", "query", "key")),
    BuildVariant("key", 128, split=True),
)
"""What one call with causal mask, matched delta and the nearest cast may run at D = 128."""


def all_variants() -> tuple[BuildVariant, ...]:
    """Every variant that some call of the public function runs."""
    return tuple(
        variant
        for d in HEAD_DIMS
        for kernel in KERNELS
        for causal in ((False, True) if kernel != "quantise" else (False,))
        for mode in _modes(kernel)
        for variant in _casts(kernel, d, causal, mode)
    )


def variants_of(options: Any, head_dim: int) -> tuple[BuildVariant, ...]:
    """The variants that a call with these kernel options may run; lengths decide on ``split``."""
    return tuple(
        options.variant(kernel, head_dim, split=split)
        for kernel in KERNELS
        for split in _splits(kernel, head_dim)
    )


def _modes(kernel: str) -> tuple[str, ...]:
    return {"query": MODES, "forward": FORWARD_MODES}.get(kernel, ("matched",))


def _casts(kernel: str, d: int, causal: bool, mode: str) -> Iterator[BuildVariant]:
    for zero_sum in (False, True) if kernel == "query" else (False,):
        for split in _splits(kernel, d):
            one = BuildVariant(kernel, d, causal=causal, mode=mode, zero_sum=zero_sum, split=split)
            yield one
    if kernel == "quantise":
        yield replace(one, centred=False)
    if kernel == "forward" and mode != "associated":  # which needs the sum of the codes
        yield replace(one, unrounded=True)


def _splits(kernel: str, head_dim: int) -> tuple[bool, ...]:
    """Whether dV and dK are separate tasks of ``key``: at D = 128 the size decides."""
    if kernel != "key":
        return (False,)
    return {64: (False,), 128: (False, True), 256: (True,)}[head_dim]


@cache
def source_hash(edits: Edits = ()) -> str:
    """SHA-256 of the kernels' texts, headers and edits in place."""
    digest = hashlib.sha256()
    for kernel in KERNELS:
        digest.update(source(kernel, edits=edits).encode())
    return digest.hexdigest()


def machine_code(cubin: bytes) -> str:
    """SHA-256 of the code sections of a cubin, each with its name.

    Raises:
        RecordingError: If the bytes are not a little-endian ELF-64 file with code.
    """
    digest, found = hashlib.sha256(), False
    for name, content in sorted(sections(cubin)):
        if name.startswith(b".text."):
            digest.update(name + b"\0" + content)
            found = True
    if not found:
        raise _not_elf("no code section")
    return digest.hexdigest()


def sections(cubin: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and content of every section of a cubin.

    Raises:
        RecordingError: If the bytes are not a little-endian ELF-64 file.
    """
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise _not_elf(cubin[:6])
    try:
        (table,) = struct.unpack_from("<Q", cubin, 0x28)
        size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
        headers = [struct.unpack_from("<IIQQQQ", cubin, table + i * size) for i in range(count)]
        text = headers[names][4]
    except (struct.error, IndexError) as error:
        raise _not_elf(error) from error
    for name, kind, _, _, offset, length in headers:
        start = text + name
        content = b"" if kind == _NO_BITS else cubin[offset : offset + length]
        yield cubin[start : cubin.index(b"\0", start)], content


_NO_BITS = 8  # SHT_NOBITS: a section without bytes in the file


def _not_elf(value: object) -> RecordingError:
    return RecordingError(
        value, rule="a cubin is an ELF-64 file with code sections", fix="build it again"
    )


def build_codes(flag_set: FlagSet, variants: Iterable[BuildVariant]) -> dict[str, str]:
    """Machine code hashes by variant, building what is not in the cache.

    Raises:
        BuildError: From the compiler.
    """
    made = {
        label(variant): build(variant, compiler=flag_set.compiler, flags=flag_set.flags)
        for variant in variants
    }
    return {name: machine_code(one.cubin) for name, one in made.items()}


def label(variant: BuildVariant) -> str:
    """A variant's name in certificates, such as ``query-128-causal-matched-nearest``."""
    mask = "causal" if variant.causal else "full"
    cast = "zero-sum" if variant.zero_sum else "nearest"
    words = [variant.kernel, str(variant.head_dim), mask, variant.mode, cast]
    words += ["split"] if variant.split else []
    words += [] if variant.centred else ["uncentred"]
    words += ["unrounded"] if variant.unrounded else []
    words += ["dump"] if variant.dump else []
    return "-".join(words)


@dataclass(frozen=True)
class Certificate:
    """What ran on the hardware and gave the recorded bits.

    Attributes:
        source: ``source_hash`` of the kernels.
        device: Device name.
        driver: Driver version.
        compilers: Compiler and version, by flag set.
        codes: Machine code hash, by flag set and variant.
        bits: SHA-256 over the recorded outputs that every flag set gave.
        earlier: ``source_hash`` of texts before, whose default builds have the same machine code.
    """

    source: str
    device: str
    driver: str
    compilers: dict[str, str]
    codes: dict[str, dict[str, str]]
    bits: str
    earlier: tuple[str, ...] = ()

    def after(self, before: Certificate) -> Certificate:
        """With the texts of the certificate before, if no default build's code has changed."""
        if before.source == self.source:
            return replace(self, earlier=before.earlier)
        same = before.codes["default"] == self.codes["default"]
        return replace(self, earlier=(*before.earlier, before.source) if same else ())

    def standing(self, codes: dict[str, str]) -> dict[str, str]:
        """What is known of a build: by variant, the flag set with the same code, or ``""``.

        Args:
            codes: Machine code hashes by variant, from ``build_codes``.
        """
        return {
            name: next((s for s, known in self.codes.items() if known.get(name) == code), "")
            for name, code in codes.items()
        }


def load_certificate(path: Path = CERTIFICATE) -> Certificate:
    """The certificate that ships, or the one at a path.

    Raises:
        RecordingError: If it is missing, unreadable, changed or of another version.
    """
    try:
        stored = json.loads(path.read_text())
        body = stored["certificate"]
        whole = stored["version"] == VERSION and stored["sha256"] == _digest(body)
        earlier = tuple(body.get("earlier", ()))
        certificate = Certificate(**body | {"earlier": earlier})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _broken(path, f"is no readable certificate ({error})") from error
    if not whole:
        raise _broken(path, f"was changed, or is not of version {VERSION}")
    return certificate


def save_certificate(certificate: Certificate, path: Path) -> None:
    """Writes a certificate with the hash of its content."""
    body = vars(certificate)
    stored = {"version": VERSION, "sha256": _digest(body), "certificate": body}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _broken(path: Path, what: str) -> RecordingError:
    return RecordingError(
        f"{path.name} {what}",
        rule="a certificate is read whole and unchanged",
        fix="install dmverify again, or certify anew on a Hopper GPU",
    )


def describe_build(*, level: str = "smoke", flag_set: FlagSet = FLAG_SETS["default"]) -> str:
    """Says in one sentence whether the kernel as it builds here has certified machine code.

    Args:
        level: ``full`` builds every variant, any other the five of one head dim and mode.
        flag_set: The compiler and its flags.

    Raises:
        RecordingError: If the certificate is missing or was changed.
    """
    certificate = load_certificate()
    variants = all_variants() if level == "full" else SAMPLE
    try:
        codes = build_codes(flag_set, variants)
        compiler = VERSIONS[flag_set.compiler]()
    except BuildError as error:
        return f"bundled kernel: not built here, so no build was compared ({error.value})"
    unknown = [name for name, found in certificate.standing(codes).items() if not found]
    if unknown:
        return (
            f"bundled kernel: {len(unknown)} of {len(codes)} variants built by {compiler} have "
            f"machine code that no certificate knows, first {unknown[0]}: only a run on a Hopper "
            "GPU can tell their bits ('dmverify verify bundled')"
        )
    return (
        f"bundled kernel: all {len(codes)} variants built here by {compiler} have the machine code "
        f"that gave the recorded bits on {certificate.device}"
    )
