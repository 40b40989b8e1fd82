"""MpFA: attention over a low-bit KV cache, K in NVFP4 and V in FP8.

The functions mirror the C++ API. They take any tensor that DLPack can export, of torch, NumPy, JAX
or others, on the CPU or on an NVIDIA GPU, and copy none of them. CUDA work goes to torch's current
stream. Errors are TypeError and ValueError (OSError for files, RuntimeError for CUDA); they name
the argument, its value and what is allowed, and come before anything is written.
"""

from mpfa._attention import Plan, attention, merge_states, plan, schedule
from mpfa._cache import KvCache, append_kv, bytes_per_token_and_kv_head
from mpfa._info import BuildInfo, __version__, build_info
from mpfa._statistics import QuantizedQ, Statistics, calibrate, compute_means, quantize_q
from mpfa._tensors import torch as _torch_module

if _torch_module is not None:
    from mpfa import _torch  # noqa: F401  (registers torch.ops.mpfa)

__all__ = [
    "BuildInfo",
    "KvCache",
    "Plan",
    "QuantizedQ",
    "Statistics",
    "__version__",
    "append_kv",
    "attention",
    "build_info",
    "bytes_per_token_and_kv_head",
    "calibrate",
    "compute_means",
    "merge_states",
    "plan",
    "quantize_q",
    "schedule",
]
