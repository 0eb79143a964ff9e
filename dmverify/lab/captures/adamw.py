"""AdamW in correctly rounded operations, so that training gives the same bits on every processor.

Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization (2019), algorithm 2. The
optimiser of torch takes square roots from a vector library that is not correctly rounded and gives
other bits on other processors (seen: AMD EPYC against an emulated Nehalem); numpy's are IEEE 754's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import torch

EPSILON = 1e-8


class AdamW:
    """Updates parameters in place from their gradients.

    Attributes:
        rate: Learning rate.
        betas: Decay of the two moments.
        decay: Weight decay, decoupled.
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        *,
        rate: float,
        betas: tuple[float, float],
        decay: float,
    ) -> None:
        self.rate, self.betas, self.decay = rate, betas, decay
        self._parameters = list(parameters)
        self._moments = [np.zeros((2, *p.shape), np.float32) for p in self._parameters]
        self._steps = 0

    def step(self) -> None:
        """Apply one update and forget the gradients."""
        self._steps += 1
        first, second = self.betas
        # Products instead of pow, whose last bit is the library's choice.
        correct_m = 1 - math.prod([first] * self._steps)
        correct_v = 1 - math.prod([second] * self._steps)
        for parameter, (m, v) in zip(self._parameters, self._moments, strict=True):
            assert parameter.grad is not None, "step() before the backward pass"
            gradient = parameter.grad.numpy()
            m += np.float32(1 - first) * (gradient - m)
            v += np.float32(1 - second) * (gradient * gradient - v)
            root = np.sqrt(v / np.float32(correct_v)) + np.float32(EPSILON)
            weights = parameter.detach().numpy()
            weights *= np.float32(1 - self.rate * self.decay)
            weights -= np.float32(self.rate / correct_m) * (m / root)
            parameter.grad = None
