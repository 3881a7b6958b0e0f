"""mcq from file to summary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import howsure
from howsure.errors import InputError, RunMismatch
from howsure.models.contract import ScoreItem
from howsure.runs import Sample
from howsure.studies.mcq import McqOptions
from howsure.studies.mcq.data import Item, read_questions
from howsure.studies.mcq.judge import judge
from howsure.studies.mcq.record import McqRecord
from howsure.studies.mcq.study import score_item, to_sample
from studies.on_paper import OnPaper, write

GOOD = {"question": "the sky is", "choices": ["blue", "the dog"], "answer_index": 0}


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    words = ["blue", "lazy", "quick", "brown", "four", "five"]
    rows = [
        {"question": f"the {a} sky is", "choices": [f"{b} one", b, f"not {b}, but {a}"], "answer_index": i % 3}
        for i, (a, b) in enumerate((a, b) for a in words for b in words)
    ]
    return write(tmp_path / "questions.jsonl", *rows)


# -- data -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2: Input data was truncated"),
        ("[1]", "line 2: Expected `object`"),
        ('"text"', "line 2: Expected `object`"),
        ({"choices": ["a", "b"], "answer_index": 0}, "missing required field `question`"),
        (GOOD | {"question": " "}, "question is empty"),
        (GOOD | {"choices": ["a"]}, "choices must be 2 to 1000 texts, not 1"),
        (GOOD | {"choices": ["a", ""]}, r"choices\[1\] is empty"),
        (GOOD | {"choices": ["a", "a"]}, r"choices\[1\] 'a' is the same as choices\[0\]"),
        (GOOD | {"choices": ["a", 3]}, r"Expected `str`, got `int` - at `\$\.choices\[1\]`"),
        (GOOD | {"answer_index": 2}, "answer_index 2 is outside 0 to 1"),
        (GOOD | {"answer_index": -1}, "answer_index -1 is outside"),
        (GOOD | {"answer_index": "0"}, r"Expected `int`, got `str` - at `\$\.answer_index`"),
        (GOOD | {"answer_index": True}, r"Expected `int`, got `bool`"),
        (GOOD | {"answer_index": None}, r"Expected `int`, got `null`"),
        (
            GOOD | {"image_path": "x.png"},
            r"image_path 'x\.png' is no file, tried /.*/x\.png and /.*/x\.png \(--image-root",
        ),
        (GOOD | {"image_path": " "}, "image_path is empty"),
        (GOOD | {"image_path": "a\0b.png"}, "is no file"),
        (GOOD | {"image_path": "x" * 5000}, "is no file"),
        (GOOD | {"image_path": 3}, r"got `int` - at `\$\.image_path`"),
        ("[" * 5000, "line 2"),
    ],
)
def test_a_bad_line_is_named_with_its_field(tmp_path: Path, line: Any, words: str) -> None:
    path = write(tmp_path / "q.jsonl", GOOD, line)
    with pytest.raises(InputError, match=words) as caught:
        read_questions(path)
    assert f"{path}, line 2" in str(caught.value)
    assert "--skip-bad" in str(caught.value)
    found = read_questions(path, skip_bad=True)
    assert (len(found.items), found.skipped) == (1, 1)


def test_ids_are_the_users_or_stay_with_the_content(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", GOOD, "", GOOD, GOOD | {"id": 7, "group": "g"}, GOOD | {"id": "x"})
    first = [item.id for item in read_questions(path).items]
    assert first[1] == f"{first[0]}-2"
    assert first[2:] == ["7", "x"]
    moved = [item.id for item in read_questions(write(tmp_path / "r.jsonl", GOOD | {"id": "x"}, GOOD)).items]
    assert moved == ["x", first[0]]
    with pytest.raises(InputError, match="id 'x' is that of line 1 already"):
        read_questions(write(tmp_path / "d.jsonl", GOOD | {"id": "x"}, GOOD | {"id": "x"}))


def test_files_that_hold_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_questions(tmp_path / "gone.jsonl")
    with pytest.raises(InputError, match="no usable question"):
        read_questions(write(tmp_path / "empty.jsonl", ""))
    with pytest.raises(InputError, match="cannot be read"):
        read_questions(tmp_path)
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(InputError, match="line 1"):
        read_questions(tmp_path / "bytes.jsonl")


def test_a_byte_order_mark_and_windows_line_ends_are_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r\n")
    assert len(read_questions(tmp_path / "q.jsonl").items) == 1


# -- scoring and judging ----------------------------------------------------------------------------------------


def test_figures_by_hand(tmp_path: Path) -> None:
    table = {" yes": -1.0, " no": -3.0, " maybe": -2.0}
    path = write(
        tmp_path / "q.jsonl",
        {"question": "a?", "choices": ["no", "yes"], "answer_index": 1},
        {"question": "b?", "choices": ["maybe", "no"], "answer_index": 1},
        {"question": "fail?", "choices": ["maybe", "no"], "answer_index": 0},
    )
    result = howsure.mcq(path, OnPaper(table), out=tmp_path / "run")
    summary = result.summary
    assert (summary["correct_count"], summary["total_count"], summary["scored_count"]) == (1, 3, 2)
    assert summary["accuracy"] == pytest.approx(1 / 3), "a question that failed stays in the denominator"
    assert summary["accuracy_of_scored"] == 0.5
    assert summary["avg_margin"] == pytest.approx(1.5)
    assert summary["coverage"]["text"] == "scored 2 of 3; 1 missing: 1 too long"
    assert summary["notes"] == [
        "accuracy counts what could not be scored as not right; of the 2 scored it is 50.0%, and confidence is judged "
        "on those"
    ]
    first, second, failed = result.samples
    assert first.result["log_likelihoods"] == [-3.0, -1.0]
    assert (first.result["predicted_index"], first.result["margin"], first.result["correct"]) == (1, 2.0, True)
    assert first.result["confidence"] == pytest.approx(1 / (1 + np.exp(-2.0)))
    assert second.result["correct"] is False
    assert (failed.reason, failed.outcome) == ("too_long", None)
    assert failed.result["correct"] is None


def test_a_tie_and_a_zero_are_said(tmp_path: Path) -> None:
    table = {" yes": -1.0, " no": -1.0, " never": -np.inf}
    path = write(
        tmp_path / "q.jsonl",
        {"question": "a?", "choices": ["no", "yes"], "answer_index": 0},
        {"question": "b?", "choices": ["never", "yes"], "answer_index": 1},
    )
    summary = howsure.mcq(path, OnPaper(table), out=tmp_path / "run").summary
    assert summary["tie_count"] == 1
    assert (summary["unbounded_margin_count"], summary["avg_margin"]) == (1, 0.0)
    item = Item("x", "q", ("never", "never ever"), 0, None)
    from howsure.evidence import TokenLogprobs

    nothing = [TokenLogprobs((c,), np.array([-np.inf])) for c in item.choices]
    assert to_sample(0, item, nothing).reason == "no_likely_choice"


def test_a_sum_is_compared_not_a_mean() -> None:
    """Two tokens of −1 lose against one of −1.5, though each is likelier."""
    from howsure.evidence import TokenLogprobs

    item = Item("x", "q", ("a b", "c"), 1, None)
    scored = [TokenLogprobs(("a", "b"), np.array([-1.0, -1.0])), TokenLogprobs(("c",), np.array([-1.5]))]
    sample = to_sample(0, item, scored)
    assert sample.result["predicted_index"] == 1
    assert sample.result["margin"] == pytest.approx(0.5)


def test_the_summary_does_not_depend_on_the_order_of_samples(
    tmp_path: Path, questions: Path, tiny_folder: Path
) -> None:
    samples = howsure.mcq(questions, f"hf:{tiny_folder}", out=tmp_path / "run").samples
    assert judge(samples) == judge(samples[::-1])


def test_nothing_scored_gives_no_figures() -> None:
    failed = [Sample("a", 0, McqRecord(question="?", choices=["x", "y"], answer_index=0), reason="too_long", detail="")]
    summary = judge(failed)
    assert summary["accuracy_of_scored"] is None
    assert summary["avg_margin"] is None
    assert judge([])["accuracy"] is None


# -- with a model -----------------------------------------------------------------------------------------------


def test_likelihoods_are_those_of_score(tmp_path: Path, questions: Path, tiny_folder: Path) -> None:
    model = howsure.load(f"hf:{tiny_folder}", token_budget=120)
    result = howsure.mcq(questions, model, out=tmp_path / "run")
    for sample in result.samples[:6]:
        choices = [f" {choice}" for choice in sample.result["choices"]]
        alone = model.score([(f"{sample.result['question']}\nAnswer:", choices)])[0]
        assert np.allclose([-e.nll_nats for e in alone], sample.result["log_likelihoods"], atol=1e-4)


def test_stopped_anywhere_and_resumed_it_ends_byte_for_byte_alike(
    tmp_path: Path, questions: Path, tiny_folder: Path
) -> None:
    model = howsure.load(f"hf:{tiny_folder}", token_budget=120)
    howsure.mcq(questions, model, out=tmp_path / "whole")
    expected = (tmp_path / "whole" / "summary.json").read_bytes()
    records = {s.id: s for s in howsure.Run(tmp_path / "whole").records()}
    lines = (tmp_path / "whole" / "samples.jsonl").read_bytes()
    assert any(s.result["predicted_index_pmi"] is not None for s in records.values()), "with PMI, as it is by default"
    for cut in range(0, len(lines), len(lines) // 7):
        folder = tmp_path / f"cut-{cut}"
        folder.mkdir()
        manifest = json.loads((tmp_path / "whole" / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(manifest | {"status": "running"}))
        (folder / "samples.jsonl").write_bytes(lines[:cut])
        howsure.mcq(questions, model, out=folder)
        assert (folder / "summary.json").read_bytes() == expected
        assert {s.id: s for s in howsure.Run(folder).records()} == records


def test_another_prompt_model_or_file_is_another_run(tmp_path: Path, questions: Path, tiny_folder: Path) -> None:
    name = f"hf:{tiny_folder}"
    howsure.mcq(questions, name, out=tmp_path / "run", max_samples=3)
    changes: list[tuple[Path, dict[str, Any], str]] = [
        (questions, {"max_samples": 3, "prompt": "Q: {question} A:"}, "options.prompt"),
        (questions, {"max_samples": 4}, "options.max_samples was 3, now 4"),
        (questions, {"max_samples": 3, "pmi": False}, "options.pmi was True, now False"),
        (questions, {"max_samples": 3, "batch_size": 2}, "options.batch_size was None, now 2"),
        (questions, {"max_samples": 3, "token_budget": 99}, "model.token_budget was 2048, now 99"),
        (write(tmp_path / "other.jsonl", GOOD), {"max_samples": 3}, "data.fingerprint"),
    ]
    for data, options, words in changes:
        with pytest.raises(RunMismatch, match=words):
            howsure.mcq(data, name, out=tmp_path / "run", **options)


def test_a_prompt_without_the_question_is_refused(tmp_path: Path, questions: Path) -> None:
    with pytest.raises(InputError, match="has no {question}"):
        howsure.mcq(questions, "smollm2", out=tmp_path / "run", prompt="Answer:")


def test_braces_in_a_question_are_left_alone(tmp_path: Path, tiny_folder: Path) -> None:
    path = write(tmp_path / "q.jsonl", GOOD | {"question": "what is {0} in {question}"})
    result = howsure.mcq(path, f"hf:{tiny_folder}", out=tmp_path / "run")
    assert result.samples[0].result["correct"] in (True, False)


def test_a_token_across_the_end_of_the_prompt_is_said(tmp_path: Path, tiny_folder: Path) -> None:
    path = write(tmp_path / "q.jsonl", GOOD, GOOD | {"question": "the lazy dog is"})
    plain = howsure.mcq(path, f"hf:{tiny_folder}", out=tmp_path / "plain").summary
    assert (plain["straddled_count"], plain["notes"]) == (0, [])
    across = howsure.mcq(path, f"hf:{tiny_folder}", out=tmp_path / "across", prompt="{question} ").summary
    assert across["straddled_count"] == 2
    assert "questions with a token across the end of the prompt, scored from that token on: 2" in across["notes"]


def test_the_evidence_of_a_run_is_on_the_disk_and_not_in_memory(tmp_path: Path, tiny_folder: Path) -> None:
    result = howsure.mcq(write(tmp_path / "q.jsonl", GOOD), f"hf:{tiny_folder}", out=tmp_path / "run")
    assert [sample.evidence for sample in result.samples] == [{}]
    (whole,) = result.run.records(record=McqRecord)
    sums = [sum(choice["logprobs"]) for choice in whole.evidence["choices"]]
    assert sums == pytest.approx(whole.result["log_likelihoods"])
    assert whole.without_evidence() == result.samples[0]


def test_too_long_a_question_fails_alone(tmp_path: Path, tiny_folder: Path) -> None:
    path = write(tmp_path / "q.jsonl", GOOD, GOOD | {"question": "x " * 400})
    result = howsure.mcq(path, f"hf:{tiny_folder}", out=tmp_path / "run")
    assert [s.reason for s in result.samples] == [None, "too_long"]
    assert result.summary["coverage"]["missing"] == {"too_long": 1}


def test_score_items_are_question_then_choice() -> None:
    item = score_item(Item("x", "What?", ("this", "that"), 0, None), McqOptions("questions.jsonl"))
    assert item == ScoreItem("What?\nAnswer:", (" this", " that"))
