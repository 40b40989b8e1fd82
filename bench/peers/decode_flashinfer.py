#!/usr/bin/env python3
"""Runs `mpfa bench decode --backend cuda` and FlashInfer's decode kernels on the same shapes, one
after the other on the same GPU, and prints their times side by side.

FlashInfer's part is the program flashinfer_decode, which build_flashinfer.sh makes; neither torch
nor FlashInfer need be installed here. Without the program, or without a GPU, this says so and exits
with 0.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from peers import (
    Row,
    geometric_mean,
    has_peer,
    microseconds,
    print_nothing_measured,
    print_skipped,
    print_table,
    run_mpfa,
    run_peer,
    write_json,
)

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


def case_of(row: Row) -> str:
    """A case as flashinfer_decode reads it."""
    return " ".join(str(n) for n in [*(row[key] for key in CASE_KEYS), *row["seqlens_k"]])


def peer_options(mpfa: Row) -> list[str]:
    caches = max(row["num_caches"] for row in mpfa["results"])
    return [str(n) for n in (mpfa["repeat"], caches, mpfa["flush_bytes"] >> 20)]


def best(rows: list[Row], cache: str, time: str) -> Row | None:
    """The kernel over a type of cache that is fastest by a time."""
    measured = [row for row in rows if row["kv"] == cache and time in row]
    return min(measured, key=lambda row: row[time], default=None)


def peer_cells(rows: list[Row], cache: str, mpfa: Row) -> list[str]:
    """Time, ratio and kernel: of one call, then of one of many in a row."""
    cells = []
    for time in ("median_s", "back_to_back_s"):
        peer = best(rows, cache, time)
        if peer is None:
            return ["-"] * 6
        cells += [microseconds(peer[time]), f"{peer[time] / mpfa[time]:.2f}", peer["kernel"]]
    return cells


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


def skipped_cases(
    cases: list[str], peers: list[Row], labels: dict[str, str]
) -> dict[str, list[str]]:
    """By reason."""
    reasons: dict[str, list[str]] = {}
    for row in peers:
        if "skipped" in row:
            reason = f"{row['kernel']}, {row['kv']}: {row['skipped']}"
            reasons.setdefault(reason, []).append(labels[cases[row["case"]]])
    return reasons


def main() -> int:
    arguments, options = parse_arguments()
    if not has_peer(arguments.peer, "build_flashinfer.sh"):
        return 0
    mpfa = run_mpfa(arguments.mpfa, "decode", options)
    if isinstance(mpfa, str):
        print_nothing_measured(mpfa)
        return 0
    results = mpfa["results"]
    labels = {case_of(row): label(row) for row in reversed(results)}
    cases = list(dict.fromkeys(case_of(row) for row in results))
    peers = run_peer(arguments.peer, peer_options(mpfa), cases)

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
    print_skipped(skipped_cases(cases, peers, labels), len(cases))
    if arguments.json:
        document = {"mpfa": mpfa, "peers": [{**row, "inputs": cases[row["case"]]} for row in peers]}
        write_json(arguments.json, document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
