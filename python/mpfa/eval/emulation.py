"""Policies that MpfaCache does not store, and a second opinion on those it does: a cache that keeps
what a policy would read back, as FP32 values, and attention over it by docs/spec.md, section 3.

One sequence at a time, causal, without padding, windows, softcap or sinks.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, CacheLayerMixin

from mpfa.eval import formats
from mpfa.eval.policies import Policy
from mpfa.eval.statistics import LayerStatistics, find_statistics

ATTENTION = "mpfa_emulated"  # attn_implementation of models whose cache is an EmulatedCache
_KEY_BLOCK = 128  # of Algorithm 1
_ROW_BLOCK = 256  # rows of Q at a time, which bounds memory
_P_SCALE = 448.0
_TAG = "_mpfa_emulated_layer"


class EmulatedLayer(CacheLayerMixin):
    """One layer's keys and values, rounded as the policy says, of one sequence.

    New keys wait in `update` until the attention call that follows brings the queries, from which
    statistics that are not calibrated are frozen.
    """

    is_sliding = False

    def __init__(self, policy: Policy, statistics: LayerStatistics | None) -> None:
        super().__init__()
        self.policy = policy
        self.statistics = statistics
        self.delta_s: torch.Tensor | None = None  # [Hq, tokens]
        self.residual: torch.Tensor | None = None  # [Hkv, tokens, r]: p_scale p, or bf16(U E)
        self.first: torch.Tensor | None = None  # [Hkv, d]
        self._pending: tuple[torch.Tensor, torch.Tensor] | None = None
        self._length = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Empty keys and values [heads, 0, d]."""
        if key_states.shape[0] != 1:
            raise ValueError(f"batch of {key_states.shape[0]} sequences: must be 1 when emulated")
        self.keys = key_states.new_empty(
            (key_states.shape[1], 0, key_states.shape[3]), dtype=torch.float32
        )
        self.values = torch.empty_like(self.keys)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Takes new keys and values [1, Hkv, tokens, d]; they come back as they are, tagged."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self._pending = key_states[0].float(), value_states[0].float()
        self._length += key_states.shape[2]
        setattr(key_states, _TAG, self)
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Tokens after the next update, and the offset of the first."""
        return self._length + query_length, 0

    def get_seq_length(self) -> int:
        """Tokens so far."""
        return self._length

    def get_max_length(self) -> int:
        """No maximum."""
        return -1

    def store(self, q: torch.Tensor) -> None:
        """Rounds and appends the keys and values that wait; q [Hq, tokens, d] came with them."""
        if self._pending is None:
            return
        k, v = self._pending
        self._pending = None
        if self.statistics is None:
            self.statistics = find_statistics(self.policy, q, k)
        self.statistics = self.statistics.to(k.device)
        centred = k if self.statistics.k_mean is None else k - self.statistics.k_mean[:, None]
        restored = self._rounded_keys(centred)
        self._append_compensations(q.shape[0], centred, centred - restored)
        rounding = {"input": lambda x: x, "bf16": formats.bf16, "e4m3": formats.e4m3}
        self.keys = torch.cat([self.keys, restored], 1)
        self.values = torch.cat([self.values, rounding[self.policy.v](v)], 1)

    def _rounded_keys(self, centred: torch.Tensor) -> torch.Tensor:
        if self.policy.k == "nvfp4":
            return formats.nvfp4(centred, self.policy.k_scale_rule)
        rounding = {"input": lambda x: x, "bf16": formats.bf16, "e4m3": formats.e4m3}
        return rounding[self.policy.k](centred)

    def _append_compensations(
        self, q_heads: int, centred: torch.Tensor, error: torch.Tensor
    ) -> None:
        """Appends delta_s and residual, and keeps the first key's remaining error."""
        left = error
        statistics = self.statistics
        if self.policy.delta_s:
            group = q_heads // centred.shape[0]
            keys = centred.repeat_interleave(group, 0)
            delta_s = formats.bf16((keys @ statistics.q_mean[..., None])[..., 0])
            self.delta_s = _cat(self.delta_s, delta_s)
        if self.policy.residual_rank > 0:
            basis = statistics.residual_basis
            residual = error @ basis.transpose(1, 2)
            if self.policy.residual_format == "bf16":
                residual = formats.bf16(residual)
            else:
                scale = statistics.residual_scale[:, None]
                residual = formats.e4m3(residual / scale) * scale
            self.residual = _cat(self.residual, residual)
            left = error - residual @ basis
        if self.policy.first_key and self.first is None:
            self.first = formats.bf16(left[:, 0])

    def attend(self, q: torch.Tensor, scale: float) -> torch.Tensor:
        """Attention of the last rows of the sequence, q [Hq, rows, d], FP32, to all its keys."""
        self.store(q)
        rows, keys = q.shape[1], self.keys.shape[1]
        outs = []
        for begin in range(0, rows, _ROW_BLOCK):
            block = q[:, begin : begin + _ROW_BLOCK]
            position = torch.arange(begin, begin + block.shape[1], device=q.device) + keys - rows
            scores = self._scores(block) * scale
            hidden = torch.arange(keys, device=q.device) > position[:, None]
            scores = scores.masked_fill(hidden, -torch.inf)
            outs.append(self._weighted(scores))
        return torch.cat(outs, 1)

    def _scores(self, q: torch.Tensor) -> torch.Tensor:
        """Q K^T [Hq, rows, keys] as the policy computes it, less what is constant along a row."""
        x = q - self.statistics.q_mean[:, None] if self.policy.delta_s else q
        rounded = x
        if self.policy.q == "nvfp4":
            rounded = formats.nvfp4(x, self.policy.q_scale_rule)
        elif self.policy.q == "nvfp4_two_terms":
            rounded = formats.nvfp4_two_terms(x, self.policy.q_scale_rule)
        scores = _by_group(rounded, self.keys)
        if self.delta_s is not None:
            scores += self.delta_s[:, None]
        if self.residual is not None:
            basis = self.statistics.residual_basis
            coordinates = _by_group(x, basis)
            if self.policy.residual_format == "bf16":
                coordinates = formats.bf16(coordinates)
            scores += _by_group(coordinates, self.residual)
        if self.first is not None:
            scores[:, :, :1] += _by_group(x, self.first[:, None])
        return scores

    def _weighted(self, scores: torch.Tensor) -> torch.Tensor:
        """softmax(scores) V; e4m3 P is relative to the maximum of its block of keys and of those
        behind, which Algorithm 1 has seen by then."""
        if self.policy.p == "fp32":
            return _by_value(scores.softmax(-1), self.values)
        keys = scores.shape[-1]
        blocks = -(-keys // _KEY_BLOCK)
        padded = torch.nn.functional.pad(
            scores, (0, blocks * _KEY_BLOCK - keys), value=-torch.inf
        ).unflatten(-1, (blocks, _KEY_BLOCK))
        largest = padded.amax(-1).flip(-1).cummax(-1).values.flip(-1)
        last = largest[..., :1]  # finite: every row sees key 0
        base = torch.where(largest == -torch.inf, last, largest)
        p = (padded - base[..., None]).exp()
        factor = (base - last).exp()[..., None]
        total = (p.sum(-1, keepdim=True) * factor).sum(-2)
        weights = (formats.e4m3(_P_SCALE * p) * (factor / _P_SCALE)).flatten(-2)[..., :keys]
        return _by_value(weights, self.values) / total


class EmulatedCache(Cache):
    """A cache for attn_implementation="mpfa_emulated": one EmulatedLayer a layer."""

    def __init__(
        self, config: Any, policy: Policy, statistics: list[LayerStatistics] | None = None
    ) -> None:
        """Makes a cache of one sequence.

        Args:
            config: the model's.
            policy: what is emulated.
            statistics: a layer each; None: frozen from the first tokens that are stored.
        """
        layers = config.get_text_config(decoder=True).num_hidden_layers
        given = [None] * layers if statistics is None else statistics
        super().__init__(layers=[EmulatedLayer(policy, row) for row in given])


def _cat(old: torch.Tensor | None, new: torch.Tensor) -> torch.Tensor:
    return new if old is None else torch.cat([old, new], 1)


def _by_group(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x [Hq, rows, n] times the transpose of its KV head's y [Hkv, m, n]: [Hq, rows, m]."""
    rows = x.unflatten(0, (y.shape[0], -1)).flatten(1, 2)
    return (rows @ y.transpose(1, 2)).view(x.shape[0], x.shape[1], -1)


def _by_value(weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    rows = weights.unflatten(0, (values.shape[0], -1)).flatten(1, 2)
    return (rows @ values).view(*weights.shape[:2], -1)


def emulated_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention function of transformers: query [1, Hq, rows, d], out [1, rows, Hq, d]."""
    layer = getattr(key, _TAG, None)
    if layer is None:
        raise ValueError(f"attn_implementation={ATTENTION!r} needs past_key_values=EmulatedCache")
    for name in ("sliding_window", "softcap", "s_aux", "position_bias"):
        if options.get(name) is not None:
            raise ValueError(f"{name} = {options[name]!r}: is not emulated")
    if attention_mask is not None:
        raise ValueError("attention_mask hides tokens: padding is not emulated")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out = layer.attend(query[0].float(), scale)
    return out.transpose(0, 1)[None].to(query.dtype).contiguous(), None


def _mask(*, attention_mask: torch.Tensor | None = None, **sizes: Any) -> torch.Tensor | None:
    """None where no token is hidden but by causality, else the mask, for emulated_attention."""
    return None if attention_mask is None or bool(attention_mask.all()) else attention_mask


AttentionInterface.register(ATTENTION, emulated_attention)
AttentionMaskInterface.register(ATTENTION, _mask)
