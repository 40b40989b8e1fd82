"""Options and fixtures. Tests import nothing from here: subfolders have such a file, too."""

from __future__ import annotations

import pytest
from problems import FRAMEWORKS


def pytest_addoption(parser: pytest.Parser) -> None:
    """For runs that are about the GPU, whose tests must not be left out unnoticed."""
    parser.addoption("--require-gpu", action="store_true", help="fail if there is no GPU")


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str:
    """Each framework that can hold a cache and is installed."""
    return request.param
