"""torch's scaled_dot_product_attention on the CPU, for the same shapes as attention_bench.

Needs torch (any recent version; `pip install torch`), which nothing else of the project needs:

    python bench/torch_sdpa.py --threads 2
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch.nn.functional import scaled_dot_product_attention


def median_ms(repeat: int, *qkv: torch.Tensor, **options: bool) -> float:
    """Median wall time of one call in milliseconds, after one call that is not counted."""
    scaled_dot_product_attention(*qkv, **options)
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        scaled_dot_product_attention(*qkv, **options)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def make_qkv(seqlen_q: int, seqlen_k: int, heads: tuple[int, int], d: int, dtype: torch.dtype):
    """q [1, Hq, seqlen_q, d] and k, v [1, Hkv, seqlen_k, d] of standard normal values."""
    generator = torch.Generator().manual_seed(1)

    def normal(num_heads: int, length: int) -> torch.Tensor:
        return torch.randn(1, num_heads, length, d, generator=generator).to(dtype)

    return normal(heads[0], seqlen_q), normal(heads[1], seqlen_k), normal(heads[1], seqlen_k)


def bench_decode(seqlen: int, heads: tuple[int, int], d: int, repeat: int) -> None:
    """One query row against `seqlen` keys."""
    for dtype in (torch.bfloat16, torch.float32):
        q, k, v = make_qkv(1, seqlen, heads, d, dtype)
        ms = median_ms(repeat, q, k, v, enable_gqa=True)
        # The usual way around a GQA path that is slow: one KV head as a batch of its query heads.
        grouped = q.view(heads[1], heads[0] // heads[1], d)
        grouped_ms = median_ms(repeat, grouped, k[0], v[0])
        size = k.nbytes + v.nbytes
        best = min(ms, grouped_ms)
        print(
            f"decode  {seqlen:6d} {heads[0]}:{heads[1]} d {d} {str(dtype)[6:]:9s} "
            f"{best:8.2f} ms  {size / best / 1e6:6.2f} GB/s of cache "
            f"(enable_gqa {ms:.2f} ms, grouped {grouped_ms:.2f} ms)"
        )


def bench_prefill(seqlen: int, heads: tuple[int, int], d: int, repeat: int) -> None:
    """Causal attention of `seqlen` rows."""
    for dtype in (torch.bfloat16, torch.float32):
        q, k, v = make_qkv(seqlen, seqlen, heads, d, dtype)
        ms = median_ms(repeat, q, k, v, is_causal=True, enable_gqa=True)
        flops = 4 * d * heads[0] * seqlen * (seqlen + 1) / 2
        print(
            f"prefill {seqlen:6d} {heads[0]}:{heads[1]} d {d} {str(dtype)[6:]:9s} "
            f"{ms:8.2f} ms  {flops / ms / 1e6:6.1f} GFLOPS"
        )


def main() -> None:
    """Runs both lists of shapes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    bench_decode(4096, (32, 8), 128, args.repeat)
    bench_decode(32768, (32, 8), 128, args.repeat)
    bench_prefill(512, (9, 3), 64, args.repeat)
    bench_prefill(2048, (32, 8), 128, args.repeat)


if __name__ == "__main__":
    main()
