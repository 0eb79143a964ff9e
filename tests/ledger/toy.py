"""A float32 attention of its own, with a fault to order at each step.

Written from the recipe of the article alone (blocks of 128 query and 64 key tokens, K centred,
P in groups of 64 keys, dS in tiles of 64 x 64, everything scaled by amax / 448, O in BF16), with
ml_dtypes for the casts, so that the ledger is fed by numbers that no code of the package made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from dmverify.spec.case import Inputs, Internals, Outputs
from dmverify.spec.contracts import Contract, get_contract
from dmverify.spec.problem import Problem

GROUP = TILE = 64
BLOCKS = {"q": 128, "k": 64, "v": 64, "do": 128}


def bf16(x):
    return np.asarray(x, np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)


def e4m3(x):
    return np.asarray(x, np.float32).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)


# Which dO and which O a delta reads that is a dot over channels, as the article and this project's
# own text have it: no test of the ledger takes it from the specification.
DOTS = {"stale": ("do_input", "o"), "consistent": ("do", "o"), "associated": ("do", "o32")}


def make_inputs(problem: Problem, seed: int, *, spread: float = 1.0, offset: float = 0.0) -> Inputs:
    rng = np.random.default_rng(seed)
    draw = {name: rng.standard_normal(problem.shapes()[name]) for name in ("q", "k", "v", "do")}
    draw["q"] *= spread
    draw["v"] += offset
    return Inputs(**{name: bf16(x) for name, x in draw.items()})


def contract_of(mode: str, base: str = "article", ds_cast: str = "nearest") -> Contract:
    extra = {"normaliser": "codes"} if mode == "associated" else {}
    return get_contract(base, delta=mode, ds_cast=ds_cast, **extra)


@dataclass
class Run:
    """What ``ledger`` takes, head by head, plus the extras that some faults need."""

    contract: Contract
    problem: Problem
    inputs: Inputs
    internals: Internals
    outputs: Outputs
    extras: dict = field(default_factory=dict)

    def arguments(self) -> dict:
        return {
            "inputs": self.inputs,
            "internals": self.internals,
            "outputs": self.outputs,
            **self.extras,
        }


def scale_of(amax):
    return np.where(amax > 0, amax / np.float32(448), np.float32(1)).astype(np.float32)


def blocks(x, size):
    """Codes and a scale per row for blocks of ``size`` rows."""
    codes, scales = np.empty_like(x), np.empty(len(x), np.float32)
    for at in range(0, len(x), size):
        part = slice(at, at + size)
        scales[part] = scale_of(np.abs(x[part]).max())
        codes[part] = e4m3(x[part] / scales[part, None])
    return codes, scales


def tiles(x, cast):
    """Apply ``cast(tile)`` to each square tile; it returns (codes, scale)."""
    out = np.zeros(x.shape)
    for i in range(0, x.shape[0], TILE):
        for j in range(0, x.shape[1], TILE):
            codes, scale = cast(x[i : i + TILE, j : j + TILE])
            out[i : i + TILE, j : j + TILE] = codes.astype(np.float64) * scale
    return out


def exact(codes, scales):
    return codes.astype(np.float64) * scales.astype(np.float64)[:, None]


class Head:
    """One query head, step by step; ``fault`` names the step that goes wrong."""

    def __init__(self, problem, contract, q, k, v, do, fault):
        self.fault, self.mode, self.problem, self.contract = (
            fault,
            contract.delta,
            problem,
            contract,
        )
        self.seen = problem.mask()
        k = k - k.mean(0, dtype=np.float32)
        self.do_input, self.operands = do, {}
        for name, x in (("q", q), ("k", k), ("v", v), ("do", do)):
            codes, scales = blocks(x, BLOCKS[name])
            if fault == "grad" and name == "do":  # a scale rounded up to a power of two, codes not
                scales = np.exp2(np.ceil(np.log2(scales)))
            self.operands[name] = exact(codes, scales)
        self.f32 = {name: x.astype(np.float32) for name, x in self.operands.items()}
        self.v_forward = None
        if fault == "vmis":  # the forward rounds V by itself, in blocks of two tokens
            codes, scales = blocks(v, 2)
            self.v_forward = exact(codes, scales)
        self.forward()
        self.backward()

    def forward(self):
        s = (self.f32["q"] @ self.f32["k"].T) * np.float32(self.problem.scale)
        s = np.where(self.seen, s, np.float32(-np.inf))
        top = np.where(self.seen.any(1), s.max(1), 0).astype(np.float32)
        self.e = np.exp(s - top[:, None])
        groups = [slice(j, j + GROUP) for j in range(0, s.shape[1], GROUP)]
        codes, basis = np.zeros_like(self.e), np.zeros_like(self.e)
        for g in groups:
            scale = scale_of(self.e[:, g].max(1))
            codes[:, g] = e4m3(self.e[:, g] / scale[:, None])
            basis[:, g] = scale[:, None]
        if self.fault == "prob":  # every group read with the first group's basis
            basis[:] = basis[:, :1]
        self.weights = codes.astype(np.float64) * basis
        rounded = codes * basis
        self.l = self.e.sum(1, dtype=np.float32)
        if self.fault == "norm":  # the last keys never reach the sum
            self.l = self.e[:, : s.shape[1] * 3 // 4].sum(1, dtype=np.float32)
        self.l = np.where(self.seen.any(1), self.l, np.float32(1))
        lh = rounded.sum(1, dtype=np.float32)
        codes_norm = self.contract.normaliser == "codes"
        if codes_norm and self.fault == "norm":
            lh = rounded[:, : s.shape[1] * 3 // 4].sum(1, dtype=np.float32)
        self.norm = np.where(self.seen.any(1), lh if codes_norm else self.l, np.float32(1))
        v = self.f32["v"] if self.v_forward is None else self.v_forward.astype(np.float32)
        pv = rounded @ v
        if self.fault == "acc":  # accumulated in 14 bits, as a chain without promotion
            pv = chain14(rounded, v)
        self.rounded = rounded
        self.o32 = (pv / self.norm[:, None]).astype(np.float32)
        self.o = bf16(self.o32)
        if self.fault == "out":  # stored in 8 bits
            scale = scale_of(np.abs(self.o32).max())
            self.o = bf16(e4m3(self.o32 / scale) * scale)

    def backward(self):
        self.p = (self.e / self.l[:, None]).astype(np.float32)
        if self.mode == "associated" and self.fault != "prob of associated":
            self.p = (self.rounded / self.norm[:, None]).astype(np.float32)
        do, v = self.f32["do"], self.f32["v"]
        self.dp = do @ v.T
        if self.fault == "accdP":  # the last channels dropped
            self.dp = do[:, :-8] @ v[:, :-8].T
        self.shift = np.zeros(len(do), np.float32)
        if self.mode == "shifted":
            self.shift = self.dp[np.arange(len(do)), self.e.argmax(1)]
        self.delta = self.correction().astype(np.float32)
        moved = (self.dp - self.shift[:, None]).astype(np.float32)
        self.ds = self.p * (moved - self.delta[:, None])
        if self.fault == "elem":  # fma(P, dP, -fl(P delta)), with the shift rounded into delta
            product = (self.p * (self.shift + self.delta)[:, None]).astype(np.float64)
            self.ds = (self.p.astype(np.float64) * self.dp - product).astype(np.float32)
        self.ds_cast = tiles(self.ds, self.cast)

    def correction(self):
        moved = (self.dp - self.shift[:, None]).astype(np.float32)
        p = self.p
        self.presented = None
        if self.fault == "rec":  # the delta pass reads P in 8 bits
            p = bf16(self.p)
            self.presented = p.astype(np.float64)
        if self.fault in ("match", "balance"):  # the delta pass misses the last keys
            p = np.where(np.arange(p.shape[1]) < p.shape[1] * 3 // 4, p, np.float32(0))
        if self.mode in DOTS:
            known = {"do_input": self.do_input, "do": self.f32["do"], "o": self.o, "o32": self.o32}
            left, right = (known[name] for name in DOTS[self.mode])
            right = np.roll(right, 1, 0) if self.fault == "dot" else right
            return (left * right).sum(1, dtype=np.float32)
        total = (p * moved).sum(1, dtype=np.float32)
        b = self.p.sum(1, dtype=np.float32)
        over_b = total / np.where(b > 0, b, np.float32(1))
        return {"matched": total, "renormalized": over_b, "shifted": over_b}[self.mode]

    def cast(self, tile):
        scale = scale_of(np.abs(tile).max())
        if self.fault == "cast":  # a scale that saturates
            scale = scale / np.float32(2)
            return e4m3(np.clip(tile / scale, -448, 448)), scale
        if self.contract.ds_cast == "nearest" or self.fault == "carry":
            return e4m3(tile / scale), scale
        return self.carried(tile / scale), scale

    def carried(self, x):
        """The zero-sum cast, a plain loop: chain t of a tile has keys 8 J + 2 t + b."""
        codes = np.zeros_like(x)
        for t in range(4):
            carry = np.zeros(len(x), np.float32)
            for j in (8 * j + 2 * t + b for j in range(8) for b in range(2)):
                if j < x.shape[1]:
                    total = x[:, j] + carry
                    codes[:, j] = e4m3(np.clip(total, -448, 448))
                    carry = total - codes[:, j]
        return codes


def chain14(w, v):
    """w @ v one key at a time, the running sum cut to 14 significant bits."""
    total = np.zeros((len(w), v.shape[1]), np.float32)
    for j in range(w.shape[1]):
        total = total + w[:, j : j + 1] * v[j]
        total = (total.view(np.uint32) & np.uint32(0xFFFFFC00)).view(np.float32)
    return total


def run(problem: Problem, contract: Contract, inputs: Inputs, fault: str | None = None) -> Run:
    """Every head of a call; the numbers as ``ledger`` takes them."""
    made = {}
    for b in range(problem.batch):
        for h in range(problem.heads):
            g = h // problem.group
            tensors = inputs.q[b, :, h], inputs.k[b, :, g], inputs.v[b, :, g], inputs.do[b, :, h]
            made[b, h] = Head(problem, contract, *tensors, fault)

    def stack(get, step=1):
        rows = [
            [get(made[b, h]) for h in range(0, problem.heads, step)] for b in range(problem.batch)
        ]
        return np.asarray(rows, np.float64)

    fields = ("weights", "norm", "o32", "p", "dp", "shift", "delta", "ds", "ds_cast")
    internals = Internals(
        **{name: stack(lambda x, n=name: getattr(x, n)) for name in fields},
        **{name: stack(lambda x, n=name: x.operands[n]) for name in ("q", "do")},
        **{name: stack(lambda x, n=name: x.operands[n], problem.group) for name in ("k", "v")},
        p_cast=stack(lambda x: x.p),
        norm_divides=True,
    )
    o = stack(lambda x: x.o).astype(np.float32).swapaxes(1, 2)
    zero = {n: np.zeros(s, np.float32) for n, s in problem.shapes().items()}
    outputs = Outputs(o=o, lse=zero["lse"], dq=zero["dq"], dk=zero["dk"], dv=zero["dv"])
    extras = {}
    if fault == "vmis":
        extras["v_forward"] = stack(lambda x: x.v_forward, problem.group)
    if fault == "rec":
        extras["presented"] = (stack(lambda x: x.presented), internals.dp)
    return Run(contract, problem, inputs, internals, outputs, extras)
