"""Statistics of a model: found, kept in files that the mpfa command reads and writes, and used."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpfa
import numpy as np
import pytest
import torch
from hf_support import (
    assert_close,
    make_model,
    make_statistics,
    padding,
    random_tokens,
    run,
)
from mpfa._calibrate_command import main
from mpfa.transformers import ModelStatistics, MpfaCache, calibrate_model
from mpfa.transformers._moments import KeySample
from mpfa.transformers._observer import observed
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import DynamicCache, PreTrainedTokenizerFast

FIELDS = ("k_mean", "q_mean", "residual_basis", "residual_scale")
ROOT = Path(__file__).resolve().parents[3]


def activations(model: Any, tokens: torch.Tensor) -> dict[int, dict[str, torch.Tensor]]:
    """q, k, v [heads, tokens, d] of each layer, for one row of tokens."""
    found: dict[int, dict[str, torch.Tensor]] = {}
    cache = DynamicCache()
    with observed(model, lambda i, q, k: found.update({i: {"q": q[0], "k": k[0]}})):
        run(model, tokens, cache)
    for index, layer in enumerate(cache.layers):
        found[index]["v"] = layer.values[0]
    return found


@pytest.mark.parametrize("rule", ["search", "plain"])
@pytest.mark.parametrize("delta_s", [False, True])
def test_a_model_is_calibrated_as_the_library_does_it(rule: str, delta_s: bool) -> None:
    """One batch of all tokens, beside mpfa.calibrate() of each layer's activations."""
    model = make_model("qwen3")
    tokens = random_tokens(1, 120)
    found = calibrate_model(model, [tokens], scale_rule=rule, delta_s=delta_s, residual_rank=8)
    for index, x in activations(model, tokens).items():
        q, k = (x[name].transpose(0, 1).contiguous() for name in ("q", "k"))
        expected = mpfa.calibrate(q, k, residual_rank=8, q_mean=True, scale_rule=rule)
        if delta_s:
            residual = mpfa.calibrate(q - expected.q_mean, k, residual_rank=8, scale_rule=rule)
            expected = mpfa.Statistics(
                expected.k_mean, expected.q_mean, residual.residual_basis, residual.residual_scale
            )
        for name in FIELDS:
            actual = getattr(found.layers[index], name)
            assert_close(actual, getattr(expected, name), 2e-4)


@pytest.mark.parametrize("side", ["left", "right"])
def test_batches_and_padding_do_not_matter(side: str) -> None:
    model = make_model("gemma2")
    tokens = random_tokens(4, 60)
    whole = calibrate_model(model, [tokens[:3], tokens[3:, :41]])
    mask = padding([60, 41], 60, side)
    padded = torch.zeros(2, 60, dtype=torch.long)
    padded[0] = tokens[2]
    padded[1][mask[1].bool()] = tokens[3, :41]
    batch = {"input_ids": padded, "attention_mask": mask}
    parts = calibrate_model(model, [tokens[:1], {"input_ids": tokens[1:2]}, batch])
    assert parts.metadata["tokens"] == whole.metadata["tokens"] == "221"
    for index in range(2):
        for name in FIELDS:
            assert_close(
                getattr(parts.layers[index], name), getattr(whole.layers[index], name), 1e-3
            )


@pytest.mark.parametrize("sizes", [[1] * 500, [333, 167], [7, 93, 400]])
def test_key_samples_are_spread_and_bounded(sizes: list[int]) -> None:
    sample, begin = KeySample(50), 0
    for size in sizes:
        sample.add(torch.arange(begin, begin + size, dtype=torch.float32)[:, None, None])
        begin += size
    kept = sample.keys().flatten()
    stride = int(kept[1] - kept[0])
    assert 50 <= len(kept) <= 100
    assert torch.equal(kept, torch.arange(0, 500, stride).float())


