"""Attention over the cache, and its plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mpfa import _direct
from mpfa._cache import KvCache, check_cache
from mpfa._dispatch import operators_for
from mpfa._scalars import (
    PREFILL_PRECISIONS,
    PrefillPrecision,
    flag,
    integer,
    number,
    prefill_precision_number,
)
from mpfa._tensors import check_rank, device_of, device_text, empty, finish, parse_device


@dataclass(frozen=True)
class Plan:
    """How the work of calls is split, as plan() finds it; attention() refuses a changed one."""

    device: str
    batch_size: int
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    total_seqlen_q: int
    max_seqlen_q: int
    max_seqlen_k: int
    kv_split_size: int  # tokens of the cache that one work item covers
    batch_invariant: bool
    prefill_precision: PrefillPrecision
    max_num_splits: int  # splits of the longest sequence
    workspace_bytes: int  # 0: attention() needs no workspace
    numbers: tuple[int, ...] = field(init=False, repr=False, compare=False)  # for the library

    def __post_init__(self) -> None:
        """Keeps the numbers, which a changed copy then has of its own."""
        sizes = (
            self.batch_size,
            self.num_q_heads,
            self.num_kv_heads,
            self.head_dim,
            self.total_seqlen_q,
            self.max_seqlen_q,
            self.max_seqlen_k,
            self.kv_split_size,
            int(self.batch_invariant),
            prefill_precision_number(self.prefill_precision),
            self.max_num_splits,
            self.workspace_bytes,
        )
        object.__setattr__(self, "numbers", (*parse_device("device", self.device), *sizes))

    @classmethod
    def from_numbers(cls, numbers: tuple[int, ...]) -> Plan:
        """The plan that has these numbers."""
        device = device_text((numbers[0], numbers[1]))
        precision = PREFILL_PRECISIONS[numbers[11]]
        members: tuple[Any, ...] = (
            *numbers[2:10],
            bool(numbers[10]),
            precision,
            *numbers[12:],
        )
        return cls(device, *members)


def plan(
    *,
    batch_size: int,
    num_q_heads: int,
    num_kv_heads: int,
    head_dim: int,
    total_seqlen_q: int,
    max_seqlen_k: int,
    max_seqlen_q: int = 0,
    kv_split_size: int = 0,
    batch_invariant: bool = False,
    prefill_precision: PrefillPrecision = "auto",
    device: Any = "cpu",
) -> Plan:
    """Splits the work of attention() for the most that its calls may need.

    Args:
        batch_size, num_q_heads, num_kv_heads, head_dim: of the calls.
        total_seqlen_q: rows of q of one call, at most.
        max_seqlen_k: tokens of the longest sequence in the cache, at most.
        max_seqlen_q: rows of one sequence, at most; 0: total_seqlen_q. On a GPU a plan for more
            than 16 gets the kernel for prompts: decode steps want a plan of their own.
        kv_split_size: tokens that one work item covers; 0 chooses.
        batch_invariant: results do not depend on the rest of the batch, on a GPU at some cost.
        prefill_precision: a hint for long queries on a GPU of compute capability 9.0 (Hopper); all
            else computes as "fp16" does. "fp16": the most accurate. "fp8": probabilities are
            rounded to FP8, an error of 2e-2 to 3e-2 of the output (relative L2). "fp8_fp16_scores":
            scores in FP16 as well, the fastest. "auto" chooses.
        device: "cpu", "cuda", "cuda:N" or a torch.device.

    Raises:
        TypeError, ValueError: an argument that is out of range, by name.
    """
    return Plan.from_numbers(
        _direct.plan(
            parse_device("device", device),
            integer("batch_size", batch_size),
            integer("num_q_heads", num_q_heads),
            integer("num_kv_heads", num_kv_heads),
            integer("head_dim", head_dim),
            integer("total_seqlen_q", total_seqlen_q),
            integer("max_seqlen_q", max_seqlen_q),
            integer("max_seqlen_k", max_seqlen_k),
            integer("kv_split_size", kv_split_size),
            flag("batch_invariant", batch_invariant),
            prefill_precision_number(prefill_precision),
        )
    )


def default_plan(q: Any, k_codes: Any, block_table: Any, cu_seqlens_q: Any) -> tuple[int, ...]:
    """The numbers of the plan that attention() makes of the shapes alone."""
    k_codes = check_rank("cache.k_codes", k_codes, 4)
    total_q, num_q_heads = q.shape[:2]
    batch_size, max_pages = block_table.shape
    return _direct.plan(
        device_of(q),
        batch_size,
        num_q_heads,
        k_codes.shape[1],
        2 * k_codes.shape[3],
        max(total_q, batch_size),
        1 if cu_seqlens_q is None else 0,
        max(max_pages * k_codes.shape[2], 1),
        0,
        False,
        0,
    )


def schedule(
    cache: KvCache,
    block_table: Any,
    seq_lens: Any,
    plan: Plan,
    workspace: Any,
    *,
    cu_seqlens_q: Any = None,
    causal: bool = True,
    window_left: int = -1,
    error_count: Any = None,
) -> None:
    """Shares the work of one step out to a GPU's multiprocessors and writes that into `workspace`.

    For any number of attention(..., is_scheduled=True) calls with the same lengths, pages and mask:
    a model's layers. `cache` is any layer's. A call that is not scheduled does it itself; on the
    CPU it does nothing.

    Raises:
        TypeError, ValueError: an argument that does not fit, by name.
    """
    check_cache(cache)
    mask = (flag("causal", causal), integer("window_left", window_left))
    numbers = _plan_numbers(plan)
    operators = operators_for(block_table=block_table)
    if operators is None:
        _direct.schedule(
            cache.packed(),
            block_table,
            seq_lens,
            cu_seqlens_q,
            *mask,
            error_count,
            numbers,
            workspace,
        )
    else:
        operators.schedule(
            *cache.tensors(),
            block_table,
            seq_lens,
            cu_seqlens_q,
            *mask,
            error_count,
            numbers,
            workspace,
        )


def attention(
    q: Any,
    cache: KvCache,
    block_table: Any = None,
    seq_lens: Any = None,
    *,
    cu_seqlens_q: Any = None,
    out: Any = None,
    lse: Any = None,
    return_lse: bool = False,
    softmax_scale: float | None = None,
    causal: bool = True,
    window_left: int = -1,
    softcap: float = 0.0,
    sinks: Any = None,
    plan: Plan | None = None,
    workspace: Any = None,
    is_scheduled: bool = False,
    error_count: Any = None,
) -> Any:
    """softmax(softmax_scale q k^T + masks) v, k and v read from the cache.

    One entry for prefill, chunked prefill and decode: new keys are appended first, then attended
    to. On a GPU it is queued on torch's current stream and may be captured in a CUDA graph.

    Args:
        q: [total_q, Hq, d] BF16, FP16 or (CPU only) FP32; any outer strides, innermost contiguous.
        cache: the layer's.
        block_table: [b, max_pages] int32: page numbers of each sequence; None: the cache's.
        seq_lens: [b] int32: tokens of each sequence, the new ones included; None: the cache's.
        cu_seqlens_q: [b + 1] int32: rows of q of each sequence; None: one row each (decode). Rows
            past the last are padding: not read in q and left alone in out and lse.
        out: like q, to write to; None: a new tensor.
        lse: [total_q, Hq] FP32 to write to; None: a new one if return_lse.
        return_lse: whether the natural logarithm of the denominator is wanted, too.
        softmax_scale: None: 1 / sqrt(d).
        causal: query i sees keys j <= i + seqlen_k - seqlen_q.
        window_left: at least 0: query i sees only j >= i + seqlen_k - seqlen_q - window_left.
        softcap: above 0: score = softcap tanh(score / softcap).
        sinks: [Hq] FP32: logits that join the softmax's denominator only.
        plan: None: one for q's rows and as many keys as block_table has room for. With CUDA graphs,
            and where lengths are far below that, make your own.
        workspace: uint8 [>= plan.workspace_bytes]; None: made where it is needed. Calls that may
            run at the same time need workspaces of their own.
        is_scheduled: schedule() has been called with this workspace (and plan).
        error_count: [1] int32 on the GPU: counts lengths, pages and rows of statistics that are out
            of range, which the host cannot see there; on the CPU they are errors.

    Returns:
        out, or (out, lse) where lse was given or asked for. A row without a visible key gives 0 and
        -inf.

    Raises:
        TypeError: an argument of a wrong kind.
        ValueError: a shape, type, stride or value that does not fit; nothing is written.
    """
    check_cache(cache)
    block_table = _table("block_table", block_table, cache.block_table, 2)
    seq_lens = _table("seq_lens", seq_lens, cache.seq_lens, 1)
    q = check_rank("q", q, 3)
    if is_scheduled and (plan is None or workspace is None):
        raise ValueError("is_scheduled is True: plan and workspace must be schedule()'s, not None")
    result = empty(q, tuple(q.shape)) if out is None else out
    result_lse = empty(q, tuple(q.shape[:2]), "float32") if return_lse and lse is None else lse
    options = (
        None if softmax_scale is None else number("softmax_scale", softmax_scale),
        flag("causal", causal),
        integer("window_left", window_left),
        number("softcap", softcap),
        sinks,
        flag("is_scheduled", is_scheduled),
        error_count,
    )
    numbers = None if plan is None else _plan_numbers(plan)
    operators = operators_for(q=q)
    if operators is None:
        if numbers is None:
            numbers = default_plan(q, cache.k_codes, block_table, cu_seqlens_q)
        _direct.attention(
            result,
            result_lse,
            q,
            cache.packed(),
            block_table,
            seq_lens,
            cu_seqlens_q,
            *options,
            numbers,
            workspace,
        )
    else:
        operators.attention(
            result,
            result_lse,
            q,
            *cache.tensors(),
            block_table,
            seq_lens,
            cu_seqlens_q,
            *options,
            numbers,
            workspace,
        )
    result = finish(q, result)
    return result if result_lse is None else (result, finish(q, result_lse))


def merge_states(
    outs: Sequence[Any], lses: Sequence[Any], *, out: Any = None, lse: Any = None
) -> tuple[Any, Any]:
    """Merges attention over disjoint parts of the keys into attention over all of them.

    Args:
        outs: each [total_q, Hq, d] BF16, FP16 or FP32; on a GPU at most 512 of them.
        lses: each [total_q, Hq] FP32, as attention() returns them. A state whose lse is -inf counts
            for nothing.
        out, lse: to write to; None: new tensors. out may be exactly one of outs, lse one of lses.

    Returns:
        (out, lse).

    Raises:
        TypeError: an argument that is no tensor.
        ValueError: a shape or type that does not fit, none or too many states.
    """
    if len(outs) == 0:
        raise ValueError("outs is empty: must have at least one state")
    if len(lses) == 0:
        raise ValueError("lses is empty: must have as many states as outs")
    first = check_rank("outs[0]", outs[0], 3)
    first_lse = check_rank("lses[0]", lses[0], 2)
    result = empty(first, tuple(first.shape)) if out is None else out
    result_lse = empty(first, tuple(first_lse.shape), "float32") if lse is None else lse
    operators = operators_for(outs=first)
    call = _direct.merge_states if operators is None else operators.merge_states
    call(result, result_lse, list(outs), list(lses))
    return finish(first, result), finish(first, result_lse)


def _table(name: str, given: Any, own: Any, rank: int) -> Any:
    table = own if given is None else given
    if table is None:
        raise TypeError(f"{name} is None: must be given, because the cache has none of its own")
    return check_rank(name, table, rank)


def _plan_numbers(plan: Plan) -> tuple[int, ...]:
    if not isinstance(plan, Plan):
        raise TypeError(f"plan is a {type(plan).__qualname__}: must be a Plan of mpfa.plan()")
    return plan.numbers
