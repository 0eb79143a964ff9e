"""AdamW over one buffer, with the step's numbers on the device so that a graph can replay it.

Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization (2019), algorithm 2.
"""

from __future__ import annotations

import torch

from dmverify.studies.training.model import Models
from dmverify.studies.training.setting import Setting

EPSILON = 1e-8


class AdamW:
    """Updates all models at once.

    Attributes:
        moments: (2, S, P), the running means of the gradient and of its square.
        numbers: Numbers of the step to come, on the device: rate, 1 - beta1^t, 1 - beta2^t.
    """

    def __init__(self, models: Models) -> None:
        self._models, self._setting = models, models.setting
        self.moments = torch.zeros(2, *models.buffer.shape, device=models.buffer.device)
        self.numbers = torch.zeros(3, device=models.buffer.device)

    @torch.no_grad()
    def step(self) -> None:
        """Applies one update."""
        weights, gradient = self._models.buffer.detach(), self._models.gradient
        (m, v), (b1, b2) = self.moments, self._setting.betas
        rate, correct_m, correct_v = self.numbers
        m.lerp_(gradient, 1 - b1)
        v.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
        root = (v / correct_v).sqrt_().add_(EPSILON)
        weights.mul_(1 - rate * self._setting.decay)
        weights.sub_((m / root).mul_(rate / correct_m))


def numbers(setting: Setting, step: int) -> tuple[float, float, float]:
    """Rate and bias corrections of a step, counted from 0."""
    b1, b2 = setting.betas
    warm = min((step + 1) / setting.warmup, 1.0) if setting.warmup else 1.0
    return setting.rate * warm, 1 - b1 ** (step + 1), 1 - b2 ** (step + 1)
