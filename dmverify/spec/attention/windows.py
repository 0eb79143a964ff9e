"""Windows of keys in ascending order, on codes: the steps of ``bundled``.

M queries in tiles, W windows of L keys; q, k, v, dO are codes and s_q ... their scales, one a
window. Numbers in the margin are those of the steps.

    1.  ct = (s_q c) s_k, c = fl(|scale| log2 e);  logit = (q k^T) ct, in base 2
    2.  b = fma(largest q k^T, ct, -8), a window
    3.  e = ex2(fma(q k^T, ct, -b))
    4.  code = round(e): a window's largest is 2^8
    5.  window by window, R an integer that moves only when b passes R + 32:
            beta = 2^(b - R);  l += beta sum e;  l~ += beta sum codes;  O += beta s_v codes v
    6.  O = O rcp(l~);  M = ceil(largest b) + 8;  l = l 2^(R - M);  LSE = (M + log2 l) ln 2
    7.  P = ex2(fma(q k^T, ct, -M)) rcp(l);  dP = (dO v^T) (s_do s_v)
    8.  delta (``delta.py``)
    9.  p = P 2^kP, x = p fma(dO v^T, s_do s_v u, -delta u); with a shift dP is rounded first
   10.  P code = round(p), dS code = round(x): P = p 2^-kP, dS = x 2^-kP / u (``casts.py``)
   11.  dQ = scale sum_w dS k;  dK = scale sum dS^T q;  dV = sum P^T dO, over tiles of queries

b is one stored number, so it cancels exactly between e and beta. M is an integer, so no logarithm
is ever rounded into P. A row that sees no key of a window has b = 0 there, and the window does not
count for it. A tile in which nobody sees anybody is skipped: no NaN of a hidden row reaches it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from dmverify.spec.attention.casts import by_exponent
from dmverify.spec.attention.choices import Choices
from dmverify.spec.attention.delta import delta
from dmverify.spec.attention.num import (
    Flags,
    Num,
    broadcast,
    cast,
    ceil,
    concatenate,
    dot,
    exp2,
    fma,
    known,
    log2,
    reference,
    where,
)
from dmverify.spec.attention.operands import BlockScaled, Head
from dmverify.spec.attention.shared_steps import masked_maximum, with_mean
from dmverify.spec.attention.state import BackwardPass, ForwardPass, Row, Scores
from dmverify.spec.attention.stores import store_output
from dmverify.spec.attention.sums import ByWindow, combine, row_sum, select_static
from dmverify.spec.attention.window_products import (
    combination,
    on_codes,
    query_gradient,
    visited_tiles,
)
from dmverify.spec.constants import constant
from dmverify.spec.contracts import Windows
from dmverify.spec.formats import E4M3
from dmverify.spec.lemmas import rests_on

P_MAX_EXPONENT = float(constant("P_MAX_EXPONENT"))  # 448 is never passed, small e keep their bits
RESCALE_THRESHOLD = float(constant("RESCALE_THRESHOLD"))  # O and l stay below 2^(32 + 8) x keys


@dataclass(frozen=True)
class Softmax:
    """Steps 1 to 4."""

    s: Scores
    b: Num
    e: Num
    p: BlockScaled


@dataclass(frozen=True)
class Running:
    """The state of step 5: R, l, l~, O and the windows' weights, all relative to R."""

    r: Num
    l: Num  # noqa: E741 - the field's symbol
    code_sum: Num
    o: Num
    betas: tuple[Num, ...] = ()


def forward(choices: Choices, schedule: Windows, head: Head) -> ForwardPass:
    """Steps 1 to 6."""
    s = scores(schedule, head)  # 1
    b = references(s)  # 2
    e = exponentials(s, b)  # 3
    x = Softmax(s, b, e, encode(e, saturate=choices.saturate))  # 4
    order = order_of(schedule, s.seen)
    return finish(choices, order, head, x, online(order, head, x))  # 5, 6


def order_of(schedule: Windows, seen: Flags) -> ByWindow:
    """How rows are summed; seen is (M, W, L)."""
    return ByWindow(schedule.row_sum == "quad", visited_tiles(seen, schedule.tile))


def scores(schedule: Windows, head: Head) -> Scores:
    """Step 1: accumulators, and ct, which makes them logits."""
    c = known(head.q.scale, "per_ln2", head.scale)
    acc, ct = on_codes(BlockScaled(head.q.codes, head.q.scale * c), head.k, schedule.window)
    seen = head.seen.reshape(acc.shape)
    return Scores(acc, ct, seen, seen.any(axis=2, keepdims=True))


@rests_on("max-argument", "max-code-256")
def references(s: Scores) -> Num:
    """Step 2: b, (M, W, 1)."""
    top = masked_maximum(s.acc, s.seen, s.live)
    return reference(where(s.live, fma(top, s.scale, -P_MAX_EXPONENT), 0.0))


@rests_on("finite-arguments", "ex2-argument-fused")
def exponentials(s: Scores, b: Num) -> Num:
    """Steps 3 and 7: e relative to b, (M, W, L); 0 where masked."""
    return where(s.seen, exp2(fma(s.acc, s.scale, -b)), 0.0)


