"""Launches the kernels on the caller's stream, with no synchronisation.

One function per kernel. Tensors are torch tensors on one Hopper device; every buffer that a kernel
fills is allocated here, so its size is stated once. Lengths are padded to 128 tokens in workspaces
only. Arguments are taken as they come: `dm_attn_func` has checked them. What `start` raises, of a
kernel that cannot be built, loaded or launched, passes through.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from .limits import check_sizes
from .start import ONES_ROWS, SHARED, quantise_shared, start
from .start import Options as Options
from .stripes import RECORD, Shape, Stripe, records_in, stripes, units_in

SHORTCUTS = {"stale": 1, "consistent": 2, "associated": 3}  # forms of <O, dO> in quantise.cu
FEW_SUMS = 8  # blocks of keys whose sums every CTA adds up by itself
FEW_TASKS = 132  # one a multiprocessor: fewer are cut in two
FOLLOWS = 128  # head dim up to which F waits for the launch before it by itself, as in forward.cu
TWO_EACH = 264  # CTAs of a launch that are two a multiprocessor


@dataclass(frozen=True)
class Images:
    """One operand's codes as smem images (uint8), rows and channels form; either may be absent."""

    rows: torch.Tensor | None
    channels: torch.Tensor | None


@dataclass(frozen=True)
class Operands:
    """Quantised Q, K, V with their scales: float32 (heads, 64-token blocks, 4).

    ``q_shift`` is <q, mean of k> of each padded row, fp32 (B H, Nq'): what centring took off the
    logits, and the LSE gives back. Zeros without centring: no LSE is -0, so 0 keeps its bits.
    """

    q: Images
    k: Images
    v: Images
    q_heads: torch.Tensor
    kv_heads: torch.Tensor
    q_shift: torch.Tensor


@dataclass(frozen=True)
class ForwardDump:
    """What F had inside. Scores that no CTA visits hold zeros.

    Attributes:
        codes: Codes of P, uint8 (B H, padded Nq, padded Nk).
        windows: (beta, R) of each row and 64-key window, fp32 (B H, padded Nq, windows, 2).
    """

    codes: torch.Tensor
    windows: torch.Tensor


@dataclass(frozen=True)
class Dump:
    """What B had inside: (B H, padded Nq, padded Nk) where nothing else is said.

    Attributes:
        p: P before the cast, in units of its codes, fp32.
        dp: dP as the tensor core left it, products of codes, fp32.
        ds: dS before the cast, in units of its codes, fp32.
        p_codes: uint8.
        ds_codes: uint8.
        exponents: (kP, log2(1 / u)) of each row and 64-key tile, int32 (.., tiles, 2): a unit of P
            is 2^-kP, of dS 2^-kP / u.
        shifts: What dS subtracts from dP, first and then, fp32 (B H, padded Nq, 2).
        gradient: Codes of dO.
    """

    p: torch.Tensor
    dp: torch.Tensor
    ds: torch.Tensor
    p_codes: torch.Tensor
    ds_codes: torch.Tensor
    exponents: torch.Tensor
    shifts: torch.Tensor
    gradient: Images


def empty(*shape: int, dtype: torch.dtype, like: torch.Tensor) -> torch.Tensor:
    """An uninitialised buffer beside `like`: every buffer that a kernel sees is made here."""
    return torch.empty(shape, dtype=dtype, device=like.device)


def zeros(*shape: int, dtype: torch.dtype, like: torch.Tensor) -> torch.Tensor:
    """A buffer of zeros beside `like`."""
    return empty(*shape, dtype=dtype, like=like).zero_()


