#!/usr/bin/env python3
"""Runs `mpfa bench decode --backend cuda` and FlashInfer's decode kernels on the same shapes, one
after the other on the same GPU, and prints their times side by side.

FlashInfer's part is the program flashinfer_decode, which build_flashinfer.sh makes; neither torch
nor FlashInfer need be installed here. Without the program, or without a GPU, this says so and exits
with 0.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

Row = dict[str, Any]
# Not the cache's compensations: two cases that differ in nothing else are one for the peers.
CASE_KEYS = ("batch_size", "num_q_heads", "num_kv_heads", "head_dim", "page_size", "seqlen_q")


def parse_arguments() -> tuple[argparse.Namespace, list[str]]:
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Other options go to mpfa bench decode: --suite wide, --shapes LIST, --repeat N ...",
    )
    parser.add_argument("--mpfa", default="mpfa", help="the mpfa command (default: %(default)s)")
    parser.add_argument(
        "--peer",
        type=Path,
        default=here / "flashinfer_decode",
        help="FlashInfer's program (default: beside this script)",
    )
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    return parser.parse_known_args()


def run_mpfa(command: str, options: list[str]) -> Row | None:
    """What mpfa bench measured, or None where there is no GPU. Exits on any other failure."""
    arguments = [command, "bench", "decode", "--backend", "cuda", "--json", "-", *options]
    try:
        result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        sys.exit(f"{command}: not found (--mpfa names the command)")
    if result.returncode == 1 and "--backend cuda: " in result.stderr:
        print(f"decode_flashinfer.py: nothing is measured: {result.stderr.strip()}")
        return None
    if result.returncode != 0:
        sys.exit(result.stderr)
    return json.loads(result.stdout)


def case_of(row: Row) -> str:
    """A case as flashinfer_decode reads it."""
    return " ".join(str(n) for n in [*(row[key] for key in CASE_KEYS), *row["seqlens_k"]])


def run_peer(program: Path, cases: list[str], mpfa: Row) -> list[Row]:
    flush_mib = mpfa["flush_bytes"] >> 20
    caches = max(row["num_caches"] for row in mpfa["results"])
    arguments = [str(program.resolve()), str(mpfa["repeat"]), str(caches), str(flush_mib)]
    result = subprocess.run(
        arguments, input="\n".join(cases) + "\n", stdout=subprocess.PIPE, text=True, check=False
    )
    if result.returncode != 0:
        sys.exit(f"{program} ended with {result.returncode}")
    return [json.loads(line) for line in result.stdout.splitlines()]


def best(rows: list[Row], cache: str, time: str) -> Row | None:
    """The kernel over a type of cache that is fastest by a time."""
    measured = [row for row in rows if row["kv"] == cache and time in row]
    return min(measured, key=lambda row: row[time], default=None)


def microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}"


def peer_cells(rows: list[Row], cache: str, mpfa: Row) -> list[str]:
    """Time, ratio and kernel: of one call, then of one of many in a row."""
    cells = []
    for time in ("median_s", "back_to_back_s"):
        peer = best(rows, cache, time)
        if peer is None:
            return ["-"] * 6
        cells += [microseconds(peer[time]), f"{peer[time] / mpfa[time]:.2f}", peer["kernel"]]
    return cells


def print_table(header: list[str], table: list[list[str]]) -> None:
    widths = [max(len(row[i]) for row in [header, *table]) for i in range(len(header))]
    for row in [header, *table]:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join(cells).rstrip())


def label(row: Row) -> str:
    """The shape and what of its options is not the usual."""
    parts = [row["shape"]]
    if row["page_size"] != 64:
        parts.append(f"page {row['page_size']}")
    if row["residual_rank"]:
        parts.append(f"r {row['residual_rank']}")
    if row["first_key"]:
        parts.append("first key")
    if row["delta_s"]:
        parts.append("delta_s")
    if row["seqlen_q"] != 1:
        parts.append(f"{row['seqlen_q']} rows")
    if row["lengths"] != "equal":
        parts.append(row["lengths"])
    return ", ".join(parts)


def print_skipped(cases: list[str], peers: list[Row], labels: dict[str, str]) -> None:
    reasons: dict[str, list[str]] = {}
    for row in peers:
        if "skipped" in row:
            reason = f"{row['kernel']}, {row['kv']}: {row['skipped']}"
            reasons.setdefault(reason, []).append(labels[cases[row["case"]]])
    for reason, where in reasons.items():
        print(f"not measured: {reason} ({len(where)} of {len(cases)} cases, first {where[0]})")


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def main() -> int:
    arguments, options = parse_arguments()
    if not arguments.peer.is_file():
        print(
            f"decode_flashinfer.py: nothing is measured: {arguments.peer} is not there "
            "(build_flashinfer.sh makes it)"
        )
        return 0
    mpfa = run_mpfa(arguments.mpfa, options)
    if mpfa is None:
        return 0
    results = mpfa["results"]
    labels = {case_of(row): label(row) for row in reversed(results)}
    cases = list(dict.fromkeys(case_of(row) for row in results))
    peers = run_peer(arguments.peer, cases, mpfa)

    print(
        f"{mpfa['gpu']}, copy speed {mpfa['copy_gb_per_s']:.0f} GB/s, "
        f"an empty kernel {microseconds(mpfa['empty_kernel_s'])} us, medians of {mpfa['repeat']}; "
        "us of one call, and of one of many in a row\n"
    )
    header = ["shape", "mpfa", "in a row"]
    for cache in ("BF16", "FP8"):
        header += [cache, "ratio", "kernel", "in a row", "ratio", "kernel"]
    table = []
    ratios: dict[str, list[float]] = {"bf16": [], "e4m3": []}
    for row in results:
        of_case = [peer for peer in peers if cases[peer["case"]] == case_of(row)]
        cells = [label(row), microseconds(row["median_s"]), microseconds(row["back_to_back_s"])]
        for cache, list_of_ratios in ratios.items():
            cells += peer_cells(of_case, cache, row)
            peer = best(of_case, cache, "median_s")
            if peer is not None:
                list_of_ratios.append(peer["median_s"] / row["median_s"])
        table.append(cells)
    print_table(header, table)
    print()
    for name, cache in (("BF16", "bf16"), ("FP8", "e4m3")):
        if ratios[cache]:
            print(f"{name}: {geometric_mean(ratios[cache]):.2f} times mpfa's time (geometric mean)")
    print_skipped(cases, peers, labels)
    if arguments.json:
        document = {"mpfa": mpfa, "peers": [{**row, "inputs": cases[row["case"]]} for row in peers]}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
