"""lm-evaluation-harness on the low-bit cache, on a tiny task of this folder's own."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from eval_support import make_model, make_tokenizer, method
from mpfa.eval.methods import Subject
from mpfa.eval.policies import POLICIES

pytest.importorskip("lm_eval", reason="scripts/requirements/lm_eval.txt is not installed")

_ROWS = [
    {"question": "The river is", "choices": ["old", "light", "wind"], "gold": 1},
    {"question": "The child and the bird", "choices": ["sea", "house"], "gold": 0},
    {"question": "A song for the night was", "choices": ["green", "stone"], "gold": 1},
]
_TASK = """
task: mpfa_tiny
dataset_path: json
dataset_kwargs:
  data_files: {{test: "{data}"}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: gold
metric_list:
  - metric: acc
"""


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A task manager with the tiny task."""
    from lm_eval.tasks import TaskManager

    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "rows.json"
    data.write_text("\n".join(json.dumps(row) for row in _ROWS))
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "tiny.yaml").write_text(_TASK.format(data=data))
    return TaskManager(include_path=str(folder), include_defaults=False)


def _expected_choices(policy: str, text: str) -> list[list[float]]:
    """Log likelihoods of each row's choices, through a cache of the policy."""
    tokenizer = make_tokenizer()
    tokens = tokenizer(text, return_tensors="pt").input_ids[0, :200]
    subject = Subject(make_model(), list(tokens.split(100)), chunk=0)
    of = method(policy, backend="library" if POLICIES[policy].in_library else "emulated")
    found = []
    for row in _ROWS:
        of_row = []
        for choice in row["choices"]:
            ids = tokenizer(f"{row['question']} {choice}", return_tensors="pt").input_ids[0]
            rows = subject.logits(of, subject.new_cache(of), ids[:-1]).log_softmax(-1)
            of_row.append(rows[-1, ids[-1]].item())
        found.append(of_row)
    return found


@pytest.mark.parametrize("policy", ["input", "default", "mpfa"])
def test_a_task_runs_on_each_kind_of_cache(
    policy: str, model_folder: Path, text_file: Path, tasks: Any
) -> None:
    import lm_eval
    import mpfa.lm_eval  # noqa: F401  (registers the model)

    found = lm_eval.simple_evaluate(
        model="mpfa",
        model_args={
            "pretrained": str(model_folder),
            "policy": policy,
            "calibration_text": str(text_file),
            "calibration_tokens": 200,
            "calibration_window": 100,
        },
        tasks=["mpfa_tiny"],
        task_manager=tasks,
        device="cpu",
        bootstrap_iters=0,
    )
    samples = sorted(found["samples"]["mpfa_tiny"], key=lambda x: x["doc_id"])
    expected = _expected_choices(policy, text_file.read_text())
    for sample, of_row in zip(samples, expected, strict=True):
        likelihoods = [float(x[0]) for x in sample["filtered_resps"]]
        assert likelihoods == pytest.approx(of_row, abs=1e-3)
    chosen = [max(range(len(x)), key=x.__getitem__) for x in expected]
    right = sum(a == row["gold"] for a, row in zip(chosen, _ROWS, strict=True))
    assert math.isclose(found["results"]["mpfa_tiny"]["acc,none"], right / len(_ROWS))


def test_generation_goes_through_the_cache(model_folder: Path, text_file: Path) -> None:
    from lm_eval.api.instance import Instance
    from mpfa.lm_eval import MpfaLM

    arguments = {"pretrained": str(model_folder), "calibration_text": str(text_file)}
    answers = []
    for policy in ("input", "default"):
        lm = MpfaLM(policy=policy, calibration_tokens=200, calibration_window=100, **arguments)
        request = Instance(
            "generate_until",
            {},
            ("The old house and the", {"until": ["."], "max_gen_toks": 6}),
            0,
        )
        answers.append(lm.generate_until([request], disable_tqdm=True)[0])
    ids = make_tokenizer()("The old house and the", return_tensors="pt").input_ids
    out = make_model().generate(ids, max_new_tokens=6, do_sample=False)[0, ids.shape[1] :]
    expected = make_tokenizer().decode(out, skip_special_tokens=True)
    assert answers[0] == expected.split(".")[0]
    assert isinstance(answers[1], str)


def test_the_command_knows_the_model(
    model_folder: Path, text_file: Path, tasks: Any, tmp_path: Path
) -> None:
    arguments = f"pretrained={model_folder},policy=default,calibration_text={text_file}"
    command = [
        sys.executable, "-m", "mpfa.lm_eval", "--model", "mpfa", "--model_args", arguments,
        "--tasks", "mpfa_tiny", "--include_path", str(tmp_path / "tasks"), "--device", "cpu",
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "mpfa_tiny" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "best"}, "policy = 'best': must be a name"),
        ({"policy": "search*"}, r"policy = 'search\*': must be a name"),
        ({"statistics": "first_chunk"}, "statistics = 'first_chunk': must be 'calibrated' or"),
        ({}, "calibration_text is missing"),
        ({"policy": "mpfa", "batch_size": 4}, "batch_size = 4: must be 1 for mpfa"),
        (
            {"statistics": "prompt", "batch_size": "auto"},
            "batch_size = auto: must be 1 for default@",
        ),
    ],
)
def test_errors_name_the_argument(options: dict[str, Any], message: str) -> None:
    from mpfa.lm_eval import MpfaLM

    with pytest.raises(ValueError, match=message):
        MpfaLM(**options)
