"""Calibration of a whole model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from mpfa._info import __version__
from mpfa._scalars import flag, integer, searches_scales
from mpfa._statistics import Statistics
from mpfa.transformers._moments import KeySample, Moments, row_statistics
from mpfa.transformers._observer import observed
from mpfa.transformers._options import ModelShape
from mpfa.transformers._statistics import ModelStatistics


def calibrate_model(
    model: Any,
    batches: Iterable[Any],
    *,
    residual_rank: int = 16,
    delta_s: bool = False,
    scale_rule: str = "search",
    sample_tokens: int = 2048,
    source: str = "",
    progress: Callable[[int], None] | None = None,
) -> ModelStatistics:
    """Runs a model over text and calibrates every layer on its queries and keys.

    Means and the residual directions are those of all tokens, summed up as they come; the residual
    scales are those of `sample_tokens` keys spread over the text. So memory does not grow with it.

    Args:
        model: a causal language model of transformers, on any device; its attention implementation
            is put back afterwards.
        batches: of tokens: input_ids [b, tokens] each, or a dictionary with input_ids and
            attention_mask (padding counts for nothing).
        residual_rank: directions, 4, 8 or 16; 0: none. A cache may use fewer than there are, so 16
            serves all.
        delta_s: for caches with delta_s: the directions of the queries less their mean.
        scale_rule: "search" or "plain", as the cache will quantise K.
        sample_tokens: keys that are kept for the residual scales, at least.
        source: what the tokens are (a file's name), for the metadata.
        progress: called with the number of tokens done after each batch.

    Raises:
        TypeError, ValueError: an argument that is out of range, no tokens, activations that are not
            finite, or a model that is not supported, by name.
    """
    shape = ModelShape.of(model.config)
    if integer("residual_rank", residual_rank) not in (0, 4, 8, 16):
        raise ValueError(f"residual_rank = {residual_rank}: must be 0, 4, 8 or 16")
    if integer("sample_tokens", sample_tokens) < 1:
        raise ValueError(f"sample_tokens = {sample_tokens}: must be at least 1")
    flag("delta_s", delta_s)
    searches_scales(scale_rule)
    sums = _ModelSums(shape, sample_tokens)
    tokens = 0
    was_training = model.training
    model.eval()
    try:
        with observed(model, sums.observe), torch.no_grad():
            for batch in batches:
                inputs, tokens_of_batch = sums.start_batch(batch, model.device)
                model(**inputs, use_cache=False, **_last_logits_only(model))
                tokens += tokens_of_batch
                if progress is not None:
                    progress(tokens)
    finally:
        model.train(was_training)
    if tokens == 0:
        raise ValueError("batches has no tokens: calibration needs at least one")
    layers = sums.finish(residual_rank=residual_rank, delta_s=delta_s, scale_rule=scale_rule)
    metadata = {
        "made_by": "mpfa.transformers.calibrate_model",
        "mpfa_version": __version__,
        "model": model.config.name_or_path or type(model).__qualname__,
        "source": source,
        "tokens": str(tokens),
        "sample_tokens": str(sample_tokens),
        "scale_rule": scale_rule,
        "delta_s": "true" if delta_s else "false",
    }
    return ModelStatistics(layers, metadata)


class _ModelSums:
    """What is kept of the activations of all layers."""

    def __init__(self, shape: ModelShape, sample_tokens: int) -> None:
        self._shape = shape
        self._moments: dict[int, Moments] = {}
        self._samples = [KeySample(sample_tokens) for _ in range(shape.num_layers)]
        self._valid: torch.Tensor | None = None  # [b * tokens] bool of the batch under way

    def start_batch(self, batch: Any, device: torch.device) -> tuple[dict[str, Any], int]:
        """The model's inputs of a batch, and its tokens."""
        inputs = dict(batch) if isinstance(batch, Mapping) else {"input_ids": batch}
        if not isinstance(inputs.get("input_ids"), torch.Tensor) or inputs["input_ids"].ndim != 2:
            raise TypeError(
                "a batch must be input_ids [b, tokens], a tensor of torch, or a dictionary that has"
                f" them; it is a {type(batch).__qualname__}"
            )
        inputs = {
            name: inputs[name].to(device)
            for name in ("input_ids", "attention_mask")
            if inputs.get(name) is not None
        }
        mask = inputs.get("attention_mask")
        if mask is None:
            self._valid = None
            return inputs, inputs["input_ids"].numel()
        if mask.shape != inputs["input_ids"].shape:
            raise ValueError(
                f"attention_mask has shape {tuple(mask.shape)}: must have that of input_ids,"
                f" {tuple(inputs['input_ids'].shape)}"
            )
        self._valid = mask.bool().reshape(-1)
        inputs["position_ids"] = (mask.long().cumsum(1) - 1).clamp(min=0)
        return inputs, int(self._valid.sum())

    def observe(self, index: int, q: torch.Tensor, k: torch.Tensor) -> None:
        """Takes a layer's queries and keys of the batch: one row of statistics for all of them."""
        shape = self._shape
        if not 0 <= index < shape.num_layers:
            return
        if (q.shape[1], k.shape[1], k.shape[3]) != (
            shape.num_q_heads,
            shape.num_kv_heads,
            shape.head_dim,
        ):
            raise ValueError(
                f"layer {index}: queries have shape {tuple(q.shape)}, keys {tuple(k.shape)}: must"
                f" be of {shape.num_q_heads} and {shape.num_kv_heads} heads of {shape.head_dim}"
            )
        q, k = (x.transpose(1, 2).flatten(0, 1) for x in (q, k))  # [b * tokens, heads, d]
        if self._valid is not None:
            valid = self._valid.to(k.device)
            q, k = q[valid], k[valid]
        if index not in self._moments:
            self._moments[index] = Moments(
                1, shape.num_q_heads, shape.num_kv_heads, shape.head_dim, k.device
            )
        self._moments[index].add(q.transpose(0, 1)[None], k.transpose(0, 1)[None], None)
        self._samples[index].add(k)

    def finish(self, **options: Any) -> dict[int, Statistics]:
        """The statistics of every layer, on the CPU."""
        layers = {}
        for index, sample in enumerate(self._samples):
            if index not in self._moments:
                raise ValueError(
                    f"layer {index} has shown no queries: its attention does not go through"
                    " transformers' AttentionInterface"
                )
            try:
                found = row_statistics(self._moments[index], sample.keys(), None, **options)
            except ValueError as error:
                raise ValueError(f"layer {index}: {error}") from None
            values = (found.k_mean, found.q_mean, found.residual_basis, found.residual_scale)
            layers[index] = Statistics(*(None if x is None else x[0].cpu() for x in values))
        return layers


def _last_logits_only(model: Any) -> dict[str, Any]:
    """Logits of a whole batch would be the largest tensor of all, and nobody looks at them."""
    return {"logits_to_keep": 1} if model._supports_logits_to_keep() else {}
