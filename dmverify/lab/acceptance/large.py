"""Stages ``large``, ``longest`` and ``tensor-core``: sizes at which only a GPU can judge.

| stage | what |
|---|---|
| large | 8192 tokens, 16 heads, D = 128: every output by the specification's steps on the GPU |
| longest | up to 65,536 tokens, 16 heads, matched: it runs, repeats its bits; peak memory |
| tensor-core | the model that ``large`` rests on: a GEMM beside mmaemu's CUDA backend and the CPU |
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from dmverify.conformance.families import generate
from dmverify.conformance.kernels.bundled_launch import Choices, Tensors, launch, options_of, place
from dmverify.conformance.kernels.gpu_emulator import emulate
from dmverify.kernel.start import ONES_ROWS
from dmverify.kernel.stripes import RECORD, Shape, records_in, stripes, units_in
from dmverify.lab.acceptance.plan import LARGE, LONGEST
from dmverify.lab.acceptance.session import Session
from dmverify.lab.recordings.digests import digest_of
from dmverify.lab.recordings.shipped import differing
from dmverify.spec.case import Case, Inputs
from dmverify.spec.formats import E4M3
from dmverify.spec.machine.hopper import wgmma_values

SEED = 7
LENGTHS = (16_384, 32_768, LONGEST)
HEADS, HEAD_DIM = 16, 128
GEMM = (512, 512, 256)  # M, N, K of the comparison of models


def large(session: Session) -> dict[str, Any]:
    """Head group by head group, so that the time limit can cut it and say how far it came."""
    case = generate(LARGE, contract="bundled")
    got = launch(place(case), options_of(case, Choices())).outputs()
    torch.cuda.synchronize()
    began, heads, wrong = (
        time.monotonic(),
        0,
        dict.fromkeys(("o", "lse", "delta", "dq", "dk", "dv"), 0),
    )
    for head in range(case.problem.heads):
        if session.over:
            break
        due = emulate(_one_head(case, head))
        for name in wrong:
            array = getattr(got, name)
            part = (
                array[:, head : head + 1]
                if name in ("lse", "delta")
                else array[:, :, head : head + 1]
            )
            wrong[name] += differing(np.ascontiguousarray(part), getattr(due, name))
        heads += 1
    return {
        "ok": heads == case.problem.heads and not any(wrong.values()),
        "case": LARGE,
        "heads": heads,
        "wrong": wrong,
        "values": sum(array.size for _, array in got.items()),
        "emulator seconds": round(time.monotonic() - began, 1),
        "emulator peak GiB": round(torch.cuda.max_memory_allocated() / 2**30, 1),
        "sha256": digest_of(got),
    }


def longest(session: Session) -> dict[str, Any]:
    """Peak memory beyond inputs and outputs at several lengths, against the stated c."""
    rows = [_memory(tokens) for tokens in LENGTHS]
    good = all(row["same bits twice"] and row["finite"] and row["within"] for row in rows)
    return {"ok": good, "c": bytes_per_token(HEADS, HEAD_DIM, LONGEST), "rows": rows}


def bytes_per_token(heads: int, head_dim: int, tokens: int) -> int:
    """c: no call needs more than c bytes a token beyond inputs and outputs, with Hkv = H.

    Codes of Q, K, dO twice and of V twice with its ones, fp32 sums and scales of rows and blocks,
    the records of one stripe, and the sums that a stripe may leave open.
    """
    images = 8 * head_dim + ONES_ROWS
    rows = 16 + 2 * 16 // 64 + 1 + 4 * head_dim // 128  # statistics, delta, shift; scales; means
    shape = Shape(1, heads, heads, tokens, tokens, head_dim)
    plan = stripes(shape, units=units_in(None, shape, causal=True))
    most = max(records_in(shape, stripe, causal=True) for stripe in plan)
    records = -(-most * RECORD // tokens)
    open_sums = 2 * 4 * head_dim
    return heads * (images + rows + open_sums) + records


def _memory(tokens: int) -> dict[str, Any]:
    """Two runs on random tensors of one length."""
    options = options_of(generate(f"gaussian/spread-1,head_dim={HEAD_DIM}@0"), Choices())
    generator = torch.Generator("cuda").manual_seed(SEED)
    size = (1, tokens, HEADS, HEAD_DIM)
    drawn = (
        torch.randn(size, device="cuda", dtype=torch.bfloat16, generator=generator)
        for _ in range(4)
    )
    tensors = Tensors(*drawn)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before, began = torch.cuda.memory_allocated(), time.monotonic()
    first = launch(tensors, options)
    torch.cuda.synchronize()
    seconds = time.monotonic() - began
    peak = torch.cuda.max_memory_allocated() - before
    outputs = [first.o, first.lse, first.dq, first.dk, first.dv]
    extra = peak - sum(x.numel() * x.element_size() for x in outputs)
    second = launch(tensors, options)
    again = second.o, second.lse, second.dq, second.dk, second.dv
    return {
        "tokens": tokens,
        "seconds": round(seconds, 3),
        "peak beyond outputs bytes": extra,
        "per token": round(extra / tokens, 1),
        "within": extra <= bytes_per_token(HEADS, HEAD_DIM, tokens) * tokens,
        "same bits twice": all(map(torch.equal, outputs, again)),
        "finite": all(bool(torch.isfinite(x).all()) for x in outputs),
    }


def tensor_core(session: Session) -> dict[str, Any]:
    """One GEMM of random codes by the model on the GPU, on the CPU, and by mmaemu on the GPU."""
    rng = np.random.default_rng(SEED)
    m, n, k = GEMM
    a, b = (E4M3.decode(_codes(rng, rows, k)) for rows in (m, n))
    zero = np.zeros((m, n), np.float32)
    cpu = wgmma_values(a, b, zero)
    gpu = wgmma_values(*(torch.from_numpy(x).cuda() for x in (a, b, zero))).cpu().numpy()
    result = {"gemm": GEMM, "gpu and cpu differ": differing(gpu, cpu)}
    other = _mmaemu(a, b)
    result["mmaemu"] = other if isinstance(other, str) else differing(other, cpu)
    result["ok"] = not result["gpu and cpu differ"] and result["mmaemu"] in (0, "not installed")
    return result


def _codes(rng: np.random.Generator, rows: int, k: int) -> Any:
    """Codes of all sizes but NaN."""
    codes = rng.integers(0, 256, (rows, k)).astype(np.uint8)
    return np.where((codes & 0x7F) == 0x7F, np.uint8(0x38), codes)


def _mmaemu(a: Any, b: Any) -> Any:
    try:
        import mmaemu
    except ImportError:
        return "not installed"
    left, right = (torch.from_numpy(x).cuda().to(torch.float8_e4m3fn) for x in (a, b))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that its presets are experimental
        total = mmaemu.accumulate(left, right, use_fast_accum=True, splitk=1)
    return total.cpu().numpy() + np.float32(0)  # its zeros may be negative, wgmma's are not


def _one_head(case: Case, head: int) -> Case:
    """The case of one query head and its key head; the plan's large case has no groups."""
    part = slice(head, head + 1)
    inputs = {name: np.ascontiguousarray(x[:, :, part]) for name, x in case.inputs.items()}
    problem = replace(case.problem, heads=1, kv_heads=1)
    return Case(case.id, case.contract, problem, Inputs(**inputs))
