"""A tiny model of random weights with a tokenizer of words, in a folder, and texts for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from mpfa.eval.methods import Method, Subject
from mpfa.eval.policies import POLICIES
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

_WORDS = [
    "the", "a", "of", "to", "in", "is", "was", "and", "that", "it", "special", "magic", "number",
    "numbers", "for", "hidden", "within", "following", "text", "Make", "sure", "memorize", "will",
    "quiz", "you", "about", "afterwards", "What", "mentioned", "provided", "One", "The", "A", "I",
    "river", "stone", "old", "house", "wind", "green", "light", "sea", "hill", "door", "man",
    "woman", "child", "bird", "song", "night", "day",
]  # fmt: skip
_CHARACTERS = list("0123456789abcdefghijklmnopqrstuvwxyz.,:?-\n")


def make_model(layers: int = 2) -> LlamaForCausalLM:
    """Llama-shaped, the same weights always; 4 query heads, 2 KV heads, d = 64."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=2 + len(_WORDS) + len(_CHARACTERS),
        hidden_size=96,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=2048,
        initializer_range=0.15,  # so that attention prefers some keys
        bos_token_id=0,
        eos_token_id=1,
    )
    return LlamaForCausalLM(config).eval()


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Words of its list are a token, digits and letters of other words one each."""
    names = ["<unk>", "<end>", *_WORDS, *_CHARACTERS]
    vocabulary = {name: i for i, name in enumerate(dict.fromkeys(names))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Punctuation(),
            pre_tokenizers.Digits(True),
        ]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<unk>", eos_token="<end>"
    )


def make_text(sentences: int, seed: int) -> str:
    """Sentences of known words."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(sentences):
        picks = torch.randint(len(_WORDS), (9,), generator=generator).tolist()
        made.append(" ".join(["The", *(_WORDS[i] for i in picks)]) + ".")
    return "\n".join(made)


def random_tokens(length: int, seed: int = 1) -> torch.Tensor:
    """Tokens [length] that no sequence ends with."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(2, 2 + len(_WORDS), (length,), generator=generator)


def make_subject(chunk: int = 16) -> Subject:
    """The tiny model, calibrated on tokens of its own."""
    return Subject(make_model(), [random_tokens(96, seed=2), random_tokens(96, seed=3)], chunk)


def method(name: str, statistics: str = "calibrated", backend: str = "emulated") -> Method:
    """A method by its policy's name."""
    policy = POLICIES[name]
    if not policy.needs_statistics:
        statistics = "none"
    if name in ("bf16", "input"):
        backend = "torch"
    return Method(policy, statistics, backend)


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """The model and its tokenizer, saved."""
    folder = tmp_path / "model"
    make_model().save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    """A text of 120 sentences, some 1300 tokens."""
    path = tmp_path / "text.txt"
    path.write_text(make_text(120, seed=5))
    return path
