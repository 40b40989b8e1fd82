"""Checks of arguments that are no tensors: errors say what was given and what is allowed."""

from __future__ import annotations

import numbers
import os
from typing import Any

ScaleRule = str  # "search" or "plain"


def integer(name: str, value: Any) -> int:
    """An int; TypeError for anything else."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} = {value!r}: must be an integer")
    return int(value)


def number(name: str, value: Any) -> float:
    """A float; TypeError for anything else."""
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} = {value!r}: must be a number")
    return float(value)


def flag(name: str, value: Any) -> bool:
    """A bool; TypeError for anything else."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} = {value!r}: must be True or False")
    return value


def searches_scales(scale_rule: ScaleRule) -> bool:
    """Whether a scale rule's name means the scale search; ValueError for an unknown one."""
    if scale_rule not in ("search", "plain"):
        raise ValueError(f"scale_rule = {scale_rule!r}: must be 'search' or 'plain'")
    return scale_rule == "search"


def path_text(name: str, value: Any) -> str:
    """A file's path as text; TypeError for anything else than str, bytes or os.PathLike."""
    try:
        return os.fsdecode(value)
    except TypeError:
        raise TypeError(f"{name} = {value!r}: must be a path (str or os.PathLike)") from None
