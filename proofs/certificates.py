"""Certificates: claims about measured instructions, checked over all 2^32 float32 inputs.

No formula describes ex2, lg2 and rcp.approx, so nothing can be proved about them; they are checked
exhaustively instead. A certificate rests on two records: digests of the outputs of all inputs,
measured on an H200 and shipped with the specification, and a full run of the claim over the model
(``record``), whose outputs had those digests in every block. Each ``rerun`` repeats both on a
random 1/256 of the claim's inputs, and checks that the worst input on record still violates the
control. The float64 references of ex2, lg2 and rcp err by less than 2^-51, far below the last digit
of the constants; a float32 less its code is exact, so the quotients of casts round correctly.

A block is 2^20 consecutive bit patterns.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmverify.errors import RecordingError
from dmverify.files import write_atomically
from dmverify.spec.formats import BF16, E4M3
from dmverify.spec.machine import hopper

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
F = Fraction
BLOCK = 1 << 20
BLOCKS = 1 << 12
SLICE = 256
DIRECTORY = Path(__file__).parent / "records"
HARDWARE = Path(hopper.__file__).with_name("data") / "functions.npz"


@dataclass(frozen=True)
class Certificate:
    """A claim about one instruction over a range of input bit patterns.

    Attributes:
        id: Stable name, cited by bounds.
        statement: Words and formula.
        used_by: What rests on it.
        instruction: Name of the hardware's digests.
        model: float32 inputs to output bits.
        blocks: The blocks of inputs that the claim covers.
        error: Inputs and output bits to the claimed quantity (float64, at most the constant; 0
            outside the claim's domain).
        exact: Inputs and output bits to what else must hold (booleans).
        constant: The bound on ``error``.
        control: The same, tightened; some input must violate it.
    """

    id: str
    statement: str
    used_by: tuple[str, ...]
    instruction: str
    model: Callable[[F32], NDArray[Any]]
    blocks: range
    error: Callable[[F32, NDArray[Any]], F64]
    exact: Callable[[F32, NDArray[Any]], NDArray[np.bool_]]
    constant: Fraction
    control: Fraction


@dataclass(frozen=True)
class Run:
    """Outcome of a run over some blocks.

    Attributes:
        inputs: How many inputs were checked.
        violations: How many violate the claim.
        unlike_hardware: Blocks whose outputs differ from the hardware's.
        worst: Bit pattern of the input with the largest error.
        error: That error.
    """

    inputs: int
    violations: int
    unlike_hardware: int
    worst: int
    error: float

    @property
    def clean(self) -> bool:
        """No violation, and every block as the hardware has it."""
        return not (self.violations or self.unlike_hardware)


def bits(x: NDArray[Any]) -> NDArray[Any]:
    """Bit patterns of float32, and codes as they are."""
    return x.view(np.uint32) if x.dtype == np.float32 else x


def floats(y: NDArray[Any]) -> F64:
    """Output bits of a float32 instruction as float64."""
    return y.view(np.float32).astype(np.float64)


def inputs_of(block: int) -> F32:
    """The 2^20 inputs of a block."""
    return np.arange(block * BLOCK, (block + 1) * BLOCK, dtype=np.uint64).astype(np.uint32).view(
        np.float32
    )  # fmt: skip


def digest(outputs: NDArray[Any]) -> bytes:
    """BLAKE2b of a block's output bits, little-endian, cut to 64 bits, as in the recordings."""
    little = np.ascontiguousarray(outputs, outputs.dtype.newbyteorder("<"))
    return hashlib.blake2b(little.tobytes(), digest_size=8).digest()


def hardware_digests(instruction: str) -> NDArray[np.uint8]:
    """The digests of all blocks of an instruction, (4096, 8), measured on an H200.

    Raises:
        RecordingError: The recording is missing, unreadable or has no such instruction.
    """
    try:
        with np.load(HARDWARE) as stored:
            return np.asarray(stored[f"hash/{instruction}"], np.uint8)
    except (OSError, ValueError, KeyError) as error:
        raise RecordingError(
            f"{HARDWARE.name}: {error}", rule=f"it holds the digests of {instruction}",
            fix="restore the recordings of the Hopper instructions",
        ) from error  # fmt: skip


def check(entry: Certificate, blocks: Iterable[int], *, constant: Fraction | None = None) -> Run:
    """Check a claim over blocks of inputs.

    Args:
        entry: The certificate.
        blocks: Which blocks.
        constant: In place of the certificate's own.
    """
    limit = float(entry.constant if constant is None else constant)
    known = hardware_digests(entry.instruction)
    count = violations = unlike = 0
    worst, largest = 0, -1.0
    with np.errstate(all="ignore"):
        for block in blocks:
            x = inputs_of(block)
            y = bits(entry.model(x))
            unlike += digest(y) != known[block].tobytes()
            error = entry.error(x, y)
            violations += int((~(error <= limit) | ~entry.exact(x, y)).sum())
            count += x.size
            if float(error.max()) > largest:
                largest, worst = float(error.max()), int(x.view(np.uint32)[error.argmax()])
    return Run(count, violations, unlike, worst, largest)


def record(entry: Certificate, *, directory: Path = DIRECTORY) -> Run:
    """Run a claim over all of its inputs and store the outcome, atomically."""
    run = check(entry, entry.blocks)
    content = {
        "id": entry.id, "constant": str(entry.constant), "inputs": run.inputs,
        "violations": run.violations, "unlike_hardware": run.unlike_hardware,
        "worst": hex(run.worst), "error": run.error.hex(),
    }  # fmt: skip
    directory.mkdir(parents=True, exist_ok=True)
    write_atomically(directory / f"{entry.id}.json", json.dumps(content, indent=1) + "\n")
    return run


def recorded(entry: Certificate, *, directory: Path = DIRECTORY) -> Run:
    """The stored outcome of the full run.

    Raises:
        RecordingError: It is missing, unreadable, of another constant or of fewer inputs.
    """
    try:
        stored = json.loads((directory / f"{entry.id}.json").read_text(encoding="utf-8"))
        run = Run(
            stored["inputs"], stored["violations"], stored["unlike_hardware"],
            int(stored["worst"], 16), float.fromhex(stored["error"]),
        )  # fmt: skip
        same = stored["constant"] == str(entry.constant)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unusable(entry, error) from error
    if not same or run.inputs != len(entry.blocks) * BLOCK:
        raise _unusable(entry, "constant or number of inputs differ")
    return run


def _unusable(entry: Certificate, why: object) -> RecordingError:
    return RecordingError(
        f"{entry.id}: {why}", rule="a certificate has the record of a full run of its claim",
        fix="record it again (minutes per instruction)",
    )  # fmt: skip


def rerun(entry: Certificate, *, seed: int | None = None) -> tuple[Run, int]:
    """Check a random 1/256 of a claim's inputs, at least one block.

    Returns:
        The outcome and the seed that reproduces the choice of blocks.
    """
    seed = secrets.randbits(32) if seed is None else seed
    count = max(len(entry.blocks) // SLICE, 1)
    chosen = np.random.default_rng(seed).choice(np.array(entry.blocks), count, replace=False)
    return check(entry, [int(block) for block in chosen]), seed


def control_violated(entry: Certificate, run: Run) -> bool:
    """Whether the worst input on record violates the control and satisfies the claim, afresh."""
    x = np.array([run.worst], np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        error = float(entry.error(x, bits(entry.model(x)))[0])
    return float(entry.control) < error <= float(entry.constant)


def _anything(x: F32, y: NDArray[Any]) -> NDArray[np.bool_]:
    return np.ones(x.shape, np.bool_)


def _ex2_error(x: F32, y: NDArray[Any]) -> F64:
    inside = (x >= -126) & (x < 128)
    return np.where(inside, np.abs(floats(y) / np.exp2(x.astype(np.float64)) - 1), 0.0)


def _ex2_shape(x: F32, y: NDArray[Any]) -> NDArray[np.bool_]:
    """Monotone in magnitude order, at most 1 up to 0, exactly 1 at 0, 0 and infinity outside."""
    out = floats(y)
    before = np.append(_ex2_before(x[0]), out[:-1])
    ordered = np.where(np.signbit(x), before >= out, before <= out)
    ends = np.where(x < -126, out == 0, np.where(x >= 128, np.isinf(out), True))
    holds = ordered & ends & ((x > 0) | (out <= 1)) & ((x != 0) | (out == 1))
    return np.asarray(np.isnan(x) | holds, np.bool_)


def _ex2_before(first: np.float32) -> np.float64:
    """ex2 of the neighbour nearer to zero, so that blocks are compared across their edge."""
    inner = np.nextafter(first, np.float32(0))
    return np.float64(hopper.ex2(np.array([inner], np.float32))[0])


def _lg2_absolute(x: F32, y: NDArray[Any]) -> F64:
    return np.abs(floats(y) - np.log2(x.astype(np.float64)))


def _lg2_relative(x: F32, y: NDArray[Any]) -> F64:
    wide = x.astype(np.float64)
    outside = (wide >= 2.0**-126) & np.isfinite(wide) & ((wide < 0.5) | (wide >= 2))
    return np.where(outside, np.abs(floats(y) / np.log2(np.where(outside, wide, 2)) - 1), 0.0)


def _rcp_error(x: F32, y: NDArray[Any]) -> F64:
    size = np.abs(x.astype(np.float64))
    inside = (size >= 2.0**-126) & (size <= 2.0**126)
    return np.where(inside, np.abs(floats(y) * x.astype(np.float64) - 1), 0.0)


def _e4m3_error(x: F32, y: NDArray[Any]) -> F64:
    """Error over |x|, where |x|/17 is the larger of the two bounds."""
    size = np.abs(x.astype(np.float64))
    inside = (size >= 17 * 2.0**-10) & (size <= 464)
    return np.where(inside, np.abs(_e4m3_values(y) - x) / size, 0.0)


def _e4m3_values(codes: NDArray[Any]) -> F64:
    """Values by the definition of the format, apart from the specification's decoder."""
    field, m = (codes >> 3) & 15, (codes & 7).astype(np.float64)
    size = np.where(field == 0, m * 2.0**-9, (8 + m) * 2.0 ** (field.astype(np.float64) - 10))
    return np.where(codes & 0x80, -size, size)


def _e4m3_exact(x: F32, y: NDArray[Any]) -> NDArray[np.bool_]:
    """Sign kept, 448 from 432 on, 2^-10 near zero, NaN for NaN."""
    value, size = _e4m3_values(y), np.abs(x.astype(np.float64))
    small = (size >= 17 * 2.0**-10) | (np.abs(value - x) <= 2.0**-10)
    top = (size < 432) | (np.abs(value) == 448)
    number = small & top & ((y & 0x7F) != 0x7F) & ((y >= 0x80) == np.signbit(x))
    return np.asarray(np.where(np.isnan(x), (y & 0x7F) == 0x7F, number), np.bool_)


def _bf16_error(x: F32, y: NDArray[Any]) -> F64:
    size = np.abs(x.astype(np.float64))
    inside = (size >= 2.0**-126) & (size < 2.0**128 - 2.0**119)
    return np.where(inside, np.abs(_bf16_values(y) - x) / size, 0.0)


def _bf16_values(codes: NDArray[Any]) -> F64:
    return floats(codes.astype(np.uint32) << np.uint32(16))


def _bf16_exact(x: F32, y: NDArray[Any]) -> NDArray[np.bool_]:
    """Infinity from 2^128 - 2^119 on, 2^-134 near zero, NaN for NaN."""
    value, size = _bf16_values(y), np.abs(x.astype(np.float64))
    small = (size >= 2.0**-126) | (np.abs(value - x) <= 2.0**-134)
    top = np.isinf(value) == (size >= 2.0**128 - 2.0**119)
    return np.asarray(np.where(np.isnan(x), np.isnan(value), small & top), np.bool_)


ALL = range(BLOCKS)
POSITIVE = range(BLOCKS // 2)
NEAR_ONE = range(0x3F0, 0x400)  # [1/2, 2)

CERTIFICATES: Sequence[Certificate] = (
    Certificate(
        "ex2-error",
        "ex2.approx.ftz errs by at most 1.459e-7 (2^-22.708) of 2^x for -126 <= x < 128; it is "
        "monotone, 1 at 0, at most 1 below, 0 below -126, infinite from 128.",
        (
            "spec.arithmetic.enclosure:Enclosure.exp2",
            "spec.attention.unspecified_order:widen_exponent",
            "spec.bounds.errors:FUNCTION",
            "spec.machine.hopper.mufu:ex2",
            "spec.ledger.bounds:_SOFTMAX",
            "spec.ledger.bounds.constants:EX2",
        ),
        "ex2_ftz", hopper.ex2, ALL,
        _ex2_error, _ex2_shape, F(1459, 10**10), F(1458, 10**10),
    ),
    Certificate(
        "lg2-near-one",
        "lg2.approx.ftz errs by at most 2.153e-7 (2^-22.147) absolutely on [1/2, 2); there is no "
        "relative bound, the error reaches 0.86 of log2 x next to 1.",
        (
            "spec.arithmetic.enclosure:Enclosure.log2",
            "spec.bounds.closed:_lse",
            "spec.bounds.errors:LG2",
            "spec.bounds.residual:LG2_ABSOLUTE",
            "spec.machine.hopper.mufu:lg2",
        ),
        "lg2_ftz", hopper.lg2, NEAR_ONE,
        _lg2_absolute, _anything, F(2153, 10**10), F(2152, 10**10),
    ),
    Certificate(
        "lg2-error",
        "lg2.approx.ftz errs by at most 2.293e-7 (2^-22.056) of log2 x for normal x outside "
        "[1/2, 2).",
        (
            "spec.arithmetic.enclosure:Enclosure.log2",
            "spec.bounds.closed:_lse",
            "spec.bounds.errors:LG2",
            "spec.bounds.residual:LG2_RELATIVE",
            "spec.machine.hopper.mufu:lg2",
        ),
        "lg2_ftz", hopper.lg2, POSITIVE,
        _lg2_relative, _anything, F(2293, 10**10), F(2292, 10**10),
    ),
    Certificate(
        "rcp-error",
        "rcp.approx.ftz errs by at most 9.830e-8 (2^-23.278) of 1/x for 2^-126 <= |x| <= 2^126.",
        (
            "spec.machine.hopper.mufu:rcp",
        ),
        "rcp_ftz", hopper.rcp, ALL,
        _rcp_error, _anything, F(9830, 10**11), F(9829, 10**11),
    ),
    Certificate(
        "cvt-e4m3",
        "cvt.rn.satfinite.e4m3x2 errs by at most max(|x|/17, 2^-10) for |x| <= 464, gives 448 from "
        "432 on, keeps the sign and NaN.",
        (
            "spec.machine.hopper.cvt:cvt",
        ),
        "cvt_e4m3", lambda x: hopper.cvt(x, E4M3), ALL,
        _e4m3_error, _e4m3_exact, F(1, 17), F(1, 18),
    ),
    Certificate(
        "cvt-bf16",
        "cvt.rn.bf16x2 errs by at most 2^-8 |x| for normal x, 2^-134 below, gives infinity from "
        "2^128 - 2^119 on and NaN for NaN.",
        (
            "spec.machine.hopper.cvt:cvt",
        ),
        "cvt_bf16", lambda x: hopper.cvt(x, BF16), ALL,
        _bf16_error, _bf16_exact, F(1, 256), F(1, 258),
    ),
)  # fmt: skip
