"""The installed package: what it consists of, what it needs, what it says of itself."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import mpfa
import pytest

FOLDER = Path(mpfa.__file__).parent
LIBRARY = Path(os.environ.get("MPFA_PYTHON_LIBRARY", FOLDER / "lib" / "libmpfa_ffi.so"))
IS_INSTALLED = "MPFA_PYTHON_LIBRARY" not in os.environ
needs_wheel = pytest.mark.skipif(not IS_INSTALLED, reason="the package runs from its source")


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_build_info() -> None:
    info = mpfa.build_info()
    assert info.version == mpfa.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", info.version)
    assert info.has_cuda == bool(info.cuda_architectures)
    assert info.simd_target
    assert info.attention_target


@needs_wheel
def test_the_wheel_serves_every_python() -> None:
    distribution = importlib.metadata.distribution("mpfa")
    assert distribution.version == mpfa.__version__
    tags = re.findall(r"^Tag: (.*)$", distribution.read_text("WHEEL"), re.MULTILINE)
    assert tags
    assert all(tag.startswith("py3-none-") for tag in tags)
    assert (FOLDER / "py.typed").exists()


def test_the_library_knows_neither_python_nor_torch() -> None:
    dynamic = subprocess.run(
        ["readelf", "-d", LIBRARY],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    needed = re.findall(r"NEEDED.*\[(.*?)\]", dynamic)
    assert "libtvm_ffi.so" in needed
    assert not [name for name in needed if re.search("python|torch", name)]
    path = re.search(r"(?:RUNPATH|RPATH).*\[(.*?)\]", dynamic)
    assert path
    if IS_INSTALLED:
        assert path[1] == "$ORIGIN"
        assert not [name for name in needed if "cuda" in name]  # a machine without it is served


def test_every_name_is_documented() -> None:
    for name in mpfa.__all__:
        if name != "__version__":
            assert getattr(mpfa, name).__doc__, name


def test_without_torch() -> None:
    code = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import mpfa, numpy as np
cache = mpfa.KvCache(num_pages=2, num_kv_heads=1, head_dim=64, batch_size=1, max_pages_per_seq=2)
assert isinstance(cache.k_codes, np.ndarray)
k = np.ones((3, 1, 64), np.float32)
mpfa.append_kv(cache, k, k, np.arange(3))
cache.seq_lens[:] = 3
print(mpfa.attention(np.ones((1, 1, 64), np.float32), cache).mean())
try:
    mpfa.KvCache(num_pages=1, num_kv_heads=1, head_dim=64, framework="torch")
except ValueError as error:
    print(error)
"""
    assert run(code).splitlines() == ["1.0", "framework = 'torch': torch is not installed"]


def test_from_the_source_folder_the_error_says_what_to_do(tmp_path: Path) -> None:
    copy = tmp_path / "mpfa"
    copy.mkdir()
    for source in FOLDER.glob("*.py"):
        (copy / source.name).write_text(source.read_text())
    path = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    result = subprocess.run(
        [sys.executable, "-c", "import mpfa"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "MPFA_PYTHON_LIBRARY": ""},
        capture_output=True,
        text=True,
    )
    assert result.returncode != 0
    assert "pip install ." in result.stderr


def test_a_library_that_is_not_there() -> None:
    result = subprocess.run(
        [sys.executable, "-c", "import mpfa"],
        env={**os.environ, "MPFA_PYTHON_LIBRARY": "/nowhere/lib.so"},
        capture_output=True,
        text=True,
    )
    assert result.returncode != 0
    assert "/nowhere/lib.so is missing: named by MPFA_PYTHON_LIBRARY" in result.stderr
