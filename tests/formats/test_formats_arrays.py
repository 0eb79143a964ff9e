"""What is accepted, and that torch tensors give the same bits as numpy arrays."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch

from dmverify.errors import InputError
from dmverify.spec.formats import E4M3, FP32, TC14
from dmverify.spec.namespace import namespace_of


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("rounding", ["nearest", "zero"])
def test_torch_gives_the_bits_of_numpy(fmt, probes, rounding, saturate):
    options = {"rounding": rounding, "saturate": saturate}
    tensor = torch.from_numpy(probes.copy())
    codes = fmt.encode(probes, **options)
    assert np.array_equal(fmt.encode(tensor, **options).numpy(), codes)
    values = fmt.decode(codes).view(np.int32)
    assert np.array_equal(fmt.decode(torch.from_numpy(codes)).numpy().view(np.int32), values)
    assert np.array_equal(fmt.round(tensor, **options).numpy().view(np.int32), values)


def test_the_specification_does_not_import_torch():
    program = "import sys, dmverify.spec.formats; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("x", [np.zeros(2), np.zeros(2, np.float16), torch.zeros(2).double()])
def test_only_float32_is_encoded(x):
    for operation in (E4M3.encode, E4M3.round):
        with pytest.raises(InputError, match="rounded twice"):
            operation(x)


def test_other_wrong_inputs_name_the_fix():
    with pytest.raises(InputError, match="numpy array or a torch tensor"):
        E4M3.encode([1.0])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rounding is one of"):
        E4M3.encode(np.zeros(1, np.float32), rounding="up")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="uint8"):
        E4M3.decode(np.zeros(1, np.int64))
    with pytest.raises(InputError, match="22 bits"):
        TC14.decode(np.array([1 << 22], dtype=np.uint32))
    with pytest.raises(InputError, match="exact rational"):
        E4M3.from_fraction(0.1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="finite E4M3"):
        E4M3.to_fraction(0x7F)
    with pytest.raises(InputError, match="finite FP32"):
        FP32.to_fraction(FP32.infinity_code or 0)
    with pytest.raises(InputError):
        E4M3.from_fraction(Fraction(1), rounding="up")  # type: ignore[arg-type]


def test_namespace_follows_the_array():
    assert namespace_of(np.float32(1)) is np
    assert namespace_of(torch.zeros(1)) is torch
