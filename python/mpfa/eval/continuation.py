"""Agreement of greedy continuations with the baseline's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from mpfa.eval.methods import Method, Subject
from mpfa.eval.tasks import Values


@dataclass
class Continuation:
    """Prompts from a text, each continued greedily by the baseline. The others decode along the
    baseline's tokens, one step a token: up to the first step at which they would choose another
    token this is their own greedy continuation, and after it the comparison goes on."""

    tokens: torch.Tensor
    prompt: int  # tokens of a prompt
    prompts: int
    new_tokens: int  # of a continuation
    name: str = "continuation"

    def __post_init__(self) -> None:
        needed = self.prompt * self.prompts
        if len(self.tokens) < needed:
            raise ValueError(
                f"--text has {len(self.tokens)} tokens: must have {needed} for --prompts"
                f" {self.prompts} of --prompt-tokens {self.prompt}"
            )

    def items(self) -> list[str]:
        """The prompts' numbers."""
        return [str(i) for i in range(self.prompts)]

    def run(
        self, subject: Subject, item: str, methods: list[Method]
    ) -> Iterator[tuple[Method, Values]]:
        """Yields agreement, the share of steps with the baseline's token; same_tokens, how many
        come before the first other one; and identical, 1 if all are the same."""
        stride = len(self.tokens) // self.prompts
        begin = int(item) * stride
        prompt = self.tokens[begin : begin + self.prompt]
        baseline = None
        for method in methods:
            chosen = self._decode(subject, method, prompt, baseline)
            baseline = chosen if baseline is None else baseline
            same = (chosen == baseline).long()
            yield (
                method,
                {
                    "agreement": same.float().mean().item(),
                    "same_tokens": float(same.cumprod(0).sum()),
                    "identical": float(same.all()),
                },
            )

    def _decode(
        self, subject: Subject, method: Method, prompt: torch.Tensor, forced: torch.Tensor | None
    ) -> torch.Tensor:
        """The most likely token at each step; the next step's input is it, or forced[step]."""
        cache = subject.new_cache(method)
        logits = subject.logits(method, cache, prompt, keep=1)
        chosen = [int(logits[-1].argmax())]
        for step in range(self.new_tokens - 1):
            token = chosen[step] if forced is None else int(forced[step])
            logits = subject.logits(method, cache, torch.tensor([token]), keep=1)
            chosen.append(int(logits[-1].argmax()))
        return torch.tensor(chosen)
