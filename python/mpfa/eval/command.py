"""The command line of python -m mpfa.eval."""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any

from mpfa import __version__
from mpfa.eval.methods import BACKENDS, STATISTICS
from mpfa.eval.policies import POLICIES

TASKS = ("perplexity", "needle", "continuation")
_LOCAL = ("float32", "bfloat16", "float16")


def make_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m mpfa.eval",
        description="Accuracy of a model on low-bit KV caches, compared with a BF16 cache.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_epilog(),
    )
    add = parser.add_argument
    add("model", nargs="?", default="smollm2", help="smollm2 (default), a folder or a .gguf file")
    add("--text", metavar="FILE", help="the text that is measured on")
    add(
        "--calibration-text",
        metavar="FILE",
        help="another text, for statistics that are calibrated",
    )
    add(
        "--calibration-tokens",
        type=_positive,
        default=8192,
        metavar="N",
        help="how much of it, in windows of --window tokens (default %(default)s)",
    )
    add(
        "-o", "--output", default="report/accuracy.json", metavar="FILE",
        help="results, as they come; the report beside it (default %(default)s)",
    )  # fmt: skip
    add("--restart", action="store_true", help="forget what the file has, instead of going on")
    add("--report-only", action="store_true", help="make the report of what the file has")
    add("--tasks", type=_list, default=list(TASKS), metavar="A,B", help=", ".join(TASKS))
    add(
        "--policy",
        type=_list,
        default=["fp8_k", "mpfa", "search_r4_first", "default", "search_r16_first"],
        metavar="A,B",
        help="policies by name, * stands for any text; bf16 is always there (default %(default)s)",
    )
    add(
        "--statistics",
        type=_list,
        default=["calibrated"],
        metavar="A,B",
        help="where statistics come from: " + ", ".join(STATISTICS) + " (default calibrated)",
    )
    add(
        "--backend",
        default="auto",
        metavar="NAME",
        help="auto: the library where it has the policy; emulated: never; both",
    )
    add("--chunk", type=_positive, default=128, metavar="N", help="tokens of the first chunk")
    numbers = {
        "--window": (1024, "tokens of a window of perplexity"),
        "--windows": (8, "windows of perplexity"),
        "--prompts": (8, "continuations"),
        "--prompt-tokens": (256, "tokens of their prompts"),
        "--new-tokens": (64, "tokens of a continuation"),
        "--repeats": (1, "needles for each length and depth"),
    }
    for name, (default, text) in numbers.items():
        add(name, type=_positive, default=default, metavar="N", help=f"{text} (default {default})")
    add("--lengths", type=_integers, default=[512, 1024, 2048], metavar="N,N",
        help="tokens of needle's prompts")  # fmt: skip
    add("--depths", type=_floats, default=[0, 0.25, 0.5, 0.75, 1], metavar="X,X",
        help="where needles stand, 0 to 1")  # fmt: skip
    add("--chat", action="store_true", help="needle: frame prompts by the model's chat template")
    add("--seed", type=int, default=0, metavar="N", help="of needles (default 0)")
    add("--dtype", choices=_LOCAL, default="float32", help="of weights and activations")
    add("--device", default="cpu", help="where the model runs (default cpu)")
    add("--threads", type=_positive, metavar="N", help="CPU threads")
    return parser


def _epilog() -> str:
    lines = [f"  {name:<26} {policy.description}" for name, policy in POLICIES.items()]
    return "\n".join(
        [
            "policies (docs/spec.md, section 2):",
            *lines,
            "",
            "example:",
            "  python -m mpfa.eval smollm2 --text persuasion.txt --calibration-text emma.txt",
        ]
    )


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be at least 1")
    return value


def _list(text: str) -> list[str]:
    return [x for x in text.split(",") if x]


def _integers(text: str) -> list[int]:
    return [_positive(x) for x in _list(text)]


def _floats(text: str) -> list[float]:
    return [float(x) for x in _list(text)]


