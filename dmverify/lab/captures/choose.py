"""Which captures are committed: all layers, chosen heads, two passages, three training steps.

Four of the encoder's twelve heads per layer, one for each question that rounding asks of a head:

| head | why |
|---|---|
| sharpest rows | one code carries the row, the others fall to tiny scales |
| flattest rows | every probability is small and shares its rounding with its neighbours |
| largest K offset | what centring removes |
| largest V offset | codes of one sign: truncation becomes a bias |

A head already taken is passed over for the next one in that order. The longest and the shortest
passage are taken, with the same heads (chosen on the longest). Of the character model all heads of
both layers are taken, and half of the batch, at the first, middle and last step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from dmverify.conformance.captures.statistics import statistics
from dmverify.conformance.captures.store import TENSORS, widen
from dmverify.lab.captures.chars import BATCH, STEPS, TrainingRun
from dmverify.lab.captures.tap import BF16Bits, bf16_bits

Tensors = dict[str, torch.Tensor]
QUESTIONS = (("sharpness", -1), ("sharpness", 1), ("k_offset", -1), ("v_offset", -1))
KEPT_SEQUENCES = BATCH // 2


@dataclass(frozen=True)
class Chosen:
    """One capture before it is written: BF16 bits (B, N, H, D) by tensor name."""

    name: str
    file: str
    bits: dict[str, BF16Bits]
    causal: bool
    heads: tuple[int, ...]
    source: str

    @property
    def softmax_scale(self) -> float:
        """1 / sqrt(D)."""
        return float(self.bits["q"].shape[-1] ** -0.5)

    def describe(self) -> dict[str, list[float]]:
        """Return the statistics of the capture."""
        tensors = {name: widen(self.bits[name]) for name in TENSORS}
        return statistics(tensors, causal=self.causal, softmax_scale=self.softmax_scale)


def _cut(tensors: Tensors, heads: Sequence[int], sequences: int) -> dict[str, BF16Bits]:
    return {name: bf16_bits(tensors[name][:sequences, :, list(heads)]) for name in TENSORS}


def choose_heads(tensors: Tensors) -> tuple[int, ...]:
    """Return four heads of one encoder layer, in the order of the table."""
    numbers = {name: tensors[name].float().numpy() for name in TENSORS}
    scale = numbers["q"].shape[-1] ** -0.5
    table = statistics(numbers, causal=False, softmax_scale=scale)
    taken: list[int] = []
    for question, sign in QUESTIONS:
        values = table[question]
        order = sorted(range(len(values)), key=lambda head: sign * values[head])
        taken.append(next(head for head in order if head not in taken))
    return tuple(taken)


def choose_encoder(layers_by_passage: Sequence[Sequence[Tensors]]) -> Iterator[Chosen]:
    """Yield ``minilm/layerL`` (longest passage) and ``minilm-short/layerL`` (shortest)."""
    lengths = [layers[0]["q"].shape[1] for layers in layers_by_passage]
    longest, shortest = lengths.index(max(lengths)), lengths.index(min(lengths))
    for family, passage in (("minilm", longest), ("minilm-short", shortest)):
        for layer, tensors in enumerate(layers_by_passage[passage]):
            heads = choose_heads(layers_by_passage[longest][layer])
            source = (
                f"all-MiniLM-L6-v2, layer {layer} of 6, heads {', '.join(map(str, heads))} of 12, "
                f"passage {passage} ({lengths[passage]} tokens), in-batch contrastive loss"
            )
            bits = _cut(tensors, heads, 1)
            yield Chosen(f"{family}/layer{layer}", "minilm.safetensors", bits, False, heads, source)


def choose_chars(run: TrainingRun) -> Iterator[Chosen]:
    """Yield ``chars-stepS/layerL`` for every captured step."""
    for step, layers in run.captures.items():
        for layer, tensors in enumerate(layers):
            heads = tuple(range(tensors["q"].shape[2]))
            source = (
                f"character model, layer {layer} of 2, all heads, after {step} of {STEPS} steps, "
                f"sequences 0 to {KEPT_SEQUENCES - 1} of {BATCH}, next-character loss"
            )
            bits = _cut(tensors, heads, KEPT_SEQUENCES)
            yield Chosen(
                f"chars-step{step}/layer{layer}", "chars.safetensors", bits, True, heads, source
            )
