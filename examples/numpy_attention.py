"""An FP8 attention kernel in one file, as somebody outside of this project would bring it.

It computes forward and backward in numpy, head by head, with an E4M3 cast of its own, and promises
the contract ``article``. From the checkout's root::

    PYTHONPATH=examples dmverify verify numpy_attention:Attention --case 'lengths/n6*'
    PYTHONPATH=examples dmverify verify numpy_attention:Shortcut --case gaussian/spread-4@0

The first conforms. The second promises the same, but takes delta from the stored output, as
FlashAttention does: it fails, and the report says so.
"""

from __future__ import annotations

import numpy as np

from dmverify.conformance.adapter import Forward, Supported, Unsupported
from dmverify.spec.case import Case, Outputs
from dmverify.spec.recording import Provenance

NAMES = ("o", "lse", "dq", "dk", "dv", "delta")


def e4m3(x: np.ndarray) -> np.ndarray:
    """The nearest E4M3 number, ties to even; NaN above 464."""
    exponent = np.maximum(np.frexp(x)[1] - 1, -6)  # below 2^-6 the spacing stays that of 2^-6
    unit = np.ldexp(np.float32(1), exponent - 3)
    near = np.rint(x / unit) * unit
    return np.where(np.abs(near) <= 448, near, np.float32(np.nan))


def fp8(x: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Each tile of rows x columns cast to E4M3 and back, with the scale amax / 448."""
    out = np.empty_like(x)
    for i in range(0, x.shape[0], rows):
        for j in range(0, x.shape[1], columns):
            tile = x[i : i + rows, j : j + columns]
            amax = np.abs(tile).max()
            scale = amax / np.float32(448) if amax != 0 else np.float32(1)
            out[i : i + rows, j : j + columns] = e4m3(tile / scale) * scale
    return out


def bf16(x: np.ndarray) -> np.ndarray:
    """The nearest BF16 number, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    near = (bits + 0x7FFF + (bits >> 16 & 1) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), near)


class Attention:
    """All that dmverify asks for: info, contract, supports, forward and backward."""

    info = Provenance(kernel="numpy-attention")
    contract = "article"

    def supports(self, case: Case) -> Supported | Unsupported:
        if case.contract != self.contract:  # refuse what is not served: never answer otherwise
            return Unsupported(f"contract {case.contract}; it does {self.contract}")
        return Supported()

    def forward(self, case: Case) -> Forward:
        found = self.backward(case)
        return Forward(found.o, found.lse)

    def backward(self, case: Case) -> Outputs:
        shapes = case.problem.shapes()
        out = {n: np.zeros(shapes[n], np.float32) for n in NAMES}
        with np.errstate(all="ignore"):
            for b in range(case.problem.batch):
                for h in range(case.problem.heads):
                    self.head(case, out, b, h, h // case.problem.group)
            return Outputs(**{n: x if n in ("lse", "delta") else bf16(x) for n, x in out.items()})

    def head(self, case: Case, out: dict[str, np.ndarray], b: int, h: int, kv: int) -> None:
        """One query head; dK and dV are added to those of its key head."""
        heads = {"q": h, "k": kv, "v": kv, "do": h}
        q, k, v, do = (getattr(case.inputs, name)[b, :, at] for name, at in heads.items())
        (n, width), m, scale = q.shape, len(k), np.float32(case.problem.scale)
        mean = k.sum(0) / np.float32(max(m, 1))
        q8, k8 = fp8(q, 128, width), fp8(k - mean, 64, width)
        v8, do8 = fp8(v, 64, width), fp8(do, 128, width)

        seen = np.ones((n, m), bool)
        if case.problem.causal:
            seen = np.arange(m) <= np.arange(n)[:, None] + (m - n)
        live = seen.any(1)[:, None]
        s = np.where(seen, q8 @ k8.T * scale, -np.inf)
        peak = np.where(live, s.max(1, initial=-np.inf, keepdims=True), 0).astype(np.float32)
        e = np.where(seen, np.exp(s - peak), 0).astype(np.float32)
        l = np.where(live, e.sum(1, keepdims=True), 1).astype(np.float32)  # noqa: E741
        o = fp8(e, 1, 64) @ v8 / l
        lse = np.where(live, peak + np.log(l) + scale * (q @ mean)[:, None], -np.inf)

        p, dp = e / l, do8 @ v8.T
        delta = self.delta(p, dp, bf16(o), do)
        ds = p * (dp - delta)
        p8, ds8 = fp8(p, 64, 64), fp8(ds, 64, 64)
        out["o"][b, :, h], out["lse"][b, h] = o, lse[:, 0]
        out["delta"][b, h] = delta[:, 0]
        out["dq"][b, :, h] = ds8 @ k8 * scale
        out["dk"][b, :, kv] += ds8.T @ q8 * scale
        out["dv"][b, :, kv] += p8.T @ do8

    def delta(self, p: np.ndarray, dp: np.ndarray, o: np.ndarray, do: np.ndarray) -> np.ndarray:
        """Matched: from the very numbers that dS is made of."""
        return (p * dp).sum(1, keepdims=True)


class Shortcut(Attention):
    """Wrong under its contract: delta is <dO, O>, from the stored output."""

    info = Provenance(kernel="numpy-shortcut")

    def delta(self, p: np.ndarray, dp: np.ndarray, o: np.ndarray, do: np.ndarray) -> np.ndarray:
        return (do * o).sum(1, keepdims=True)
