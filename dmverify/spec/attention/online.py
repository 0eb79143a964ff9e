"""Tiles that are not stated, relative to running maxima: the steps of other people's kernels.

What their documents fix is here; what they leave open is a set in ``unspecified_order``. Numbers in
the margin are those of the steps. Dots run on the BF16 inputs, or on codes, and scales multiply
their sums.

    1.  S = scale Q K^T                         7.  P = exp(S - LSE), as e / l;  dP = dO V^T
    2.  b = max_j S_ij                          8.  delta (``delta.py``)
    3.  e = exp(S - b)                          9.  dS = P (dP - delta)
    4.  P~ = e in its format                   10.  P and dS in their format
    5.  l = sum_j e_ij                         11.  dQ = scale dS K;  dK = scale dS^T Q;
    6.  O = P~ V / l;  LSE = b + log l              dV = P^T dO

Step 4 is taken relative to the row's maximum, which is one of the running maxima; the backward
starts from the O and LSE that it is given (``returned``). Sources: the files in ``contracts/data``.
"""

from __future__ import annotations

from types import MappingProxyType

from dmverify.spec.attention.choices import Choices
from dmverify.spec.attention.delta import delta
from dmverify.spec.attention.num import (
    Num,
    any_of,
    cast,
    dot,
    exp,
    from_zero,
    log,
    of_codes,
    reference,
    total,
    where,
)
from dmverify.spec.attention.operands import BlockScaled, Head
from dmverify.spec.attention.shared_steps import (
    masked_maximum,
    query_gradient,
    with_mean,
)
from dmverify.spec.attention.state import BackwardPass, Cast, ForwardPass, Row, Scores
from dmverify.spec.attention.stores import store_output
from dmverify.spec.attention.sums import AnyOrder
from dmverify.spec.attention.unspecified_order import (
    widen_code,
    widen_ds,
    widen_exponent,
    widen_lse,
    widen_output,
    widen_p,
)
from dmverify.spec.contracts import Online
from dmverify.spec.formats import BF16, E4M3, FloatFormat
from dmverify.spec.lemmas import rests_on

ORDER = AnyOrder()


@rests_on("dead-row", "finite-arguments")
def forward(choices: Choices, schedule: Online, head: Head) -> ForwardPass:
    """Steps 1 to 6."""
    seen, live = head.seen, head.seen.any(axis=1, keepdims=True)
    acc, scale = similarity(schedule, head.q, head.k, blocks=choices.key_blocks)
    scale = scale * head.scale
    s = acc * scale  # 1
    b = reference(masked_maximum(s, seen, live))  # 2
    e = exponentials(head, s, b)  # 3
    p = encode(schedule, e)  # 4
    l = total(e, 1, over="tokens")  # noqa: E741 # 5
    norm = choices.normaliser(l, lambda: total(p.numbers, 1, over="tokens"))
    l, norm = (where(live, from_zero(x), 1.0) for x in (l, norm))  # noqa: E741
    acc_o = from_zero(dot(p.numbers, head.v.numbers.T, over="tokens"))
    o32 = widen_output(acc_o / norm)  # 6
    return ForwardPass(
        o=store_output(choices.store, head.exponents, o32),
        o32=o32,
        lse=with_mean(choices, head, ORDER, widen_lse(b, log(l))),
        scores=Scores(acc, scale, seen, live, s),
        b=b,
        reference=b,
        l=l,
        norm=norm,
        p=p,
        betas=s.of(1.0)[:, :, None],
        live=live,
        e=e,
    )


def similarity(
    schedule: Online, x: BlockScaled, y: BlockScaled, *, blocks: bool = False
) -> tuple[Num, Num]:
    """Dots of rows and what they still lack: the scales, one of y unless it has blocks."""
    if schedule.operands == "bf16":
        return dot(x.numbers, y.numbers, over="channels"), x.scale.of(1.0)
    scale = y.scale if blocks else y.scale[:1]
    return dot(x.codes, y.codes, over="channels"), x.scale * scale.T


