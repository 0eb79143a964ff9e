"""`dm_attn_func`: FP8 attention with gradients, for torch tensors on a Hopper GPU."""

from __future__ import annotations

from typing import Any

import torch

from .build import HEAD_DIMS as HEAD_DIMS
from .build import MODES
from .errors import UnsupportedError
from .limits import check_sizes
from .ops import HOPPER_RULE, attention, attention_forward, runs_here
from .ops import aligned as aligned
from .stripes import check_workspace

CASTS = ("nearest", "zero-sum")
CENTRINGS = ("blocked-mean", "none")
NORMALISERS = ("codes", "unrounded")
SCALE_LIMIT = 2.0**128 - 2.0**103  # from here on fp32 rounds to infinity


def dm_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
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
    """Block-scaled FP8 attention, forward and backward, by the contract `bundled`.

    Args:
        q: BF16 (B, Nq, H, D) on a Hopper GPU; D is 64, 128 or 256.
        k: BF16 (B, Nk, Hkv, D); Hkv divides H, head h reads kv head h // (H / Hkv).
        v: BF16 (B, Nk, Hkv, D).
        causal: Key j is visible to query i when j <= i + Nk - Nq.
        mode: How the backward forms delta.
        ds_cast: How dS becomes E4M3: ``nearest``, or ``zero-sum``, which carries errors on.
        centre_k: What keys lose before they are quantised: ``blocked-mean``, their mean over
            tokens, or ``none``.
        normaliser: What O is divided by: ``codes``, the sum of the rounded e, or ``unrounded``.
            The associated mode needs the codes.
        softmax_scale: Factor of the logits, D ** -0.5 if None; zero and negative are allowed.
        workspace_bytes: Most bytes that the records of the backward take (stripes.py); the bits do
            not depend on it. None is some 1.15 GB up to 16,384 keys, and no less than fast stripes
            need beyond. Graphs that are captured into one memory pool share it.
        return_lse: Also return the log-sum-exp of each row.

    Returns:
        O, BF16 (B, Nq, H, D), or (O, LSE) with LSE natural, fp32 (B, H, Nq), -inf on rows that see
        no key. O is differentiable in q, k and v; LSE is not.

    Raises:
        UnsupportedError: Anything the kernels do not serve, with the rule and the fix.
        BuildError: A kernel that is met for the first time cannot be compiled or loaded.
    """
    check_tensors(q, k, v)
    check_choice("mode", mode, MODES)
    check_choice("ds_cast", ds_cast, CASTS)
    check_choice("centre_k", centre_k, CENTRINGS)
    check_choice("normaliser", normaliser, NORMALISERS)
    if mode == "associated" and normaliser != "codes":
        raise UnsupportedError(
            f"mode={mode!r} with normaliser={normaliser!r}",
            rule="the associated delta is zero-sum only if O is divided by the sum of the codes",
            fix="use normaliser='codes'",
        )
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else float(softmax_scale)
    if not abs(scale) < SCALE_LIMIT:  # also a NaN
        raise UnsupportedError(
            scale, rule="softmax_scale is finite in fp32", fix="pass a finite number"
        )
    check_workspace(workspace_bytes, k.shape[1])
    needs = q.requires_grad or k.requires_grad or v.requires_grad
    if needs and torch.is_grad_enabled():
        zero_sum = ds_cast == "zero-sum"
        choices = bool(causal), mode, zero_sum, scale, centre_k, normaliser, workspace_bytes
        out, lse, _ = attention_forward(q, k, v, *choices)
    else:
        out, lse = attention(q, k, v, bool(causal), scale, centre_k, normaliser)
    return (out, lse) if return_lse else out


def check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    """Refuses a value that is not one of the known ones.

    Args:
        name: The argument's name, for the message.
        value: What the caller passed.
        known: What is served.

    Raises:
        UnsupportedError: It is none of them.
    """
    if value not in known:
        rule = f"{name} is one of {known}"
        raise UnsupportedError(f"{name}={value!r}", rule=rule, fix="pick one")


def check_tensors(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Refuses dtypes, devices and shapes that the kernels do not serve.

    Args:
        q: BF16 (B, Nq, H, D), see `dm_attn_func`.
        k: BF16 (B, Nk, Hkv, D), on q's device.
        v: As k.

    Raises:
        UnsupportedError: A tensor is not BF16, not of four dimensions or not on q's device; the
            device runs no kernels; the shapes do not fit each other or are not served. The first
            rule that is broken is the one named.
    """
    for name, x in (("q", q), ("k", k), ("v", v)):
        rules = (
            (x.dtype == torch.bfloat16, x.dtype, "is BF16", "cast it"),
            (x.dim() == 4, tuple(x.shape), "is (B, N, H, D)", "reshape it"),
            (x.device == q.device, x.device, "is on q's device", "move it"),
        )
        for holds, value, rule, fix in rules:
            if not holds:
                raise UnsupportedError(f"{name}: {value}", rule=f"{name} {rule}", fix=fix)
    check_device(q.device)
    batch, _, heads, d = q.shape
    pairs: tuple[tuple[bool, object, str], ...] = (
        (k.shape == v.shape, (tuple(k.shape), tuple(v.shape)), "k and v have one shape"),
        (k.shape[0] == batch, k.shape[0], f"k has q's batch {batch}"),
        (k.shape[3] == d, k.shape[3], f"k has q's head dim {d}"),
        (d in HEAD_DIMS, d, f"D is one of {HEAD_DIMS}"),
        (k.shape[2] > 0 and heads % max(1, k.shape[2]) == 0, (heads, k.shape[2]), "Hkv divides H"),
    )
    for fits, found, size_rule in pairs:
        if not fits:
            raise UnsupportedError(found, rule=size_rule, fix="change the shapes")
    check_sizes(q.shape, k.shape)


def check_device(device: torch.device) -> None:
    """Refuses devices that do not run the kernels.

    A compiler that traces the call asks for the type alone: the capability of a GPU is no part of a
    graph. The operators ask for it when they run.

    Args:
        device: Where the tensors are.

    Raises:
        UnsupportedError: It is no GPU or, in a call that is not traced, no Hopper GPU.
    """
    hopper = device.type == "cuda" and (torch.compiler.is_compiling() or runs_here(device))
    if not hopper:
        raise UnsupportedError(device, rule=HOPPER_RULE, fix="move them to one")
