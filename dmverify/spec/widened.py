"""Arrays of other libraries and narrower formats, as float32 arrays of numpy.

| given | becomes |
|---|---|
| a dense torch tensor of bfloat16, float16, float32 or FP8, on any device | a copy on the CPU |
| a numpy array of float16, or of bfloat16 or FP8 by ml_dtypes | a copy; float32 holds it all |
| anything else | itself: who needs a float32 array says so |

No library is imported for this: a tensor is known by its methods.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FP8 = ("float8_e4m3fn", "float8_e5m2")
HELD = ("bfloat16", "float16", "float32", *FP8)  # formats whose numbers are float32 numbers


def to_float32(array: Any) -> Any:
    """A tensor or array as float32 (the table of the module); anything else as it is."""
    if isinstance(array, np.ndarray):
        narrow = array.dtype.name in HELD and array.dtype != np.float32
        return array.astype(np.float32) if narrow else array
    held = str(getattr(array, "dtype", "")).removeprefix("torch.") in HELD
    if held and hasattr(array, "detach") and _is_dense(array):
        return array.detach().cpu().float().numpy()
    return array


def _is_dense(tensor: Any) -> bool:
    """Whether a tensor has a number at every place: not sparse, not nested, not without data."""
    return str(tensor.layout) == "torch.strided" and not (tensor.is_nested or tensor.is_meta)
