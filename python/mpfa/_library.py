"""The shared library: TVM-FFI functions over the C++ API.

The environment variable MPFA_PYTHON_LIBRARY names one to load instead of the package's own: with it
the sources run as they are against a library that CMake has built (MPFA_BUILD_PYTHON).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import tvm_ffi

# What the library's errors are called there. ValueError and RuntimeError are known already.
tvm_ffi.register_error("OSError", OSError)
tvm_ffi.register_error("MemoryError", MemoryError)


def _load() -> Any:
    chosen = os.environ.get("MPFA_PYTHON_LIBRARY")
    path = Path(chosen) if chosen else Path(__file__).parent / "lib" / "libmpfa_ffi.so"
    if not path.exists():
        why = "this folder is the package's source, not an installed one (run: pip install .)"
        raise ImportError(f"{path} is missing: {'named by MPFA_PYTHON_LIBRARY' if chosen else why}")
    return tvm_ffi.load_module(path)


_MODULE = _load()


def function(name: str) -> Any:
    """The library's function of this name; see python/src/ for what it takes."""
    return _MODULE.get_function(name)
