"""The article's small character model, trained here: 428,928 parameters, exact attention, causal.

| what | value |
|---|---|
| layers, width, heads, head dim, context | 2, 128, 4, 32, 64 |
| characters | newline, tab and the 95 printable ASCII ones: 97 |
| attention | RMSNorm of q and k per head with one learnable gain a channel, no biases |
| optimiser | AdamW, 800 steps of 4 x 64 characters; rate 1e-3, betas 0.9 and 0.95, decay 0.1 |
| text | the passages, the last tenth held out for validation |

The article gives the sizes and the number of steps; layer norms, the MLP (4 x width, GELU, biases),
learned positions and the untied output follow from its parameter count. The optimiser's rates and
the text are ours. Initial values and batches are raw 64-bit integers of a counter-based generator
turned into numbers here, so they do not depend on any library's ``normal``.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from dmverify.lab.captures.adamw import AdamW
from dmverify.lab.captures.tap import Tap, attention

LAYERS, WIDTH, HEADS, CONTEXT, BATCH = 2, 128, 4, 64, 4
ALPHABET = "\t\n" + "".join(sorted(c for c in string.printable if c.isprintable()))
PARAMETERS = 428_928
STEPS = 800
CAPTURED_STEPS = (0, 400, 800)
LEARNING_RATE, BETAS, DECAY = 1e-3, (0.9, 0.95), 0.1
INITIAL_STD = 0.02


class Layer(nn.Module):
    """One pre-norm block: attention with normalised queries and keys, then the MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.gain_q = nn.Parameter(torch.ones(WIDTH // HEADS))
        self.gain_k = nn.Parameter(torch.ones(WIDTH // HEADS))
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm_mlp = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, tap: Tap | None) -> torch.Tensor:
        """Map the residual stream (B, N, width) to the next one."""
        split = self.qkv(self.norm_attention(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = split.unbind(-3)
        q = F.rms_norm(q, q.shape[-1:]) * self.gain_q
        k = F.rms_norm(k, k.shape[-1:]) * self.gain_k
        x = x + self.out(attention(q, k, v, causal=True, tap=tap).flatten(-2))
        hidden: torch.Tensor = self.down(F.gelu(self.up(self.norm_mlp(x))))
        return x + hidden


class CharacterModel(nn.Module):
    """Two layers between an embedding with learned positions and an untied output."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(len(ALPHABET), WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.output = nn.Linear(WIDTH, len(ALPHABET), bias=False)

    def loss(self, batch: torch.Tensor, tap: Tap | None = None) -> torch.Tensor:
        """Return the cross-entropy (nats) of the next character in batch (B, context + 1)."""
        x = self.characters(batch[:, :-1]) + self.positions.weight
        for layer in self.layers:
            x = layer(x, tap)
        logits = self.output(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def _raw(seed: int, stream: int, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """Return ``count`` raw 64-bit integers of stream ``stream``."""
    return np.random.Philox(key=np.array([seed, stream], dtype=np.uint64)).random_raw(count)


def new_model(seed: int) -> CharacterModel:
    """Return a fresh model: matrices uniform with standard deviation 0.02, gains 1, biases 0."""
    model = CharacterModel()
    with torch.no_grad():
        for stream, parameter in enumerate(model.parameters()):
            if parameter.ndim < 2:
                continue  # gains start at 1 already; biases are zeroed below
            unit = (_raw(seed, stream, parameter.numel()) >> np.uint64(40)).astype(np.float64)
            values = (unit * 2.0**-23 - 1) * (INITIAL_STD * 3**0.5)
            parameter.copy_(torch.from_numpy(values.astype(np.float32)).view_as(parameter))
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    return model


@dataclass(frozen=True)
class Text:
    """Character codes of the training text, and batches from it."""

    codes: torch.Tensor

    @classmethod
    def of(cls, text: str) -> Text:
        """Encode a text over the alphabet."""
        return cls(torch.tensor([ALPHABET.index(c) for c in text]))

    def batch(self, seed: int, step: int) -> torch.Tensor:
        """Return the (4, 65) batch of one step."""
        stream = 1 << 32 | step
        starts = _raw(seed, stream, BATCH) % np.uint64(len(self.codes) - CONTEXT)
        return torch.stack([self.codes[int(s) : int(s) + CONTEXT + 1] for s in starts])

    def windows(self) -> torch.Tensor:
        """Return all disjoint windows (n, 65), for validation."""
        return self.codes.unfold(0, CONTEXT + 1, CONTEXT + 1)


def captured_step(model: CharacterModel, batch: torch.Tensor) -> list[dict[str, torch.Tensor]]:
    """Return q, k, v, do (4, 64, 4, 32) of each layer in one training step."""
    tap = Tap()
    model.loss(batch, tap).backward()  # type: ignore[no-untyped-call]
    model.zero_grad()
    return list(tap.tensors())


@dataclass(frozen=True)
class TrainingRun:
    """What a training run leaves behind: captures by step, and its validation losses."""

    captures: dict[int, list[dict[str, torch.Tensor]]]
    validation: dict[int, float]


def train(
    text: str, *, seed: int = 0, captured_steps: Sequence[int] = CAPTURED_STEPS
) -> TrainingRun:
    """Train up to the last captured step; step s is captured after s updates."""
    cut = len(text) * 9 // 10
    training, held_out = Text.of(text[:cut]), Text.of(text[cut:]).windows()
    model = new_model(seed)
    optimiser = AdamW(model.parameters(), rate=LEARNING_RATE, betas=BETAS, decay=DECAY)
    run = TrainingRun({}, {})
    for step in range(max(captured_steps) + 1):
        batch = training.batch(seed, step)
        if step in captured_steps:
            run.captures[step] = captured_step(model, batch)
            with torch.no_grad():
                run.validation[step] = round(model.loss(held_out).item(), 4)
        model.loss(batch).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return run
