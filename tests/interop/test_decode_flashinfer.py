"""bench/peers/decode_flashinfer.py, which sets mpfa beside FlashInfer, with programs that stand for
both."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve().parents[2] / "bench/peers/decode_flashinfer.py"


def mpfa_row(residual_rank: int, median_s: float) -> dict[str, Any]:
    return {
        "shape": "2x8:2x128@100",
        "batch_size": 2,
        "num_q_heads": 8,
        "num_kv_heads": 2,
        "head_dim": 128,
        "page_size": 64,
        "seqlen_q": 1,
        "seqlens_k": [100, 100],
        "lengths": "equal",
        "residual_rank": residual_rank,
        "first_key": residual_rank > 0,
        "delta_s": False,
        "num_caches": 3,
        "median_s": median_s,
        "back_to_back_s": median_s / 2,
    }


MPFA = {
    "gpu": "a GPU",
    "copy_gb_per_s": 4000.0,
    "empty_kernel_s": 1e-6,
    "repeat": 5,
    "flush_bytes": 7 << 20,
    "results": [mpfa_row(0, 10e-6), mpfa_row(8, 20e-6)],
}
PEERS = [
    {"case": 0, "kernel": "slow", "kv": "bf16", "median_s": 50e-6, "back_to_back_s": 10e-6},
    {"case": 0, "kernel": "fast", "kv": "bf16", "median_s": 40e-6, "back_to_back_s": 35e-6},
    {"case": 0, "kernel": "XQA", "kv": "e4m3", "skipped": "it is not there"},
]


class DecodeFlashinferTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def program(self, name: str, body: str) -> str:
        path = self.folder / name
        path.write_text(f"#!{sys.executable}\nimport pathlib, sys\n{body}\n")
        path.chmod(0o755)
        return str(path)

    def run_script(self, *options: str) -> str:
        result = subprocess.run(
            [sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=False
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_table_and_json(self) -> None:
        seen = self.folder / "seen"
        mpfa = self.program(
            "mpfa",
            f"assert sys.argv[-2:] == ['--suite', 'wide'], sys.argv\nprint({json.dumps(MPFA)!r})",
        )
        rows = "\n".join(json.dumps(row) for row in PEERS)
        peer = self.program(
            "peer",
            f"pathlib.Path({str(seen)!r}).write_text(repr(sys.argv[1:]) + sys.stdin.read())\n"
            f"print({rows!r})",
        )
        out = self.folder / "out.json"
        text = self.run_script(
            "--mpfa", mpfa, "--peer", peer, "--json", str(out), "--suite", "wide"
        )
        # Both rows are one case for the peer, which gets repetitions, caches and MiB.
        self.assertEqual(seen.read_text(), "['5', '3', '7']2 8 2 128 64 1 100 100\n")
        lines = {line.split("  ")[0]: line.split() for line in text.splitlines() if line}
        self.assertEqual(
            lines["2x8:2x128@100"],
            ["2x8:2x128@100", "10.0", "5.0", "40.0", "4.00", "fast", "10.0", "2.00", "slow"]
            + ["-"] * 6,
        )
        self.assertIn("2.00", lines["2x8:2x128@100, r 8, first key"])
        self.assertIn("BF16: 2.83 times mpfa's time", text)  # the mean of 4 and 2
        self.assertIn("not measured: XQA, e4m3: it is not there (1 of 1 cases", text)
        self.assertEqual(len(json.loads(out.read_text())["peers"]), 3)

    def test_without_program_or_gpu(self) -> None:
        missing = self.run_script("--peer", str(self.folder / "nothing"))
        self.assertIn("nothing is measured", missing)
        peer = self.program("peer", "sys.exit(3)")
        mpfa = self.program(
            "mpfa", "sys.exit(print('--backend cuda: no GPU', file=sys.stderr) or 1)"
        )
        self.assertIn("no GPU", self.run_script("--mpfa", mpfa, "--peer", peer))


if __name__ == "__main__":
    unittest.main()
