"""What is compared: a policy, where its statistics come from, and what computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from mpfa.eval import emulation
from mpfa.eval.activations import Activations, capture
from mpfa.eval.policies import BASELINE, Policy

StatisticsSource = Literal["calibrated", "first_chunk", "prompt", "none"]
Backend = Literal["torch", "library", "emulated"]
STATISTICS: dict[str, str] = {
    "calibrated": "on another text, once for all",
    "first_chunk": "frozen after the first chunk of each sequence",
    "prompt": "of each sequence's whole prompt",
}
BACKENDS = ("auto", "emulated", "both")


@dataclass(frozen=True)
class Method:
    """A policy with its statistics on a back end."""

    policy: Policy
    statistics: StatisticsSource
    backend: Backend

    @property
    def name(self) -> str:
        """`mpfa compare`'s name, with "@source" where statistics are not calibrated, and
        ":emulated" where the library could compute it."""
        name = self.policy.name
        if self.statistics in ("first_chunk", "prompt"):
            name += f"@{self.statistics}"
        if self.backend == "emulated" and self.policy.in_library:
            name += ":emulated"
        return name


def make_methods(policies: list[Policy], sources: list[str], backend: str) -> list[Method]:
    """Every policy with every source of statistics; those that have none, once.

    Args:
        policies: the baseline first.
        sources: some of STATISTICS.
        backend: "auto": the library where it can; "emulated": never; "both".
    """
    methods = []
    for policy in policies:
        if policy.in_library:
            backends = {"auto": ["library"], "both": ["library", "emulated"]}
            chosen = backends.get(backend, ["emulated"])
        else:
            chosen = ["torch" if policy.name in ("bf16", "input") else "emulated"]
        for source in sources if policy.needs_statistics else ["none"]:
            methods += [Method(policy, source, each) for each in chosen]
    return methods


class _Bf16Layer(DynamicLayer):
    """Keys and values rounded to BF16, whatever the model's dtype."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Appends new keys and values [b, Hkv, tokens, d]; returns all."""
        dtype = key_states.dtype
        keys, values = (x.to(torch.bfloat16).to(dtype) for x in (key_states, value_states))
        return super().update(keys, values, *args, **kwargs)


class Subject:
    """A model under a method at a time: makes caches and runs tokens through them."""

    def __init__(self, model: Any, calibration: list[torch.Tensor], chunk: int) -> None:
        """Takes a model.

        Args:
            model: a causal language model of transformers.
            calibration: windows of tokens that calibrate "calibrated" methods.
            chunk: tokens of the first chunk of "first_chunk" methods.
        """
        self.model = model
        self.chunk = chunk
        self._calibration = calibration
        self._activations: Activations | None = None
        self._library_statistics: dict[tuple[Any, ...], Any] = {}

    def new_cache(self, method: Method) -> Cache:
        """An empty cache for one sequence; the model is set to read it."""
        policy = method.policy
        if method.backend == "torch":
            self.model.set_attn_implementation("sdpa")
            layer = _Bf16Layer if policy.name == BASELINE else DynamicLayer
            layers = self.model.config.get_text_config(decoder=True).num_hidden_layers
            return (
                DynamicCache() if layer is DynamicLayer else Cache([layer() for _ in range(layers)])
            )
        if method.backend == "emulated":
            self.model.set_attn_implementation(emulation.ATTENTION)
            statistics = None
            if method.statistics == "calibrated":
                statistics = self._captured().statistics(policy)
            return emulation.EmulatedCache(self.model.config, policy, statistics)
        from mpfa.transformers import MpfaCache

        self.model.set_attn_implementation("mpfa")
        statistics = self._calibrated(policy) if method.statistics == "calibrated" else None
        return MpfaCache(
            self.model.config,
            statistics=statistics,
            residual_rank=policy.residual_rank,
            first_key=policy.first_key,
            delta_s=policy.delta_s,
            scale_rule=policy.k_scale_rule,
        )

    @torch.no_grad()
    def logits(self, method: Method, cache: Cache, tokens: torch.Tensor, keep: int = 0) -> Any:
        """Feeds tokens [n] to the cache: FP32 logits [keep, vocabulary] of the last rows, 0: all.

        A "first_chunk" method gets the first tokens of a sequence in a call of their own.
        """
        tokens = tokens.to(self.model.device)[None]
        parts = [tokens]
        split = method.statistics == "first_chunk" and cache.get_seq_length() == 0
        if split and tokens.shape[1] > self.chunk:
            parts = [tokens[:, : self.chunk], tokens[:, self.chunk :]]
        found = [
            self.model(part, past_key_values=cache, logits_to_keep=keep).logits[0].float()
            for part in parts
        ]
        joined = torch.cat(found)
        return joined if keep == 0 else joined[-keep:]

    def _captured(self) -> Activations:
        if self._activations is None:
            self._activations = capture(self.model, self._calibration)
            self.model.set_attn_implementation(emulation.ATTENTION)
        return self._activations

    def _calibrated(self, policy: Policy) -> Any:
        """ModelStatistics of the library's own calibration, made once for policies alike."""
        from mpfa.transformers import calibrate_model

        key = policy.delta_s, policy.k_scale_rule
        if key not in self._library_statistics:
            self._library_statistics[key] = calibrate_model(
                self.model,
                [window[None] for window in self._calibration],
                delta_s=policy.delta_s,
                scale_rule=policy.k_scale_rule,
            )
        return self._library_statistics[key]
