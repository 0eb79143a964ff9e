"""Kernels whose answers tomography must see through: the simulation with one change each."""

from dataclasses import replace

import numpy as np
import torch

from dmverify.conformance.adapter import Forward, Supported
from dmverify.conformance.kernels.simulation import Operands, Simulation, cast_rows
from dmverify.spec.case import Outputs
from dmverify.spec.formats import E4M3
from dmverify.spec.recording import Provenance

UNCENTRED = "article:centre_k=none"


class Uncentred(Simulation):
    """Keys as they are: the probe channel survives."""

    contract = UNCENTRED

    def supports(self, case):
        return super().supports(replace(case, contract="article"))

    def _operands(self, contract, case):
        made: Operands = super()._operands(contract, case)
        k = torch.from_numpy(case.inputs.k.transpose(0, 2, 1, 3).copy())
        k8 = self._to_query_heads(cast_rows(k, contract.k_block), case.problem.group)
        return replace(made, k8=k8, k_mean=torch.zeros_like(made.k_mean))


class Narrow(Simulation):
    """O and gradients in an FP8 format, one scale a tensor."""

    def __init__(self, fmt=E4M3, unit=1.0):
        self._fmt, self._unit = fmt, unit

    def _store(self, x):
        top = 0.9 * self._fmt.max_finite  # below the top: what saturates has no error bar
        scale = np.float32(2.0 ** np.ceil(np.log2(float(x.abs().max()) / top)) * self._unit)
        return torch.from_numpy(self._fmt.round((x / scale).numpy())) * scale


class NarrowInside(Simulation):
    """The shortcut reads an E4M3 copy of O that nobody gets to see."""

    def _delta(self, mode, ops, fwd, dp):
        narrow = replace(fwd, o=torch.from_numpy(e4m3(fwd.o.numpy())))
        return super()._delta(mode, ops, narrow, dp)


class FlashLike:
    """BF16 attention that sums delta from the O it stored, by torch's own composite of matmuls."""

    contract = "bf16-flash"
    info = Provenance(kernel="flash-like")

    def supports(self, case):
        return Supported()

    def forward(self, case):
        out = self.backward(case)
        return Forward(o=out.o, lse=out.lse)

    def backward(self, case):
        q, k, v, do = (torch.from_numpy(x).transpose(1, 2) for _, x in case.inputs.items())
        hidden = torch.from_numpy(~case.problem.mask())
        scores = (q @ k.mT * case.problem.scale).masked_fill(hidden, -torch.inf)
        p = scores.softmax(-1)
        o = (p.bfloat16().float() @ v).bfloat16().float()
        ds = (p * (do @ v.mT - (do * o).sum(-1, keepdim=True))).bfloat16().float()
        made = {"o": o, "dq": ds @ k * case.problem.scale, "dk": ds.mT @ q * case.problem.scale}
        made["dv"] = p.bfloat16().float().mT @ do
        wide = {n: x.bfloat16().float().transpose(1, 2).numpy().copy() for n, x in made.items()}
        return Outputs(**wide, lse=scores.logsumexp(-1).numpy())


class Half(Simulation):
    """A delta half-way between stale and matched: no mode at all."""

    def _delta(self, mode, ops, fwd, dp):
        stale = super()._delta("stale", ops, fwd, dp)
        return (stale + super()._delta("matched", ops, fwd, dp)) / 2


class Projected(Simulation):
    """The mean over keys is taken off dK before it is stored: its column sums say nothing."""

    def _dk(self, ds8, ops, scale):
        dk = super()._dk(ds8, ops, scale)
        return dk - dk.mean(-2, keepdim=True)


class Noisy(Simulation):
    """Other numbers at every call."""

    def __init__(self, size):
        self._size, self._generator = size, torch.Generator().manual_seed(1)

    def _dk(self, ds8, ops, scale):
        dk = super()._dk(ds8, ops, scale)
        noise = torch.randn(dk.shape, generator=self._generator)
        return dk + self._size * dk.abs().mean() * noise


class Cached(Simulation):
    """The answer to the first question, for ever."""

    answer = None

    def backward(self, case):
        self.answer = self.answer or super().backward(case)
        return self.answer


class Random(Simulation):
    """Gradients of the right size that have nothing to do with the question."""

    def backward(self, case):
        outputs = super().backward(case)
        noise = np.random.Generator(np.random.Philox(key=3)).normal(size=outputs.dk.shape)
        dk = (noise * outputs.dk.std()).astype(np.float32)
        return replace(outputs, dk=dk)


class Nan(Simulation):
    """NaN everywhere."""

    def _store(self, x):
        return torch.full_like(x, torch.nan)


class Crash(Simulation):
    """Raises."""

    def backward(self, case):
        raise RuntimeError("out of memory")


class Misshapen(Simulation):
    """dK of another shape."""

    def backward(self, case):
        outputs = super().backward(case)
        return replace(outputs, dk=outputs.dk[:, :-1])


def e4m3(x):
    """Rounded to E4M3 under a power of two, independently of the package's own way."""
    exponent = np.floor(np.log2(448 / np.abs(x).max()))
    return torch.from_numpy(np.ldexp(x, int(exponent))).to(torch.float8_e4m3fn).float().numpy() * (
        np.float32(2.0**-exponent)
    )
