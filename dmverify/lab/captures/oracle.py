"""Two independent witnesses that the encoder is the published one.

1. The three cosine similarities that the quick start of Sentence Transformers prints for it.
2. ``transformers.BertModel`` on the same weights: token ids, the loss, and q, k, v, dO of every
   layer, taken with its own module hooks. Optional; ``transformers`` is no dependency of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import metadata, util
from typing import Any

import torch

from dmverify.errors import DependencyError, RecordingError
from dmverify.lab.captures.encoder import (
    HEAD_DIM,
    HEADS,
    Encoder,
    contrastive_loss,
    training_step,
)

SENTENCES = ("The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.")
PUBLISHED = (0.6660, 0.1046, 0.1411)


def published_similarities(encoder: Encoder) -> list[float]:
    """Return the similarities of sentences (0, 1), (0, 2), (1, 2), after comparing four digits.

    Raises:
        RecordingError: If they are not the published ones.
    """
    with torch.no_grad():
        vectors = torch.stack([encoder.embed(encoder.tokens(s)) for s in SENTENCES])
    found = [round(float(vectors[i] @ vectors[j]), 4) for i, j in ((0, 1), (0, 2), (1, 2))]
    if any(abs(a - b) > 1.01e-4 for a, b in zip(found, PUBLISHED, strict=True)):
        raise RecordingError(
            f"similarities {found}",
            rule=f"the model's authors published {PUBLISHED}",
            fix="check the weights",
        )
    return found


class _Hooks:
    """Collects q, k, v (module outputs) and dO (the gradient of the attention module's output)."""

    def __init__(self, model: Any) -> None:
        self.seen: list[dict[str, torch.Tensor]] = []
        self._handles: list[Any] = []
        for layer in model.encoder.layer:
            store: dict[str, torch.Tensor] = {}
            attention = layer.attention.self
            for key, name in (("q", "query"), ("k", "key"), ("v", "value")):
                keep = partial(_keep, store, key)
                self._handles.append(getattr(attention, name).register_forward_hook(keep))
            self._handles.append(attention.register_forward_hook(partial(_keep_gradient, store)))
            self.seen.append(store)

    def remove(self) -> None:
        """Detach from the model, so that the next passage does not overwrite these tensors."""
        for handle in self._handles:
            handle.remove()


def _by_head(x: torch.Tensor) -> torch.Tensor:
    return x.detach().view(1, -1, HEADS, HEAD_DIM)


def _keep(
    store: dict[str, torch.Tensor], key: str, module: Any, inputs: Any, output: torch.Tensor
) -> None:
    store[key] = _by_head(output)


def _keep_gradient(
    store: dict[str, torch.Tensor], module: Any, inputs: Any, output: tuple[Any, ...]
) -> None:
    output[0].register_hook(lambda gradient: store.update(do=_by_head(gradient)))


def _relative(got: torch.Tensor, expected: torch.Tensor) -> float:
    return float((got - expected).abs().max() / expected.abs().max())


def against_transformers(encoder: Encoder, passages: Sequence[str]) -> dict[str, Any]:
    """Return the largest difference of each tensor, relative to its largest magnitude.

    Raises:
        DependencyError: If transformers is not installed.
        RecordingError: If a token differs.
    """
    if util.find_spec("transformers") is None:
        raise DependencyError(
            "no transformers",
            rule="--oracle compares with the package transformers",
            fix="pip install transformers",
        )
    from transformers import AutoTokenizer, BertModel  # type: ignore[import-not-found]

    tokenizer = AutoTokenizer.from_pretrained(encoder.directory)
    model = BertModel.from_pretrained(encoder.directory, attn_implementation="eager").eval()
    hooks, vectors = [], []
    for passage in passages:
        ids = tokenizer(passage)["input_ids"]
        if ids != encoder.tokens(passage):
            raise RecordingError(
                f"other tokens for {passage[:40]!r}",
                rule="the tokens are those of transformers",
                fix="compare wordpiece.encode with the tokenizer on this passage",
            )
        hook = _Hooks(model)
        states = model(torch.tensor([ids])).last_hidden_state[0]
        vectors.append(torch.nn.functional.normalize(states.mean(0), dim=0))
        hook.remove()
        hooks.append(hook)
    loss = contrastive_loss(torch.stack(vectors))
    loss.backward()  # type: ignore[no-untyped-call]
    our_loss, ours = training_step(encoder, passages, boundary=torch.float32)
    worst = {
        name: max(
            _relative(mine[name], theirs[name])
            for passage, hook in zip(ours, hooks, strict=True)
            for mine, theirs in zip(passage, hook.seen, strict=True)
        )
        for name in ("q", "k", "v", "do")
    }
    return {
        "transformers": metadata.version("transformers"),
        "tokens": sum(len(encoder.tokens(p)) for p in passages),
        "loss": [our_loss, loss.item()],
        "relative_difference": {name: float(f"{x:.2g}") for name, x in worst.items()},
    }
