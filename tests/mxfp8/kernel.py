"""An MXFP8 attention kernel as its author would write it: numpy, ml_dtypes, nothing of the steps.

Every operand of every dot is cast in blocks of 32 along what the dot sums over, so that Q, K, V,
dO, P and dS are cast twice, once a direction. Each wrong version has one line of its own.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from dmverify.conformance.adapter import Forward, Supported, Unsupported
from dmverify.spec.case import Outputs
from dmverify.spec.recording import Provenance

BLOCK = 32
WRONG = ("row-scale", "exponent-up", "exponent-down", "other-axis", "shared-v", "tile-ds", "ocp")


def exponents(amax, wrong):
    """E8M0: the least n with amax <= 448 x 2^n, and 0 of a block of zeros."""
    fraction, n = np.frexp(amax)  # fraction in [1/2, 1); 448 = 7/8 x 2^9
    n = n - 9 + (fraction > 0.875)
    if wrong == "ocp":
        n = np.frexp(amax)[1] - 9  # rounds down and saturates
    n = n + {"exponent-up": 1, "exponent-down": -1}.get(wrong, 0)
    return np.where(amax == 0, 0, np.maximum(n, -127))


def e4m3(x):
    return np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)


def cast(x, axis, wrong="", block=BLOCK):
    """x with one scale for each block along an axis."""
    if wrong == "other-axis":
        axis = -1 if axis == -2 else -2
    x = np.moveaxis(x, axis, -1)
    length = x.shape[-1]
    block = length if wrong == "row-scale" else block
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -length % max(block, 1))])
    blocks = padded.reshape(*x.shape[:-1], -1, max(block, 1))
    scale = np.exp2(exponents(np.abs(blocks).max(-1, keepdims=True), wrong).astype(np.float32))
    made = (e4m3(blocks / scale) * scale).reshape(padded.shape)[..., :length]
    return np.moveaxis(made, -1, axis)


def bf16(x):
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


class Mx:
    """The kernel, and its wrong versions by name."""

    contract = "mxfp8"

    def __init__(self, wrong=""):
        self.wrong = wrong

    @property
    def info(self):
        return Provenance(kernel=f"mx {self.wrong}".strip())

    def supports(self, case):
        if case.contract != self.contract:
            return Unsupported("mxfp8 only")
        finite = all(np.isfinite(x).all() for _, x in case.inputs.items())
        return Supported() if finite else Unsupported("scales of NaN and infinity are not defined")

    def forward(self, case):
        return Forward(*self._forward(case)[:2])

    def backward(self, case):
        with np.errstate(all="ignore"):
            return self._backward(case)

    def _heads(self, case):
        q, k, v, do = (np.ascontiguousarray(x.swapaxes(1, 2)) for _, x in case.inputs.items())
        return q, k, v, do

    def _spread(self, x, case):
        return x.repeat(case.problem.group, 1)

    def _forward(self, case):
        q, k, v, _ = self._heads(case)
        problem, w = case.problem, self.wrong
        k_s, v_o = (self._spread(x, case) for x in (cast(k, -1, w), cast(v, -2, w)))
        if w == "shared-v":
            v_o = self._spread(cast(v, -1), case)  # the copy that dP uses
        s = cast(q, -1, w) @ k_s.swapaxes(-1, -2) * np.float32(problem.scale)
        seen = problem.mask()
        live = seen.any(1)[:, None]
        top = np.where(live, np.where(seen, s, -np.inf).max(-1, keepdims=True, initial=-np.inf), 0)
        e = np.exp(np.where(seen, s - top, -np.inf)).astype(np.float32)
        l = np.where(live, e.sum(-1, keepdims=True), 1)  # noqa: E741
        o = bf16(cast(e, -1, w) @ v_o / l)
        lse = np.where(live, top + np.log(l), -np.inf)[..., 0].astype(np.float32)
        return o.swapaxes(1, 2), lse, e / l

    def _backward(self, case):
        q, k, v, do = self._heads(case)
        o, lse, p = self._forward(case)
        w, scale = self.wrong, np.float32(case.problem.scale)
        v_p, k_q = (self._spread(x, case) for x in (cast(v, -1, w), cast(k, -2, w)))
        dp = cast(do, -1, w) @ v_p.swapaxes(-1, -2)
        delta = (p * dp).sum(-1, keepdims=True)
        ds = p * (dp - delta)
        rows, columns = cast(ds, -1, w), cast(ds, -2, w)
        if w == "tile-ds":
            rows = columns = cast_tile(ds)
        dq = bf16(rows @ k_q * scale)
        dk = self._group(columns.swapaxes(-1, -2) @ cast(q, -2, w) * scale, case)
        dv = self._group(cast(p, -2, w).swapaxes(-1, -2) @ cast(do, -2, w), case)
        back = {"dq": dq, "dk": bf16(dk), "dv": bf16(dv)}
        return Outputs(
            o=o,
            lse=lse,
            delta=delta[..., 0].astype(np.float32),
            **{name: np.ascontiguousarray(x.swapaxes(1, 2)) for name, x in back.items()},
        )

    def _group(self, x, case):
        problem = case.problem
        return x.reshape(problem.batch, problem.kv_heads, problem.group, *x.shape[2:]).sum(2)


def cast_tile(x):
    """One scale a tile of 32 x 32, so that one copy serves both directions."""
    rows, columns = x.shape[-2:]
    padded = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, -rows % BLOCK), (0, -columns % BLOCK)])
    h, w = padded.shape[-2:]
    tiles = padded.reshape(*x.shape[:-2], h // BLOCK, BLOCK, w // BLOCK, BLOCK)
    scale = np.exp2(exponents(np.abs(tiles).max((-3, -1), keepdims=True), "").astype(np.float32))
    return (e4m3(tiles / scale) * scale).reshape(padded.shape)[..., :rows, :columns]
