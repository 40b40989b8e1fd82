"""Options and fixtures. Tests import nothing from here: subfolders have such a file, too."""

from __future__ import annotations

import importlib.metadata
import os

import pytest
from problems import FRAMEWORKS

# JAX would take most of a GPU's memory as soon as it makes an array.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


# By the installed packages: a folder of tests could be imported as "transformers".
if not (_is_installed("torch") and _is_installed("transformers")):
    collect_ignore = ["bench", "eval", "transformers"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """For runs that are about the GPU, whose tests must not be left out unnoticed."""
    parser.addoption("--require-gpu", action="store_true", help="fail if there is no GPU")


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str:
    """Each framework that can hold a cache and is installed."""
    return request.param
