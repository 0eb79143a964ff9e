"""Cases as files of tensors that other programs read in three lines, without this project.

| format | holds | is read by |
|---|---|---|
| safetensors | BF16 tensors; causal and softmax_scale as metadata | ``safetensors`` |
| npz | the same numbers as float32 arrays, and the two settings | ``numpy.load`` |
| pt | a dict of BF16 tensors and the two settings, weights only | ``torch.load`` |

One file a case, named by its place in the list and its family; ``index.json`` says which id each is
and under which contract it is asked. Where the contract gives a kernel codes, they stand there with
their scales. ``--inputs`` reads all three again.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from dmverify.conformance.session import handed
from dmverify.errors import unknown_name
from dmverify.files import write_durably
from dmverify.spec.case import OPERANDS, Case

INDEX = "index.json"
UNSAFE = re.compile(r"[^\w.-]+")


def hand_on(cases: Iterable[Case], folder: Path, kind: str) -> int:
    """Writes every case of a list, and the index last.

    Args:
        cases: What is written.
        folder: Where to; made if it is not there.
        kind: A key of ``FORMATS``.

    Returns:
        How many were written.

    Raises:
        UnknownNameError: For another format.
    """
    if kind not in FORMATS:
        raise unknown_name("format", kind, FORMATS)
    folder.mkdir(parents=True, exist_ok=True)
    index = []
    for number, asked in enumerate(cases):
        case = handed(asked)
        family = UNSAFE.sub("-", case.id.partition(",")[0].partition("@")[0])
        name = f"{number:04}-{family}.{kind}"
        write_durably(folder / name, FORMATS[kind](case))
        index.append({"file": name, "case": case.id, "contract": case.contract})
    write_durably(folder / INDEX, (json.dumps(index, indent=1) + "\n").encode())
    return len(index)


def _safetensors(case: Case) -> bytes:
    from safetensors.torch import save

    return bytes(save(_tensors(case), _settings(case)))


def _npz(case: Case) -> bytes:
    problem, file = case.problem, io.BytesIO()
    settings = {
        "causal": np.asarray(problem.causal),
        "softmax_scale": np.asarray(problem.scale, np.float64),
    }
    np.savez_compressed(file, **dict(case.inputs.named()), **settings)  # type: ignore[arg-type]
    return file.getvalue()


def _pt(case: Case) -> bytes:
    import torch

    problem, file = case.problem, io.BytesIO()
    torch.save({**_tensors(case), "causal": problem.causal, "softmax_scale": problem.scale}, file)
    return file.getvalue()


def _tensors(case: Case) -> dict[str, Any]:
    """Tensors in BF16, which codes of every format are numbers of, and scales in float32."""
    import torch

    whole = {name: torch.from_numpy(x) for name, x in case.inputs.named()}
    return {name: x.bfloat16() if name in OPERANDS else x for name, x in whole.items()}


def _settings(case: Case) -> dict[str, str]:
    return {
        "causal": json.dumps(case.problem.causal),
        "softmax_scale": repr(case.problem.scale),
        "case": case.id,
    }


FORMATS: MappingProxyType[str, Callable[[Case], bytes]] = MappingProxyType(
    {"safetensors": _safetensors, "npz": _npz, "pt": _pt}
)
