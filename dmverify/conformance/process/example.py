"""The smallest process kernel: attention in float64, by numpy and the standard library.

It imports nothing of this project, because it shows what an author writes in any language. It
promises the contract of plain BF16 attention: dmverify verify "proc:python3 example.py".
"""

import json
import os
import struct
import sys
from typing import Any

import numpy as np

Tensors = dict[str, Any]


def load(path: str) -> Tensors:
    """Every tensor of a safetensors file of BF16 numbers, as float64."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    found = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        bits = np.frombuffer(data[start:end], "<u2").astype(np.uint32) << 16
        found[name] = bits.view(np.float32).reshape(entry["shape"]).astype(np.float64)
    return found


def save(path: str, tensors: Tensors) -> None:
    """Writes F32 tensors under another name first: half a file is never seen."""
    header: Tensors = {}
    parts, start = [], 0
    for name, x in tensors.items():
        parts.append(x.astype("<f4").tobytes())
        end = start + len(parts[-1])
        header[name] = {"dtype": "F32", "shape": x.shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    with open(path + ".part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
    os.replace(path + ".part", path)


def bf16(x: Any) -> Any:
    """Rounds to the nearest BF16 number, ties to even."""
    bits = x.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return np.where(np.isnan(x), np.float32(np.nan), rounded.astype(np.uint32).view(np.float32))


def attend(problem: Tensors, q: Any, k: Any, v: Any, do: Any) -> Tensors:
    """Forward and backward; heads are repeated for grouped queries and summed again."""
    group = problem["heads"] // problem["kv_heads"]
    nq, nk = problem["queries"], problem["keys"]
    q, k, v, do = (x.swapaxes(1, 2) for x in (q, k, v, do))
    k, v = k.repeat(group, 1), v.repeat(group, 1)
    s = q @ k.swapaxes(2, 3) * problem["softmax_scale"]
    if problem["causal"]:
        s = np.where(np.tril(np.ones((nq, nk), bool), nk - nq), s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    p = e / np.where(total == 0, 1, total)
    o, dp = p @ v, do @ v.swapaxes(2, 3)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * problem["softmax_scale"]
    lse = np.where(total > 0, top + np.log(np.where(total == 0, 1, total)), -np.inf)[..., 0]
    dk, dv = ds.swapaxes(2, 3) @ q, p.swapaxes(2, 3) @ do
    dk, dv = (x.reshape(x.shape[0], -1, group, *x.shape[2:]).sum(2) for x in (dk, dv))
    named = {"o": o, "dq": ds @ k, "dk": dk, "dv": dv}
    return {"lse": lse} | {name: bf16(x.swapaxes(1, 2)) for name, x in named.items()}


def answer(request: Tensors) -> Tensors:
    """What a request gets, beside id and ok."""
    if request["op"] == "hello":
        producer = {"kernel": "example", "compiler": f"numpy {np.__version__}"}
        return {
            "protocol": "dmverify-kernel",
            "version": 1,
            "contract": "bf16-math",
            "producer": producer,
            "capabilities": ["forward", "backward"],
        }
    if request["op"] == "supports":
        served = request["contract"] == "bf16-math"
        return {"supported": served, "reason": "it serves bf16-math only"}
    found = attend(request["problem"], **load(request["inputs"]))
    wanted = ("o", "lse") if request["op"] == "forward" else found
    save(request["outputs"], {name: found[name] for name in wanted})
    return {}


for line in sys.stdin:
    asked = json.loads(line)
    if asked["op"] == "bye":
        break
    print(json.dumps({"id": asked["id"], "ok": True} | answer(asked)), flush=True)  # noqa: T201
