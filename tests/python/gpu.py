"""Arrays to a GPU and back: by torch where it sees one, else by the CUDA runtime of the process.

The latter is how the tests run in the simulator, which torch knows nothing of.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import oracle
import tvm_ffi
from mpfa import _tensors
from problems import HAS_TORCH, to_framework

_TO_GPU, _TO_HOST = 1, 2  # cudaMemcpyKind


def _torch_sees_a_gpu() -> bool:
    if not HAS_TORCH:
        return False
    import torch

    return torch.cuda.is_available()


def _runtime() -> Any:
    """The CUDA runtime, if there is one and it has a GPU."""
    try:
        runtime = ctypes.CDLL("libcudart.so.13")
    except OSError:
        return None
    count = ctypes.c_int()
    failed = runtime.cudaGetDeviceCount(ctypes.byref(count))
    return None if failed or count.value == 0 else runtime


USES_TORCH = _torch_sees_a_gpu()
_RUNTIME = None if USES_TORCH else _runtime()
IS_THERE = USES_TORCH or _RUNTIME is not None
# What KvCache() must be told.
FRAMEWORK = "torch" if USES_TORCH else "dlpack"


class _DLTensor(ctypes.Structure):
    """The first member of DLPack's struct, which is all that is needed."""

    _fields_ = (("data", ctypes.c_void_p),)


def _address(x: tvm_ffi.Tensor) -> ctypes.c_void_p:
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)
    capsule = x.__dlpack__()
    return ctypes.c_void_p(_DLTensor.from_address(pointer_of(capsule, b"dltensor")).data)


def _copy(to: ctypes.c_void_p, source: ctypes.c_void_p, size: int, kind: int) -> None:
    error = _RUNTIME.cudaMemcpy(to, source, ctypes.c_size_t(size), kind)
    assert error == 0, f"cudaMemcpy: error {error}"


def upload(x: np.ndarray) -> Any:
    """The same values on the GPU."""
    if USES_TORCH:
        return to_framework(x, "torch").cuda()
    x = np.ascontiguousarray(x)
    result = _tensors._zeros(x.shape, tvm_ffi.dtype(x.dtype.name), tvm_ffi.device("cuda", 0))
    if x.size > 0:
        _copy(_address(result), ctypes.c_void_p(x.ctypes.data), x.nbytes, _TO_GPU)
    return result


def download(x: Any) -> np.ndarray:
    """The values of a tensor on the GPU, when the work before has been done."""
    if USES_TORCH:
        import torch

        return oracle.to_numpy((x if isinstance(x, torch.Tensor) else torch.from_dlpack(x)).cpu())
    name = str(x.dtype)
    result = np.empty(x.shape, _tensors._NUMPY_TYPES.get(name, name))
    _copy(ctypes.c_void_p(result.ctypes.data), _address(x), result.nbytes, _TO_HOST)
    return result
