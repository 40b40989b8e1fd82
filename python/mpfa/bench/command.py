"""The command line of python -m mpfa.bench."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_DEFAULT = ("mpfa", "sdpa", "sdpa_flash", "flash_attention_2", "flash_attention_3")
_GIB = 1 << 30
_HEADER = (
    "method", "batch", "context", "prefill s", "tokens/s", "step ms", "cache GiB",
    "peak GiB, prefill", "decode",
)  # fmt: skip


def make_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m mpfa.bench",
        description="generate() of a Llama-shaped model of random weights: prefill seconds, decode"
        " tokens/s and memory on the low-bit cache, and on transformers' own.",
    )
    add = parser.add_argument
    add("--methods", type=_names, default=list(_DEFAULT), metavar="A,B",
        help=f"{','.join(_DEFAULT)} (default), sdpa_static, sdpa_compiled")  # fmt: skip
    add("--lengths", type=_numbers, default=[8192, 16384, 32768, 65536], metavar="N,M",
        help="tokens of a prompt (default 8192,16384,32768,65536)")  # fmt: skip
    add("--batches", type=_numbers, default=[1, 8], metavar="N,M", help="(default 1,8)")
    add("--layers", type=_positive, default=32, metavar="N", help="(default %(default)s)")
    add("--hidden-size", type=_positive, default=4096, metavar="N")
    add("--intermediate-size", type=_positive, default=14336, metavar="N")
    add("--q-heads", type=_positive, default=32, metavar="N")
    add("--kv-heads", type=_positive, default=8, metavar="N")
    add("--head-dim", type=_positive, default=128, metavar="N")
    add("--vocabulary", type=_positive, default=128256, metavar="N")
    add("--steps", type=_positive, default=32, metavar="N", help="decode steps (default 32)")
    add("--warmup", type=int, default=8, metavar="N", help="steps before them (default 8)")
    add("--repeats", type=_positive, default=1, metavar="N",
        help="generate() calls of each, the fastest prefill and step count")  # fmt: skip
    add("--breakdown", action="store_true", help="where a decode step's time goes, too")
    add("--dtype", default="bfloat16", help="bfloat16 (default), float16; on the CPU also float32")
    add("--device", default="cuda", help="cuda (default), cuda:N or cpu")
    add("-o", "--output", metavar="FILE", help="all figures as JSON, as they come")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; 0, or 2 for arguments that do not fit, with a message."""
    options = make_parser().parse_args(arguments)
    try:
        _run(options)
    except (ValueError, ImportError, OSError) as error:
        print(f"mpfa.bench: error: {error}", file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace) -> None:
    # Only here: --help and faults of the command line need not wait for them.
    import torch
    from transformers.utils import logging

    from mpfa.bench.methods import METHODS
    from mpfa.bench.model import ModelSize, make_model, model_statistics
    from mpfa.models import DTYPES

    _check(options, list(METHODS), list(DTYPES))
    logging.set_verbosity_error()
    missing = [name for name in options.methods if not METHODS[name].available()]
    for name in missing:
        _note(f"{name} is left out: its package is not installed")
    size = ModelSize(
        layers=options.layers,
        hidden_size=options.hidden_size,
        intermediate_size=options.intermediate_size,
        num_q_heads=options.q_heads,
        num_kv_heads=options.kv_heads,
        head_dim=options.head_dim,
        vocabulary=options.vocabulary,
    )
    longest = max(options.lengths) + 1 + options.warmup + options.steps
    model = make_model(size, max_tokens=longest, dtype=DTYPES[options.dtype], device=options.device)
    statistics = model_statistics(model)
    report: dict[str, Any] = {
        "environment": _environment(torch, options.device),
        "model": dataclasses.asdict(size) | {"dtype": options.dtype},
        "model_bytes": sum(x.nbytes for x in model.parameters()),
        "missing": missing,
        "runs": [],
    }
    _note(f"{report['environment']}; {report['model']}")
    present = [name for name in options.methods if name not in missing]
    runs = [
        (name, batch, length)
        for batch in options.batches
        for length in options.lengths
        for name in present
    ]
    print("| " + " | ".join(_HEADER) + " |\n" + "|---" * len(_HEADER) + "|", flush=True)
    bench = _Bench(model, statistics, options)
    for name in present:
        bench.warm_up(METHODS[name])
    for name, batch, length in runs:
        run = {"method": name, "batch": batch, "length": length}
        run |= bench.measured(METHODS[name], batch, length)
        report["runs"].append(run)
        _print_row(run)
        if options.output:
            Path(options.output).write_text(json.dumps(report, indent=1) + "\n")


