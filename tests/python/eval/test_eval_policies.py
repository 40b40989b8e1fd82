"""Policies: their bytes against the table in docs/spec.md, their choice by name."""

from __future__ import annotations

import pytest
from mpfa.eval.methods import make_methods
from mpfa.eval.policies import POLICIES, choose_policies

# docs/spec.md, section 2: bytes of K and its compensations for d = 64, G = 3.
_TABLE = {
    "mpfa": 36 + 6,
    "plain": 36,
    "plain_delta_s": 36 + 6,
    "search": 36,
    "search_delta_s": 36 + 6,
    "search_r4": 36 + 4,
    "search_r8": 36 + 8,
    "search_r16": 36 + 16,
    "search_first": 36,
    "search_delta_s_first": 36 + 6,
    "search_r4_first": 36 + 4,
    "default": 36 + 8,
    "search_r16_first": 36 + 16,
    "one_term_delta_s_first": 36 + 6,
    "one_term_columns_first": 36 + 36,
    "two_terms_r8_first": 36 + 8,
    "two_terms_columns_first": 36 + 36,
    "fp8_k": 64,
    "fp8_k_centred": 64,
}


@pytest.mark.parametrize("name", _TABLE)
def test_bytes_are_those_of_the_table(name: str) -> None:
    assert POLICIES[name].k_bytes(64, 3) == _TABLE[name]
    assert POLICIES[name].v_bytes(64) == 64


def test_the_baseline_is_chosen_always_and_first() -> None:
    assert [x.name for x in choose_policies(["fp8*"])] == [
        "bf16",
        "fp8_k",
        "fp8_k_centred",
        "fp8_v",
    ]


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(ValueError, match=r"--policy 'fp9': no such policy; there are bf16, "):
        choose_policies(["fp9"])


def test_methods_of_each_source_and_back_end() -> None:
    policies = choose_policies(["default", "mpfa", "fp8_k"])
    names = [x.name for x in make_methods(policies, ["calibrated", "prompt"], "both")]
    assert names == [
        "bf16",
        "fp8_k",
        "mpfa",
        "mpfa@prompt",
        "default",
        "default:emulated",
        "default@prompt",
        "default@prompt:emulated",
    ]
    assert [x.backend for x in make_methods(policies, ["prompt"], "auto")] == [
        "torch",
        "emulated",
        "emulated",
        "library",
    ]
