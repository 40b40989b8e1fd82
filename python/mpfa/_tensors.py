"""Tensors of every framework: how they reach the library without a copy, and how results are made.

The library takes what DLPack describes. NumPy has bfloat16 and float8 only through ml_dtypes, which
DLPack cannot name there, so such arrays are passed by their bytes and named anew by the library.
"""

from __future__ import annotations

import sys
from typing import Any, Literal

import ml_dtypes
import numpy as np
import tvm_ffi

from mpfa._library import function

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

Framework = Literal["torch", "numpy", "jax", "dlpack"]
CacheFramework = Literal["torch", "numpy", "dlpack"]  # whose tensors a new cache may have

_retype = function("retype")
_zeros = function("zeros")
_synchronize = function("synchronize")

# NumPy types that DLPack has no name for in NumPy: the unsigned integers that carry their bytes.
_NUMPY_CARRIERS: dict[Any, np.dtype[Any]] = {
    np.dtype(ml_dtypes.bfloat16): np.dtype(np.uint16),
    np.dtype(ml_dtypes.float8_e4m3fn): np.dtype(np.uint8),
}
_NUMPY_TYPES = {
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
}
# Tensors that certainly have a shape.
_WITH_SHAPE = (np.ndarray,) if torch is None else (torch.Tensor, np.ndarray)
_DLPACK_VERSION = (1, 0)
_CPU, _CUDA = 1, 2  # DLPack's numbers


def _jax() -> Any:
    """The module jax if anybody has imported it: without, no argument is one of its arrays."""
    return sys.modules.get("jax")


def is_torch(x: Any) -> bool:
    """Whether x is a tensor of torch."""
    return torch is not None and isinstance(x, torch.Tensor)


def is_jax(x: Any) -> bool:
    """Whether x is an array of JAX."""
    jax = _jax()
    return jax is not None and isinstance(x, jax.Array)


def framework_of(x: Any) -> Framework:
    """Which framework x belongs to; "dlpack" for all that is none of the others."""
    if is_torch(x):
        return "torch"
    if isinstance(x, np.ndarray):
        return "numpy"
    return "jax" if is_jax(x) else "dlpack"


def is_read_only(x: Any) -> bool:
    """Whether x must not be written."""
    if isinstance(x, np.ndarray):
        return not x.flags.writeable
    return not is_torch(x) and is_jax(x)


def to_ffi(name: str, x: Any) -> Any:
    """An input as the library takes it; no element is copied.

    Raises TypeError for what is no tensor, ValueError for one that cannot be read in place.
    """
    if is_torch(x):
        return _torch_to_ffi(name, x)
    if isinstance(x, np.ndarray):
        return _numpy_to_ffi(name, x)
    if isinstance(x, tvm_ffi.Tensor):
        return x
    if is_jax(x):
        return _jax_to_ffi(name, x)
    if hasattr(x, "__dlpack__"):
        try:
            return tvm_ffi.from_dlpack(x)
        except BufferError as error:
            raise ValueError(f"{name} cannot be exported by DLPack: {error}") from None
    raise TypeError(
        f"{name} is a {type(x).__module__}.{type(x).__qualname__}: must be a tensor that DLPack can"
        " export (of torch, NumPy, JAX, ...)"
    )


def to_ffi_or_none(name: str, x: Any) -> Any:
    """An optional input as the library takes it."""
    return None if x is None else to_ffi(name, x)


def check_rank(name: str, x: Any, rank: int) -> Any:
    """For inputs whose shape is used before the library checks it; raises as the two would.

    Returns x, or what stands for it where its type has no shape: DLPack asks for none.
    """
    if not isinstance(x, _WITH_SHAPE):
        imported = to_ffi(name, x)
        if not hasattr(x, "shape"):
            x = imported
    if len(x.shape) != rank:
        raise ValueError(f"{name} has {len(x.shape)} dimensions: must have {rank}")
    return x


def output_to_ffi(name: str, x: Any) -> Any:
    """An output as the library takes it; raises, beside what to_ffi does, for read-only tensors."""
    if is_read_only(x):
        what = "an array of JAX, which are immutable" if is_jax(x) else "a read-only array"
        raise ValueError(f"{name} is {what}: must be writable")
    return to_ffi(name, x)


def output_to_ffi_or_none(name: str, x: Any) -> Any:
    """An optional output as the library takes it."""
    return None if x is None else output_to_ffi(name, x)


def _torch_to_ffi(name: str, x: Any) -> Any:
    if x.device.type not in ("cpu", "cuda"):
        raise ValueError(f"{name} is on device {x.device}: must be on cpu or cuda")
    if x.layout != torch.strided:
        raise ValueError(f"{name} has layout {x.layout}: must be torch.strided")
    if x.is_neg():
        raise ValueError(f"{name} is a view of negated elements: must be resolve_neg() of it")
    if not x.requires_grad:
        return x
    refuse_grad(name, x)
    return x.detach()


