"""The example for transformers in README.md, and that in docs/python.md, which is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hf_support import make_model, make_statistics
from mpfa.transformers import MpfaCache
from test_readme import README, python_examples
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast


def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    example = python_examples()[1]
    assert example in (README.parent / "docs" / "python.md").read_text()
    model = make_model("llama")
    model.save_pretrained(tmp_path)
    words = {f"w{i}": i for i in range(90)}
    words.update({"It": 90, "is": 91, "a": 92, "truth": 93, "universally": 94, "acknowledged": 95})
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(tmp_path)
    make_statistics(model).save(tmp_path / "stats.safetensors")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"MODEL": str(tmp_path)}
    exec(compile(example, str(README), "exec"), names)
    assert isinstance(names["cache"], MpfaCache)
    assert names["output"].shape[1] == 6 + 50
    assert "55 tokens" in capsys.readouterr().out
