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
from collections.abc import Iterable
from pathlib import Path
from types import MappingProxyType

import numpy as np

from dmverify.conformance.session import handed
from dmverify.errors import unknown_name
from dmverify.files import write_durably
from dmverify.late import object_at
from dmverify.spec.case import Case

# What makes the bytes of a case's file, loaded alone: two of them need torch.
FORMATS = MappingProxyType(
    {
        "safetensors": "dmverify.conformance.tensor_files.bfloat16:safetensors",
        "npz": "dmverify.conformance.tensor_files.hand_on:npz",
        "pt": "dmverify.conformance.tensor_files.bfloat16:pt",
    }
)
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
        ModuleNotFoundError: If the format needs torch, which is not installed.
    """
    if kind not in FORMATS:
        raise unknown_name("format", kind, FORMATS)
    bytes_of = object_at(FORMATS[kind])
    folder.mkdir(parents=True, exist_ok=True)
    index = []
    for number, asked in enumerate(cases):
        case = handed(asked)
        family = UNSAFE.sub("-", case.id.partition(",")[0].partition("@")[0])
        name = f"{number:04}-{family}.{kind}"
        write_durably(folder / name, bytes_of(case))
        index.append({"file": name, "case": case.id, "contract": case.contract})
    write_durably(folder / INDEX, (json.dumps(index, indent=1) + "\n").encode())
    return len(index)


def npz(case: Case) -> bytes:
    """The file of a case as ``numpy.load`` reads it."""
    problem, file = case.problem, io.BytesIO()
    settings = {
        "causal": np.asarray(problem.causal),
        "softmax_scale": np.asarray(problem.scale, np.float64),
    }
    np.savez_compressed(file, **dict(case.inputs.named()), **settings)  # type: ignore[arg-type]
    return file.getvalue()
