"""The precision assignments of docs/spec.md, section 2, under the names of `mpfa compare`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

from mpfa._scalars import ScaleRule

# Columns beside delta_s that a BF16 MMA with K = 16 has to spare.
_BF16_COLUMNS = 15


@dataclass(frozen=True)
class Policy:
    """One precision assignment of attention; the default is attention in the model's precision."""

    name: str
    description: str
    q: Literal["input", "nvfp4", "nvfp4_two_terms"] = "input"
    k: Literal["input", "bf16", "e4m3", "nvfp4"] = "input"
    v: Literal["input", "bf16", "e4m3"] = "input"
    p: Literal["fp32", "e4m3"] = "fp32"
    q_scale_rule: ScaleRule = "search"
    k_scale_rule: ScaleRule = "search"
    centre_k: bool = False  # Kc = K - K_mean
    delta_s: bool = False  # Q is centred as well, and bf16(Q_mean . Kc) added
    residual_rank: int = 0
    residual_format: Literal["e4m3", "bf16"] = "e4m3"
    first_key: bool = False

    @property
    def needs_statistics(self) -> bool:
        """Whether means (and a residual basis) must be frozen before the first key is stored."""
        return self.centre_k

    @property
    def in_library(self) -> bool:
        """Whether MpfaCache stores just this; P is then in 16 bits or FP32 (section 1)."""
        return (
            self.q == "input"
            and self.k == "nvfp4"
            and self.v == "e4m3"
            and self.centre_k
            and self.residual_format == "e4m3"
        )

    def k_bytes(self, head_dim: int, group: int) -> float:
        """Bytes of K and its compensations per token and KV head; the first key counts per page."""
        element = {"input": 2, "bf16": 2, "e4m3": 1, "nvfp4": 0.5 + 1 / 16}[self.k]
        column = 1 if self.residual_format == "e4m3" else 2
        delta_s = 2 * group if self.delta_s else 0
        return element * head_dim + delta_s + column * self.residual_rank

    def v_bytes(self, head_dim: int) -> float:
        """Bytes of V per token and KV head."""
        return (1 if self.v == "e4m3" else 2) * head_dim


def _policies() -> dict[str, Policy]:
    bf16 = Policy("bf16", "K and V in BF16: the baseline", k="bf16", v="bf16")
    fp8_v = Policy("fp8_v", "Q and K as given; only V and P in e4m3", v="e4m3", p="e4m3")
    fp8_k = replace(fp8_v, name="fp8_k", description="e4m3 K and V, uncentred", k="e4m3")
    search = replace(
        fp8_v, name="search", description="NVFP4 K, scale search", k="nvfp4", centre_k=True
    )
    plain = replace(search, name="plain", description="NVFP4 K, plain scales", k_scale_rule="plain")
    direct = replace(
        fp8_v,
        name="nvfp4_fp8_direct",
        description="NVFP4 Q and K, plain scales, uncentred",
        q="nvfp4",
        k="nvfp4",
        q_scale_rule="plain",
        k_scale_rule="plain",
    )
    paper = replace(
        direct,
        name="mpfa",
        description="the paper's: NVFP4 Q and K, plain scales, centred, delta_s",
        centre_k=True,
        delta_s=True,
    )

    def more(base: Policy, suffix: str, text: str, **changes: object) -> Policy:
        return replace(
            base, name=base.name + suffix, description=f"{base.description}, {text}", **changes
        )

    first = more(search, "_first", "first key", first_key=True)
    delta_s = more(search, "_delta_s", "delta_s", delta_s=True)
    delta_s_first = more(delta_s, "_first", "first key", first_key=True)
    residual = {
        rank: more(search, f"_r{rank}", f"residual r = {rank}", residual_rank=rank)
        for rank in (4, 8, 16)
    }
    residual_first = {
        rank: more(policy, "_first", "first key", first_key=True)
        for rank, policy in residual.items()
    }
    default = replace(residual_first[8], name="default")
    columns = {"residual_rank": _BF16_COLUMNS, "residual_format": "bf16"}
    columns_text = "delta_s and 15 BF16 residual columns, first key"
    one = replace(
        delta_s_first,
        name="one_term_delta_s_first",
        description="NVFP4 Q and K, scale search, delta_s, first key",
        q="nvfp4",
    )
    two = replace(
        default,
        name="two_terms_r8_first",
        description="two-term NVFP4 Q, NVFP4 K, scale search, residual r = 8, first key",
        q="nvfp4_two_terms",
    )
    policies = [
        bf16,
        fp8_k,
        replace(fp8_k, name="fp8_k_centred", description="e4m3 K and V, K centred", centre_k=True),
        fp8_v,
        direct,
        paper,
        plain,
        more(plain, "_delta_s", "delta_s", delta_s=True),
        search,
        delta_s,
        *residual.values(),
        first,
        delta_s_first,
        residual_first[4],
        default,
        residual_first[16],
        one,
        replace(
            one,
            name="one_term_columns_first",
            description=f"NVFP4 Q and K, scale search, {columns_text}",
            **columns,
        ),
        two,
        replace(
            delta_s_first,
            name="two_terms_columns_first",
            description=f"two-term NVFP4 Q, NVFP4 K, scale search, {columns_text}",
            q="nvfp4_two_terms",
            **columns,
        ),
        Policy("input", "K and V as the model computes them, nothing rounded"),
    ]
    return {policy.name: policy for policy in policies}


POLICIES = _policies()
BASELINE = "bf16"


def choose_policies(patterns: list[str]) -> list[Policy]:
    """The policies that match, in POLICIES' order; the baseline always, and first.

    Raises:
        ValueError: a pattern (* stands for any text) that matches no policy.
    """
    chosen = {BASELINE}
    for pattern in patterns:
        matching = [name for name in POLICIES if fnmatchcase(name, pattern)]
        if not matching:
            raise ValueError(
                f"--policy {pattern!r}: no such policy; there are {', '.join(POLICIES)}"
            )
        chosen.update(matching)
    return [policy for name, policy in POLICIES.items() if name in chosen]
