"""What becomes a float32 array, and that a tensor without a number at every place is told."""

import ml_dtypes
import numpy as np
import pytest
import torch

from dmverify.errors import InputError
from dmverify.spec.case import Inputs
from dmverify.spec.widened import to_float32

PLAIN = torch.tensor([[[[0.5, -3.0]]]])
NARROW = (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)
WITHOUT = {
    "no data": lambda x: x.to("meta"),
    "sparse": lambda x: x.to_sparse(),
    "nested": lambda x: torch.nested.nested_tensor([x[0], x[0]]),
}


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_tensors_are_widened(dtype):
    found = to_float32(PLAIN.to(dtype))
    assert found.dtype == np.float32
    assert found.tolist() == PLAIN.tolist()


def test_narrow_arrays_are_widened_and_float32_ones_are_themselves():
    plain = PLAIN.numpy()
    assert to_float32(plain) is plain
    assert to_float32(plain.astype(ml_dtypes.bfloat16)).tolist() == plain.tolist()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("kind", WITHOUT)
def test_a_tensor_that_is_not_dense_is_left_as_it_is_and_refused_by_name(kind):
    tensor = WITHOUT[kind](PLAIN.bfloat16())
    assert to_float32(tensor) is tensor
    with pytest.raises(InputError, match=r"got q of type Tensor; rule: .* fix: pass"):
        Inputs(tensor, PLAIN, PLAIN, PLAIN)
