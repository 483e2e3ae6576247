"""Values of ONNX Runtime from NumPy arrays and back, also of the types of ml_dtypes, such as bfloat16 and int4.

The runtime takes and gives NumPy arrays of NumPy's own types only. Values of other types have the bytes that ONNX
stores: numbers of less than a byte are packed.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from shardmark.instances.models.model import BITS

Array = npt.NDArray[Any]
Value = Any  # an `onnxruntime.OrtValue`, in the memory of the CPU


def to_value(array: Array) -> Value:
    """The value of an array of numbers, whose memory it shares if `shares_memory` says so."""
    from onnx import helper, numpy_helper
    from onnxruntime import OrtValue

    if _is_of_numpy(array.dtype):
        return OrtValue.ortvalue_from_numpy(np.asarray(array, order="C"))
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    if shares_memory(array.dtype):
        content = np.asarray(array, order="C").view(f"u{array.itemsize}")
        return OrtValue.ortvalue_from_numpy_with_onnx_type(content, kind)
    packed = numpy_helper.from_array(array).raw_data
    value = OrtValue.ortvalue_from_shape_and_type(list(array.shape), kind)
    ctypes.memmove(value.data_ptr(), packed, len(packed))
    return value


def shares_memory(dtype: np.dtype[Any]) -> bool:
    """True for numbers of whole bytes, which arrays and values store alike."""
    return BITS.get(dtype.name, 0) >= 8


def to_array(value: Value) -> Array:
    """A copy of a tensor's value."""
    from onnx import TensorProto, helper, numpy_helper

    kind = value.element_type()
    if _is_of_numpy(helper.tensor_dtype_to_np_dtype(kind)):
        array: Array = value.numpy()
        return array
    content = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return numpy_helper.to_array(TensorProto(data_type=kind, dims=value.shape(), raw_data=content))


def _is_of_numpy(dtype: np.dtype[Any]) -> bool:
    return dtype.isbuiltin == 1
