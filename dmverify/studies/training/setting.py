"""Sizes of a model and how it is trained.

| setting | layers, width, heads, context | symbols | QK-norm | batch, rate, warm-up |
|---|---|---|---|---|
| characters | 2, 128, 4, 64 | 97 | yes, a gain a channel | 4, 1e-3, 0 |
| bytes | 4, 256, 2, 256 | 128 | no | 32, 1e-3, 100 |

``characters`` is the article's: 428,928 parameters (its text and rates are not public). ``bytes``
is larger and has two heads of 128 without QK-normalisation.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """One model and its training.

    Attributes:
        layers: Blocks of attention and MLP.
        width: Width of the residual stream; the MLP is four times as wide.
        heads: Heads of every layer.
        context: Tokens of a sequence, N.
        symbols: Different tokens.
        qk_norm: RMSNorm of q and k a head, with one learnable gain a channel.
        biases: Biases of q, k and v, as GPT-2 and Qwen2 have them.
        first: Initial weights: ``small`` (standard deviation 0.02), or ``torch`` (its defaults).
        batch: Sequences a step and seed.
        rate: AdamW's learning rate after the warm-up.
        warmup: Steps over which the rate rises linearly.
        decay: Decoupled weight decay of every parameter.
        betas: Decay of AdamW's two moments.
        corpus: A name of ``corpus.CORPORA``.
    """

    layers: int
    width: int
    heads: int
    context: int
    symbols: int
    qk_norm: bool
    batch: int
    rate: float = 1e-3
    warmup: int = 0
    decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    corpus: str = "python-source"
    biases: bool = False
    first: str = "small"

    @property
    def head_dim(self) -> int:
        """Channels of a head, D."""
        return self.width // self.heads


CHARACTERS = Setting(2, 128, 4, 64, 97, True, 4, corpus="python-manual")
BYTES = Setting(4, 256, 2, 256, 128, False, 32, warmup=100)
TINY = Setting(2, 32, 2, 64, 128, False, 2, warmup=4)  # for a first look and for tests
