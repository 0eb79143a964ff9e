"""The table of checks."""

from __future__ import annotations

from collections.abc import Iterable

from dmverify.conformance.checks.bands import band_check
from dmverify.conformance.checks.builds import flags_check, instructions_check, own_work_check
from dmverify.conformance.checks.check import Check
from dmverify.conformance.checks.conduct import inputs_check, outputs_check, refusal_check
from dmverify.conformance.checks.identities import columns_check, dk_sum_check, dv_sum_check
from dmverify.conformance.checks.relations import relation_check
from dmverify.conformance.checks.residuals import (
    cast_row_sum_check,
    dump_check,
    row_sum_check,
    terms_check,
)
from dmverify.conformance.checks.special import (
    bits_check,
    dead_row_check,
    format_check,
    nan_check,
    repeat_check,
)
from dmverify.errors import unknown_name

_BAND = "the interval of every order of summation and every code it allows, as it is stored"
_ROW = "the interval of every order of summation and every code it allows, in float32"
_ENCLOSE = "dmverify.spec.enclosure"
_TERMS = "dmverify.spec.ledger.bounds"
_RELATION = "dmverify.conformance.checks.relations"
_MOVED = "the same bits where every order is stated, else the first question's interval"
_ORDER = ("wgmma-order-free", "sum-any-tree", "cast-set", "bf16-store")
_O = (*_ORDER, "softmax-constant")
_LSE = ("lse-store", "sum-any-tree", "ex2-error", "lg2-error")
_POWERS = ("e4m3-equivariance", "rn-equivariance", "rescale-exact")

