"""Values of the emulator: numpy arrays, and the names of their kinds.

A value is an array of three axes, (CTAs, warps of a CTA, lanes), where an axis along which it does not vary
has length 1. It is never modified in place. Kinds: i16 u16 i32 u32 i64 u64 f16 f32 f64 pred are numpy dtypes
of a register's bits; `bf16` is a float32 array of values bfloat16 can hold; `f16x2` has a fourth axis of
length 2; `bf16x2` likewise, in float32.
"""

from typing import Any

import numpy as np

__all__ = ["DTYPES", "LANES", "Array", "DType"]

Array = Any  # np.ndarray of any dtype: the kinds say more than numpy's types can
DType = np.dtype[Any]

LANES = 32

DTYPES: dict[str, DType] = {
    "i8": np.dtype(np.int8), "u8": np.dtype(np.uint8), "i16": np.dtype(np.int16), "u16": np.dtype(np.uint16),
    "i32": np.dtype(np.int32), "u32": np.dtype(np.uint32), "i64": np.dtype(np.int64),
    "u64": np.dtype(np.uint64), "f16": np.dtype(np.float16), "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64), "pred": np.dtype(np.bool_), "bf16": np.dtype(np.float32),
    "f16x2": np.dtype(np.float16), "bf16x2": np.dtype(np.float32),
}  # fmt: skip
