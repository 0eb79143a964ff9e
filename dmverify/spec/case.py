"""The types that every layer passes along: Inputs, Case, Outputs and Internals.

They are plain values. Input tensors hold BF16 numbers in float32 arrays, since numpy has no BF16;
a value that BF16 cannot represent is refused, so nothing is rounded on the way in. Outputs hold
what a kernel returned in whatever format it stored, again widened to float32 without rounding.
Tensors of torch, and arrays of formats that float32 holds, become such arrays (``widened``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dmverify.errors import InputError
from dmverify.spec.problem import Problem
from dmverify.spec.widened import to_float32

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
U8 = npt.NDArray[np.uint8]

# None, typed as what is there nearly always: who reads an absent output unasked fails at once.
ABSENT = cast(F32, None)
OPERANDS = ("q", "k", "v", "do")
SCALE = "_scale"  # what a scale's name ends in
_BF16_DROPS = np.uint32(0xFFFF)


@dataclass(frozen=True)
class Inputs:
    """The four input tensors of forward and backward.

    Attributes:
        q: Queries, (B, Nq, H, D), BF16 numbers as float32.
        k: Keys, (B, Nk, Hkv, D).
        v: Values, (B, Nk, Hkv, D).
        do: Gradient of the output, (B, Nq, H, D).
        scales: Of tensors that are codes, by name: what each code is multiplied with, four axes,
            1 long where all share it. BF16 holds the numbers of every format of codes.

    Raises:
        InputError: For another dtype than float32, or a value outside BF16; for a scale of no
            tensor, that does not broadcast to it, or that is no finite number above 0. NaN and
            infinity in tensors pass: whether a contract forbids them is the contract's business.
    """

    q: F32
    k: F32
    v: F32
    do: F32
    scales: Any = field(default_factory=dict)  # Mapping[str, F32], told from tensors by name

    def __post_init__(self) -> None:
        for name, array in self.items():
            object.__setattr__(self, name, to_float32(array))
            _require_bf16(name, getattr(self, name))
        scales = {name: to_float32(scale) for name, scale in self.scales.items()}
        object.__setattr__(self, "scales", scales)
        for name, scale in scales.items():
            _require_scale(name, scale, getattr(self, name, None))

    def items(self) -> Iterator[tuple[str, F32]]:
        """Name and tensor, in the order q, k, v, do."""
        return ((name, getattr(self, name)) for name in OPERANDS)

    def named(self) -> Iterator[tuple[str, F32]]:
        """The same, then the scales as ``q_scale`` and so on: what a file holds."""
        yield from self.items()
        yield from ((f"{name}{SCALE}", x) for name, x in sorted(self.scales.items()))


@dataclass(frozen=True)
class Case:
    """One question to a kernel: which contract, which problem, which numbers.

    Attributes:
        id: ``family/name@seed``; the inputs regenerate from it alone, or are stored.
        contract: Name of the contract the answer is judged by.
        problem: Sizes, mask, scale.
        inputs: The tensors.
        targets: The fault this case is there to find, in words.
        backward: Whether the gradients are asked too; without, ``inputs.do`` plays no part.

    Raises:
        InputError: If a tensor's shape is not the problem's.
    """

    id: str
    contract: str
    problem: Problem
    inputs: Inputs
    targets: str = ""
    backward: bool = True

    def __post_init__(self) -> None:
        shapes = self.problem.shapes()
        for name, array in self.inputs.items():
            require_shape(name, array, shapes[name])


@dataclass(frozen=True)
class Outputs:
    """What a kernel returned; what it does not compute is ``ABSENT``, as ``names`` says.

    Attributes:
        o: (B, Nq, H, D).
        lse: Natural logarithm of the row's sum of exponentials, (B, H, Nq); -inf on dead rows.
        dq: (B, Nq, H, D).
        dk: (B, Nk, Hkv, D).
        dv: (B, Nk, Hkv, D).
        delta: The softmax correction, (B, H, Nq), when the kernel reveals it.
    """

    o: F32
    lse: F32 = ABSENT
    dq: F32 = ABSENT
    dk: F32 = ABSENT
    dv: F32 = ABSENT
    delta: F32 | None = None

    def items(self) -> Iterator[tuple[str, F32]]:
        """Name and tensor of every output that is present."""
        named = ((each.name, getattr(self, each.name)) for each in fields(self))
        return ((name, array) for name, array in named if array is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the outputs that are present."""
        return tuple(name for name, _ in self.items())

    def require(self, problem: Problem) -> Outputs:
        """Checks dtypes and shapes against the problem and returns itself.

        Raises:
            InputError: If a tensor has another dtype than float32 or another shape.
        """
        shapes = problem.shapes()
        for name, array in self.items():
            require_float32(name, array)
            require_shape(name, array, shapes[name])
        return self


