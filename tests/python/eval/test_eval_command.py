"""python -m mpfa.eval: its results, resumption, report and errors."""

from __future__ import annotations

import json
import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
from eval_support import make_text
from mpfa.eval import perplexity
from mpfa.eval.command import main
from mpfa.eval.figure import dot_plot
from mpfa.eval.results import Results
from mpfa.eval.summary import Estimate, estimate, in_percent, paired


def _arguments(model: Path, text: Path, output: Path, *more: str) -> list[str]:
    other = text.with_name("other.txt")
    other.write_text(make_text(40, seed=6))
    return [
        str(model), "--text", str(text), "--calibration-text", str(other), "-o", str(output),
        "--calibration-tokens", "128", "--window", "64", "--windows", "2", "--lengths", "150",
        "--depths", "0,1", "--prompts", "2", "--prompt-tokens", "32", "--new-tokens", "4",
        "--chunk", "16", *more,
    ]  # fmt: skip


def test_results_and_report(model_folder: Path, text_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "out" / "accuracy.json"
    policies = "--policy", "default,fp8_k", "--statistics", "calibrated,first_chunk,prompt"
    assert main(_arguments(model_folder, text_file, output, *policies)) == 0
    content = json.loads(output.read_text())
    methods = ["bf16", "fp8_k", "default", "default@first_chunk", "default@prompt"]
    assert list(content["methods"]) == methods
    assert content["methods"]["default"]["k_bytes"] == 36 + 8
    assert len(content["records"]) == len(methods) * (2 + 2 + 2)
    table = content["summary"]["perplexity"]
    nll = [x["values"]["nll"] for x in content["records"][:: len(methods)][:2]]
    assert table["bf16"]["ppl"]["mean"] == pytest.approx(math.exp(sum(nll) / 2))
    assert table["bf16"]["change"] == {"mean": 0.0, "error": 0.0, "items": 2}
    markdown = output.with_suffix(".md").read_text()
    assert "| **default** |" in markdown
    html = output.with_suffix(".html").read_text()
    assert html.count("<svg") == 3
    for name in methods:
        assert f"<td>{name}</td>" in html


def test_a_run_goes_on_where_one_ended(
    model_folder: Path, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "accuracy.json"
    short = _arguments(model_folder, text_file, output, "--tasks", "perplexity")
    assert main([*short, "--policy", "fp8_k"]) == 0
    before = json.loads(output.read_text())["records"]
    calls = []
    run = perplexity.Perplexity.run

    def counted(self, subject, item, methods):
        calls.append((item, [x.name for x in methods]))
        return run(self, subject, item, methods)

    monkeypatch.setattr(perplexity.Perplexity, "run", counted)
    assert main([*short, "--policy", "fp8_k"]) == 0
    assert calls == []
    assert main([*short, "--policy", "fp8_v", "--windows", "1"]) == 0
    before_markdown = output.with_suffix(".md").read_text()
    assert "| fp8_v | 128 | 64 | 1 |" in before_markdown  # a column that says how many windows
    assert calls == [("0", ["bf16", "fp8_v"])]
    calls.clear()
    assert main([*short, "--policy", "fp8_k,fp8_v", "--windows", "3"]) == 0
    assert calls == [
        ("1", ["bf16", "fp8_v"]),
        ("2", ["bf16", "fp8_k", "fp8_v"]),
    ]
    assert "| method | K bytes | V bytes | perplexity |" not in before_markdown
    table = output.with_suffix(".md").read_text()
    assert "| method | K bytes | V bytes | perplexity |" in table
    after = json.loads(output.read_text())["records"]
    assert len(after) == 9
    assert all(record in after for record in before)  # the same bits again


def test_other_settings_are_refused(
    model_folder: Path, text_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "accuracy.json"
    short = _arguments(
        model_folder, text_file, output, "--tasks", "perplexity", "--policy", "fp8_v"
    )
    assert main(short) == 0
    assert main([*short, "--window", "32"]) == 2
    error = capsys.readouterr().err
    assert "was measured with window = 64, now it is 32: give the same, another --output" in error
    assert main([*short, "--window", "32", "--restart"]) == 0
    assert json.loads(output.read_text())["settings"]["window"] == 32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--tasks", "perplexity,poetry"], "--tasks 'poetry': must be one of perplexity, needle"),
        (["--tasks", ""], "--tasks: must name one of"),
        (["--statistics", "none"], "--statistics 'none': must be one of calibrated"),
        (["--backend", "gpu"], "--backend 'gpu': must be one of auto, emulated, both"),
        (["--policy", "best"], "--policy 'best': no such policy"),
        (["--text", "/no/such/file"], "--text '/no/such/file': No such file or directory"),
        (["--windows", "999"], "--windows 999 of --window 64"),
        (["--depths", "2"], "--depths 2.0: must be 0 to 1"),
    ],
)
def test_errors_name_the_option(
    model_folder: Path,
    text_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changes: list[str],
    message: str,
) -> None:
    output = tmp_path / "accuracy.json"
    assert main(_arguments(model_folder, text_file, output, *changes)) == 2
    assert message in capsys.readouterr().err
    assert not output.exists()


def test_errors_of_files(
    text_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "notes.json"
    other.write_text("{}")
    assert main(["--report-only", "-o", str(other)]) == 2
    assert f"{other} is no file of python -m mpfa.eval" in capsys.readouterr().err
    assert main(["--report-only", "-o", str(tmp_path / "none.json")]) == 2
    assert "none.json: No such file" in capsys.readouterr().err
    assert main(["model"]) == 2
    assert "--text is missing" in capsys.readouterr().err
    assert main(["model", "--text", str(text_file)]) == 2
    assert "--calibration-text is missing" in capsys.readouterr().err
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\xff")
    assert main(["model", "--text", str(binary)]) == 2
    assert "is not UTF-8 text" in capsys.readouterr().err
    assert main(["no-model", "--text", str(text_file), "--policy", "fp8_k"]) == 2
    assert "model 'no-model' does not exist: must be 'smollm2', a folder" in capsys.readouterr().err


def test_estimates() -> None:
    values = [1.0, 2.0, 4.0, 5.0]
    assert estimate(values) == Estimate(3.0, pytest.approx(math.sqrt(10 / 3 / 4)), 4)
    single = estimate([7.0])
    assert single.mean == 7
    assert math.isnan(single.error)
    # Items that vary a lot, a difference that does not.
    difference = paired({"a": 1.1, "b": 9.1, "c": 5.0}, {"a": 1.0, "b": 9.0})
    assert difference == Estimate(pytest.approx(0.1), pytest.approx(0, abs=1e-9), 2)
    change = in_percent(Estimate(0.01, 0.002, 2))
    assert change.mean == pytest.approx(1.005, abs=1e-3)
    assert change.error == pytest.approx(0.202, abs=1e-3)


def test_the_figure_places_its_dots() -> None:
    rows = [("a<b", Estimate(1.0, 0.5, 3)), ("none", Estimate(-0.75, math.nan, 1))]
    root = ElementTree.fromstring(dot_plot(rows, "percent", highlight="none"))
    name = "{http://www.w3.org/2000/svg}"
    dots = [float(x.get("cx")) for x in root.iter(f"{name}circle")]
    texts = {x.text: float(x.get("x")) for x in root.iter(f"{name}text")}
    assert "a<b" in texts
    unit = texts["1"] - texts["0"]
    assert dots == pytest.approx([texts["1"], texts["0"] - 0.75 * unit], abs=0.1)
    bars = [
        float(x.get("x2")) - float(x.get("x1"))
        for x in root.iter(f"{name}line")
        if x.get("stroke-width")
    ]
    assert bars[0] == pytest.approx(unit, abs=0.2)
    assert bars[1] == 0


def test_a_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    results = Results(path, {"seed": 0})
    results.save()
    assert Results.load(path).settings == {"seed": 0}
    assert list(tmp_path.iterdir()) == [path]