def check_names(option: str, names: list[str], allowed: Any) -> None:
    """Raises ValueError for a name that is not allowed, or for none at all."""
    if not names:
        raise ValueError(f"{option}: must name one of {', '.join(allowed)}")
    for name in names:
        if name not in allowed:
            raise ValueError(f"{option} {name!r}: must be one of {', '.join(allowed)}")


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; 0, or 2 for arguments that do not fit, with a message."""
    options = make_parser().parse_args(arguments)
    try:
        _run(options)
    except (ValueError, ImportError) as error:
        print(f"mpfa.eval: error: {error}", file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace) -> None:
    from mpfa.eval.report import write_reports
    from mpfa.eval.results import Results
    from mpfa.eval.tables import all_tables, plain

    check_names("--tasks", options.tasks, TASKS)
    check_names("--statistics", options.statistics, tuple(STATISTICS))
    check_names("--backend", [options.backend], BACKENDS)
    path = Path(options.output)
    results = Results.load(path) if options.report_only else _measure(options, path)
    for table in all_tables(results):
        print(f"\n{table.title}\n{plain(table)}", end="")
    for page in write_reports(results):
        print(f"report: {page}", file=sys.stderr)


def _measure(options: argparse.Namespace, path: Path) -> Any:
    """Loads, measures what the file lacks, and returns the results."""
    from mpfa.eval.methods import Subject, make_methods
    from mpfa.eval.policies import choose_policies
    from mpfa.eval.results import Results
    from mpfa.eval.run import run_tasks

    policies = choose_policies(options.policy)
    methods = make_methods(policies, options.statistics, options.backend)
    if options.text is None:
        raise ValueError("--text is missing: must be the text to measure on")
    text = read_text("--text", options.text)
    calibrated = any(x.statistics == "calibrated" for x in methods)
    if calibrated and options.calibration_text is None:
        raise ValueError("--calibration-text is missing: --statistics calibrated needs it")
    other = read_text("--calibration-text", options.calibration_text) if calibrated else ""
    results = Results.open(path, _settings(options, text, other), options.restart)

    import torch

    if options.threads:
        torch.set_num_threads(options.threads)
    from mpfa.models import load_model

    loaded = load_model(options.model, dtype=options.dtype, device=options.device)
    config = loaded.model.config.get_text_config(decoder=True)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    for method in methods:
        results.describe(method, head_dim, config.num_attention_heads // config.num_key_value_heads)
    subject = Subject(
        loaded.model, _calibration_windows(options, loaded.tokenizer, other), options.chunk
    )
    run_tasks(_tasks(options, loaded.tokenizer, text), subject, methods, results)
    return results


def read_text(option: str, path: str) -> str:
    """A text file's content.

    Raises:
        ValueError: a file that cannot be read or is no text in UTF-8, by the option's name.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{option} {path!r}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{option} {path!r}: is not UTF-8 text ({error.reason})") from error


def tokenize(tokenizer: Any, text: str) -> Any:
    """Tokens [n] of a text, without special ones."""
    return tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids[0]


def _settings(options: argparse.Namespace, text: str, other: str) -> dict[str, Any]:
    """What every record depends on."""
    return {
        "model": options.model,
        "mpfa": __version__,
        "dtype": options.dtype,
        "device": options.device,
        "text": _fingerprint(options.text, text),
        "calibration_text": _fingerprint(options.calibration_text, other),
        "calibration_tokens": options.calibration_tokens,
        "window": options.window,
        "chunk": options.chunk,
        "prompts": options.prompts,
        "prompt_tokens": options.prompt_tokens,
        "new_tokens": options.new_tokens,
        "seed": options.seed,
        "chat": options.chat,
    }


def _fingerprint(path: str | None, text: str) -> str:
    if not text:
        return "none"
    return f"{Path(path).name} ({hashlib.sha256(text.encode()).hexdigest()[:12]})"


def _calibration_windows(options: argparse.Namespace, tokenizer: Any, text: str) -> list[Any]:
    """Windows of the calibration text's first tokens."""
    if not text:
        return []
    tokens = tokenize(tokenizer, text)[: options.calibration_tokens]
    return list(tokens.split(options.window))


def _tasks(options: argparse.Namespace, tokenizer: Any, text: str) -> list[Any]:
    """The tasks that were asked for, checked before any runs."""
    from mpfa.eval.continuation import Continuation
    from mpfa.eval.needle import Needle
    from mpfa.eval.perplexity import Perplexity

    tokens = tokenize(tokenizer, text)
    make = {
        "perplexity": lambda: Perplexity(tokens, options.window, options.windows),
        "needle": lambda: Needle(
            tokenizer,
            text,
            options.lengths,
            options.depths,
            options.repeats,
            options.seed,
            options.chat,
        ),
        "continuation": lambda: Continuation(
            tokens, options.prompt_tokens, options.prompts, options.new_tokens
        ),
    }
    return [make[name]() for name in TASKS if name in options.tasks]
