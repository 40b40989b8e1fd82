"""A needle in a haystack, as RULER builds it (arXiv 2404.06654, niah_single): a number for a key,
hidden in a text at a depth, and the question for it at the end."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from mpfa.eval.methods import Method, Subject
from mpfa.eval.tasks import Values

_KEYS = (
    "amber", "anchor", "basil", "beacon", "candle", "canyon", "cedar", "comet", "copper", "coral",
    "dagger", "desert", "ember", "falcon", "forest", "garnet", "glacier", "harbor", "hazel",
    "island", "ivory", "jasper", "juniper", "lantern", "lemon", "maple", "marble", "meadow",
    "nectar", "oasis", "olive", "opal", "orchard", "pebble", "pepper", "quartz", "raven", "river",
    "saffron", "silver", "summit", "temple", "thunder", "tulip", "velvet", "violet", "walnut",
    "willow",
)  # fmt: skip
_INTRODUCTION = (
    "A special magic number is hidden within the following text. Make sure to memorize it. I will"
    " quiz you about the number afterwards.\n"
)
_NEEDLE = "One of the special magic numbers for {key} is: {value}."
_QUESTION = "\nWhat is the special magic number for {key} mentioned in the provided text?"
_ANSWER = " The special magic number for {key} mentioned in the provided text is"
_VALUE_DIGITS = 7


@dataclass(frozen=True)
class Haystack:
    """One prompt, its answer, and what it was made of."""

    prompt: str
    value: str
    tokens: torch.Tensor  # of the prompt
    answer: torch.Tensor  # tokens of the right answer that would follow


def split_sentences(text: str) -> list[str]:
    """Sentences of a text on one line each, in order."""
    flat = re.sub(r"\s+", " ", text).strip()
    return [x for x in re.split(r"(?<=[.!?])\s+(?=[\"'A-Z])", flat) if x]


def build_haystack(
    tokenizer: Any, sentences: list[str], length: int, depth: float, seed: str, chat: bool = False
) -> Haystack:
    """A prompt of at most `length` tokens, and within a sentence of it.

    Args:
        tokenizer: the model's.
        sentences: of the haystack; as many as fit are used, from a place that the seed chooses.
        length: tokens of the prompt.
        depth: where the needle stands, 0 (before the first sentence) to 1 (after the last).
        seed: of key, number and place; the same gives the same prompt.
        chat: whether the tokenizer's chat template frames it.

    Raises:
        ValueError: a length that does not hold the question and a sentence.
    """
    rng = random.Random(seed)
    key = f"{rng.choice(_KEYS)}-{rng.choice(_KEYS)}"
    value = str(rng.randrange(10 ** (_VALUE_DIGITS - 1), 10**_VALUE_DIGITS))
    needle = _NEEDLE.format(key=key, value=value)
    start = rng.randrange(len(sentences))
    turned = sentences[start:] + sentences[:start]

    def prompt(count: int) -> str:
        around = turned[:count]
        around.insert(round(depth * count), needle)
        text = _INTRODUCTION + " ".join(around) + _QUESTION.format(key=key)
        answer = _ANSWER.format(key=key)
        if not chat:
            return text + answer
        turn = [{"role": "user", "content": text}]
        framed = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        return framed + answer.strip()

    def size(count: int) -> int:
        return len(tokenizer(prompt(count), add_special_tokens=not chat).input_ids)

    count = _largest(size, length, len(turned))
    if count == 0:
        raise ValueError(f"--lengths {length}: must be at least {size(1)} for one sentence")
    text = prompt(count)
    ids = tokenizer(text, add_special_tokens=not chat).input_ids
    answer = tokenizer(f" {value}", add_special_tokens=False).input_ids
    return Haystack(text, value, torch.tensor(ids), torch.tensor(answer))


def _largest(size: Any, limit: int, most: int) -> int:
    """The largest count in [0, most] whose size is within the limit."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if size(middle) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass
class Needle:
    """Haystacks of several lengths and depths."""

    tokenizer: Any
    text: str
    lengths: list[int]
    depths: list[float]
    repeats: int
    seed: int
    chat: bool = False
    name: str = "needle"

    def __post_init__(self) -> None:
        for depth in self.depths:
            if not 0 <= depth <= 1:
                raise ValueError(f"--depths {depth}: must be 0 to 1")
        self._sentences = split_sentences(self.text)

    def items(self) -> list[str]:
        """length/depth/repeat."""
        return [
            f"{length}/{depth:g}/{repeat}"
            for length in self.lengths
            for depth in self.depths
            for repeat in range(self.repeats)
        ]

    def haystack(self, item: str) -> Haystack:
        """The prompt of an item."""
        length, depth, _ = item.split("/")
        return build_haystack(
            self.tokenizer,
            self._sentences,
            int(length),
            float(depth),
            f"{self.seed}/{item}",
            self.chat,
        )

    def run(
        self, subject: Subject, item: str, methods: list[Method]
    ) -> Iterator[tuple[Method, Values]]:
        """Yields found, 1 if the greedy answer starts with the number, and nll, the mean negative
        log likelihood of the number's tokens (nats)."""
        haystack = self.haystack(item)
        for method in methods:
            logits = self._answer_logits(subject, method, haystack)
            answer = haystack.answer.to(logits.device)
            yield (
                method,
                {
                    "found": float((logits.argmax(-1) == answer).all()),
                    "nll": cross_entropy(logits, answer).item(),
                },
            )

    def _answer_logits(self, subject: Subject, method: Method, haystack: Haystack) -> torch.Tensor:
        """Logits [tokens, vocabulary] at each token of the right answer, by decode steps."""
        cache = subject.new_cache(method)
        rows = [subject.logits(method, cache, haystack.tokens, keep=1)]
        rows += [
            subject.logits(method, cache, token[None], keep=1) for token in haystack.answer[:-1]
        ]
        return torch.cat(rows)
