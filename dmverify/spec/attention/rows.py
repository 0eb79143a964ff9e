"""Whole rows: the steps of ``article`` and ``upstream``, in float32, every sum in any order.

M queries, N keys, D channels of one head; Q^, K^, V^, dO^ are code x scale. Numbers in the margin
are those of the steps; equations are those of Tang et al., arXiv 2609.37852.

    1.  S = scale Q^ K^T                        7.  P = e / l;  dP = dO^ V^T
    2.  b = max_j S_ij                          8.  delta (``delta.py``)
    3.  e = exp(S - b)                          9.  dS = P (dP - delta)
    4.  e ~ code x basis, a basis a group      10.  P and dS are cast in tiles (``casts.py``)
    5.  l = sum_j e_ij                         11.  dQ = scale dS^ K^;  dK = scale dS^T Q^;
    6.  O = P^ V^ / l;  LSE = b + log l             dV = P^T dO^

Keys that a row does not see take no part in 2, 3 and 5; a row that sees none gives O = 0. Not
covered: what a kernel does with a NaN in a key that nobody sees.
"""

from __future__ import annotations

from dmverify.spec.arithmetic.interface import Logits
from dmverify.spec.attention.casts import (
    both_ways,
    by_amax,
    by_factor,
    cast_ds,
    in_tiles,
    scale_of,
)
from dmverify.spec.attention.choices import Choices
from dmverify.spec.attention.delta import delta
from dmverify.spec.attention.num import (
    Flags,
    Num,
    dot,
    exp,
    from_zero,
    largest,
    log,
    reference,
    scale_down,
    total,
    where,
    with_largest,
)
from dmverify.spec.attention.operands import BlockScaled, Head
from dmverify.spec.attention.shared_steps import (
    by_rows,
    masked_maximum,
    query_gradient,
    with_mean,
)
from dmverify.spec.attention.state import BackwardPass, Cast, ForwardPass, Row, Scores
from dmverify.spec.attention.stores import store_output
from dmverify.spec.attention.sums import AnyOrder
from dmverify.spec.contracts import Rows
from dmverify.spec.formats import E4M3, FloatFormat
from dmverify.spec.lemmas import rests_on

ORDER = AnyOrder()


@rests_on("dead-row")
def forward(choices: Choices, schedule: Rows, head: Head) -> ForwardPass:
    """Steps 1 to 6."""
    seen, live = head.seen, head.seen.any(axis=1, keepdims=True)
    acc = dot(head.q.numbers, head.k.numbers, over="channels")
    s = acc * head.scale  # 1
    b = reference(masked_maximum(s, seen, live))  # 2
    e = exponentials(head, s, b)  # 3
    p = encode(choices, schedule, e)  # 4
    p_hat = by_rows(p.numbers)
    l = with_largest(total(e, 1, over="tokens"))  # noqa: E741 # 5
    norm = choices.normaliser(l, lambda: with_largest(total(p_hat, 1, over="tokens")))
    l, norm = (where(live, x, 1.0) for x in (l, norm))  # noqa: E741
    o32 = from_zero(dot(p_hat, head.v.down.numbers.T, over="tokens")) / norm  # 6
    return ForwardPass(
        o=store_output(choices.store, head.exponents, o32),
        o32=o32,
        lse=with_mean(choices, head, ORDER, b + log(l)),
        scores=Scores(acc, s.of(head.scale), seen, live, s),
        b=b,
        reference=b,
        l=l,
        norm=norm,
        p=p,
        betas=s.of(1.0)[:, :, None],
        live=live,
        e=e,
    )


@rests_on("finite-arguments")
def exponentials(head: Head, s: Num, b: Num) -> Num:
    """Step 3: e relative to b; 0 where masked."""
    below = Num(s.a.below_maximum(Logits(s.array, b.array, head.seen)), s.a)
    return where(head.seen, exp(below), 0.0)


def encode(choices: Choices, schedule: Rows, e: Num) -> BlockScaled:
    """Step 4: codes (M, G, g) and the basis of each group; e is not negative."""
    groups = in_tiles(e, schedule.p_group)
    if schedule.p_scale:
        units, basis = by_factor(groups, schedule.p_scale)
    else:
        basis = scale_of(choices, largest(groups, 2))
        units = scale_down(groups, basis, E4M3)
    return BlockScaled(choices.p_codes(units), basis).as_sets()


def backward(choices: Choices, schedule: Rows, head: Head, fwd: ForwardPass) -> BackwardPass:
    """Steps 7 to 11; dK and dV, which are sums over rows, are in ``shared_steps``."""
    row = probabilities(choices, head, fwd)  # 7
    shift, correction = delta(choices.delta, ORDER, head, fwd, row)  # 8
    ds = row.p * ((row.dp - shift) - correction)  # 9
    tiles = cast_tiles(choices, schedule, row.p, ds, head)  # 10
    dq = query_gradient(head, tiles.ds)  # 11
    return BackwardPass(dq, row, shift, correction, tiles)


def probabilities(choices: Choices, head: Head, fwd: ForwardPass) -> Row:
    """Step 7: P, of the exponentials or, for the associated delta, of the forward's codes."""
    dp = dot(head.do.numbers, head.v.numbers, over="channels")
    if choices.mode.forward_p:
        p = by_rows(fwd.p.numbers) / fwd.norm
    else:
        p = share(head, fwd)
    return Row(p, p.of(1.0), dp, dp.of(1.0))


def share(head: Head, fwd: ForwardPass) -> Num:
    """e / l, of the logits that both passes take it from."""
    s, b = fwd.scores.logits, fwd.reference
    assert s is not None
    e = exponentials(head, s, b) if fwd.e is None else fwd.e
    return Num(s.a.share(e.array, fwd.l.array, Logits(s.array, b.array, head.seen)), s.a)


def cast_tiles(choices: Choices, schedule: Rows, p: Num, ds: Num, head: Head) -> Cast:
    """Step 10: P and dS, in tiles or in blocks once a direction, each by its own amax."""
    if choices.blocks:
        p_cast = both_ways(choices, p, schedule.tile, site="p").as_sets()
        ds_cast = both_ways(choices, ds, schedule.tile, site="ds").as_sets()
        p, ds = (in_tiles(x, schedule.tile) for x in (p, ds))
        return Cast(p_cast, ds_cast, p, p.of(1.0), ds, ds.of(1.0))
    p, ds = (in_tiles(x, schedule.tile) for x in (p, ds))
    seen = head.seen.reshape(ds.shape)
    one = p.of(1.0)
    p_cast = _p_codes(choices, schedule, p).as_sets()
    ds_cast = _ds_codes(choices, schedule, ds, seen).as_sets()
    return Cast(p_cast, ds_cast, p, one, ds, one)


def _p_codes(choices: Choices, schedule: Rows, p: Num) -> BlockScaled:
    units, scale = _units(p, schedule, schedule.p_scale, E4M3)
    return BlockScaled(choices.p_codes(units), scale)


def _ds_codes(choices: Choices, schedule: Rows, ds: Num, seen: Flags) -> BlockScaled:
    fmt = choices.ds_format
    units, scale = _units(ds, schedule, schedule.ds_scale, fmt)
    codes = cast_ds(choices, units, seen)
    return BlockScaled(codes, scale, fmt)


def _units(x: Num, schedule: Rows, factor: int | None, fmt: FloatFormat) -> tuple[Num, Num]:
    """(M, G, tile) in units of codes, and the unit: by a factor, or by the tile's amax."""
    return by_factor(x, factor) if factor else by_amax(x, schedule.tile, fmt)