@dataclasses.dataclass(frozen=True)
class _Bench:
    """What all runs have in common."""

    model: Any
    statistics: Any
    options: argparse.Namespace

    def room(self, length: int) -> int:
        """Of caches of a fixed size: for the steps of a breakdown, too."""
        return length + 1 + self.options.warmup + self.options.steps + 64

    def warm_up(self, method: Any) -> None:
        """Loads kernels; the prompt is of no length that is measured, which libraries plan for."""
        shortest = min(self.options.lengths)
        self.generated(method, 1, shortest // 2 + 1, self.room(shortest))

    def measured(self, method: Any, batch: int, length: int) -> dict[str, Any]:
        """The figures of one method, or why there are none."""
        import torch

        from mpfa.bench.breakdown import decode_breakdown
        from mpfa.bench.generation import free_memory

        found = []
        figures: dict[str, Any] = {}
        cache = None
        try:
            for _ in range(self.options.repeats):
                cache = None  # before the next one is made
                generation, cache = self.generated(method, batch, length, self.room(length))
                found.append(generation)
            figures = dataclasses.asdict(found[-1])
            for name in ("prefill_seconds", "step_seconds"):
                figures[name] = min(getattr(generation, name) for generation in found)
            if self.options.breakdown:
                with method.context():
                    taken_apart = decode_breakdown(self.model, cache, batch)
                figures["breakdown"] = dataclasses.asdict(taken_apart)
        except torch.OutOfMemoryError:
            figures["error"] = "out of memory"
        cache = None
        free_memory(self.model.device)
        return figures

    def generated(self, method: Any, batch: int, length: int, room: int) -> tuple[Any, Any]:
        """One generate(): its Generation, and the cache that it has filled."""
        from mpfa.bench.generation import free_memory, time_generation
        from mpfa.bench.model import random_tokens

        model, options = self.model, self.options
        free_memory(model.device)
        model.set_attn_implementation(method.attention)
        cache = method.make_cache(model.config, room, self.statistics)
        tokens = random_tokens(model, batch, length)
        with method.context():
            generation = time_generation(
                model, method, cache, tokens, steps=options.steps, warmup=options.warmup
            )
        return generation, cache


def _check(options: argparse.Namespace, methods: list[str], dtypes: list[str]) -> None:
    for name in options.methods:
        if name not in methods:
            raise ValueError(f"--methods {name}: must be of {', '.join(methods)}")
    if options.dtype not in dtypes:
        raise ValueError(f"--dtype {options.dtype}: must be one of {', '.join(dtypes)}")
    if options.warmup < 0:
        raise ValueError(f"--warmup {options.warmup}: must not be negative")
    if options.device.startswith("cuda"):
        import torch

        if not torch.cuda.is_available():
            raise ValueError(f"--device {options.device}: torch sees no GPU (--device cpu)")


def _environment(torch: Any, device: str) -> dict[str, str]:
    import transformers

    from mpfa import __version__

    return {
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else device,
        "mpfa": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def _print_row(run: dict[str, Any]) -> None:
    cells = [run["method"], str(run["batch"]), str(run["length"])]
    if "prefill_seconds" in run:
        step = run["step_seconds"]
        cells += [f"{run['prefill_seconds']:.3f}", f"{run['batch'] / step:.1f}"]
        cells += [f"{1e3 * step:.2f}"]
        sizes = ("cache_bytes", "prefill_peak_bytes", "decode_peak_bytes")
        cells += [f"{run[name] / _GIB:.3f}" for name in sizes]
    if "error" in run:
        cells.append(run["error"])
    print("| " + " | ".join(cells) + " |", flush=True)
    if "breakdown" in run:
        print(_breakdown_line(run["breakdown"]), flush=True)


def _breakdown_line(found: dict[str, Any]) -> str:
    parts = [
        f"step {1e3 * found['step']:.2f} ms",
        f"queued in {1e3 * found['host']:.2f} ms, of that attention and cache"
        f" {1e3 * found['attention_host']:.2f} ms",
        f"GPU {1e3 * found['gpu']:.2f} ms",
    ]
    kinds = sorted(found["kinds"].items(), key=lambda item: -item[1])
    parts += [f"{kind} {1e3 * seconds:.3f} ms" for kind, seconds in kinds]
    return "    " + "; ".join(parts)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r}: must be names with commas between")
    return names


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: must be at least 1")
    return int(text)


def _numbers(text: str) -> list[int]:
    return [_positive(part.strip()) for part in text.split(",")]


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