_ROWS = (
    Check(
        "o",
        _ENCLOSE,
        _BAND,
        "P or V scales, codes, rescaling, lost tiles",
        band_check,
        lemmas=_O,
        reads=("o",),
    ),
    Check(
        "lse",
        _ENCLOSE,
        _ROW,
        "normaliser, base of the logarithm, head stride",
        band_check,
        lemmas=_LSE,
        reads=("lse",),
    ),
    Check(
        "dq",
        _ENCLOSE,
        _BAND,
        "delta, softmax scale, K centring, dS codes",
        band_check,
        lemmas=_ORDER,
        reads=("dq",),
    ),
    Check(
        "dk",
        _ENCLOSE,
        _BAND,
        "delta, scale twice, GQA sums, transposes",
        band_check,
        lemmas=_ORDER,
        reads=("dk",),
    ),
    Check(
        "dv",
        _ENCLOSE,
        _BAND,
        "P codes of the backward, GQA sums",
        band_check,
        "",
        _ORDER,
        reads=("dv",),
    ),
    Check(
        "delta",
        _ENCLOSE,
        _ROW,
        "another delta than the mode's",
        band_check,
        "delta",
        _ORDER,
        reads=("delta",),
    ),
    Check(
        "row-sum",
        _TERMS,
        "the sum of the bounds of the mode's terms",
        "a delta that does not match dS: stale where matched is promised",
        row_sum_check,
        "internals",
        ("ledger-matched", "matched-bound", "renormalized-delta", "shifted-delta", "elem-error"),
        reads=("o", "dq"),
    ),
    Check(
        "row-sum-cast",
        _TERMS,
        "the same, and half a code for every element",
        "a dS cast with a wrong scale, or one that loses what it should carry",
        cast_row_sum_check,
        "internals",
        ("cast-row-sum", "carry-telescopes", "e4m3-error-of-code"),
        reads=("o", "dq"),
    ),
    Check(
        "ledger",
        _TERMS,
        "each term's own bound",
        "two faults whose sum is small",
        terms_check,
        "internals",
        ("ledger-stale", "ledger-consistent", "ledger-matched", "ledger-associated", "eq2"),
        reads=("o", "dq"),
    ),
    Check(
        "dump",
        "dmverify.spec.case",
        "equality",
        "a dump of another run than the outputs",
        dump_check,
        "internals",
        reads=("o", "dq", "dk", "dv"),
    ),
    Check(
        "nan",
        "dmverify.spec.enclosure.special",
        "NaN exactly where it is due",
        "NaN swallowed, infinity made finite, NaN out of nothing",
        nan_check,
    ),
    Check(
        "dead-rows",
        "dmverify.spec.problem",
        "0, and -inf for LSE",
        "NaN or stale memory where a query sees no key",
        dead_row_check,
        lemmas=("dead-row",),
    ),
    Check(
        "format",
        "dmverify.spec.case",
        "O and gradients are numbers of the format that they are stored in",
        "outputs in another format than promised",
        format_check,
    ),
    Check(
        "repeat",
        "dmverify.spec.attention",
        "the same bits in two calls",
        "results that depend on timing or on memory left over",
        repeat_check,
        "calls",
        reads=("o",),
    ),
    Check(
        "bits",
        "dmverify.spec.attention",
        "equality in every bit",
        "any other order, fusion or rounding than the contract's",
        bits_check,
        "bits",
    ),
    Check(
        "sum-dv",
        "dmverify.conformance.checks.identities",
        "half a code of P and of dO, accumulation, store",
        "a factor in dV, a lost tile, a group sum that is overwritten",
        dv_sum_check,
        lemmas=("e4m3-error", "e4m3-error-of-code", "bf16-store", "wgmma-order-free"),
        reads=("dv",),
    ),
    Check(
        "sum-dk",
        "dmverify.spec.bounds.columns",
        "what the row sums of dS may leave, their cast, dK's product and store",
        "a delta that does not match dS, seen from outputs; errors of dK that have one sign",
        dk_sum_check,
        lemmas=("column-sum", "cast-shrinks", "bf16-store", "wgmma-order-free", "sum-fma-chain"),
        reads=("dk",),
    ),
    Check(
        "columns",
        "dmverify.spec.bounds.column_ledger",
        "the bounds of the rows times Q; dK's product and store",
        "a dK of another dS than the one that is shown; a lost tile of queries",
        columns_check,
        "internals",
        ("column-sum", "bf16-store", "wgmma-order-free", "sum-fma-chain"),
        reads=("dk",),
    ),
    *(
        Check(name, _RELATION, bound, targets, relation_check, "kernel", lemmas)
        for name, bound, targets, lemmas in (
            ("repeat-whole", "the same bits", "an answer that changes from call to call", ()),
            ("heads", _MOVED, "a head that reads another's tensors, scales or strides", ()),
            (
                "power-v",
                _MOVED,
                "a constant where V's scale belongs; a cached answer",
                _POWERS,
            ),
            ("power-do", _MOVED, "a constant where the scale of dO belongs", _POWERS),
            ("power-qk", _MOVED, "the scale of Q or K lost, doubled or inverted", _POWERS),
            ("signs-qk", _MOVED, "a sign bit lost in a cast or transpose", ("e4m3-odd",)),
            ("signs-v", _MOVED, "a sign bit lost in a cast or transpose", ("e4m3-odd",)),
            ("future", _MOVED, "a causal mask that lets later values through", ()),
            ("batch", _MOVED, "an answer that depends on its neighbours in the batch", ()),
            (
                "poison",
                "the same bits",
                "output or workspace memory that is read before it is written",
                (),
            ),
            ("stream", "the same bits", "work on the default stream whatever the caller's", ()),
        )
    ),
    Check(
        "inputs-kept",
        "dmverify.conformance.guards",
        "every byte",
        "a write to the inputs, or outside a tensor",
        inputs_check,
        "kernel",
    ),
    Check(
        "outputs-kept",
        "dmverify.conformance.session",
        "every byte",
        "an output in an input's memory, or one that changes after it was returned",
        outputs_check,
        "kernel",
    ),
    Check(
        "refusal",
        "dmverify.conformance.checks.conduct",
        "refused",
        "a kernel that answers under contracts that it does not know",
        refusal_check,
        "kernel",
        once=True,
    ),
    Check(
        "own-work",
        "dmverify.conformance.kernels.surroundings",
        "no call of torch's attention or of the specification",
        "a kernel that returns a reference instead of computing",
        own_work_check,
        "kernel",
        once=True,
    ),
    Check(
        "instructions",
        "dmverify.kernel.sass",
        "QGMMA, and no other matrix instruction",
        "mma.sync for wgmma; a BF16 path behind an FP8 name",
        instructions_check,
        "kernel",
        once=True,
    ),
    Check(
        "flags",
        "dmverify.conformance.checks.builds",
        "the same bits",
        "numerics that depend on compiler flags",
        flags_check,
        "kernel",
        once=True,
    ),
)

CHECKS: dict[str, Check] = {check.id: check for check in _ROWS}


def choose_checks(names: Iterable[str]) -> tuple[Check, ...]:
    """The checks of these ids, each once; all if there are none.

    Raises:
        UnknownNameError: If there is no such check.
    """
    return tuple(get_check(name) for name in dict.fromkeys(names)) or tuple(CHECKS.values())


def get_check(name: str) -> Check:
    """The check of this id.

    Raises:
        UnknownNameError: If there is none.
    """
    if name not in CHECKS:
        raise unknown_name("check", name, CHECKS, shown_by="dmverify list checks")
    return CHECKS[name]
