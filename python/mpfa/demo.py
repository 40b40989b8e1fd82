"""python -m mpfa.demo "prompt": a real model answers from the low-bit cache.

Without a prompt, lines of the terminal are a conversation: the cache keeps it, and only what is new
is computed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any


def make_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m mpfa.demo",
        description="A real model answers from a KV cache with K in NVFP4 and V in FP8.",
    )
    add = parser.add_argument
    add("prompt", nargs="?", help="what to ask; without it, a conversation in the terminal")
    add("--model", default="smollm2", help="smollm2 (default), a folder or a .gguf file")
    add("--statistics", metavar="FILE", help="of python -m mpfa.calibrate; else of the prompt")
    add("--max-new-tokens", type=int, default=256, metavar="N", help="of an answer (default 256)")
    add("--residual-rank", type=int, default=8, metavar="R", help="0, 4, 8 (default) or 16")
    add("--dtype", default="bfloat16", help="of the model: bfloat16 (default), float16, float32")
    add("--device", default="cpu", help="where the model runs (default cpu)")
    return parser


class Conversation:
    """A model, its cache, and the tokens that the cache has."""

    def __init__(self, loaded: Any, cache: Any, max_new_tokens: int) -> None:
        """Starts anew: `cache` must be an empty MpfaCache of the model."""
        self.cache = cache
        self._loaded = loaded
        self._max_new_tokens = max_new_tokens
        self._turns: list[dict[str, str]] = []
        self._cached: list[int] = []

    def ask(self, text: str, write: Callable[[str], None]) -> int:
        """Writes the answer in pieces, as they come; returns how many tokens it has."""
        import torch

        loaded = self._loaded
        self._turns.append({"role": "user", "content": text})
        prompt = self._tokens()
        self._keep(prompt)
        pieces = _streamer(loaded.tokenizer, write)
        given = torch.tensor([prompt], device=loaded.model.device)
        out = loaded.model.generate(
            given,
            attention_mask=torch.ones_like(given),
            past_key_values=self.cache,
            max_new_tokens=self._max_new_tokens,
            do_sample=False,
            eos_token_id=loaded.stop_tokens,
            pad_token_id=loaded.stop_tokens[0],
            streamer=pieces,
        )[0].tolist()
        answer = out[len(prompt) :]
        # The last token has been chosen, not stored.
        self._cached = out[: self.cache.get_seq_length()]
        words = [token for token in answer if token not in loaded.stop_tokens]
        self._turns.append({"role": "assistant", "content": loaded.tokenizer.decode(words)})
        return len(answer)

    def _tokens(self) -> list[int]:
        """Of the whole conversation, in the model's chat template where it has one."""
        tokenizer = self._loaded.tokenizer
        if not tokenizer.chat_template:
            text = "\n".join(turn["content"] for turn in self._turns)
            return tokenizer(text).input_ids
        text = tokenizer.apply_chat_template(
            self._turns, tokenize=False, add_generation_prompt=True
        )
        return tokenizer(text, add_special_tokens=False).input_ids

    def _keep(self, prompt: list[int]) -> None:
        """Leaves in the cache what the prompt starts with; at least one token is computed."""
        common = 0
        for old, new in zip(self._cached, prompt[:-1], strict=False):
            if old != new:
                break
            common += 1
        surplus = len(self._cached) - common
        if surplus > 0:
            self.cache.crop(-surplus)


def _streamer(tokenizer: Any, write: Callable[[str], None]) -> Any:
    from transformers import TextStreamer

    class Pieces(TextStreamer):
        def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
            write(text)

    return Pieces(tokenizer, skip_prompt=True, skip_special_tokens=True)


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo; 0, or 2 for arguments that do not fit, with a message."""
    options = make_parser().parse_args(arguments)
    try:
        _run(options)
    except (ValueError, ImportError, OSError) as error:
        print(f"mpfa.demo: error: {error}", file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace) -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if options.max_new_tokens < 1:
        raise ValueError(f"--max-new-tokens {options.max_new_tokens}: must be at least 1")
    from transformers.utils import logging

    from mpfa.models import load_model
    from mpfa.transformers import MpfaCache

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    _note(f"Loading {options.model} ...")
    loaded = load_model(
        options.model,
        dtype=options.dtype,
        attn_implementation="mpfa",
        device=options.device,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that statistics are the prompt's is said at the end
        cache = MpfaCache(
            loaded.model.config,
            statistics=options.statistics,
            residual_rank=options.residual_rank,
        )
        talk = Conversation(loaded, cache, options.max_new_tokens)
        if options.prompt is not None:
            _answer(talk, options.prompt)
            _note(_summary(cache, options.statistics))
            return
        _note("Ask, an empty line ends.")
        while text := _line():
            _answer(talk, text)
    if cache.get_seq_length() > 0:
        _note(_summary(cache, options.statistics))


def _line() -> str:
    try:
        return input("> ").strip()
    except EOFError:
        return ""


def _answer(talk: Conversation, prompt: str) -> None:
    def write(text: str) -> None:
        print(text, end="", flush=True)

    start = time.monotonic()
    tokens = talk.ask(prompt, write)
    seconds = time.monotonic() - start
    print()
    memory = talk.cache.memory()
    _note(f"{tokens} tokens in {seconds:.1f} s. KV cache: {memory}")


def _summary(cache: Any, statistics: str | None) -> str:
    memory = cache.memory()
    source = statistics or "frozen from the prompt (python -m mpfa.calibrate makes a file)"
    return (
        f"The whole cache: {memory.page_bytes:,} bytes in pages, BF16 {memory.bfloat16_bytes:,}"
        f" (the last page of each layer has room for more tokens); statistics:"
        f" {memory.statistics_bytes:,} bytes, {source}"
    )


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
