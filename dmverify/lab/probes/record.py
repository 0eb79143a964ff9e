"""Makes the recordings on this machine's Hopper GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from dmverify.lab.probes.arith_operands import OPERATIONS, arith_operands, binade_inputs
from dmverify.lab.probes.device import Build, compile_text, functions, gpu_and_driver
from dmverify.lab.probes.forms import FORMS, all_tiles, families
from dmverify.lab.probes.recordings import Arrays, write
from dmverify.lab.probes.sweeps import SWEEPS, block_hashes, mapped, run_arithmetic
from dmverify.lab.probes.tensor_core import on_gpu, run
from dmverify.lab.probes.wgmma_source import source

_PER_BINADE = 32
_PER_KIND = 512


def record(folder: Path) -> None:
    """Runs all probes and writes the recordings into `folder`."""
    groups = {"wgmma": _wgmma(), "functions": _functions(), "arith": _arith()}
    write(folder, groups, forms=FORMS, origin=_origin())


def _wgmma() -> Arrays:
    arrays: Arrays = {}
    for form in FORMS:
        made = all_tiles(form)
        a, b, c = on_gpu(form, made)
        d = run(form, a, b, c=c).cpu().numpy().view(made.c.dtype)
        arrays |= {
            f"{form.name}/{k}": x for k, x in zip("abcd", (made.a, made.b, made.c, d), strict=True)
        }
    return arrays


def _functions() -> Arrays:
    inputs = binade_inputs(_PER_BINADE)
    arrays: Arrays = {"inputs": inputs}
    for name, sweep in SWEEPS.items():
        if sweep.code_bits == 32:
            arrays[f"map/{name}"] = mapped(name, inputs)
        arrays[f"hash/{name}"] = block_hashes(name)
    return arrays


def _arith() -> Arrays:
    operands = arith_operands(_PER_KIND)
    tensors = torch.from_numpy(operands.view(np.int32)).cuda()
    arrays: Arrays = {"operands": operands}
    for name in OPERATIONS:
        arrays[f"out/{name}"] = run_arithmetic(name, tensors).cpu().numpy().view(np.uint32)
    return arrays


def _origin() -> dict[str, Any]:
    def build(value: Build) -> dict[str, str]:
        return {
            "source_sha256": value.source_sha256,
            "compiler": value.compiler,
            "flags": value.flags,
        }

    return {
        "machine": gpu_and_driver(),
        "functions": build(functions()),
        "wgmma": {form.name: build(compile_text(source(form))) for form in FORMS},
        "families": {form.name: families(form) for form in FORMS},
    }