@pytest.mark.filterwarnings("ignore:MpfaCache has no statistics")
@pytest.mark.parametrize("delta_s", [False, True])
def test_statistics_of_a_prompt_are_the_librarys(delta_s: bool) -> None:
    """Each row's own, padding left out."""
    model = make_model("llama")
    tokens = random_tokens(2, 60)
    mask = padding([60, 33], 60, "left")
    cache = MpfaCache(model.config, delta_s=delta_s, residual_rank=0 if delta_s else 8)
    run(model, tokens, cache, mask=mask)
    for row, length in enumerate([60, 33]):
        x = activations(model, tokens[row : row + 1, 60 - length :])[0]
        q, k = (x[name].transpose(0, 1).contiguous() for name in ("q", "k"))
        rank = cache.layers[0].store.residual_rank
        expected = mpfa.calibrate(q, k, residual_rank=rank, q_mean=delta_s)
        actual = cache.frozen_statistics(row).layers[0]
        for name in FIELDS:
            assert (getattr(actual, name) is None) == (getattr(expected, name) is None), name
            if getattr(expected, name) is not None:
                assert_close(getattr(actual, name), getattr(expected, name), 2e-4)


@pytest.mark.filterwarnings("ignore:MpfaCache has no statistics")
def test_prompts_of_one_token_and_rows_of_none() -> None:
    model = make_model("llama")
    cache = MpfaCache(model.config)
    logits = run(model, random_tokens(2, 6), cache, chunks=[1] * 6)
    assert torch.isfinite(logits).all()
    padded = MpfaCache(model.config)
    mask = padding([5, 0], 5, "left")
    logits = run(model, random_tokens(2, 5), padded, mask=mask)
    assert torch.isfinite(logits[0]).all()


