"""Serves a Python kernel over the protocol, so that it runs apart: ``python -m ... NAME``.

``dmverify verify NAME --timeout SECONDS`` uses it, because a hang or a crash can be a verdict only
where it does not take the judge with it. What the kernel prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors.numpy import save_file

from dmverify.conformance.adapter import Kernel, Unsupported
from dmverify.conformance.process.kernel import CAPABILITIES, PROTOCOL, VERSION
from dmverify.conformance.resolve import resolve_kernel
from dmverify.conformance.sizes import estimate
from dmverify.conformance.tensors import HEADER, read
from dmverify.spec.case import Case, Inputs
from dmverify.spec.problem import Problem

NAMES = ("q", "k", "v", "do")


def main(name: str) -> None:
    """Answers questions on stdin until ``bye`` or the end of input."""
    answers = _own_stdout()
    kernel = resolve_kernel(name)
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "bye":
            return
        try:
            said = {"ok": True, **_answer(kernel, request)}
        except Exception as error:
            said = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps({"id": request["id"], **said}).encode() + b"\n")
        answers.flush()


def _own_stdout() -> BinaryIO:
    """Keeps stdout for answers; prints, of libraries too, go to stderr."""
    kept = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return kept


def _answer(kernel: Kernel, request: dict[str, Any]) -> dict[str, object]:
    if request["op"] == "hello":
        return {
            "protocol": PROTOCOL,
            "version": VERSION,
            "contract": kernel.contract,
            "producer": asdict(kernel.info),
            "capabilities": list(CAPABILITIES),
        }
    if request["op"] == "supports":
        support = kernel.supports(_case(request, _zeros(request)))
        if isinstance(support, Unsupported):
            return {"supported": False, "reason": support.reason}
        return {"supported": True}
    largest = HEADER + estimate(Problem(**request["problem"])).inputs
    given = read(Path(request["inputs"]), largest=largest, required=NAMES, optional=())
    case = _case(request, Inputs(**given))
    target = request["outputs"]
    if request["op"] == "forward":
        forward = kernel.forward(case)
        _write(target, {"o": forward.o, "lse": forward.lse})
    else:
        _write(target, dict(kernel.backward(case).items()))
    return {}


def _case(request: dict[str, Any], inputs: Inputs) -> Case:
    problem = Problem(**request["problem"])
    return Case(f"question/{request['id']}@0", request["contract"], problem, inputs)


def _zeros(request: dict[str, Any]) -> Inputs:
    shapes = Problem(**request["problem"]).shapes()
    return Inputs(**{name: np.zeros(shapes[name], np.float32) for name in NAMES})


def _write(target: str, tensors: dict[str, Any]) -> None:
    part = f"{target}.part"
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, part)
    os.replace(part, target)


if __name__ == "__main__":
    main(sys.argv[1])
