"""Perplexity on a text in windows, and how far the predictions are from the baseline's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from mpfa.eval.methods import Method, Subject
from mpfa.eval.tasks import Values


@dataclass
class Perplexity:
    """Windows of the text, each from position 0 through a cache of its own."""

    tokens: torch.Tensor  # [at least window * windows]
    window: int
    windows: int
    name: str = "perplexity"

    def __post_init__(self) -> None:
        needed = self.window * self.windows
        if len(self.tokens) < needed:
            raise ValueError(
                f"--text has {len(self.tokens)} tokens: must have {needed} for --windows"
                f" {self.windows} of --window {self.window}"
            )

    def items(self) -> list[str]:
        """The windows' numbers."""
        return [str(i) for i in range(self.windows)]

    def run(
        self, subject: Subject, item: str, methods: list[Method]
    ) -> Iterator[tuple[Method, Values]]:
        """Yields nll, the mean negative log likelihood of tokens 1 and later (nats), and against
        the baseline kl, the mean of KL(baseline || method), and agreement, the share of positions
        with the same most likely token."""
        begin = int(item) * self.window
        tokens = self.tokens[begin : begin + self.window]
        targets = tokens[1:].to(subject.model.device)
        baseline = None
        for method in methods:
            logits = subject.logits(method, subject.new_cache(method), tokens)[:-1]
            baseline = logits if baseline is None else baseline
            divergence = kl_div(
                log_softmax(logits, -1),
                log_softmax(baseline, -1),
                reduction="none",
                log_target=True,
            )
            agrees = logits.argmax(-1) == baseline.argmax(-1)
            yield (
                method,
                {
                    "nll": cross_entropy(logits, targets).item(),
                    "kl": divergence.sum(-1).mean().item(),
                    "agreement": agrees.float().mean().item(),
                },
            )
