"""One layer of the cache."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from transformers.cache_utils import CacheLayerMixin

from mpfa._attention import attention, schedule
from mpfa._cache import KvCache, append_kv
from mpfa._direct import PAGE_FIELDS
from mpfa._statistics import Statistics
from mpfa.transformers._moments import Moments, row_statistics
from mpfa.transformers._options import CacheOptions, ModelShape
from mpfa.transformers._packed_states import PackedStates
from mpfa.transformers._sequences import Sequences, Step

_GROWTH = 128  # pages for each one that is added without being needed yet
_STATISTICS = ("k_mean", "q_mean", "residual_basis", "residual_scale")


class MpfaLayer(CacheLayerMixin):
    """The packed keys and values of one layer, which attend() writes and reads."""

    is_compileable = False
    is_croppable = True
    is_sliding = False  # a sliding layer keeps all tokens, too: its window is attention's
    supports_early_init = False

    def __init__(
        self,
        index: int,
        shape: ModelShape,
        options: CacheOptions,
        sequences: Sequences,
        *,
        leads: bool,
    ) -> None:
        """Empty. Of layers that share sequences the first leads: it begins each forward pass."""
        super().__init__()
        self.index = index
        self.store: KvCache | None = None
        self._shape = shape
        self._options = options
        self._sequences = sequences
        self._leads = leads
        self._columns = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing: memory is taken when tokens are stored."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[PackedStates, PackedStates]:
        """New keys and values [B, Hkv, n, d] for the attention function, which stores them.

        Only there the mask is known, and the queries that statistics are made of.
        """
        return PackedStates(self, key_states), PackedStates(self, value_states)

    def attend(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: torch.Tensor | None,
        *,
        softmax_scale: float | None = None,
        window_left: int = -1,
        softcap: float = 0.0,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Stores new keys and values, then attends to all that are stored.

        Args:
            q: [B, Hq, m, d], queries of the last m new columns.
            k, v: [B, Hkv, n, d].
            mask: [B, stored + n] bool: which columns are tokens; None: all.
            softmax_scale, window_left, softcap, sinks: as mpfa.attention().

        Returns:
            [B, m, Hq, d]. What it holds for padding means nothing.

        Raises:
            ValueError: shapes, types or a mask that do not fit, before anything is stored.
        """
        self._check(q, k, v)
        if self._shape.is_sliding[self.index] and window_left < 0:
            raise ValueError(
                f"layer {self.index} has a sliding window by its configuration, but the model does"
                " not pass sliding_window to the attention function"
            )
        rows, _, keys, _ = k.shape
        if self._leads:
            self._sequences.begin(self._columns, rows, keys, q.shape[2], mask)
        step = self._sequences.step(self.index, self._columns, keys, k.device)
        self._make_room(step, q, k)
        append_kv(
            self.store,
            _tokens(k),
            _tokens(v),
            step.slots,
            cu_seqlens=None if self.store.stats_index is None else step.cu_seqlens_k,
            scale_rule=self._options.scale_rule,
        )
        self._columns = step.end
        return self._attention(
            step,
            q,
            softmax_scale=softmax_scale,
            window_left=window_left,
            softcap=softcap,
            sinks=sinks,
        )

    def _check(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        shape, where = self._shape, f"of layer {self.index}"
        kv_shape = (k.shape[0], shape.num_kv_heads, k.shape[2], shape.head_dim)
        for name, x in (("keys", k), ("values", v)):
            if tuple(x.shape) != kv_shape:
                raise ValueError(f"{name} {where} have shape {tuple(x.shape)}: must be {kv_shape}")
        q_shape = (k.shape[0], shape.num_q_heads, min(q.shape[2], k.shape[2]), shape.head_dim)
        if tuple(q.shape) != q_shape:
            raise ValueError(f"queries {where} have shape {tuple(q.shape)}: must be {q_shape}")
        if k.dtype != v.dtype:
            raise ValueError(f"keys {where} are {k.dtype}, values {v.dtype}: must be of one type")
        if q.device.type == "cuda" and q.dtype == torch.float32:
            raise ValueError(
                f"queries {where} are torch.float32: must be bfloat16 or float16 on a GPU"
            )
        if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
            raise ValueError(
                f"queries, keys or values {where} require grad: attention 'mpfa' computes no"
                " gradients, so the model must run under torch.no_grad()"
            )

    def _make_room(self, step: Step, q: torch.Tensor, k: torch.Tensor) -> None:
        needed = step.pages_per_row
        if self.store is None:
            reserved = -(-self._options.reserve_tokens // self._options.page_size)
            self.store = self._new_store(step, max(needed, reserved) * step.rows, q, k)
        elif self.store.num_pages < needed * step.rows:
            pages = (needed + needed // _GROWTH) * step.rows
            for name, x in _page_tensors(self.store):
                added = x.new_zeros(pages - x.shape[0], *x.shape[1:])
                setattr(self.store, name, _cat(x, added))

    def _new_store(self, step: Step, pages: int, q: torch.Tensor, k: torch.Tensor) -> KvCache:
        options = self._options
        if options.statistics is not None:
            store = options.new_store(self._shape, num_pages=pages, device=k.device)
            options.set_model_statistics(store, self.index)
            return store
        if self._leads:
            warnings.warn(
                "MpfaCache has no statistics of the model: each sequence's are frozen from its"
                f" first {k.shape[2]} tokens. Statistics of a text are better and make results"
                " independent of how prompts are cut (python -m mpfa.calibrate)",
                stacklevel=2,
            )
        store = options.new_store(self._shape, num_pages=pages, num_rows=step.rows, device=k.device)
        store.stats_index.copy_(torch.arange(step.rows, device=k.device))
        found = self._prompt_statistics(step, q, k)
        for name in _STATISTICS:
            if getattr(store, name) is not None:
                getattr(store, name).copy_(getattr(found, name))
        return store

    def _prompt_statistics(self, step: Step, q: torch.Tensor, k: torch.Tensor) -> Statistics:
        shape = self._shape
        moments = Moments(
            step.rows, shape.num_q_heads, shape.num_kv_heads, shape.head_dim, k.device
        )
        moments.add(q, k, step.valid)
        try:
            return row_statistics(
                moments,
                k,
                step.valid,
                residual_rank=self._options.residual_rank,
                delta_s=self._options.delta_s,
                scale_rule=self._options.scale_rule,
            )
        except ValueError as error:
            raise ValueError(f"layer {self.index}: {error}") from None

    def _attention(
        self, step: Step, q: torch.Tensor, *, window_left: int, **options: Any
    ) -> torch.Tensor:
        rows, heads, queries, head_dim = q.shape
        flat = _tokens(q)
        out = None
        if step.order is not None:
            flat = flat.index_select(0, step.order)
            out = torch.zeros_like(flat)  # rows of padding stay as they are
        result = attention(
            flat,
            self.store,
            step.block_table,
            step.seq_lens,
            cu_seqlens_q=step.cu_seqlens_q,
            out=out,
            window_left=window_left,
            plan=step.plan,
            workspace=self._workspace(step, window_left),
            is_scheduled=step.plan.workspace_bytes > 0,
            **options,
        )
        if step.order is not None:
            result = torch.empty_like(result).index_copy_(0, step.order, result)
        return result.view(rows, queries, heads, head_dim)

    def _workspace(self, step: Step, window_left: int) -> torch.Tensor | None:
        """Where the work of this pass is shared out already, for all layers with this window."""
        if step.plan.workspace_bytes == 0:
            return None
        workspace = step.workspaces.get(window_left)
        if workspace is None:
            workspace = torch.empty(
                step.plan.workspace_bytes, dtype=torch.uint8, device=step.slots.device
            )
            schedule(
                self.store,
                step.block_table,
                step.seq_lens,
                step.plan,
                workspace,
                cu_seqlens_q=step.cu_seqlens_q,
                window_left=window_left,
            )
            step.workspaces[window_left] = workspace
        return workspace

    def frozen_statistics(self, row: int) -> Statistics:
        """The statistics of a row; the layer must have stored something."""
        store = self.store
        index = 0 if store.stats_index is None else int(store.stats_index[row])
        values = ((name, getattr(store, name)) for name in _STATISTICS)
        return Statistics(
            **{name: None if x is None else x[index].to("cpu", copy=True) for name, x in values}
        )

    def nbytes(self) -> tuple[int, int]:
        """Bytes of the pages, and of the statistics."""
        if self.store is None:
            return 0, 0
        total = sum(x.nbytes for x in self.store.tensors() if x is not None)
        return self.store.nbytes, total - self.store.nbytes

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Columns that attention sees, and the first of them."""
        return self._columns + query_length, 0

    def get_seq_length(self) -> int:
        """Columns that are stored."""
        return self._columns

    def get_max_length(self) -> int:
        """-1: no maximum."""
        return -1

    def crop_to(self, columns: int) -> None:
        """Only the first columns stay; the pages of the others are kept for what comes next."""
        self._columns = columns
        if columns == 0:
            self.reset()

    def select_rows(self, indices: torch.Tensor, rows: int) -> None:
        """Only these of the `rows` rows stay, in this order; repetition is allowed."""
        if self.store is None:
            return
        place = indices.to(self.store.k_codes.device)
        for name, x in _page_tensors(self.store):
            pages = _bytes(x).reshape(-1, rows, *x.shape[1:])
            chosen = pages.index_select(1, place).flatten(0, 1)
            setattr(self.store, name, chosen.view(x.dtype))
        if self.store.stats_index is not None:
            self.store.stats_index = self.store.stats_index.index_select(0, place)

    def reset(self) -> None:
        """Forgets everything, memory and statistics of a prompt included."""
        self.store = None
        self._columns = 0

    def offload(self) -> None:
        """Refused."""
        raise NotImplementedError("MpfaCache cannot be offloaded")

    def prefetch(self) -> None:
        """Refused."""
        raise NotImplementedError("MpfaCache cannot be offloaded")

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Refused: rows are those of all layers."""
        raise NotImplementedError("layers of an MpfaCache are reordered together, by the cache")


def _tokens(x: torch.Tensor) -> torch.Tensor:
    """[B, H, n, d] as [B * n, H, d]: a view for one row or one token, else a copy."""
    rows, heads, tokens, head_dim = x.shape
    return x.transpose(1, 2).reshape(rows * tokens, heads, head_dim)


def _page_tensors(store: KvCache) -> list[tuple[str, torch.Tensor]]:
    named = ((name, getattr(store, name)) for name in PAGE_FIELDS)
    return [(name, x) for name, x in named if x is not None]


def _bytes(x: torch.Tensor) -> torch.Tensor:
    """FP8 as plain bytes, for the operations of torch that do not take it."""
    return x.view(torch.uint8) if x.dtype == torch.float8_e4m3fn else x


def _cat(x: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
    return torch.cat([_bytes(x), _bytes(added)]).view(x.dtype)