def encode(e: Num, *, saturate: bool) -> BlockScaled:
    """Step 4: the codes are e itself, so their basis is 1."""
    return BlockScaled(cast(e, E4M3, site="p", saturate=saturate), e.of(1.0))


def online(order: ByWindow, head: Head, x: Softmax) -> Running:
    """Step 5: the sums, window by window; a window that is not visited leaves them alone."""
    lanes, sums, zero = row_sum(x.e, quad=order.quad), code_sums(x.p), x.e.of(0.0)[0]
    run = Running(x.b[:, 0], zero, zero, zero)
    for w in range(x.e.shape[1]):
        run, beta = advance(x, run, w)
        keep = partial(select_static, order.visited[:, w])
        acc, scale = combination(x.p.codes[:, w], head.v, window=w, weight=beta)
        run = Running(
            r=run.r,
            l=keep(fma(lanes[:, w], beta, run.l), run.l),
            code_sum=keep(fma(sums[:, w], beta, run.code_sum), run.code_sum),
            o=keep(fma(acc, scale, run.o), run.o),
            betas=(*run.betas, beta),
        )
    return run


def code_sums(p: BlockScaled) -> Num:
    """Sums of the codes over each window, dots with ones like PV itself: (M, W, 1)."""
    m, windows, width = p.codes.shape
    ones = p.codes.of(1.0, (1, width))
    return dot(p.codes.reshape(-1, width), ones, over="tokens").reshape(m, windows, 1)


@rests_on("alpha-at-most-one", "stale-maximum", "rescale-exact")
def advance(x: Softmax, run: Running, w: int) -> tuple[Running, Num]:
    """Moves R if window w asks for it, rescales the state, and gives the window's weight."""
    live = x.s.live[:, w]
    first = live & ~x.s.live[:, :w].any(axis=1)
    up = ceil(x.b[:, w])
    passed = x.b[:, w] > run.r + RESCALE_THRESHOLD
    r = where(first, up, where(live, where(passed, up, run.r), run.r))
    alpha = where(first, 1.0, exp2(run.r - r))
    l, code_sum, o, *betas = (  # noqa: E741
        y * alpha for y in (run.l, run.code_sum, run.o, *run.betas)
    )
    beta = exp2(where(live, x.b[:, w], r) - r)
    return Running(r, l, code_sum, o, tuple(betas)), beta


@rests_on("dead-row")
def finish(choices: Choices, order: ByWindow, head: Head, x: Softmax, run: Running) -> ForwardPass:
    """Step 6: O is multiplied by the reciprocal, and l is brought from R to M."""
    live = x.s.live.any(axis=1)
    row_total = combine(run.l)
    norm = reciprocal(where(live, choices.normaliser(row_total, lambda: run.code_sum), 1.0))
    m, step = saved(x, run.r)
    l = where(live, row_total * step, 1.0)  # noqa: E741
    o32 = run.o * norm
    betas = concatenate([broadcast(beta, (len(live), 1)) for beta in run.betas], 1)
    return ForwardPass(
        o=store_output(choices.store, head.exponents, o32),
        o32=o32,
        lse=lse(choices, order, head, m, l),
        scores=x.s,
        b=x.b,
        reference=m[:, None],
        l=l,
        norm=norm,
        p=x.p,
        betas=betas[:, :, None],
        live=live,
        divides=False,
    )


def saved(x: Softmax, r: Num) -> tuple[Num, Num]:
    """M, (M, 1), and what brings l from R to it."""
    live = x.s.live[:, :, 0]
    top = masked_maximum(x.b[:, :, 0], live, live.any(axis=1, keepdims=True))
    m = ceil(top) + P_MAX_EXPONENT
    return m, exp2(r - m)


def lse(choices: Choices, order: ByWindow, head: Head, m: Num, l: Num) -> Num:  # noqa: E741
    """LSE, natural, of the call's own keys."""
    return with_mean(choices, head, order, (m + log2(l)) * known(m, "ln2"))


def reciprocal(x: Num) -> Num:
    """1 / x, rounded once."""
    return 1.0 / x


def backward(choices: Choices, schedule: Windows, head: Head, fwd: ForwardPass) -> BackwardPass:
    """Steps 7 to 11; dK and dV, which go over rows, are ``token_chain``."""
    order = order_of(schedule, fwd.scores.seen)
    row = probabilities(choices, schedule, head, fwd)  # 7
    shift, correction = delta(choices.delta, order, head, fwd, row)  # 8
    tiles = by_exponent(choices, order, head, row, (shift, correction))  # 9, 10
    return BackwardPass(query_gradient(order, head, tiles.ds), row, shift, correction, tiles)  # 11


def probabilities(choices: Choices, schedule: Windows, head: Head, fwd: ForwardPass) -> Row:
    """Step 7: P, of the exponentials or, for the associated delta, of the forward's codes."""
    acc, scale = on_codes(head.do, head.v, schedule.window)
    if choices.mode.forward_p:
        p = fwd.p.numbers * (fwd.betas * fwd.norm[:, :, None])
        return Row(p, p.of(1.0)[0], acc, scale)
    p_scale = where(fwd.live, reciprocal(fwd.l), 0.0)
    return Row(exponentials(fwd.scores, fwd.reference), p_scale, acc, scale)
