"""How much memory a cache holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CacheMemory:
    """Bytes of a cache, and of a BF16 cache with as many tokens."""

    tokens: int  # of the whole batch, padding included, that are stored
    page_bytes: int  # all pages of all layers, as allocated
    statistics_bytes: int  # statistics and page tables of all layers
    bfloat16_bytes: int  # 2 (K and V) * 2 bytes * tokens * Hkv * d * layers

    @property
    def ratio(self) -> float:
        """How many times smaller the pages are than a BF16 cache of these tokens."""
        return self.bfloat16_bytes / self.page_bytes if self.page_bytes else 0.0

    def __str__(self) -> str:
        """A line for people."""
        mib = 1 / (1 << 20)
        return (
            f"{self.tokens} tokens: {self.page_bytes * mib:.2f} MiB, BF16"
            f" {self.bfloat16_bytes * mib:.2f} MiB ({self.ratio:.2f} times smaller)"
        )
