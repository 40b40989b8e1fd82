"""Times and memory of one generate()."""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import dataclass
from typing import Any

import torch

from mpfa.bench.methods import Method, cache_bytes


@dataclass(frozen=True)
class Generation:
    """What one generate() took."""

    prefill_seconds: float  # from the call's first work to the first new token
    step_seconds: float  # a decode step of the whole batch, median after the first ones
    step_seconds_max: float
    prefill_peak_bytes: int  # of torch's allocator, weights included; 0 on the CPU
    decode_peak_bytes: int
    cache_bytes: int  # at the end

    def tokens_per_second(self, batch: int) -> float:
        """Of the whole batch, while decoding."""
        return batch / self.step_seconds


class _Clock:
    """A streamer: generate() tells it of the prompt, then of each token when it is on the host."""

    def __init__(self, device: torch.device) -> None:
        self.times: list[float] = []
        self.prefill_peak = 0
        self._device = device

    def put(self, _: Any) -> None:
        self.times.append(time.perf_counter())
        if len(self.times) == 2:
            self.prefill_peak = peak_bytes(self._device)
            reset_peak(self._device)

    def end(self) -> None:
        pass


def time_generation(
    model: Any, method: Method, cache: Any, tokens: torch.Tensor, *, steps: int, warmup: int
) -> Generation:
    """Greedy generate() of 1 + warmup + steps tokens after a prompt.

    Args:
        model: its attention implementation must be the method's.
        method: what `cache` belongs to.
        cache: an empty one.
        tokens: [batch, length], the prompts.
        steps: decode steps that count, at least 1.
        warmup: decode steps before them.
    """
    clock = _Clock(model.device)
    synchronize(model.device)
    reset_peak(model.device)
    model.generate(
        tokens,
        attention_mask=torch.ones_like(tokens),
        past_key_values=cache,
        max_new_tokens=1 + warmup + steps,
        do_sample=False,
        streamer=clock,
        **method.options,
    )
    synchronize(model.device)
    prompt, first, *others = clock.times
    took = [b - a for a, b in zip([first, *others], others, strict=False)][warmup:]
    return Generation(
        prefill_seconds=first - prompt,
        step_seconds=statistics.median(took),
        step_seconds_max=max(took),
        prefill_peak_bytes=clock.prefill_peak,
        decode_peak_bytes=peak_bytes(model.device),
        cache_bytes=cache_bytes(cache),
    )


def synchronize(device: torch.device) -> None:
    """Waits for a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def free_memory(device: torch.device) -> None:
    """Gives back what nobody holds, so that runs do not see each other's."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def reset_peak(device: torch.device) -> None:
    """Starts peak_bytes() anew."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: torch.device) -> int:
    """The most that torch has held at once since reset_peak(); 0 on the CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
