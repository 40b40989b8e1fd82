"""The command `python -m mpfa.calibrate`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

_EPILOG = """examples:
  python -m mpfa.calibrate smollm2 --text novel.txt -o stats.safetensors
  python -m mpfa.calibrate ./Llama-3.1-8B --text novel.txt -o stats.safetensors \\
      --device cuda --dtype bfloat16

The file serves mpfa.transformers.MpfaCache(config, statistics=FILE), and `mpfa quantize --stats`.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    folder = os.path.dirname(os.path.abspath(options.output))
    if not os.access(folder, os.W_OK):
        parser.error(f"-o {options.output}: {folder} is no folder that can be written to")
    try:
        _run(options)
    except ImportError as error:
        print(f"mpfa.calibrate: {error} (pip install 'mpfa[transformers]')", file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        print(f"mpfa.calibrate: {error}", file=sys.stderr)
        return 1
    return 0


def _run(options: argparse.Namespace) -> None:
    # Only here: --help and faults of the command line need not wait for them.
    from tqdm import tqdm

    from mpfa.models import load_model
    from mpfa.transformers import calibrate_model

    with open(options.text, encoding="utf-8") as file:
        text = file.read()
    loaded = load_model(options.model, dtype=options.dtype, device=options.device)
    ids = loaded.tokenizer(text, return_tensors="pt", verbose=False).input_ids[0]
    ids = ids[: options.tokens]
    start = time.monotonic()
    with tqdm(total=len(ids), unit=" tokens", desc="calibrating", disable=None) as bar:
        statistics = calibrate_model(
            loaded.model,
            _windows(ids, options.window, options.batch),
            residual_rank=options.residual_rank,
            delta_s=options.delta_s,
            scale_rule=options.scale_rule,
            source=os.path.basename(options.text),
            progress=lambda tokens: bar.update(tokens - bar.n),
        )
    statistics.metadata["model"] = loaded.name
    statistics.metadata["window"] = str(options.window)
    statistics.save(options.output)
    print(
        f"Wrote {options.output}: {len(statistics.layers)} layers, {len(ids)} tokens,"
        f" {time.monotonic() - start:.1f} s"
    )


def _windows(ids: Any, window: int, batch: int) -> Iterator[Any]:
    """The text [tokens] in windows, `batch` at a time; what is left over comes last, alone."""
    whole = len(ids) // window * window
    if whole > 0:
        yield from ids[:whole].reshape(-1, window).split(batch)
    if whole < len(ids):
        yield ids[None, whole:]


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value}: must be at least 1")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mpfa.calibrate",
        description="Runs a model over a text and writes the statistics that MpFA's cache uses: for"
        " every layer and KV head the means, the residual directions and their scales.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="smollm2, a folder or a .gguf file")
    parser.add_argument("--text", metavar="FILE", required=True, help="UTF-8 text to run it over")
    parser.add_argument(
        "-o", "--output", metavar="STATS.safetensors", required=True, help="the file to write"
    )
    parser.add_argument(
        "--tokens", type=_at_least_one, default=16384, help="of the text, at most (%(default)s)"
    )
    parser.add_argument(
        "--window", type=_at_least_one, default=2048, help="tokens of one pass (%(default)s)"
    )
    parser.add_argument(
        "--batch", type=_at_least_one, default=1, help="windows of one pass (%(default)s)"
    )
    parser.add_argument(
        "--residual-rank",
        type=int,
        choices=(0, 4, 8, 16),
        default=16,
        help="directions to find; a cache may use fewer (%(default)s)",
    )
    parser.add_argument(
        "--delta-s", action="store_true", help="for caches with delta_s: centre the queries first"
    )
    parser.add_argument(
        "--scale-rule",
        choices=("search", "plain"),
        default="search",
        help="how the cache will quantise K (%(default)s)",
    )
    parser.add_argument("--device", default="cpu", help='"cpu" or "cuda" (%(default)s)')
    parser.add_argument(
        "--dtype",
        default="float32",
        choices=("float32", "bfloat16", "float16"),
        help="of weights and activations (%(default)s)",
    )
    return parser
