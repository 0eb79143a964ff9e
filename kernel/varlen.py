"""`dm_attn_varlen_func`: sequences of different lengths, packed one after the other.

Sequence i is tokens ``cu_seqlens[i]`` to ``cu_seqlens[i + 1]`` and is computed as `dm_attn_func`
computes it alone, with scales, means and masks of its own, so its bits do not depend on its
neighbours. Each sequence is a set of launches on the current stream. Lengths are read on the host:
lengths on the GPU would make the host wait for it.

Not covered: lengths that stay on the GPU. The grids, the padded workspaces and the cut into stripes
follow from each length on the host, and every kernel takes one length for all of its batch; serving
them needs offsets of images, scales, records and outputs per sequence in all four kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

from .api import dm_attn_func
from .errors import UnsupportedError

Lengths = Sequence[int] | torch.Tensor


def dm_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: Lengths,
    cu_seqlens_k: Lengths,
    *,
    causal: bool = True,
    mode: str = "matched",
    ds_cast: str = "nearest",
    centre_k: str = "blocked-mean",
    normaliser: str = "codes",
    softmax_scale: float | None = None,
    workspace_bytes: int | None = None,
    return_lse: bool = False,
) -> Any:
    """`dm_attn_func` on packed sequences.

    Args:
        q: BF16 (Tq, H, D) on a Hopper GPU, the queries of all sequences.
        k: BF16 (Tk, Hkv, D), the keys of all sequences.
        v: BF16 (Tk, Hkv, D).
        cu_seqlens_q: Where sequences start, and Tq: n + 1 ascending integers from 0. Python
            integers, or an integer tensor on the CPU. Under torch.compile they are integers, and
            constants.
        cu_seqlens_k: The same for keys, with Tk.
        causal: Bottom-right within each sequence, see `dm_attn_func`.
        mode: See `dm_attn_func`.
        ds_cast: See `dm_attn_func`.
        centre_k: See `dm_attn_func`; each sequence has a mean of its own.
        normaliser: See `dm_attn_func`.
        softmax_scale: See `dm_attn_func`.
        workspace_bytes: See `dm_attn_func`; sequences take turns in it.
        return_lse: Also return the log-sum-exp of each row.

    Returns:
        O, BF16 (Tq, H, D), or (O, LSE) with LSE natural, fp32 (H, Tq). O is differentiable in q, k
        and v; LSE is not.

    Raises:
        UnsupportedError: Anything that is not served, with the rule and the fix.
        BuildError: A kernel that is met for the first time cannot be compiled or loaded.
    """
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 3:
            rule = f"{name} is (T, heads, D), sequences one after the other"
            raise UnsupportedError(f"{name}: {tuple(x.shape)}", rule=rule, fix="reshape it")
    if k.shape[0] != v.shape[0]:
        found = (k.shape[0], v.shape[0])
        raise UnsupportedError(found, rule="k and v have one length", fix="change the shapes")
    q_lengths = sequence_lengths("cu_seqlens_q", cu_seqlens_q, q.shape[0])
    k_lengths = sequence_lengths("cu_seqlens_k", cu_seqlens_k, k.shape[0])
    if len(q_lengths) != len(k_lengths):
        found = (len(q_lengths), len(k_lengths))
        rule = "cu_seqlens_q and cu_seqlens_k count the same sequences"
        raise UnsupportedError(found, rule=rule, fix="give a sequence without tokens length 0")
    # One split of each tensor: its gradient is one concatenation, not a padded sum per sequence.
    pairs = (q, q_lengths), (k, k_lengths), (v, k_lengths)
    parts = zip(*(torch.split(x, lengths) for x, lengths in pairs), strict=True)
    done = [
        dm_attn_func(
            *(x.unsqueeze(0) for x in part),
            causal=causal, mode=mode, ds_cast=ds_cast, centre_k=centre_k, normaliser=normaliser,
            softmax_scale=softmax_scale, workspace_bytes=workspace_bytes, return_lse=True,
        )
        for part in parts
    ]  # fmt: skip
    out = torch.cat([o.squeeze(0) for o, _ in done])
    return (out, torch.cat([lse.squeeze(0) for _, lse in done], 1)) if return_lse else out


def sequence_lengths(name: str, cu_seqlens: Lengths, total: int) -> list[int]:
    """Length of each sequence; no sequence at all counts as one without tokens.

    Args:
        name: The argument's name, for the message.
        cu_seqlens: Where sequences start, and the total: n + 1 ascending integers from 0.
        total: Number of tokens that the tensors hold.

    Returns:
        n lengths, or one that is 0 if n is.

    Raises:
        UnsupportedError: They are no integers on the host (see `host_integers`), do not start at
            0, do not ascend, or do not end at the total.
    """
    starts = host_integers(name, cu_seqlens)
    rules: tuple[tuple[bool, object, str], ...] = (
        (len(starts) > 0 and starts[0] == 0, starts[:1], f"{name} starts at 0"),
        (all(a <= b for a, b in pairwise(starts)), starts, f"{name} ascends"),
        (starts[-1:] == [total], starts[-1:], f"{name} ends at the number of tokens, {total}"),
    )
    for holds, found, rule in rules:
        if not holds:
            fix = "pass the sum of the lengths before each sequence, and their total"
            raise UnsupportedError(found, rule=rule, fix=fix)
    return [b - a for a, b in pairwise(starts)] or [0]


def host_integers(name: str, values: Lengths) -> list[int]:
    """The values as Python integers, without waiting for a GPU.

    Args:
        name: The argument's name, for the message.
        values: Integers, or a vector of integers on the CPU.

    Raises:
        UnsupportedError: A tensor that is on another device, is no vector or holds no integers; an
            element that is no integer. Truth values are no integers.
    """
    if isinstance(values, torch.Tensor):
        if values.device.type != "cpu":
            raise UnsupportedError(
                f"{name} on {values.device}",
                rule=f"{name} is on the host: reading it from a GPU would wait for the GPU",
                fix=f"pass {name}.cpu(), or the list it was made from",
            )
        whole = not (values.is_floating_point() or values.is_complex())
        if values.dim() != 1 or not whole or values.dtype == torch.bool:
            found = f"{values.dtype} {tuple(values.shape)}"
            raise UnsupportedError(
                found, rule=f"{name} is a vector of integers", fix="cast or reshape it"
            )
        return [int(x) for x in values.tolist()]
    numbers: list[Any] = list(values)
    wrong = [x for x in numbers if not isinstance(x, int) or isinstance(x, bool)]
    if wrong:
        raise UnsupportedError(wrong[0], rule=f"{name} holds integers", fix="cast them")
    return numbers
