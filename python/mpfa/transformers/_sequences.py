"""The sequences of a cache: what its layers have in common, made once for each forward pass.

transformers counts columns: every row of a batch has as many, padding included. The cache stores
tokens: padding takes no slot, so that the tokens of a row are neighbours in their sequence
wherever the padding is. Page p of row i is page p * rows + i of every layer's pool, so that pools
grow at their ends, and nobody has to know the rows' lengths on the host.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from mpfa._attention import Plan, plan
from mpfa.transformers._options import CacheOptions, ModelShape


@dataclass
class Step:
    """One forward pass on one device: B rows, n new columns, m of them with queries."""

    rows: int
    begin: int  # columns stored before
    end: int  # and after
    pages_per_row: int
    block_table: torch.Tensor  # [B, pages_per_row] int32
    seq_lens: torch.Tensor  # [B] int32
    slots: torch.Tensor  # [B * n] int64
    cu_seqlens_k: torch.Tensor  # [B + 1] int32, new columns of each row
    valid: torch.Tensor | None  # [B, n] bool: new columns that are tokens; None: all
    cu_seqlens_q: torch.Tensor | None  # [B + 1] int32, queries of each row; None: one each
    order: torch.Tensor | None  # [B * m] int64: queries that are tokens first; None: as they are
    plan: Plan
    workspaces: dict[int, torch.Tensor] = field(default_factory=dict)  # by window_left


@dataclass(frozen=True)
class _Layout:
    """What passes of one shape have in common: decode steps, until they need a page more."""

    row: torch.Tensor  # [B, 1] int64: 0, 1, ...
    block_table: torch.Tensor
    counts: torch.Tensor  # [B + 1] int32: 0, 1, ...
    cu_seqlens_k: torch.Tensor
    plan: Plan


class Sequences:
    """The rows of a batch, and the forward pass that is under way."""

    def __init__(self, shape: ModelShape, options: CacheOptions) -> None:
        """No rows."""
        self._shape = shape
        self._options = options
        self.clear()

    def clear(self) -> None:
        """Forgets the rows."""
        self.rows = 0
        # [B, columns] bool of the last pass, which cropped layers use in part; None: no padding.
        self.valid: torch.Tensor | None = None
        self._begin = self._end = self._queries = 0
        self._steps: dict[torch.device, Step] = {}
        self._layouts: dict[torch.device, tuple[tuple[int, ...], _Layout]] = {}  # the last ones

    def begin(
        self, columns: int, rows: int, keys: int, queries: int, mask: torch.Tensor | None
    ) -> None:
        """Starts a forward pass.

        Args:
            columns: those stored.
            rows: B.
            keys, queries: new columns, and how many of the last have queries.
            mask: [B, columns + keys] bool: which columns are tokens; None: the new ones all are.

        Raises:
            ValueError: a batch or a mask that does not fit what is stored.
        """
        if columns > 0 and rows != self.rows:
            raise ValueError(f"the batch has {rows} rows: the cache holds {self.rows}")
        past = None if self.valid is None or columns == 0 else self.valid[:, :columns]
        total = columns + keys
        if mask is None:
            if past is not None:
                mask = torch.cat([past, past.new_ones(rows, keys)], 1)
        elif tuple(mask.shape) != (rows, total):
            raise ValueError(
                f"attention_mask has shape {tuple(mask.shape)}: must be {(rows, total)}, for the"
                f" {columns} tokens of the cache and the {keys} new ones"
            )
        elif mask.device.type == "cpu" or keys > 1:  # a decode step must not wait for a GPU
            mask = _checked_mask(mask, past, columns)
        self.rows = rows
        self.valid = mask
        self._begin, self._end, self._queries = columns, total, queries
        self._steps = {}

    def step(self, layer: int, columns: int, keys: int, device: torch.device) -> Step:
        """The pass under way, for a layer that has stored `columns`.

        Raises:
            RuntimeError: a layer that is elsewhere than the others.
        """
        if columns != self._begin or columns + keys != self._end:
            raise RuntimeError(
                f"layer {layer} has stored {columns} tokens and gets {keys}: the pass began with"
                f" {self._begin} and ends with {self._end}. An earlier one was interrupted:"
                " reset() the cache"
            )
        found = self._steps.get(device)
        if found is None:
            found = self._steps[device] = self._new_step(device)
        return found

    def select_rows(self, indices: torch.Tensor) -> None:
        """Only these rows stay, in this order; repetition is allowed."""
        self.rows = indices.shape[0]
        if self.valid is not None:
            self.valid = self.valid.index_select(0, indices.to(self.valid.device))
        self._steps = {}

    def _new_step(self, device: torch.device) -> Step:
        rows, begin, end = self.rows, self._begin, self._end
        keys, page_size = end - begin, self._options.page_size
        pages = -(-end // page_size)
        layout = self._layout(device, keys, pages)
        valid = None if self.valid is None else self.valid.to(device)
        if valid is None:
            seq_lens = torch.full((rows,), end, dtype=torch.int32, device=device)
            position = torch.arange(begin, end, device=device).expand(rows, keys)
        else:
            # Sums of what is stored, which is long, and a scan of what is new: scans are slow.
            stored = valid[:, :begin].sum(1, keepdim=True)
            valid = valid[:, begin:]
            count = stored + valid.cumsum(1)
            seq_lens = count[:, -1].int()
            position = count - 1
        slots = (position // page_size * rows + layout.row) * page_size + position % page_size
        if valid is not None:
            slots = slots.masked_fill(~valid, -1)
        cu_seqlens_q, order = _query_rows(layout.counts, valid, self._queries)
        return Step(
            rows=rows,
            begin=begin,
            end=end,
            pages_per_row=pages,
            block_table=layout.block_table,
            seq_lens=seq_lens,
            slots=slots.reshape(-1),
            cu_seqlens_k=layout.cu_seqlens_k,
            valid=valid,
            cu_seqlens_q=cu_seqlens_q,
            order=order,
            plan=layout.plan,
        )

    def _layout(self, device: torch.device, keys: int, pages: int) -> _Layout:
        """That of the pass under way, for a device."""
        rows, queries = self.rows, self._queries
        shape = (rows, keys, queries, pages)
        known = self._layouts.get(device)
        if known is not None and known[0] == shape:
            return known[1]
        row = torch.arange(rows, device=device)[:, None]
        counts = torch.arange(rows + 1, dtype=torch.int32, device=device)
        layout = _Layout(
            row=row,
            block_table=(torch.arange(pages, device=device) * rows + row).int(),
            counts=counts,
            cu_seqlens_k=counts * keys,
            plan=plan(
                batch_size=rows,
                num_q_heads=self._shape.num_q_heads,
                num_kv_heads=self._shape.num_kv_heads,
                head_dim=self._shape.head_dim,
                total_seqlen_q=rows * queries,
                max_seqlen_q=queries,
                max_seqlen_k=pages * self._options.page_size,
                batch_invariant=self._options.batch_invariant,
                prefill_precision=self._options.prefill_precision,
                device=device,
            ),
        )
        self._layouts[device] = (shape, layout)
        return layout


def _checked_mask(
    mask: torch.Tensor, past: torch.Tensor | None, columns: int
) -> torch.Tensor | None:
    """The mask, None if nothing is padding; ValueError if it changes what is stored."""
    stored = mask[:, :columns]
    same = bool(stored.all()) if past is None else torch.equal(stored, past.to(mask.device))
    if not same:
        raise ValueError(
            f"attention_mask differs in its first {columns} columns from the one that they were"
            " stored with: tokens of the cache cannot be hidden or brought back"
        )
    return None if bool(mask.all()) else mask


def _query_rows(
    counts: torch.Tensor, valid: torch.Tensor | None, queries: int
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """cu_seqlens_q and order of a Step."""
    if queries == 1:  # that of a padded row sees what is there, and nobody looks at its result
        return None, None
    if valid is None:
        return counts * queries, None
    asked = valid[:, -queries:]
    ends = asked.sum(1).cumsum(0).int()
    order = torch.argsort(~asked.reshape(-1), stable=True)
    return torch.cat([counts[:1], ends]), order
