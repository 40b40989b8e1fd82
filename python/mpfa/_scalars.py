"""Checks of arguments that are no tensors: errors say what was given and what is allowed."""

from __future__ import annotations

import numbers
import os
from typing import Any, Literal, get_args

ScaleRule = Literal["search", "plain"]
PrefillPrecision = Literal["auto", "fp16", "fp8", "fp8_fp16_scores"]
# In the order of the library's numbers.
PREFILL_PRECISIONS: tuple[PrefillPrecision, ...] = get_args(PrefillPrecision)


def integer(name: str, value: Any) -> int:
    """An int; TypeError for anything else, ValueError for one that no C++ integer holds."""
    if type(value) is not int:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise TypeError(f"{name} = {value!r}: must be an integer")
        value = int(value)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{name} = {value}: must fit 64 bits")
    return value


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


def prefill_precision_number(precision: PrefillPrecision) -> int:
    """The library's number of a precision; ValueError for an unknown one."""
    if precision not in PREFILL_PRECISIONS:
        names = ", ".join(repr(name) for name in PREFILL_PRECISIONS)
        raise ValueError(f"prefill_precision = {precision!r}: must be one of {names}")
    return PREFILL_PRECISIONS.index(precision)


def path_text(name: str, value: Any) -> str:
    """A file's path as text; TypeError for anything else than str, bytes or os.PathLike.

    ValueError for one that the library would not find under the same name.
    """
    try:
        text = os.fsdecode(value)
    except TypeError:
        raise TypeError(f"{name} = {value!r}: must be a path (str or os.PathLike)") from None
    if "\0" in text or not is_unicode(text):
        raise ValueError(f"{name} = {value!r}: must be UTF-8 without a null character")
    return text


def is_unicode(text: str) -> bool:
    """Whether UTF-8 has all characters: not halves of pairs, which undecodable bytes become."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
