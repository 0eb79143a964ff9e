"""A forward kernel with INT8 Q K^T and FP8 P V, after SageAttention 2, and two wrong versions.

Keys are taken 64 at a time, relative to a running maximum. Its contract is a file beside it::

    PYTHONPATH=examples dmverify verify int8_qk_fp8_pv:Sage --case 'lengths/n6*'
    PYTHONPATH=examples dmverify verify int8_qk_fp8_pv:BaseTwo --case 'lengths/n6*'
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy_attention import e4m3

from dmverify.conformance.adapter import Forward, Supported, Unsupported
from dmverify.conformance.contracts import resolve_contract
from dmverify.spec.case import Case
from dmverify.spec.recording import Provenance

CONTRACT = resolve_contract(str(Path(__file__).with_suffix(".toml"))).name
TILE = 64


def int8(x: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Integers of (B, H, N, D), and the scale of each row, (B, H, N, 1)."""
    (batch, heads, length, width), spare = x.shape, -x.shape[2] % rows
    blocks = np.pad(x, [(0, 0), (0, 0), (0, spare), (0, 0)])
    blocks = blocks.reshape(batch, heads, (length + spare) // rows, rows, width)
    amax = np.abs(blocks).max((-2, -1), keepdims=True, initial=0)
    scale = np.where(amax == 0, np.float32(1), amax / np.float32(127))
    whole = (batch, heads, length + spare, width)
    codes, scales = np.rint(blocks / scale), np.broadcast_to(scale, blocks.shape)
    return codes.reshape(whole)[:, :, :length], scales.reshape(whole)[:, :, :length, :1]


class Sage:
    """Forward, all heads at once."""

    info = Provenance(kernel="int8-qk-fp8-pv")
    contract = CONTRACT

    def supports(self, case: Case) -> Supported | Unsupported:
        return Supported() if case.contract == CONTRACT else Unsupported(f"it does {CONTRACT}")

    def forward(self, case: Case) -> Forward:
        with np.errstate(all="ignore"):
            return self.attend(case)

    def row_sum(self, top: np.ndarray, total: np.ndarray) -> np.ndarray:
        return top + np.log(total)

    def channel_scales(self, scales: np.ndarray) -> np.ndarray:
        return scales

    def attend(self, case: Case) -> Forward:
        problem = case.problem
        q, k, v, _ = (x.swapaxes(1, 2) for _, x in case.inputs.items())
        scale, seen = np.float32(problem.scale), problem.mask()
        mean = k.sum(2, keepdims=True) / np.float32(max(problem.keys, 1))
        q8, q_scale = int8(q, 128)
        k8, k_scale = int8(k - mean, TILE)
        amax = np.abs(v).max(2, keepdims=True, initial=0)
        v_scale = np.where(amax == 0, np.float32(1), amax / np.float32(448))
        v8 = e4m3(v / v_scale)
        v_scale = self.channel_scales(v_scale)
        k8, k_scale, v8, v_scale, mean = (
            x.repeat(problem.group, 1) for x in (k8, k_scale, v8, v_scale, mean)
        )
        o, l = np.zeros_like(q), np.zeros((*q.shape[:3], 1), np.float32)  # noqa: E741
        top = np.full_like(l, -np.inf)
        for start in range(0, problem.keys, TILE):
            tile = slice(start, start + TILE)
            dots = q8 @ k8[:, :, tile].swapaxes(-1, -2)
            s = dots * (q_scale * k_scale[:, :, tile].swapaxes(-1, -2) * scale)
            s = np.where(seen[:, tile], s, np.float32(-np.inf))
            new = np.maximum(top, s.max(-1, keepdims=True))
            base = np.where(np.isneginf(new), np.float32(0), new)
            p, shrink = np.exp(s - base), np.exp(top - base)
            o = o * shrink + e4m3(p * np.float32(448)) @ v8[:, :, tile]
            l, top = l * shrink + p.sum(-1, keepdims=True), new  # noqa: E741
        live = seen.any(1)[:, None]
        o = np.where(live, o * (v_scale / np.float32(448)) / l, np.float32(0))
        lse = self.row_sum(top, l) + (q * mean).sum(-1, keepdims=True) * scale
        lse = np.where(live, lse, -np.inf)[..., 0]
        return Forward(o.swapaxes(1, 2).astype(np.float16), lse.astype(np.float32))


class BaseTwo(Sage):
    """Wrong: LSE is left in base 2, in which the exponentials are formed on a GPU."""

    def row_sum(self, top: np.ndarray, total: np.ndarray) -> np.ndarray:
        return super().row_sum(top, total) / np.log(np.float32(2))


class WithoutScale(Sage):
    """Wrong: O is not multiplied by V's scales."""

    def channel_scales(self, scales: np.ndarray) -> np.ndarray:
        return np.ones_like(scales)
