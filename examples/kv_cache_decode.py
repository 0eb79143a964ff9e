"""Decoding from an FP8 cache: the cache is split along the keys, and parts are put together.

A few queries see all earlier keys. Its contract is a file beside it; three versions are wrong::

    PYTHONPATH=examples dmverify verify kv_cache_decode:Decode --case 'lengths/q[15]-*'
    PYTHONPATH=examples dmverify verify kv_cache_decode:OtherHead --case 'lengths/q[15]-*'
    PYTHONPATH=examples dmverify verify kv_cache_decode:LastKeyLost --case 'lengths/q[15]-*'
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy_attention import bf16, e4m3

from dmverify.conformance.adapter import Forward, Supported, Unsupported
from dmverify.conformance.contracts import resolve_contract
from dmverify.spec.case import Case
from dmverify.spec.problem import Problem
from dmverify.spec.recording import Provenance

CONTRACT = resolve_contract(str(Path(__file__).with_suffix(".toml"))).name
SPLIT = 96
MOST = 16  # queries of a step


def to_cache(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E4M3 codes of (B, N, H, D), and the scale of each head, (B, 1, H, 1)."""
    amax = np.abs(x).max((1, 3), keepdims=True, initial=0)
    scale = np.where(amax == 0, np.float32(1), amax / np.float32(448))
    return e4m3(x / scale), scale


class Decode:
    """Forward, all heads at once."""

    info = Provenance(kernel="kv-cache-decode")
    contract = CONTRACT

    def supports(self, case: Case) -> Supported | Unsupported:
        if case.contract != CONTRACT:
            return Unsupported(f"it does {CONTRACT}")
        few = case.problem.queries <= MOST
        return Supported() if few else Unsupported(f"it takes {MOST} queries at most")

    def forward(self, case: Case) -> Forward:
        with np.errstate(all="ignore"):
            return self.attend(case)

    def of_key_head(self, x: np.ndarray, group: int) -> np.ndarray:
        """Key heads first, one for each query head."""
        return x.swapaxes(1, 2).repeat(group, 1)

    def mask(self, problem: Problem) -> np.ndarray:
        """Who sees whom: the last query sees all keys."""
        return problem.mask()

    def attend(self, case: Case) -> Forward:
        problem = case.problem
        (k8, k_scale), (v8, v_scale) = to_cache(case.inputs.k), to_cache(case.inputs.v)
        q = case.inputs.q.swapaxes(1, 2)
        k8, k_scale, v8, v_scale = (
            self.of_key_head(x, problem.group) for x in (k8, k_scale, v8, v_scale)
        )
        seen, parts = self.mask(problem), []
        for start in range(0, max(problem.keys, 1), SPLIT):
            part = slice(start, start + SPLIT)
            s = q @ k8[:, :, part].swapaxes(-1, -2) * (k_scale * np.float32(problem.scale))
            s = np.where(seen[:, part], s, np.float32(-np.inf))
            top = s.max(-1, keepdims=True, initial=np.float32(-1e38))
            p = np.where(seen[:, part], np.exp(s - top), np.float32(0))
            parts.append((top, p.sum(-1, keepdims=True), bf16(p) @ v8[:, :, part]))
        tops, sums, products = (np.stack(x) for x in zip(*parts, strict=True))
        weights = np.exp(tops - tops.max(0))
        l = (weights * sums).sum(0)  # noqa: E741
        live = seen.any(1)[:, None]
        o = np.where(live, (weights * products).sum(0) / l * v_scale, np.float32(0))
        lse = np.where(live, tops.max(0) + np.log(l), -np.inf)[..., 0]
        return Forward(bf16(o.swapaxes(1, 2)), lse.astype(np.float32))


class OtherHead(Decode):
    """Wrong: query head i finds key head i modulo their number, not that of its group."""

    def of_key_head(self, x: np.ndarray, group: int) -> np.ndarray:
        return np.tile(x.swapaxes(1, 2), (1, group, 1, 1))


class TopLeft(Decode):
    """Wrong: the first query sees the first key only, as if there were no cache."""

    def mask(self, problem: Problem) -> np.ndarray:
        return np.tri(problem.queries, problem.keys, dtype=bool) & problem.mask()


class LastKeyLost(Decode):
    """Wrong: the cache is read one entry short, so that the newest key is left out."""

    def mask(self, problem: Problem) -> np.ndarray:
        return problem.mask() & (np.arange(problem.keys) < problem.keys - 1)
