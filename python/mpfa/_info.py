"""What was built and what this machine uses of it."""

from __future__ import annotations

from dataclasses import dataclass

from mpfa._library import function

_INFO = {str(key): str(value) for key, value in function("build_info")().items()}

__version__ = _INFO["version"]


@dataclass(frozen=True)
class BuildInfo:
    """What build_info() returns."""

    version: str
    has_cuda: bool  # whether CUDA kernels were built
    cuda_architectures: tuple[str, ...]  # as CMake names them: 80-virtual is PTX for 8.0 and later
    simd_target: str  # the CPU's, as Highway names it
    attention_target: str  # what attention() uses on the CPU


def build_info() -> BuildInfo:
    """What was built and what this machine uses of it."""
    architectures = tuple(_INFO["cuda_architectures"].split())
    return BuildInfo(
        __version__,
        bool(architectures),
        architectures,
        _INFO["simd_target"],
        _INFO["attention_target"],
    )
