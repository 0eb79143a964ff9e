"""Causes: seeded faults of the same meaning, in words that say what to look for.

Every fault of ``dmverify.lab.mutants`` belongs to one cause (a test). Faults share one
where their answers differ in degree and not in kind: to which side ties go, or whether Q went
through FP16 or BF16, is one look at one line of a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """One row.

    Attributes:
        id: Its name.
        words: What is wrong, for the author of a kernel.
        faults: Ids of the seeded faults that are this.
    """

    id: str
    words: str
    faults: tuple[str, ...]


def _rules(tensor: str) -> Cause:
    ways = ("through-fp16", "through-bf16", "divided", "by-inverse-scale")
    return Cause(
        f"rule-{tensor}",
        f"another quantisation rule for {TENSORS[tensor]}: a second rounding on the way to E4M3, "
        "or a quotient formed otherwise",
        tuple(f"{tensor}-{way}" for way in ways),
    )


def _ties(site: str, words: str) -> Cause:
    ways = ("up", "down", "away", "to-zero")
    faults = tuple(f"{site}-ties-{way}" for way in ways)
    return Cause(f"ties-{site}", f"ties in the cast of {words} do not go to the even code", faults)


TENSORS = {"q": "Q", "k": "K", "v": "V", "do": "dO"}

CAUSES = (
    *map(_rules, TENSORS),
    *(
        Cause(
            f"amax-{tensor}",
            f"the largest magnitude of {name} is taken over too few rows",
            (f"amax-{tensor}-row-left-out",),
        )
        for tensor, name in TENSORS.items()
    ),
    _ties("p", "P"),
    _ties("p-backward", "the backward's P"),
    _ties("ds", "dS"),
    _ties("zero-sum", "dS that carries errors"),
    Cause(
        "tensor-core-sum",
        "sums stay in the tensor core's 14 bits, or leave it too rarely",
        (
            "no-promotion",
            "promotion-every-8th",
            "no-promotion-dq",
            "no-promotion-dk",
        ),
    ),
    Cause(
        "window-weight",
        "a window is added to O without its weight, or O keeps an old row maximum as reference",
        ("promotion-without-scale", "rescale-skipped", "first-reference-stale"),
    ),
    Cause(
        "tile-lost-o",
        "the last tile of keys, or part of it, does not reach O",
        ("promotion-dropped-on-last",),
    ),
    Cause(
        "tile-lost",
        "a tile of keys is left out, or counted twice, in the whole forward pass",
        ("tile-skipped", "tile-twice"),
    ),
    Cause("keys-lost", "a part of dK is not written", ("dk-first-keys-lost",)),
    Cause(
        "tile-lost-gradients",
        "a tile of queries does not reach dK and dV",
        ("last-window-lost",),
    ),
    Cause(
        "v-scale",
        "O is formed without V's scale, or with its inverse",
        ("value-scale-dropped", "v-scale-inverse"),
    ),
    Cause(
        "qk-scale",
        "the logits are formed without the scale of Q or K",
        ("q-scale-dropped", "k-scale-dropped"),
    ),
    Cause("do-scale", "the scale of dO is missing", ("do-scale-dropped",)),
    Cause(
        "block-scale-qk",
        "blocks of Q or K take the scale of another block or head",
        ("q-scale-neighbour", "k-scale-neighbour", "k-scale-transposed"),
    ),
    Cause(
        "block-scale-v",
        "blocks of V take the scale of another block",
        ("v-scale-neighbour", "v-scale-first-reused"),
    ),
    Cause(
        "block-scale-do", "blocks of dO take the scale of another block", ("do-scale-neighbour",)
    ),
    Cause(
        "scale-rule",
        "another rule for scales: rounded to powers of two, or one for the whole tensor",
        ("scale-power-of-two", "scale-per-tensor"),
    ),
    Cause(
        "zero-block",
        "a block of zeros is divided by its largest magnitude, 0",
        ("zero-block-nan",),
    ),
    Cause(
        "key-mean",
        "the mean of K is not taken off, is rounded, or is that of other tokens",
        ("key-mean-skipped", "key-mean-bf16", "key-mean-token-left-out"),
    ),
    Cause(
        "v-order",
        "rows of V are exchanged or read from elsewhere on their way into P V",
        ("v-rows-swapped",),
    ),
    Cause(
        "p-offset",
        "P is cast with another offset or maximum than it should, and loses codes or saturates",
        ("p-offset-missing", "p-stale-maximum"),
    ),
    Cause("p-toward-zero", "the forward's P is rounded toward zero", ("p-toward-zero",)),
    Cause(
        "p-format",
        "P is rounded to another format, or after it was divided by the row sum",
        ("p-e5m2", "p-normalised-first"),
    ),
    Cause(
        "p-basis",
        "windows share a maximum: P is cast with another one than its own window's",
        ("p-basis-of-128-keys",),
    ),
    Cause(
        "row-maximum",
        "the row maximum is another: floored at 0, over masked keys, or without some visible ones",
        (
            "maximum-floored",
            "maximum-over-masked",
            "window-maximum-key-left-out",
        ),
    ),
    Cause(
        "last-bits-forward",
        "another instruction, order or rounding in the softmax: last bits only",
        (
            "maximum-rounded-twice",
            "exp2-rounded",
            "reciprocal-one-ulp",
            "row-sum-order",
        ),
    ),
    Cause(
        "normaliser",
        "O is divided by another sum than its codes': a lost window, or P before the cast",
        ("normaliser-last-tile", "normaliser-unrounded"),
    ),
    Cause(
        "row-sum-lost",
        "the row sum behind LSE lacks a window, or is moved to a new maximum wrongly",
        ("row-sum-last-tile", "rescale-twice", "row-sum-rescale-skipped"),
    ),
    Cause(
        "mask",
        "another mask: aligned to the top left, or one key off",
        ("mask-top-left", "mask-one-further", "mask-one-nearer"),
    ),
    Cause(
        "mask-sentinel",
        "masked logits are a finite number that real logits can be below",
        ("mask-finite-sentinel",),
    ),
    Cause("mask-tail", "keys beyond the last take part, as zeros", ("mask-tail-keys",)),
    Cause(
        "dead-rows",
        "rows that see no key are divided by 0, or are not given their own result",
        ("dead-rows-nan", "dead-rows-lse-zero"),
    ),
    Cause(
        "p-maximum",
        "the tile's largest P is taken over too few elements",
        ("p-maximum-key-left-out", "p-maximum-row-left-out"),
    ),
    Cause(
        "ds-range",
        "the power of two of dS is chosen from too little: a norm, shift or delta is left out",
        (
            "do-norm-row-left-out",
            "v-norm-row-left-out",
            "level-row-left-out",
            "shift-left-out",
            "delta-left-out",
        ),
    ),
    Cause(
        "lse-base",
        "LSE has another base: a logarithm or a factor ln(2) is wrong",
        ("lse-base-2", "lse-natural-log"),
    ),
    Cause("lse-offset", "the offset 2^8 of P stays in LSE", ("lse-offset-missing",)),
    Cause(
        "lse-mean",
        "what the centring of K took off the logits is not given back to LSE",
        ("lse-mean-missing",),
    ),
    Cause(
        "lse-address",
        "LSE is stored or read with wrong strides or block indices",
        ("lse-head-stride", "lse-block-index"),
    ),
    Cause(
        "stale-delta",
        "stale delta: computed from other numbers than dS uses (stored O, dO before its cast)",
        (
            "delta-stale",
            "delta-stale-row-sum",
            "delta-stale-fp8",
            "delta-unquantised-do",
        ),
    ),
    Cause(
        "delta-renormalised",
        "delta is divided by the sum of P, which its mode does not do",
        ("delta-renormalised",),
    ),
    Cause(
        "delta-wrong",
        "delta is missing, of the wrong sign, of another row, or lacks a window",
        (
            "delta-previous-row",
            "delta-zero",
            "delta-zero-columns",
            "delta-sign",
            "delta-last-window",
        ),
    ),
    Cause(
        "delta-tile",
        "delta is not subtracted in some tiles",
        ("ds-diagonal-without-delta",),
    ),
    Cause(
        "dk-softmax-scale",
        "dK has the softmax scale twice or not at all",
        ("dk-scale-twice", "dk-scale-missing"),
    ),
    Cause("dq-softmax-scale", "dQ is not multiplied by the softmax scale", ("dq-scale-missing",)),
    Cause(
        "softmax-scale-sign",
        "a negative softmax scale is taken to be positive",
        ("softmax-scale-sign",),
    ),
    Cause(
        "ds-scale",
        "a tile of dS or P has a wrong scale: another tile's, or so large that codes saturate",
        ("ds-tile-scale-saturates", "neighbour-tile-scale"),
    ),
    Cause(
        "ds-cast-early",
        "dP is rounded to E4M3 before delta is subtracted",
        ("ds-cast-before-delta",),
    ),
    Cause("ds-toward-zero", "dS is rounded toward zero", ("ds-toward-zero",)),
    Cause(
        "ds-rounded-twice",
        "dP - delta is a product and a subtraction, not one fma",
        ("ds-rounded-twice",),
    ),
    Cause(
        "zero-sum-carry",
        "the zero-sum cast does not carry its errors, or with the wrong sign",
        ("zero-sum-as-nearest", "zero-sum-carry-sign"),
    ),
    Cause(
        "transpose",
        "rows, keys or bytes are exchanged in a transposed operand of the gradients",
        (
            "fragments-swapped",
            "transpose-byte-pairs",
            "k-transpose-permutation",
        ),
    ),
    Cause(
        "p-backward-toward-zero",
        "the backward's P is rounded toward zero",
        ("p-backward-toward-zero",),
    ),
    Cause(
        "gqa",
        "query heads find another key head than their group's",
        ("gqa-modulo", "k-transpose-wrong-head"),
    ),
    Cause(
        "gqa-sum",
        "dK and dV are not summed over the query heads of a group",
        ("gqa-sum-overwritten",),
    ),
    Cause(
        "address",
        "a tensor is read with a wrong stride or offset",
        ("offset-wrap", "batch-stride", "strides-ignored"),
    ),
    Cause("last-row-lost", "the last row is not written", ("last-row-lost",)),
    Cause(
        "special-in",
        "NaN or infinity in the inputs are turned into numbers",
        ("nan-swallowed", "infinity-finite"),
    ),
    Cause("negative-zero", "-0 is stored as +0", ("negative-zero-lost",)),
    Cause("flushed", "numbers below 2^-126 are stored as 0", ("denormals-flushed",)),
    Cause("wide-output", "outputs are not rounded to BF16", ("wide-output",)),
    Cause("store-toward-zero", "outputs are rounded to BF16 toward zero", ("store-toward-zero",)),
    Cause(
        "wide-accumulator",
        "dot products are summed in float32, as by mma.sync on converted operands",
        ("wide-accumulator",),
    ),
    Cause("bf16-path", "nothing is cast to FP8: a BF16 kernel behind an FP8 name", ("bf16-path",)),
    Cause("zeros", "outputs are never written: they are 0", ("zeros",)),
    Cause(
        "factor",
        "O and the gradients have a factor: the sign, 2, or a little more",
        ("negated", "doubled", "one-sixteenth-more"),
    ),
    Cause("rotated-heads", "O and dQ are those of another head", ("rotated-heads",)),
    Cause("nan-everywhere", "everything is NaN", ("nan-everywhere",)),
    Cause(
        "state",
        "what a call returns depends on the calls before",
        ("last-call", "unrepeatable", "stale-dump"),
    ),
)
"""Every cause."""


def cause_of(fault: str) -> Cause:
    """The cause that a fault belongs to."""
    return next(cause for cause in CAUSES if fault in cause.faults)
