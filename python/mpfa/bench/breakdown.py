"""Where the time of a decode step goes: on the host, and on the GPU by kernel."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from mpfa.bench.generation import synchronize

# Kinds of kernels by parts of their names, the first that fits; what fits none is "others".
_KINDS = (
    ("MpFA's decode", ("decode_kernel", "mpfa::kernels::decode")),
    ("MpFA's append", ("append",)),
    ("MpFA's schedule", ("schedule",)),
    ("attention", ("flash", "fmha", "softmax", "attention")),  # whose names may say cutlass
    ("matrix products", ("gemm", "gemv", "nvjet", "cutlass", "splitK", "cublas")),
    ("concatenation", ("CatArray",)),
)
OTHERS = "others"


@dataclass(frozen=True)
class Breakdown:
    """Of one decode step of a whole model, in seconds; medians."""

    step: float  # wall clock, the GPU waited for
    host: float  # until all work is queued
    attention_host: float  # of that, in cache.update() and the attention function of all layers
    gpu: float  # kernels, by torch.profiler; 0 on the CPU
    kinds: dict[str, float] = field(default_factory=dict)  # of kernels
    kernels: dict[str, float] = field(default_factory=dict)  # the slowest ones


def decode_breakdown(
    model: Any, cache: Any, batch: int, *, steps: int = 8, profiled: int = 4
) -> Breakdown:
    """Runs decode steps on a cache that holds a prompt, one token each.

    Args:
        model: its attention implementation must be the cache's.
        cache: grows by the tokens of all steps.
        batch: rows of the cache.
        steps: that are timed with and without timers in the attention, each.
        profiled: that are run under torch.profiler.
    """
    token = torch.ones(batch, 1, dtype=torch.long, device=model.device)

    def step() -> None:
        stored = cache.get_seq_length()
        position = torch.full((batch, 1), stored, device=model.device)
        model(token, past_key_values=cache, position_ids=position, use_cache=True)

    with torch.no_grad():
        for _ in range(3):
            step()
        whole = [_timed_step(step, model.device) for _ in range(steps)]
        spent: list[float] = []
        with _timers(model, cache, spent):
            inside = []
            for _ in range(steps):
                spent.clear()
                _timed_step(step, model.device)
                inside.append(sum(spent))
        kernels = _kernel_seconds(step, model.device, profiled)
    kinds: dict[str, float] = {}
    for name, seconds in kernels.items():
        kinds[kind_of(name)] = kinds.get(kind_of(name), 0.0) + seconds
    slowest = sorted(kernels.items(), key=lambda item: -item[1])[:12]
    return Breakdown(
        step=statistics.median(x for x, _ in whole),
        host=statistics.median(x for _, x in whole),
        attention_host=statistics.median(inside),
        gpu=sum(kernels.values()),
        kinds=kinds,
        kernels=dict(slowest),
    )


def kind_of(kernel: str) -> str:
    """What a kernel does, by its name."""
    for kind, parts in _KINDS:
        if any(part in kernel for part in parts):
            return kind
    return OTHERS


def _timed_step(step: Callable[[], None], device: torch.device) -> tuple[float, float]:
    synchronize(device)
    start = time.perf_counter()
    step()
    queued = time.perf_counter()
    synchronize(device)
    return time.perf_counter() - start, queued - start


@contextmanager
def _timers(model: Any, cache: Any, spent: list[float]) -> Iterator[None]:
    """Adds to `spent` what each cache.update() and each call of the attention function takes."""

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = function(*args, **kwargs)
            spent.append(time.perf_counter() - start)
            return result

        return call

    name = model.config._attn_implementation
    attention = ALL_ATTENTION_FUNCTIONS[name]
    AttentionInterface.register(name, timed(attention))
    cache.update = timed(cache.update)
    try:
        yield
    finally:
        del cache.update
        AttentionInterface.register(name, attention)


def _kernel_seconds(step: Callable[[], None], device: torch.device, steps: int) -> dict[str, float]:
    """Seconds a step by the kernels' names; empty on the CPU."""
    if device.type != "cuda":
        return {}
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
        for _ in range(steps):
            step()
        synchronize(device)
    return {
        event.key: event.self_device_time_total / 1e6 / steps
        for event in profiler.key_averages()
        if event.self_device_time_total > 0
    }
