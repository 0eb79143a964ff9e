"""A case as a file of BF16 tensors, which numpy has no type for: made with torch."""

from __future__ import annotations

import io
import json
from typing import Any

import torch
from safetensors.torch import save

from dmverify.spec.case import OPERANDS, Case


def safetensors(case: Case) -> bytes:
    """The file of a case as ``safetensors`` reads it, the two settings and the id as metadata."""
    settings = {
        "causal": json.dumps(case.problem.causal),
        "softmax_scale": repr(case.problem.scale),
        "case": case.id,
    }
    return bytes(save(_tensors(case), settings))


def pt(case: Case) -> bytes:
    """The file of a case as ``torch.load`` reads it, weights only."""
    problem, file = case.problem, io.BytesIO()
    torch.save({**_tensors(case), "causal": problem.causal, "softmax_scale": problem.scale}, file)
    return file.getvalue()


def _tensors(case: Case) -> dict[str, Any]:
    """Tensors in BF16, which codes of every format are numbers of, and scales in float32."""
    whole = {name: torch.from_numpy(x) for name, x in case.inputs.named()}
    return {name: x.bfloat16() if name in OPERANDS else x for name, x in whole.items()}
