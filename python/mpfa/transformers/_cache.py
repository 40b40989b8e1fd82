"""The cache that transformers' models write and the attention function "mpfa" reads."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache

from mpfa._scalars import PrefillPrecision, integer
from mpfa.transformers._layer import MpfaLayer
from mpfa.transformers._memory import CacheMemory
from mpfa.transformers._options import CacheOptions, ModelShape
from mpfa.transformers._packed_states import PackedStates
from mpfa.transformers._sequences import Sequences
from mpfa.transformers._statistics import ModelStatistics


class MpfaCache(Cache):
    """A cache of all layers of a model: K in NVFP4, V in FP8, in pages.

    For models with attn_implementation="mpfa" (see the package). It grows by pages as tokens come.
    Batches may be padded on any side; padding is not stored. Beam search, assisted decoding,
    chunked prompts (prefill_chunk_size), copies (copy.deepcopy) and continued conversations work
    as with transformers' own DynamicCache.
    """

    def __init__(
        self,
        config: Any,
        *,
        statistics: ModelStatistics | Any = None,
        residual_rank: int = 8,
        first_key: bool = True,
        delta_s: bool = False,
        scale_rule: str = "search",
        page_size: int = 64,
        reserve_tokens: int = 0,
        batch_invariant: bool = False,
        prefill_precision: PrefillPrecision = "auto",
    ) -> None:
        """Makes an empty cache; memory is taken when the first tokens come.

        Args:
            config: the model's (model.config).
            statistics: ModelStatistics of the model, or the path of their file; None: each sequence
                gets its own, frozen from the first tokens that it stores (its prompt, or the first
                chunk of it), and a warning says so.
            residual_rank: r, 0 (no residual), 4, 8 or 16.
            first_key: whether the first key of a sequence is exact.
            delta_s: whether the paper's compensation is stored.
            scale_rule: "search" tries six scales a block, "plain" is the paper's.
            page_size: tokens of a page, 16, 32, 64 or 128.
            reserve_tokens: room that is taken at once for this many tokens of each sequence. Above
                it the cache grows by a page and at most 1/128 at a time, for which it is copied.
            batch_invariant: results do not depend on the rest of the batch, on a GPU at some cost.
            prefill_precision: "auto", "fp16", "fp8" or "fp8_fp16_scores", as of mpfa.plan().

        Raises:
            TypeError, ValueError: an argument that is out of range, or a model that is not
                supported, by name.
            OSError: a file that holds no statistics.
        """
        self._shape = ModelShape.of(config)
        self._options = CacheOptions.checked(
            self._shape,
            statistics=statistics,
            residual_rank=residual_rank,
            first_key=first_key,
            delta_s=delta_s,
            scale_rule=scale_rule,
            page_size=page_size,
            reserve_tokens=reserve_tokens,
            batch_invariant=batch_invariant,
            prefill_precision=prefill_precision,
        )
        self._sequences = Sequences(self._shape, self._options)
        super().__init__(
            layers=[
                MpfaLayer(index, self._shape, self._options, self._sequences, leads=index == 0)
                for index in range(self._shape.num_layers)
            ]
        )

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[PackedStates, PackedStates]:
        """New keys and values of a layer, [B, Hkv, n, d], for the attention function "mpfa"."""
        if not 0 <= layer_idx < len(self.layers):
            raise ValueError(
                f"layer_idx = {layer_idx}: the cache was made for {len(self.layers)} layers"
            )
        return self.layers[layer_idx].update(key_states, value_states)

    def memory(self) -> CacheMemory:
        """How much memory the cache holds now."""
        sizes = [layer.nbytes() for layer in self.layers]
        tokens = self._sequences.rows * self.get_seq_length()
        width = self._shape.num_kv_heads * self._shape.head_dim * self._shape.num_layers
        return CacheMemory(
            tokens=tokens,
            page_bytes=sum(pages for pages, _ in sizes),
            statistics_bytes=sum(statistics for _, statistics in sizes),
            bfloat16_bytes=2 * 2 * tokens * width,
        )

    def frozen_statistics(self, row: int = 0) -> ModelStatistics:
        """The statistics that sequence `row` uses, for instance to save those of a prompt.

        Raises:
            ValueError: a row that is not there, or no token has been stored.
        """
        if any(layer.store is None for layer in self.layers):
            raise ValueError("the cache holds no tokens: it has no frozen statistics yet")
        if not 0 <= integer("row", row) < self._sequences.rows:
            raise ValueError(f"row = {row}: must be 0 to {self._sequences.rows - 1}")
        given = self._options.statistics
        metadata = {
            "made_by": "mpfa.transformers.MpfaCache, from a prompt",
            "scale_rule": self._options.scale_rule,
            "delta_s": "true" if self._options.delta_s else "false",
        }
        return ModelStatistics(
            {layer.index: layer.frozen_statistics(row) for layer in self.layers},
            metadata if given is None else dict(given.metadata),
        )

    def crop(self, tokens_to_remove: int) -> None:
        """Removes the last -tokens_to_remove columns; above 0 it is how many stay at most."""
        tokens_to_remove = int(tokens_to_remove)  # generate() has it as a tensor
        stored = self.get_seq_length()
        stays = tokens_to_remove if tokens_to_remove > 0 else stored + tokens_to_remove
        if stays < 0:
            raise ValueError(
                f"tokens_to_remove = {tokens_to_remove}: the cache holds {stored} tokens"
            )
        if stays >= stored:
            return
        for layer in self.layers:
            layer.crop_to(stays)

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Row i becomes what row beam_idx[i] is, as beam search needs."""
        self.batch_select_indices(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Every row `repeats` times, one after the other."""
        rows = torch.arange(self._sequences.rows)
        self.batch_select_indices(rows.repeat_interleave(repeats))

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Only these rows stay, in this order; a mask of rows is taken, too."""
        if self.get_seq_length() == 0:
            return
        if indices.dtype == torch.bool:
            indices = indices.nonzero().flatten()
        rows = self._sequences.rows
        for layer in self.layers:
            layer.select_rows(indices, rows)
        self._sequences.select_rows(indices)

    def reset(self) -> None:
        """Forgets all tokens, and statistics that came from a prompt; memory is given back."""
        super().reset()
        self._sequences.clear()
