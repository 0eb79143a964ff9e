"""The array operations that the attention steps are written in.

An interpretation gives each operation a meaning: exact reals (``Exact``), every number that a
conforming kernel can have (``Enclosure``), the bits that Hopper computes (``Bits``), ordinary
float32 (``Single``) or float64 (``Double``). The steps never branch on a value: what depends on
values goes through ``select``; what a contract leaves open, through ``any_of`` and its
neighbours, which an interpretation of single numbers answers with one choice and one of sets with
all. Arrays are numpy-like (indexing, reshape, swapaxes); their elements belong to the
interpretation.

Two groups of operations differ in kind. *Rounding* operations may err in an interpretation. The
*bookkeeping* operations (``ceil``, ``ceil_log2``, ``max_shift_to_448``, ``pow2``, ``reference``,
``at_largest``, ``greater``) choose powers of two, keys and references that change no exact result,
so any interpretation may answer them from an approximation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dmverify.spec.exponents import LARGEST_FIT
from dmverify.spec.formats import Element
from dmverify.spec.namespace import Array


@dataclass(frozen=True, eq=False, slots=True)
class Logits:
    """The logits of some rows, as softmax reads them.

    Attributes:
        x: The logits, along the last axis.
        top: The maximum of the seen ones of each row, that axis 1 long.
        seen: numpy bool, which keys take part.
    """

    x: Array
    top: Array
    seen: Array


class Arithmetic(Protocol):
    """One interpretation of the attention steps.

    Attributes:
        casts: The cast sites that round, a subset of ``operands``, ``p``, ``ds``, ``o``; elsewhere
            ``cast`` is the identity.
    """

    casts: frozenset[str]

    @property
    def name(self) -> str:
        """What reports call it."""

    @property
    def exact_schedule(self) -> bool:
        """Whether results are bits, so that the contract must state every order."""

    def array(self, x: Array) -> Array:
        """A float32 array as numbers of this interpretation (no rounding)."""

    def mask(self, x: Array) -> Array:
        """A numpy bool array as a mask for ``select``."""

    def float64(self, x: Array) -> Array:
        """Numbers as a float64 numpy array (midpoints where numbers are enclosures)."""

    def add(self, a: Array, b: Array) -> Array:
        """``a + b``, rounded once."""

    def sub(self, a: Array, b: Array) -> Array:
        """``a - b``, rounded once."""

    def mul(self, a: Array, b: Array) -> Array:
        """``a * b``, rounded once."""

    def div(self, a: Array, b: Array) -> Array:
        """``a / b``, rounded once."""

    def fma(self, a: Array, b: Array, c: Array) -> Array:
        """``a * b + c``, rounded once."""

    def sqrt(self, a: Array) -> Array:
        """Square root, rounded once."""

    def exp(self, a: Array) -> Array:
        """Natural exponential."""

    def log(self, a: Array) -> Array:
        """Natural logarithm."""

    def exp2(self, a: Array) -> Array:
        """2 to the power ``a`` (``ex2.approx.ftz`` on Hopper)."""

    def log2(self, a: Array) -> Array:
        """Base-2 logarithm (``lg2.approx`` on Hopper)."""

    def sum(self, a: Array, axis: int, *, over: str) -> Array:
        """Sum along an axis in no particular order, the axis kept with length 1.

        ``over`` says what the axis counts, as for ``dot``.
        """

    def inner(self, a: Array, b: Array, axis: int, *, over: str) -> Array:
        """Sum of products along an axis in no particular order, rounded or fused."""

    def max(self, a: Array, axis: int) -> Array:
        """Maximum along an axis, the axis kept with length 1; exact."""

    def maximum(self, a: Array, b: Array) -> Array:
        """Elementwise maximum; exact."""

    def absolute(self, a: Array) -> Array:
        """Magnitude; exact."""

    def negate(self, a: Array) -> Array:
        """Sign flipped; exact."""

    def dot(self, a: Array, b: Array, *, over: str) -> Array:
        """(M, K) and (N, K) to (M, N), contracted over K (a chain of k32 wgmma on Hopper).

        ``over`` says what K counts, ``channels``, ``tokens`` or the tokens of several ``heads``:
        orders may be stated for one only.
        """

    def select(self, mask: Array, a: Array, b: Array) -> Array:
        """``a`` where the mask is set, else ``b``."""

    def cast(self, a: Array, fmt: Element, *, site: str, saturate: bool) -> Array:
        """Rounded to the nearest number of a format, if the site is one of ``casts``."""

    def scale_down(self, x: Array, scale: Array, fmt: Element) -> Array:
        """``x / scale``, rounded once, scale = amax / largest of ``fmt`` of the tile x is in."""

    def of_codes(self, x: Array, scale: Array, fmt: Element) -> Array:
        """x itself, which is code x scale; where numbers are sets, with what that says of it."""

    def carry(self, t: Array, q: Array) -> Array:
        """``t - q``, exact, where q is t after an E4M3 cast."""

    def concatenate(self, parts: Sequence[Array], axis: int) -> Array:
        """Joined along an axis."""

    def ln2(self) -> Array:
        """ln 2, rounded once; shape (1, 1)."""

    def per_ln2(self, x: float) -> Array:
        """``x log2 e``, rounded once; shape (1, 1)."""

    def broadcast(self, a: Array, shape: tuple[int, ...]) -> Array:
        """Repeated along axes of length 1 to a shape."""

    def ceil(self, a: Array) -> Array:
        """Bookkeeping: the least integer not below ``a``."""

    def ceil_log2(self, a: Array) -> Array:
        """Bookkeeping: the least integer n with ``a <= 2^n``, clamped to [-100, 120]; 0 for 0."""

    def max_shift_to_448(self, a: Array, *, limit: int = LARGEST_FIT) -> Array:
        """Bookkeeping: the largest n <= limit with ``a * 2^n <= 448``; 0 for 0."""

    def pow2(self, n: Array) -> Array:
        """Bookkeeping: 2 to an integer power, exact."""

    def greater(self, a: Array, b: Array) -> Array:
        """Bookkeeping: a mask, where ``a > b``."""

    def reference(self, a: Array) -> Array:
        """Bookkeeping: a number that softmax may be taken relative to; ``a`` itself or near it."""

    def at_largest(self, x: Array, windows: Array, keys: Array) -> Array:
        """Bookkeeping: x (M, W, L) at one key a row, (M, 1).

        The key is the first of largest ``keys`` (M, W, L) in the first window of largest
        ``windows`` (M, W, 1).
        """

    def any_of(self, known: Any, allowed: Callable[[], Any]) -> Any:
        """What a contract leaves open: one choice, or where numbers are sets all, ``allowed()``."""

    def below_maximum(self, row: Logits) -> Array:
        """``x - top``."""

    def with_largest(self, total: Array) -> Array:
        """``total``, the sum of a row's exponentials or of their codes, the largest about 1."""

    def share(self, e: Array, total: Array, row: Logits) -> Array:
        """``e / total``, total the sum of the seen e, which are exp(x - top)."""


class Enclosing(Arithmetic, Protocol):
    """An interpretation whose numbers are sets: what ``allowed`` of ``any_of`` is made with."""

    def within(self, x: Array, mass: Array) -> Array:
        """x, with nothing known where partial sums of magnitude up to ``mass`` overflow."""

    def allow(self, x: Array, reach: Array, *, keep_zero: bool) -> Array:
        """x, or any number up to ``reach`` from it: what a contract leaves open."""

    def between(self, low: Array, high: Array) -> Array:
        """Every number from one float32 array to another."""
