"""A transformer with a leading axis for seeds: S models of one setting, each with its own weights.

Pre-norm blocks as in the article's character model: LayerNorm, attention without biases, LayerNorm,
MLP (4 x width, GELU, biases), learned positions, a final LayerNorm and an untied output. Every
weight is a view of one buffer (S, P), so that the optimiser is a few operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from dmverify.studies.training.attend import attend
from dmverify.studies.training.attention import Layer
from dmverify.studies.training.fuse import fused
from dmverify.studies.training.job import Job
from dmverify.studies.training.setting import Setting
from dmverify.studies.training.watch import Watch

SMALL = 0.02 * 3**0.5  # half the range of uniform numbers with standard deviation 0.02
PRECISIONS = ("fp32", "tf32", "bf16")  # of the linear layers; tf32 also of attention's products


def shapes(setting: Setting) -> dict[str, tuple[int, ...]]:
    """Every parameter of one model, in order."""
    w, d = setting.width, setting.head_dim
    found: dict[str, tuple[int, ...]] = {
        "symbols": (setting.symbols, w),
        "positions": (setting.context, w),
    }
    for i in range(setting.layers):
        block: dict[str, tuple[int, ...]] = {
            "norm1.gain": (1, w), "norm1.bias": (1, w), "qkv": (w, 3 * w), "out": (w, w),
            "norm2.gain": (1, w), "norm2.bias": (1, w),
            "up": (w, 4 * w), "up.bias": (1, 4 * w), "down": (4 * w, w), "down.bias": (1, w),
        }  # fmt: skip
        if setting.biases:
            block |= {"qkv.bias": (1, 3 * w)}
        if setting.qk_norm:
            block |= {"q.gain": (1, d), "k.gain": (1, d)}
        found |= {f"{i}.{name}": shape for name, shape in block.items()}
    return found | {"norm.gain": (1, w), "norm.bias": (1, w), "output": (w, setting.symbols)}


def raw(seed: int, stream: int, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """Raw 64-bit integers of a counter-based generator, the same on every machine."""
    return np.random.Philox(key=np.array([seed, stream], dtype=np.uint64)).random_raw(count)


def initial(name: str, shape: tuple[int, ...], first: str, draw: tuple[int, int]) -> Tensor:
    """First values of a parameter, from the raw numbers of a seed and stream.

    small: gains 1, biases 0, matrices uniform with standard deviation 0.02. torch: tables with
    standard deviation 1 (uniform here, normal there), matrices and the biases of linear layers
    uniform up to 1 / sqrt(inputs).
    """
    of_norm = "norm" in name and name.endswith((".gain", ".bias"))
    if name.endswith(".gain") or of_norm or (first == "small" and name.endswith(".bias")):
        return torch.full(shape, float(name.endswith(".gain")))
    unit = (raw(*draw, int(np.prod(shape))) >> np.uint64(40)).astype(np.float64)
    values = (unit * 2.0**-23 - 1) * (_width(name, shape) if first == "torch" else SMALL)
    return torch.from_numpy(values.astype(np.float32)).reshape(shape)


def _width(name: str, shape: tuple[int, ...]) -> float:
    """Half the range of torch's initial values."""
    if name in ("symbols", "positions"):
        return 3**0.5
    inputs = {"qkv.bias": shape[1] // 3, "up.bias": shape[1] // 4, "down.bias": 4 * shape[1]}
    return float(inputs.get(name.partition(".")[2], shape[0]) ** -0.5)


@dataclass
class Models:
    """S models: ``weights`` by name, (S, ...), views of ``buffer``; gradients likewise."""

    setting: Setting
    buffer: Tensor
    gradient: Tensor
    weights: dict[str, Tensor]
    gradients: dict[str, Tensor]

    @property
    def count(self) -> int:
        """Parameters of one model."""
        return self.buffer.shape[1]

    @property
    def seeds(self) -> int:
        """Models side by side, S."""
        return self.buffer.shape[0]

    def differentiate(self, loss: Callable[[dict[str, Tensor]], Tensor]) -> Tensor:
        """Writes the gradient of a loss of the weights into the buffer; returns the loss."""
        # New leaves each time: autograd ties a leaf to the stream that it was first used on.
        leaves = {name: w.detach().requires_grad_() for name, w in self.weights.items()}
        found = loss(leaves)
        parts = torch.autograd.grad(found.sum(), list(leaves.values()))
        torch._foreach_copy_(list(self.gradients.values()), list(parts))
        return found.detach()


def new_models(setting: Setting, seeds: Sequence[int], device: str) -> Models:
    """Fresh models, one a seed."""
    sizes = shapes(setting)
    values = torch.stack([_fresh(setting, seed) for seed in seeds]).to(device)
    gradient = torch.zeros_like(values)
    views = (dict(_views(x, sizes)) for x in (values, gradient))
    return Models(setting, values, gradient, *views)


def _fresh(setting: Setting, seed: int) -> Tensor:
    sizes = enumerate(shapes(setting).items())
    parts = [initial(name, shape, setting.first, (seed, i)) for i, (name, shape) in sizes]
    return torch.cat([part.flatten() for part in parts])


def _views(buffer: Tensor, sizes: dict[str, tuple[int, ...]]) -> Iterator[tuple[str, Tensor]]:
    start = 0
    for name, shape in sizes.items():
        count = int(np.prod(shape))
        yield name, buffer[:, start : start + count].view(len(buffer), *shape)
        start += count


def linear(x: Tensor, weight: Tensor, precision: str) -> Tensor:
    """x (S, T, i) times weight (S, i, o), operands and result in BF16 if so asked."""
    if precision == "bf16":
        return torch.bmm(x.bfloat16(), weight.bfloat16()).float()
    return torch.bmm(x, weight)


def losses(w: dict[str, Tensor], tokens: Tensor, job: Job, watch: Watch) -> Tensor:
    """Cross-entropy (nats) of the next symbol, (S,), for tokens (S, B, N + 1)."""
    setting, recipe, precision = job.setting, job.recipe, job.precision
    x = embed(tokens[:, :, :-1], w["symbols"], w["positions"])
    for i in range(setting.layers):
        layer = {name.partition(".")[2]: y for name, y in w.items() if name.startswith(f"{i}.")}
        q, k, v = fused(before, x)(x, layer, setting, precision)
        o = attend(q, k, v, Layer(recipe, watch, i))
        x = fused(after, x)(x, o, layer, setting, precision)
    last = {name: w[name] for name in ("norm.gain", "norm.bias", "output")}
    return surprise(x, tokens[:, :, 1:], last, precision)


def embed(tokens: Tensor, symbols: Tensor, positions: Tensor) -> Tensor:
    """(S, B N, width) of tokens (S, B, N)."""
    s, b, n = tokens.shape
    # A product with one-hot rows has a gradient that sums in a fixed order; an index has not.
    one_hot = F.one_hot(tokens.reshape(s, -1), symbols.shape[1]).float()
    x = torch.bmm(one_hot, symbols).view(s, b, n, -1) + positions.unsqueeze(1)
    return x.view(s, b * n, -1)


def surprise(x: Tensor, targets: Tensor, w: dict[str, Tensor], precision: str) -> Tensor:
    """The mean cross-entropy of each seed, (S,)."""
    logits = linear(norm(x, w, "norm"), w["output"], precision)
    picked = F.log_softmax(logits, -1).gather(-1, targets.reshape(len(x), -1, 1))
    return -picked.mean((1, 2))


def norm(x: Tensor, w: dict[str, Tensor], name: str) -> Tensor:
    """LayerNorm with the gain and bias of a name."""
    return F.layer_norm(x, x.shape[-1:]) * w[f"{name}.gain"] + w[f"{name}.bias"]


def before(
    x: Tensor, w: dict[str, Tensor], setting: Setting, precision: str
) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v of a layer, (G, N, D), from (S, B N, width)."""
    s, h, d, n = x.shape[0], setting.heads, setting.head_dim, setting.context
    qkv = linear(norm(x, w, "norm1"), w["qkv"], precision)
    if setting.biases:
        qkv = qkv + w["qkv.bias"]
    q, k, v = (
        y.reshape(s, -1, n, h, d).transpose(2, 3).reshape(-1, n, d) for y in qkv.chunk(3, -1)
    )
    if setting.qk_norm:
        q, k = _gained(q, w["q.gain"]), _gained(k, w["k.gain"])
    return q, k, v


def after(x: Tensor, o: Tensor, w: dict[str, Tensor], setting: Setting, precision: str) -> Tensor:
    """The residual stream after attention's output (G, N, D) and the MLP."""
    s, h, d, n = x.shape[0], setting.heads, setting.head_dim, setting.context
    o = o.reshape(s, -1, h, n, d).transpose(2, 3).reshape(s, -1, h * d)
    x = x + linear(o, w["out"], precision)
    hidden = linear(norm(x, w, "norm2"), w["up"], precision) + w["up.bias"]
    return x + linear(F.gelu(hidden), w["down"], precision) + w["down.bias"]


def _gained(x: Tensor, gain: Tensor) -> Tensor:
    """RMSNorm of (G, N, D) with the gain (S, 1, D) of each seed."""
    s = gain.shape[0]
    rows = F.rms_norm(x, x.shape[-1:]).reshape(s, -1, *x.shape[1:])
    return (rows * gain.unsqueeze(1)).flatten(0, 1)