def exponentials(head: Head, s: Num, b: Num) -> Num:
    """Step 3: e relative to b; 0 where masked."""
    return where(head.seen, exp(widen_exponent(s, b, head.seen)), 0.0)


def encode(schedule: Online, e: Num) -> BlockScaled:
    """Step 4: e in its format, relative to the row's maximum."""
    if schedule.p == "unrounded":
        return BlockScaled(e, e.of(1.0))
    fmt, factor = (E4M3, factor_of(schedule)) if schedule.p == "e4m3" else (BF16, 1)
    codes = cast(e * float(factor), fmt, site="p", saturate=True)
    choice = codes * (1.0 / factor)
    numbers = widen_code(schedule.p, e, choice, factor)
    return BlockScaled(numbers, e.of(1.0), formed=of_codes(numbers, e.of(1.0 / factor), fmt))


def factor_of(schedule: Online) -> int:
    """What P is multiplied with before its cast to E4M3."""
    assert schedule.p_scale is not None  # refused by ``exclusions``
    return schedule.p_scale


def backward(choices: Choices, schedule: Online, head: Head, fwd: ForwardPass) -> BackwardPass:
    """Steps 7 to 11; dK and dV, which are sums over rows, are below."""
    row = probabilities(choices, schedule, head, fwd)  # 7
    shift, correction = delta(choices.delta, ORDER, head, fwd, row)  # 8
    moved = row.dp - shift
    ds = row.p * (moved - correction)  # 9
    ds = widen_ds(schedule.ds, ds, row.p, (abs(moved), abs(correction)))
    p_hat, ds_hat = CASTS[schedule.ds](choices, schedule, head, row.p, ds)  # 10
    dq = query_gradient(head, ds_hat)  # 11
    one = ds.of(1.0)
    return BackwardPass(dq, row, shift, correction, Cast(p_hat, ds_hat, row.p, one, ds, one))


def probabilities(choices: Choices, schedule: Online, head: Head, fwd: ForwardPass) -> Row:
    """Step 7: P, of the exponentials or, for the associated delta, of the forward's codes."""
    acc, scale = similarity(schedule, head.do, head.v)
    if choices.mode.forward_p:
        p = fwd.p.numbers / fwd.norm
    else:
        assert fwd.scores.logits is not None
        e = exponentials(head, fwd.scores.logits, fwd.reference) if fwd.e is None else fwd.e
        p = e / fwd.l
    return Row(p, p.of(1.0), acc, scale)


def _unrounded(
    choices: Choices, schedule: Online, head: Head, p: Num, ds: Num
) -> tuple[BlockScaled, BlockScaled]:
    return BlockScaled(p, p.of(1.0)), BlockScaled(ds, ds.of(1.0))


def _bf16(
    choices: Choices, schedule: Online, head: Head, p: Num, ds: Num
) -> tuple[BlockScaled, BlockScaled]:
    """Where dS is a set, its rounding was part of what widened it."""
    p_hat = widen_p(cast(p, BF16, site="p", saturate=False))
    ds_hat = any_of(cast(ds, BF16, site="ds", saturate=False), lambda: ds)
    return _unrounded(choices, schedule, head, p_hat, ds_hat)


def _per_call(
    choices: Choices, schedule: Online, head: Head, p: Num, ds: Num
) -> tuple[BlockScaled, BlockScaled]:
    """P codes are p_scale P, dS codes dS x softmax scale x 2^k, k chosen for the call."""
    k = head.exponents.get("ds", 0)
    p_hat = _scaled(p, "p", (1.0, float(factor_of(schedule))), E4M3)
    ds_hat = _scaled(ds, "ds", (head.scale, 2.0**k), choices.ds_format)
    return p_hat, ds_hat


def _scaled(x: Num, site: str, factors: tuple[float, float], fmt: FloatFormat) -> BlockScaled:
    first, second = factors
    codes = cast(x * first * second, fmt, site=site, saturate=True)
    return BlockScaled(codes, x.of(1.0 / second) / first, fmt)


CASTS = MappingProxyType({"unrounded": _unrounded, "bf16": _bf16, "call-exponent": _per_call})
