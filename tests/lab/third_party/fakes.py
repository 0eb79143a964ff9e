"""Stand-ins for the modules that peers live in, computed in float64 from their documents."""

from __future__ import annotations

import math
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor

E4M3 = torch.float8_e4m3fn


def attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool, corner: str
) -> tuple[Tensor, Tensor, Tensor]:
    """P, O, LSE of float64 tensors (B, H, N, D); ``corner`` is where a causal mask is aligned."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = q @ k.mT * scale
    n, m = scores.shape[-2:]
    if causal:
        shift = m - n if corner == "bottom right" else 0
        hidden = torch.arange(m)[None] > torch.arange(n)[:, None] + shift
        scores = scores.masked_fill(hidden, -math.inf)
    lse = scores.logsumexp(-1)
    p = torch.exp(scores - lse[..., None]).nan_to_num()
    return p, p @ v, lse


def to_codes(x: Tensor) -> Tensor:
    """E4M3, saturating."""
    return x.clamp(-448, 448).float().to(E4M3)


def flash_attn_func(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """FlashAttention-3's forward: (B, N, H, D); a descale a batch and key head for E4M3."""
    assert options.pop("return_attn_probs")
    scale, causal = options.pop("softmax_scale"), options.pop("causal")
    wide = [x.double() for x in (q, k, v)]
    if q.dtype is E4M3:
        for i, name in enumerate("qkv"):
            descale = options.pop(f"{name}_descale")
            assert descale.dtype is torch.float32
            assert descale.shape == (k.shape[0], k.shape[2])
            per_head = wide[i].shape[2] // descale.shape[1]
            wide[i] = wide[i] * descale.double().repeat_interleave(per_head, 1)[:, None, :, None]
    else:
        assert {x.dtype for x in (q, k, v)} == {torch.bfloat16}
    assert not options
    heads_first = (x.transpose(1, 2) for x in wide)
    _, o, lse = attention(*heads_first, scale=scale, causal=causal, corner="bottom right")
    return o.transpose(1, 2).bfloat16(), lse.float()


class Node:
    """A tensor of a graph."""

    def __init__(self, name: str, **known: Any) -> None:
        self.name, self.known = name, known

    def __getattr__(self, attribute: str) -> Any:
        if not attribute.startswith("set_"):
            raise AttributeError(attribute)

        def keep(value: Any) -> Node:
            self.known[attribute.removeprefix("set_")] = value
            return self

        return keep


class PyGraph:
    """cuDNN's graph as its frontend's comments and node expansion describe it."""

    def __init__(self, **_: Any) -> None:
        self.node: tuple[str, dict[str, Any], list[Node]] | None = None

    def tensor(self, **known: Any) -> Node:
        return Node("input", **known)

    def sdpa_fp8(self, **inputs: Any) -> list[Node]:
        assert inputs.pop("generate_stats")
        assert not inputs.pop("use_causal_mask")
        outs = [Node(x) for x in ("o", "stats", "amax_s", "amax_o")]
        self.node = ("forward", inputs, outs)
        return outs

    def sdpa_fp8_backward(self, **inputs: Any) -> list[Node]:
        assert not inputs.pop("use_padding_mask")
        inputs.pop("use_deterministic_algorithm")
        names = ("dq", "dk", "dv", "amax_dq", "amax_dk", "amax_dv", "amax_dp")
        outs = [Node(x) for x in names]
        self.node = ("backward", inputs, outs)
        return outs

    def _nothing(self, *_: Any) -> None:
        """Building is nothing here."""

    validate = build_operation_graph = create_execution_plans = check_support = _nothing
    build_plans = _nothing

    def get_workspace_size(self) -> int:
        return 0

    def execute(self, pack: dict[Node, Tensor], _: Tensor, *, handle: Any) -> None:
        assert self.node is not None
        which, inputs, outs = self.node
        values = {n: _seen(x, pack[x]) if isinstance(x, Node) else x for n, x in inputs.items()}
        found = (_forward if which == "forward" else _backward)(values)
        for node, x in zip(outs, found, strict=True):
            assert node.known["output"]
            view = torch.as_strided(pack[node], node.known["dim"], node.known["stride"])
            view.copy_(x)


def _seen(node: Node, memory: Tensor) -> Tensor:
    """Memory through the declared dim and stride, codes as numbers."""
    return torch.as_strided(memory, node.known["dim"], node.known["stride"]).double()


def _masked(v: dict[str, Any]) -> dict[str, Any]:
    return {"scale": v["attn_scale"], "causal": v.get("right_bound") == 0, "corner": "top left"}


def _forward(v: dict[str, Any]) -> list[Tensor]:
    q, k, x = (v[n] * v[f"descale_{n}"] for n in ("q", "k", "v"))
    p, _, lse = attention(q, k, x, **_masked(v))
    codes = to_codes(p * v["scale_s"]).double()
    group = q.shape[1] // k.shape[1]
    o = codes @ x.repeat_interleave(group, 1) * v["descale_s"]
    return [to_codes(o * v["scale_o"]), lse[..., None].float(), _amax(p), _amax(o)]


def _backward(v: dict[str, Any]) -> list[Tensor]:
    q, k, x, o = (v[n] * v[f"descale_{n}"] for n in ("q", "k", "v", "o"))
    do = v["dO"] * v["descale_dO"]
    group = q.shape[1] // k.shape[1]
    wide_k, wide_v = (y.repeat_interleave(group, 1) for y in (k, x))
    visible, _, _ = attention(q, k, x, **_masked(v))
    exponent = q @ wide_k.mT * v["attn_scale"] - v["stats"]
    p = torch.exp(exponent.masked_fill(visible == 0, -math.inf))
    p8 = to_codes(p * v["scale_s"]).double() * v["descale_s"]
    delta = (do * o).sum(-1, keepdim=True)
    ds = p * (do @ wide_v.mT - delta) * v["attn_scale"]
    ds8 = to_codes(ds * v["scale_dP"]).double() * v["descale_dP"]

    def per_key_head(y: Tensor) -> Tensor:
        return y.unflatten(1, (-1, group)).sum(2)

    dq, dk, dv = ds8 @ wide_k, per_key_head(ds8.mT @ q), per_key_head(p8.mT @ do)
    stored = [to_codes(y * v[f"scale_{n}"]) for y, n in ((dq, "dQ"), (dk, "dK"), (dv, "dV"))]
    return [*stored, *(_amax(y) for y in (dq, dk, dv, ds))]


def _amax(x: Tensor) -> Tensor:
    return x.abs().max().float().reshape(1, 1, 1, 1)


def module(name: str, **members: Any) -> ModuleType:
    """A module that importlib finds."""
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, None)
    vars(made).update(members)
    return made


CUDNN = module(
    "cudnn",
    data_type=SimpleNamespace(FP8_E4M3="e4m3", FLOAT="float"),
    heur_mode=SimpleNamespace(A="a", FALLBACK="fallback"),
    pygraph=PyGraph,
    create_handle=lambda: "handle",
    set_stream=lambda handle, stream: None,
)
FLASH3 = module("flash_attn_interface", flash_attn_func=flash_attn_func)