def images_of(x: torch.Tensor, *, rows: bool, channels: bool, ones: int = 0) -> Images:
    """Places for the codes of one operand (B, N, H, D), with ``ones`` more rows below channels."""
    batch, n, heads, d = x.shape
    lead, units = batch * heads, -(-n // 128)
    codes = torch.uint8
    return Images(
        empty(lead, units, 128 * d, dtype=codes, like=x) if rows else None,
        empty(lead, units, 128 * (d + ones), dtype=codes, like=x) if channels else None,
    )


def blocks_of(x: torch.Tensor) -> int:
    """CTAs that quantise an operand (B, N, H, D): one for 128 tokens of a head."""
    return x.shape[0] * x.shape[2] * -(-x.shape[1] // 128)


Arguments = dict[str, object]
"""What a kernel is told, by the fields of params.cuh."""


def operand(name: str, x: torch.Tensor, images: Images, scales: torch.Tensor) -> Arguments:
    """The parameters of one operand of the quantiser.

    Args:
        name: How its fields begin: q, k, v, or g for dO.
        x: BF16 (B, N, H, D), channels contiguous, rows aligned to 16 bytes.
        images: Where its codes go.
        scales: Where its scales go, float32 (B H, 64-token blocks, 4).
    """
    batch, token, head = (x.stride(i) // 8 for i in (0, 1, 2))
    n, heads = x.shape[1:3]
    fields = {
        "x": x, "rows": images.rows, "channels": images.channels, "scales": scales,
        "batch": batch, "token": token, "head": head,
        "heads": heads, "n": n, "units": -(-n // 128), "blocks": blocks_of(x),
    }  # fmt: skip
    return {f"{name}_{field}": value for field, value in fields.items()}


def quantise(
    options: Options, name: str, x: torch.Tensor, blocks: int, arguments: Arguments, **more: bool
) -> None:
    """Starts one kernel of the quantiser for operands of the head dim of `x`."""
    d = x.shape[-1]
    start(
        options, "quantise", name, d, grid=(blocks,), threads=512 if d == 256 else 256,
        shared=quantise_shared(d), arguments=arguments, **more,
    )  # fmt: skip


def mean_of_keys(
    k: torch.Tensor, keys: Arguments, values: Arguments, options: Options
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Starts the sums of K over tokens, and beside them V; gives the sums, or the means if many.

    Args:
        k: BF16 (B, Nk, Hkv, D).
        keys: Of K, from `operand`.
        values: Of V.
        options: Build choices.
    """
    batch, n, heads, d = k.shape
    lead, units = batch * heads, -(-n // 128)
    sums = empty(lead, units, d, dtype=torch.float32, like=k)
    quantise(options, "quantise_first", k, 2 * blocks_of(k), {**keys, **values, "sums": sums})
    if units <= FEW_SUMS:
        return sums, None
    means = empty(lead, d, dtype=torch.float32, like=k)
    start(
        options, "quantise", "key_means", d, grid=(lead,), threads=d, shared=0,
        arguments={"sums": sums, "means": means, "units": units, "n": n},
    )  # fmt: skip
    return None, means


def prepare(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, options: Options, *, backward: bool
) -> tuple[Shape, Operands]:
    """Quantises Q, K and V, with the images that the backward needs when it will run.

    Two launches, of which the second starts beside the first; three, one after the other, where the
    sums of K are many; one where K is not centred.

    Raises:
        UnsupportedError: Sizes at which the kernels would count wrong.
    """
    check_sizes(q.shape, k.shape)
    batch, nq, heads, d = q.shape
    shape = Shape(batch, heads, k.shape[2], nq, k.shape[1], d)
    f32 = torch.float32
    q_heads = empty(batch * heads, 2 * shape.q_blocks, 4, dtype=f32, like=q)
    kv_heads = empty(batch * shape.kv_heads, 2 * shape.k_blocks, 4, dtype=f32, like=q)
    q_shift = empty(batch * heads, 128 * shape.q_blocks, dtype=f32, like=q)
    queries = images_of(q, rows=True, channels=backward)
    keys = images_of(k, rows=True, channels=backward)
    values = images_of(v, rows=backward, channels=True, ones=ONES_ROWS)
    of_k, of_v = operand("k", k, keys, kv_heads), operand("v", v, values, kv_heads)
    of_q = operand("q", q, queries, q_heads)
    centred, blocks = options.centre_k != "none", blocks_of(k) + blocks_of(q)
    sums, means = mean_of_keys(k, of_k, of_v, options) if centred else (None, None)
    more = {"q_shift": q_shift, "sums": sums, "means": means, "flip": int(options.scale < 0)}
    blocks += 0 if centred else blocks_of(v)
    whole = {**of_k, **of_q, **of_v, **more}
    quantise(options, "quantise_rest", q, blocks, whole, overlaps=sums is not None)
    return shape, Operands(queries, keys, values, q_heads, kv_heads, q_shift)


@dataclass(frozen=True)
class ForwardBuffers:
    """What F leaves.

    Attributes:
        out: O, BF16 (B, Nq, H, D).
        lse: Natural log-sum-exp, fp32 (B, H, Nq).
        statistics: (M, l) of each padded row, fp32 (B H, Nq', 2).
        top_keys: Shifted: the key of the row's largest score, int32 (B H, Nq').
        rescales: Associated or dump: (R, rcp(lh)) of each row, fp32 (B H, Nq', 2).
        exact_out: Associated or dump: O before its store, fp32 (B, Nq, H, D).
        dump: The numbers inside, of a dump build.
    """

    out: torch.Tensor
    lse: torch.Tensor
    statistics: torch.Tensor
    top_keys: torch.Tensor | None = None
    rescales: torch.Tensor | None = None
    exact_out: torch.Tensor | None = None
    dump: ForwardDump | None = None


def most_groups(kernel: str, head_dim: int, mode: str) -> int:
    """Consumer warpgroups that a build of F or B is made for: ``GROUPS`` of its path."""
    if kernel == "forward":
        four = head_dim == 64 and mode != "shifted"
        return 4 if four else 2 if head_dim == 256 else 3
    return 3 if head_dim == 64 or (head_dim == 128 and mode == "associated") else 2


def consumer_groups(heads: int, blocks: int, *, most: int) -> int:
    """Consumer warpgroups of a CTA, each of which takes 64 queries.

    More of them hide more latency where registers allow them, but make fewer CTAs: two where the
    most would leave a multiprocessor less than two CTAs.

    Args:
        heads: Heads of all batches in the launch.
        blocks: Blocks of 64 queries of a head.
        most: See `most_groups`.
    """
    return most if heads * -(-blocks // most) >= TWO_EACH else 2


def sizes(s: Shape) -> Arguments:
    """Heads and lengths of a problem, as F, B and G take them."""
    return {
        "heads": s.heads, "kv_heads_count": s.kv_heads,
        "nq": s.nq, "nk": s.nk, "q_blocks": s.q_blocks, "k_tiles": 2 * s.k_blocks,
    }  # fmt: skip


def part_of(p: Stripe) -> Arguments:
    """A stripe, as B and G take it."""
    return {
        "first_bh": p.first_head, "head_step": p.head_step, "stripe_heads": p.heads,
        "first_block": p.first_block, "stripe_blocks": p.blocks,
    }  # fmt: skip


def forward(shape: Shape, operands: Operands, options: Options) -> ForwardBuffers:
    """Runs F."""
    s, like, f32 = shape, operands.q_heads, torch.float32
    lead, rows = s.batch * s.heads, 128 * s.q_blocks
    out = empty(s.batch, s.nq, s.heads, s.head_dim, dtype=torch.bfloat16, like=like)
    lse = empty(s.batch, s.heads, s.nq, dtype=f32, like=like)
    statistics = empty(lead, rows, 2, dtype=f32, like=like)
    top_keys = rescales = exact_out = None
    if options.mode == "shifted":
        top_keys = empty(lead, rows, dtype=torch.int32, like=like)
    if options.mode == "associated" or options.dump:
        rescales = empty(lead, rows, 2, dtype=f32, like=like)
        exact_out = empty(s.batch, s.nq, s.heads, s.head_dim, dtype=f32, like=like)
    dump = None
    if options.dump:
        windows = 2 * s.k_blocks
        dump = ForwardDump(
            zeros(lead, rows, 64 * windows, dtype=torch.uint8, like=like),
            zeros(lead, rows, windows, 2, dtype=f32, like=like),
        )
    more = {} if dump is None else {"dump_codes": dump.codes, "dump_windows": dump.windows}
    most = most_groups("forward", s.head_dim, options.mode)
    groups = consumer_groups(lead, 2 * s.q_blocks, most=most)
    start(
        options, "forward", "forward", s.head_dim, shared=SHARED, threads=128 + 128 * groups,
        grid=(lead * -(-2 * s.q_blocks // groups),), overlaps=s.head_dim <= FOLLOWS,
        arguments={
            "q_rows": operands.q.rows, "k_rows": operands.k.rows,
            "v_channels": operands.v.channels, "q_heads": operands.q_heads,
            "kv_heads": operands.kv_heads, "q_shift": operands.q_shift, "out": out,
            "statistics": statistics, "lse": lse, "top_keys": top_keys, "rescales": rescales,
            "exact_out": exact_out, "batch_heads": lead, **sizes(s),
            "c": options.exponent_scale, "scale": abs(float(options.scale)), **more,
        },
    )  # fmt: skip
    return ForwardBuffers(out, lse, statistics, top_keys, rescales, exact_out, dump)


def dump_buffers(shape: Shape, gradient: Images, like: torch.Tensor) -> tuple[Dump, Arguments]:
    """The buffers that a dump build of B fills, and these by the fields of its parameters."""
    lead, rows, tiles = shape.batch * shape.heads, 128 * shape.q_blocks, 2 * shape.k_blocks
    p, dp, ds = (zeros(lead, rows, 64 * tiles, dtype=torch.float32, like=like) for _ in range(3))
    p_codes, ds_codes = (
        zeros(lead, rows, 64 * tiles, dtype=torch.uint8, like=like) for _ in range(2)
    )
    exponents = zeros(lead, rows, tiles, 2, dtype=torch.int32, like=like)
    shifts = zeros(lead, rows, 2, dtype=torch.float32, like=like)
    made = {
        "p": p, "dp": dp, "ds": ds, "p_codes": p_codes, "ds_codes": ds_codes,
        "exponents": exponents, "shifts": shifts,
    }  # fmt: skip
    return Dump(**made, gradient=gradient), {f"dump_{name}": x for name, x in made.items()}


def backward(
    shape: Shape,
    operands: Operands,
    fwd: ForwardBuffers,
    grad: torch.Tensor,
    options: Options,
    *,
    units: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, Dump | None]:
    """Quantises dO, then runs B and G stripe by stripe, of the usual size if ``units`` is None.

    Returns:
        dQ (B, Nq, H, D), dK and dV (B, Nk, Hkv, D), all BF16; delta, fp32 (B H, padded Nq); the
        dump of a dump build.
    """
    s = shape
    lead, d, like = s.batch * s.heads, s.head_dim, grad
    f32, bf16 = torch.float32, torch.bfloat16
    delta = empty(lead, 128 * s.q_blocks, dtype=f32, like=like)
    shortcut = SHORTCUTS.get(options.mode, 0)
    output = fwd.exact_out if options.mode == "associated" else fwd.out
    g = images_of(grad, rows=True, channels=True)
    needed = {"delta": delta, "output": output} if shortcut else {"delta": None, "output": None}
    of_grad = {**operand("g", grad, g, operands.q_heads), **needed, "shortcut": shortcut}
    quantise(options, "quantise_gradient", grad, blocks_of(grad), of_grad, overlaps=True)
    dq = empty(s.batch, s.nq, s.heads, d, dtype=bf16, like=like)
    dk = empty(s.batch, s.nk, s.kv_heads, d, dtype=bf16, like=like)
    dv = empty(s.batch, s.nk, s.kv_heads, d, dtype=bf16, like=like)
    causal, group = options.causal, s.heads // s.kv_heads
    plan = stripes(s, units=units or units_in(None, s, causal=causal))
    most = max(records_in(s, p, causal=causal) for p in plan)
    records = empty(most, RECORD, dtype=torch.uint8, like=like)
    whole = all(p.blocks == s.q_blocks and p.heads % group == 0 for p in plan)
    open_sums = None
    if not whole:
        open_sums = empty(s.batch * s.kv_heads, 128 * s.k_blocks, 2 * d, dtype=f32, like=like)
    dump, more = dump_buffers(s, g, like) if options.dump else (None, {})
    most = most_groups("query", d, options.mode)
    for p in plan:
        consumers = consumer_groups(p.heads, 2 * p.blocks, most=most)
        part = {**sizes(s), **part_of(p), "records": records}
        start(
            options, "query", "query", d, shared=SHARED, threads=128 + 128 * consumers,
            grid=(p.heads * -(-2 * p.blocks // consumers),), overlaps=True,
            arguments={
                "q_rows": operands.q.rows, "g_rows": g.rows, "k_rows": operands.k.rows,
                "v_rows": operands.v.rows, "k_channels": operands.k.channels,
                "q_heads": operands.q_heads, "kv_heads": operands.kv_heads,
                "statistics": fwd.statistics, "delta": delta, "top_keys": fwd.top_keys,
                "rescales": fwd.rescales, "dq_out": dq, **part,
                "c": options.exponent_scale, "scale": float(options.scale), **more,
            },
        )  # fmt: skip
        tasks = math.ceil(p.heads * p.head_step / group) * s.k_blocks
        split = d == 256 or (d == 128 and tasks < FEW_TASKS)
        start(
            options, "key", "key", d, grid=(tasks * (1 + split),), threads=384, shared=SHARED,
            split=split, overlaps=True,
            arguments={
                "q_channels": operands.q.channels, "g_channels": g.channels, "dk_out": dk,
                "dv_out": dv, "open_sums": open_sums, **part, "scale": abs(float(options.scale)),
            },
        )  # fmt: skip
    return dq, dk, dv, delta, dump
