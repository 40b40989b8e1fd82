#!/usr/bin/env python3
"""Runs `mpfa bench prefill --backend cuda` and FlashAttention-3's forward kernels on the same
shapes, one after the other on the same GPU, and prints their speeds side by side.

FlashAttention-3's part is the program fa3_prefill, which build_fa3.sh makes; neither torch nor
flash-attn need be installed here. Without the program, or without a GPU, this says so and exits
with 0. --alone measures FlashAttention-3 only, on shapes of its own.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from peers import (
    Row,
    geometric_mean,
    has_peer,
    print_nothing_measured,
    print_skipped,
    print_table,
    run_mpfa,
    run_peer,
    write_json,
)

K = 1024
DTYPES = {"bf16": "FA3 BF16", "e4m3": "FA3 FP8"}
# Of a batch whose sequences differ.
MIXED_LENGTHS = [
    *(16 * K, 11 * K, 8 * K, 6 * K, 5000, 4 * K, 3 * K, 2500),
    *(2 * K, 1536, 1 * K, 777, 512, 300, 128, 33),
]


def parse_arguments() -> tuple[argparse.Namespace, list[str]]:
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Other options go to mpfa bench prefill: --suite NAME, --shapes LIST ...",
    )
    parser.add_argument("--mpfa", default="mpfa", help="the mpfa command (default: %(default)s)")
    parser.add_argument(
        "--peer",
        type=Path,
        default=here / "fa3_prefill",
        help="FlashAttention-3's program (default: beside this script)",
    )
    parser.add_argument(
        "--alone",
        choices=["goals", "all"],
        help="do not run mpfa; on four lengths, or on everything",
    )
    parser.add_argument("--repeat", type=int, help="calls of each shape")
    parser.add_argument("--flush-mib", type=int, help="MiB written before each call")
    parser.add_argument("--idle", type=float, help="seconds of rest before each shape")
    parser.add_argument(
        "--sustained", type=float, help="seconds of calls without a pause, timed too; 0: not"
    )
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    return parser.parse_known_args()


def make_case(
    seqlens_q: list[int],
    seqlens_k: list[int] | None = None,
    heads: tuple[int, int] = (32, 8),
    head_dim: int = 128,
    is_causal: bool = True,
) -> Row:
    """With the names of mpfa bench's JSON."""
    return {
        "num_q_heads": heads[0],
        "num_kv_heads": heads[1],
        "head_dim": head_dim,
        "is_causal": is_causal,
        "seqlens_q": seqlens_q,
        "seqlens_k": seqlens_k or seqlens_q,
    }


def own_cases(suite: str) -> list[Row]:
    if suite == "goals":
        return [make_case([n * K]) for n in (4, 16, 64, 128)]
    lengths = [n * K for n in (4, 8, 16, 32, 64, 128)]
    cases = [make_case([n], heads=heads) for heads in ((32, 8), (40, 8)) for n in lengths]
    cases += [make_case([n], is_causal=False) for n in lengths]
    cases += [make_case([n], head_dim=64) for n in lengths]
    cases += [make_case([n], head_dim=64, is_causal=False) for n in (4 * K, 16 * K)]
    cases += [make_case([8 * K], [64 * K], heads=heads) for heads in ((32, 8), (40, 8))]
    cases += [make_case(MIXED_LENGTHS, is_causal=causal) for causal in (True, False)]
    return cases


def case_of(row: Row) -> str:
    """A case as fa3_prefill reads it."""
    lengths = [n for pair in zip(row["seqlens_q"], row["seqlens_k"], strict=True) for n in pair]
    heads = [row["num_q_heads"], row["num_kv_heads"], row["head_dim"]]
    return " ".join(str(n) for n in [*heads, int(row["is_causal"]), *lengths])


def tokens(number: int) -> str:
    return f"{number // K}K" if number % K == 0 else str(number)


def label(row: Row) -> str:
    """The shape, and what of it is not the usual."""
    rows, keys = row["seqlens_q"], row["seqlens_k"]
    lengths = tokens(rows[0])
    if len(set(rows)) > 1 or len(set(keys)) > 1:
        lengths = f"{len(rows)} lengths, {tokens(min(rows))} to {tokens(max(rows))}"
    elif keys != rows:
        lengths = f"{tokens(rows[0])} of {tokens(keys[0])}"
    batch = f"{len(rows)}x" if len(rows) > 1 and len(set(rows)) == 1 else ""
    parts = [f"{batch}{row['num_q_heads']}:{row['num_kv_heads']}x{row['head_dim']}@{lengths}"]
    if not row["is_causal"]:
        parts.append("full")
    if row.get("policy"):
        parts.append(row["policy"])
    return ", ".join(parts)


class Kind:
    """Which of the measured times is shown."""

    def __init__(self, prefix: str, title: str) -> None:
        self.time = f"{prefix}s" if prefix else "median_s"
        self.speed = f"{prefix}tflops"
        self.clock = f"{prefix}clock_mhz"
        self.title = title

    def cells(self, row: Row | None) -> list[str]:
        """TFLOP/s, and the clock where it could be read."""
        if row is None:
            return ["-", "-"]
        clock = row.get(self.clock)
        return [f"{row[self.speed]:.0f}", f"{clock:.0f}" if clock else "-"]