def test_files_keep_everything(tmp_path: Path) -> None:
    model = make_model("llama")
    statistics = make_statistics(model, source="novel.txt")
    path = tmp_path / "stats.safetensors"
    statistics.save(path)
    assert os.listdir(tmp_path) == ["stats.safetensors"]
    loaded = ModelStatistics.load(path)
    assert loaded.metadata == statistics.metadata
    assert loaded.metadata["made_by"] == "mpfa.transformers.calibrate_model"
    assert loaded.metadata["source"] == "novel.txt"
    assert loaded.residual_rank() == 16
    for index, layer in statistics.layers.items():
        for name in FIELDS:
            assert torch.equal(getattr(loaded.layers[index], name), getattr(layer, name))
    a = MpfaCache(model.config, statistics=path, residual_rank=4)
    b = MpfaCache(model.config, statistics=statistics, residual_rank=4)
    tokens = random_tokens(1, 20)
    assert torch.equal(run(model, tokens, a), run(model, tokens, b))
    kept = a.frozen_statistics()
    assert torch.equal(kept.layers[1].residual_basis, statistics.layers[1].residual_basis[:, :4])
    assert kept.metadata == statistics.metadata


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.pop("layer01.k_mean"), "layer 1 has no k_mean"),
        (lambda x: x.pop("layer00.residual_scale"), "layer 0 has one of residual_basis"),
        (lambda x: x["layer00.k_mean"].fill_(float("nan")), "layer00.k_mean.*not finite"),
        (lambda x: x["layer01.residual_scale"].zero_(), "layer01.residual_scale.*not above 0"),
        (lambda x: x.update({"layer00.q_mean": torch.zeros(4, 64)}), "layer00.q_mean.*must be"),
        (lambda x: x.update({"first.k_mean": torch.zeros(1, 2, 64)}), "first.k_mean.*number"),
        (lambda x: x.clear(), "has no tensor <layer>.k_mean"),
    ],
)
def test_files_that_are_wrong(
    change: Callable[[dict[str, torch.Tensor]], Any], message: str, tmp_path: Path
) -> None:
    model = make_model("llama")
    good, path = tmp_path / "good.safetensors", tmp_path / "wrong.safetensors"
    make_statistics(model).save(good)
    with safe_open(good, "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    change(tensors)
    save_file(tensors, path)
    with pytest.raises(OSError, match=f"wrong.safetensors.*{message}"):
        ModelStatistics.load(path)


def _command() -> str | None:
    library = os.environ.get("MPFA_PYTHON_LIBRARY")
    near = [] if library is None else [Path(library).resolve().parents[1] / "bin" / "mpfa"]
    for path in (*near, ROOT / "build" / "bin" / "mpfa"):
        if path.exists():
            return str(path)
    return shutil.which("mpfa")


@pytest.mark.skipif(_command() is None, reason="the mpfa command is not built")
def test_the_command_reads_and_writes_the_same_files(tmp_path: Path) -> None:
    model = make_model("llama", torch.bfloat16)
    tokens = random_tokens(1, 90)
    layers = activations(model, tokens)
    sample, ours, theirs, packed = (
        str(tmp_path / f"{name}.safetensors") for name in ("sample", "ours", "theirs", "packed")
    )
    save_file(
        {f"layer{i:02d}.{n}": x.contiguous() for i, of in layers.items() for n, x in of.items()},
        sample,
    )

    def mpfa_command(*arguments: str) -> None:
        subprocess.run([str(_command()), *arguments], check=True, capture_output=True)

    # Ours, read by the command: its cache has the bytes of ours.
    statistics = calibrate_model(model, [tokens])
    statistics.save(ours)
    mpfa_command("quantize", sample, "--stats", ours, "--layer", "layer00", "-o", packed,
                 "--residual-rank", "8", "--page-size", "64")  # fmt: skip
    by_command = mpfa.KvCache.load(packed)
    cache = MpfaCache(model.config, statistics=ours)
    run(model, tokens, cache)
    store = cache.layers[0].store
    for name in ("k_codes", "k_scales", "v", "k_residual", "k_first"):
        a, b = (getattr(x, name).view(torch.uint8).numpy() for x in (store, by_command))
        np.testing.assert_array_equal(a, b, err_msg=name)

    # Theirs, read by us: the same statistics.
    mpfa_command("calibrate", sample, "-o", theirs, "--residual-rank", "16")
    loaded = ModelStatistics.load(theirs)
    assert loaded.metadata["scale_rule"] == "search"
    for index, layer in statistics.layers.items():
        for name in FIELDS:
            assert_close(getattr(loaded.layers[index], name), getattr(layer, name), 2e-3)
    run(model, tokens, MpfaCache(model.config, statistics=theirs))


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a tokenizer that splits at spaces, as from_pretrained() loads them."""
    folder = tmp_path_factory.mktemp("model")
    make_model("llama").save_pretrained(folder)
    words = {f"w{i}": i for i in range(97)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    (folder / "text.txt").write_text(" ".join(f"w{int(i)}" for i in random_tokens(1, 150)[0]))
    return folder


def test_the_calibrate_command(model_folder: Path, tmp_path: Path, capsys: Any) -> None:
    output = tmp_path / "stats.safetensors"
    text = str(model_folder / "text.txt")
    arguments = [str(model_folder), "--text", text, "-o", str(output), "--window", "40"]
    assert main([*arguments, "--tokens", "130", "--batch", "2", "--residual-rank", "8"]) == 0
    assert "2 layers, 130 tokens" in capsys.readouterr().out
    found = ModelStatistics.load(output)
    assert found.metadata["model"] == str(model_folder)
    assert found.metadata["source"] == "text.txt"
    assert found.metadata["tokens"] == "130"
    ids = random_tokens(1, 150)
    batches = [ids[0, :80].reshape(2, 40), ids[:, 80:120], ids[:, 120:130]]
    expected = calibrate_model(make_model("llama"), batches, residual_rank=8)
    for name in FIELDS:
        assert_close(getattr(found.layers[1], name), getattr(expected.layers[1], name), 1e-3)


def test_faults_of_the_calibrate_command(model_folder: Path, tmp_path: Path, capsys: Any) -> None:
    model, text = str(model_folder), str(model_folder / "text.txt")
    with pytest.raises(SystemExit):
        main([model, "--text", text, "-o", str(tmp_path / "nowhere" / "stats.safetensors")])
    assert "no folder that can be written to" in capsys.readouterr().err
    output = str(tmp_path / "stats.safetensors")
    assert main([model, "--text", str(tmp_path / "no.txt"), "-o", output]) == 1
    assert "no.txt" in capsys.readouterr().err
    assert not os.path.exists(output)
    with pytest.raises(SystemExit):
        main([model, "--text", text, "-o", output, "--window", "0"])
    assert "must be at least 1" in capsys.readouterr().err


def test_the_module_leaves_the_function_alone() -> None:
    function = mpfa.calibrate
    assert importlib.import_module("mpfa.calibrate") is function
    assert mpfa.calibrate is function
    done = subprocess.run(
        [sys.executable, "-m", "mpfa.calibrate", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "examples:" in done.stdout