@dataclass(frozen=True)
class Internals:
    """What happened inside, as exact numbers, from the specification or from a dump build.

    Every float64 array holds the exact value of the number that the kernel had (at most 53
    significant bits, so nothing is rounded). Rows are (B, H, Nq), matrices (B, H, Nq, Nk).

    Attributes:
        q: Dequantised operand (code times scale), (B, H, Nq, D).
        k: Dequantised operand, after centring, (B, Hkv, Nk, D).
        v: Dequantised operand, (B, Hkv, Nk, D).
        do: Dequantised operand, (B, H, Nq, D).
        weights: The forward's stored numbers before normalisation, code times basis times rescales.
        norm: The number that normalises the forward, per row: see ``norm_divides``.
        norm_divides: True when the kernel divides by ``norm``, False when it multiplies by it.
        o32: The forward's output before it is stored, (B, H, Nq, D).
        p: The backward's probability as the dS step sees it.
        dp: The backward's dP as the dS step sees it.
        shift: What dS subtracts from dP first (d0 of the shifted delta, else 0), (B, H, Nq).
        delta: What dS subtracts next; the softmax correction is the exact sum ``shift + delta``.
        ds: dS before the cast.
        ds_cast: dS after the cast (code times scale).
        p_cast: P after the backward's cast for dV (code times scale).
    """

    q: F64
    k: F64
    v: F64
    do: F64
    weights: F64
    norm: F64
    norm_divides: bool
    o32: F64
    p: F64
    dp: F64
    shift: F64
    delta: F64
    ds: F64
    ds_cast: F64
    p_cast: F64


@dataclass(frozen=True, eq=False)
class Trace:
    """One run of attention, laid open: what went in, what happened inside, what came out."""

    problem: Problem
    inputs: Inputs
    internals: Internals
    outputs: Outputs


def require_float32(name: str, array: object) -> None:
    """Raises InputError unless this is a numpy array of float32."""
    if not isinstance(array, np.ndarray):
        raise InputError(
            f"{name} of type {type(array).__name__}",
            rule="tensors are numpy arrays of float32",
            fix=f"pass numpy.asarray({name}, dtype=numpy.float32)",
        )
    if array.dtype != np.float32:
        raise InputError(
            f"{name} with dtype {array.dtype}",
            rule="tensors are float32 arrays",
            fix=f"pass {name}.astype(numpy.float32)",
        )


def require_shape(name: str, array: npt.NDArray[np.generic], shape: tuple[int, ...]) -> None:
    """Raises InputError unless the array has exactly this shape."""
    if array.shape != shape:
        raise InputError(
            f"{name} with shape {array.shape}",
            rule=f"the problem gives {name} the shape {shape}",
            fix="pass tensors as (batch, length, heads, head_dim) of this problem",
        )


def beyond_bf16(array: F32) -> npt.NDArray[np.bool_]:
    """Where a float32 has bits that BF16 has not, in the array's shape; NaN may have them too."""
    return np.asarray(array.view(np.uint32) & _BF16_DROPS, np.bool_)


def require_scale_shape(name: str, shape: tuple[int, ...], due: tuple[int, ...]) -> None:
    """Raises unless a scale broadcasts to its codes.

    Args:
        name: Name of the codes' tensor.
        shape: Shape of the scale.
        due: Shape of the codes.

    Raises:
        InputError: If an axis is missing, or neither 1 nor that of the codes.
    """
    fits = zip(shape, due, strict=False)
    if len(shape) != len(due) or not all(extent in (1, whole) for extent, whole in fits):
        raise InputError(
            f"{name}{SCALE} with shape {shape}",
            rule=f"each axis is 1 or that of {name}, {due}",
            fix="repeat a block's scale for its rows, and add axes of 1",
        )


def _require_scale(name: str, scale: F32, codes: F32 | None) -> None:
    if name not in OPERANDS or codes is None:
        raise InputError(
            f"a scale of {name!r:.40}",
            rule=f"scales are of {', '.join(OPERANDS)}",
            fix="name one of these tensors",
        )
    require_float32(f"{name}{SCALE}", scale)
    require_scale_shape(name, scale.shape, codes.shape)
    if not (np.isfinite(scale) & (scale > 0)).all():
        raise InputError(
            f"{name}{SCALE} with a value that is not finite or not above 0",
            rule="what codes are multiplied with is finite and above 0",
            fix="use 1 for a block of zeros",
        )


def _require_bf16(name: str, array: F32) -> None:
    require_float32(name, array)
    if not np.bitwise_or.reduce(array.view(np.uint32), axis=None) & _BF16_DROPS:
        return
    outside = beyond_bf16(array) & ~np.isnan(array)
    if outside.any():
        where = tuple(int(i) for i in np.argwhere(outside)[0])
        raise InputError(
            f"{name}{list(where)} = {float(array[where])!r}",
            rule="inputs are BF16 numbers",
            fix=f"round first: BF16.round({name})",
        )