SINGLE = Kind("", "single calls after a rest")
SUSTAINED = Kind("sustained_", "calls without a pause")


def find_peer(peers: list[Row], case: int, dtype: str) -> Row | None:
    for peer in peers:
        if (peer["case"], peer["dtype"]) == (case, dtype) and "skipped" not in peer:
            return peer
    return None


def print_speeds(kind: Kind, rows: list[Row], peers: list[Row], has_mpfa: bool) -> None:
    """A line for each row; with mpfa's, ratios of times, which are above 1 where mpfa is faster."""
    cases = distinct_cases(rows)
    header = [kind.title, *(["mpfa", "MHz"] if has_mpfa else [])]
    for name in DTYPES.values():
        header += [name, "MHz", *(["ratio"] if has_mpfa else [])]
    table = []
    ratios: dict[str, list[float]] = {dtype: [] for dtype in DTYPES}
    for row in rows:
        cells = [label(row), *(kind.cells(row) if has_mpfa else [])]
        for dtype, of_dtype in ratios.items():
            peer = find_peer(peers, cases.index(case_of(row)), dtype)
            cells += kind.cells(peer)
            if has_mpfa and peer is not None:
                of_dtype.append(peer[kind.time] / row[kind.time])
                cells.append(f"{of_dtype[-1]:.2f}")
            elif has_mpfa:
                cells.append("-")
        table.append(cells)
    print_table(header, table)
    for dtype, of_dtype in ratios.items():
        if of_dtype:
            mean = geometric_mean(of_dtype)
            print(f"{DTYPES[dtype]}: {mean:.2f} times mpfa's time (geometric mean)")
    print()


def distinct_cases(rows: list[Row]) -> list[str]:
    """mpfa's policies and options make no difference to the peer."""
    return list(dict.fromkeys(case_of(row) for row in rows))


def print_errors(peers: list[Row]) -> None:
    for dtype, name in DTYPES.items():
        errors = [peer["error"] for peer in peers if peer["dtype"] == dtype and "error" in peer]
        if errors:
            print(
                f"{name}: {min(errors):.4f} to {max(errors):.4f} off the exact results "
                "(relative L2 of sampled rows)"
            )


def skipped_cases(rows: list[Row], peers: list[Row]) -> dict[str, list[str]]:
    """By reason."""
    labels = {case_of(row): label(row) for row in reversed(rows)}
    cases = distinct_cases(rows)
    reasons: dict[str, list[str]] = {}
    for peer in peers:
        if "skipped" in peer:
            reason = f"{DTYPES[peer['dtype']]}: {peer['skipped']}"
            reasons.setdefault(reason, []).append(labels[cases[peer["case"]]])
    return reasons


def mpfa_options(arguments: argparse.Namespace) -> list[str]:
    """Of the options that mpfa bench and the peer share, those that were given."""
    options = []
    for name in ("repeat", "flush_mib", "idle", "sustained"):
        value = getattr(arguments, name)
        if value is not None:
            options += [f"--{name.replace('_', '-')}", str(value)]
    return options


def peer_options(arguments: argparse.Namespace, mpfa: Row | None) -> list[str]:
    """As mpfa did it; by default as it does."""
    if mpfa is not None:
        values = [mpfa["repeat"], mpfa["flush_bytes"] >> 20, mpfa["idle_s"], mpfa["sustained_s"]]
    else:
        given = (arguments.repeat, arguments.flush_mib, arguments.idle, arguments.sustained)
        defaults = (9, 256, 0.5, 0.0)
        pairs = zip(given, defaults, strict=True)
        values = [default if value is None else value for value, default in pairs]
    return [str(value) for value in values]


def main() -> int:
    arguments, options = parse_arguments()
    if not has_peer(arguments.peer, "build_fa3.sh"):
        return 0
    mpfa = None
    if not arguments.alone:
        mpfa = run_mpfa(arguments.mpfa, "prefill", [*mpfa_options(arguments), *options])
        if isinstance(mpfa, str):
            print_nothing_measured(mpfa)
            return 0
    rows = mpfa["results"] if mpfa else own_cases(arguments.alone)
    of_peer = peer_options(arguments, mpfa)
    peers = run_peer(arguments.peer, of_peer, distinct_cases(rows))

    repeat, flush_mib, idle_s, sustained_s = of_peer
    print(
        f"TFLOP/s and clock of the multiprocessors; medians of {repeat} calls, {flush_mib} MiB "
        f"written before each, {idle_s} s of rest before each shape\n"
    )
    print_speeds(SINGLE, rows, peers, mpfa is not None)
    if float(sustained_s) > 0:
        print_speeds(SUSTAINED, rows, peers, mpfa is not None)
    print_errors(peers)
    print_skipped(skipped_cases(rows, peers), len(distinct_cases(rows)))
    if arguments.json:
        cases = distinct_cases(rows)
        measured = [{**row, "inputs": cases[row["case"]]} for row in peers]
        write_json(arguments.json, {"mpfa": mpfa, "peers": measured})
    return 0


if __name__ == "__main__":
    sys.exit(main())