def refuse_grad(name: str, x: Any) -> None:
    """ValueError for a tensor of torch whose gradient would be lost."""
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            f"{name} requires grad: MpFA computes no gradients, so it must be detached or the call"
            " made under torch.no_grad()"
        )


def _numpy_to_ffi(name: str, x: np.ndarray) -> Any:
    carrier = _NUMPY_CARRIERS.get(x.dtype)
    carried = x if carrier is None else x.view(carrier)
    try:
        capsule = carried.__dlpack__(max_version=_DLPACK_VERSION)
    except BufferError as error:
        raise ValueError(
            f"{name} is a NumPy array of type {x.dtype} and strides {x.strides}, which DLPack"
            f" cannot export: {error}"
        ) from None
    tensor = tvm_ffi.from_dlpack(capsule)
    return tensor if carrier is None else _retype(tensor, x.dtype.name)


def _jax_to_ffi(name: str, x: Any) -> Any:
    if isinstance(x, _jax().core.Tracer):
        raise TypeError(f"{name} is traced by JAX: must be an array with values (outside jax.jit)")
    # Work that JAX has queued is not on a stream that the library knows.
    return tvm_ffi.from_dlpack(x.block_until_ready())


def empty(like: Any, shape: tuple[int, ...], dtype: str | None = None) -> Any:
    """A tensor for a result beside `like`: of its framework, on its device, without values.

    Its type is `like`'s unless named. For JAX and unnamed frameworks it is a tensor of the
    library's own; finish() hands it over.
    """
    framework = framework_of(like)
    if framework == "torch":
        torch_type = like.dtype if dtype is None else getattr(torch, dtype)
        return torch.empty(shape, dtype=torch_type, device=like.device)
    if framework == "numpy":
        return np.empty(shape, like.dtype if dtype is None else _NUMPY_TYPES.get(dtype, dtype))
    if not isinstance(like, tvm_ffi.Tensor):
        like = tvm_ffi.from_dlpack(like)
    return _zeros(tuple(shape), like.dtype if dtype is None else tvm_ffi.dtype(dtype), like.device)


def finish(like: Any, result: Any) -> Any:
    """A result of empty(), written by now, as a tensor of the framework of `like`."""
    if not isinstance(result, tvm_ffi.Tensor) or not is_jax(like):
        return result
    _synchronize(result)  # JAX does not know the stream of the work
    return _jax().dlpack.from_dlpack(result)


def device_of(x: Any) -> tuple[int, int]:
    """Where x lies, as DLPack numbers devices."""
    if is_torch(x):
        return (_CUDA if x.device.type == "cuda" else _CPU, x.device.index or 0)
    if isinstance(x, np.ndarray):
        return (_CPU, 0)
    device_type, index = x.__dlpack_device__()
    return (int(device_type), index)


def is_on_gpu(x: Any) -> bool:
    """Whether x lies on an NVIDIA GPU."""
    return device_of(x)[0] == _CUDA


def parse_device(name: str, device: Any) -> tuple[int, int]:
    """A device given as text ("cpu", "cuda", "cuda:1"), or as an object that prints so."""
    kind, _, index = str(device).partition(":")
    is_index = index == "" or (index.isdecimal() and int(index) < 2**31)
    if kind not in ("cpu", "cuda") or not is_index:
        raise ValueError(f"{name} = {device!r}: must be 'cpu', 'cuda' or 'cuda:N'")
    return (_CUDA, int(index or 0)) if kind == "cuda" else (_CPU, 0)


def ffi_device(device: tuple[int, int]) -> tvm_ffi.Device:
    """A device of device_of() or parse_device() as the library takes it."""
    return tvm_ffi.device("cuda" if device[0] == _CUDA else "cpu", device[1])


def device_text(device: tuple[int, int]) -> str:
    """A device of device_of() as text: "cpu" or "cuda:0"."""
    return f"cuda:{device[1]}" if device[0] == _CUDA else "cpu"


def from_ffi(x: tvm_ffi.Tensor, framework: Framework) -> Any:
    """A tensor of the library's as one of a framework's, which then owns it; no copy."""
    if framework == "torch":
        if str(x.dtype) != "float8_e4m3fn":
            return torch.from_dlpack(x)
        # torch 2.9 has the type, but does not know DLPack's name of it.
        return torch.from_dlpack(_retype(x, tvm_ffi.dtype("uint8"))).view(torch.float8_e4m3fn)
    if framework == "numpy":
        return _numpy_from_ffi(x)
    if framework == "jax":
        return _jax().dlpack.from_dlpack(x)
    return x


def _numpy_from_ffi(x: tvm_ffi.Tensor) -> np.ndarray:
    dtype = _NUMPY_TYPES.get(str(x.dtype))
    if dtype is None:
        return np.from_dlpack(x)
    return np.from_dlpack(_retype(x, _NUMPY_CARRIERS[dtype].name)).view(dtype)
