"""How questions are put, and what is read from the answers beside the sum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import howsure
from howsure.errors import InputError, MissingCapability
from howsure.evidence import TokenLogprobs
from howsure.models.contract import Message
from howsure.runs.run import prepared
from howsure.studies.mcq import MCQ, McqOptions
from howsure.studies.mcq.data import Item
from howsure.studies.mcq.study import score_item, to_sample, unconditional_items
from studies.on_paper import OnPaper, write

ITEM = Item("x", "What?", ("this", "that"), 0, None)


@pytest.mark.parametrize(
    ("prompt", "prefix", "first"),
    [
        (None, "What?\nAnswer:", " this"),
        ("Q: {question} A:", "Q: What? A:", " this"),
        ("{question}", "What?", " this"),
        ("{question}\n", "What?\n", "this"),
        ("Q: {question} A: ", "Q: What? A: ", "this"),
        ("{question}\t", "What?\t", "this"),
    ],
)
def test_a_choice_follows_after_one_space_unless_white_space_is_there(
    prompt: str | None, prefix: str, first: str
) -> None:
    options = McqOptions("questions.jsonl", prompt=prompt)
    item = score_item(ITEM, options)
    assert (item.prefix, item.continuations[0]) == (prefix, first)
    assert unconditional_items([ITEM], options)[0].continuations[0] == first, "alone as after the question"


def test_in_a_chat_the_choice_begins_the_answer() -> None:
    options = McqOptions("questions.jsonl", chat=True)
    item = score_item(ITEM, options)
    assert item.prefix == (Message("user", "What?"),)
    assert item.continuations == ("this", "that")
    brief = options.with_(prompt="{question} Be brief.")
    assert score_item(ITEM, brief).prefix == (Message("user", "What? Be brief."),)


def test_chat_needs_a_template(tmp_path: Path, tiny_folder: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"question": "q", "choices": ["a", "b"], "answer_index": 0})
    for model in (OnPaper({}), f"hf:{tiny_folder}"):
        with pytest.raises(MissingCapability, match="--chat needs a chat template, and .* has none"):
            howsure.mcq(path, model, out=tmp_path / "run", chat=True)
    result = howsure.mcq(path, OnPaper({"a": -1.0, "b": -2.0}, chat=True), out=tmp_path / "run", chat=True)
    assert result.run.manifest.identity.options["prompt"] == "{question}"
    assert result.summary["accuracy"] == 1.0


def test_the_other_predictions_by_hand(tmp_path: Path) -> None:
    """Sums −4, −3, −3.5 with 4, 1, 2 tokens, 2, 1, 7 bytes, and −9, −3.5, −5 without the question."""
    table = {" aa": [-1.0] * 4, " b": -3.0, " ccccccc": [-1.75] * 2}
    alone = {" aa": -9.0, " b": -3.5, " ccccccc": -5.0}
    path = write(tmp_path / "q.jsonl", {"question": "q", "choices": ["aa", "b", "ccccccc"], "answer_index": 2})
    result = howsure.mcq(path, OnPaper(table, alone), out=tmp_path / "run").samples[0].result
    assert result["log_likelihoods"] == [-4.0, -3.0, -3.5]
    assert result["token_counts"] == [4, 1, 2]
    assert result["byte_counts"] == [2, 1, 7], "of the choice, without the space before it"
    assert result["predicted_index"] == 1
    assert result["predicted_index_per_token"] == 0, "−1, −3, −1.75"
    assert result["predicted_index_per_byte"] == 2, "−2, −3, −0.5"
    assert result["predicted_index_pmi"] == 0, "5, 0.5, 1.5"
    assert result["unconditional_log_likelihoods"] == [-9.0, -3.5, -5.0]


def test_bytes_are_counted_not_characters() -> None:
    item = Item("x", "q", ("é", "ab"), 0, None)
    scored = [TokenLogprobs((c,), np.array([-2.0])) for c in item.choices]
    assert to_sample(0, item, scored).result["byte_counts"] == [2, 2]


def test_each_distinct_choice_of_a_batch_is_scored_once_by_itself(tmp_path: Path) -> None:
    rows = [
        {"question": "a?", "choices": ["yes", "no"], "answer_index": 0},
        {"question": "b?", "choices": ["no", "yes"], "answer_index": 0},
        {"question": "c?", "choices": ["no", "maybe"], "answer_index": 0},
    ]
    path = write(tmp_path / "q.jsonl", *rows)
    table = {" yes": -1.0, " no": -3.0, " maybe": -2.0}
    model = OnPaper(table, {" yes": -5.0, " no": -4.0, " maybe": -7.0})
    result = howsure.mcq(path, model, out=tmp_path / "run")
    assert [item.continuations for item in model.asked[1]] == [(" yes", " no"), (" maybe",)]
    alone = [sample.result["unconditional_log_likelihoods"] for sample in result.samples]
    assert alone == [[-5.0, -4.0], [-4.0, -5.0], [-4.0, -7.0]]


def test_a_choice_that_has_no_probability_by_itself_costs_pmi_alone(tmp_path: Path) -> None:
    rows = [
        {"question": "a?", "choices": ["mute", "no"], "answer_index": 0},
        {"question": "b?", "choices": ["yes", "maybe"], "answer_index": 0},
        {"question": "c?", "choices": ["never", "yes"], "answer_index": 1},
    ]
    table = {" mute": -1.0, " no": -3.0, " yes": -1.0, " maybe": -2.0, " never": -4.0}
    result = howsure.mcq(write(tmp_path / "q.jsonl", *rows), OnPaper(table, {" never": -np.inf}), out=tmp_path / "run")
    summary = result.summary
    assert [s.result["predicted_index_pmi"] for s in result.samples] == [None, 0, None]
    assert [s.result["pmi_missing"] for s in result.samples] == ["no_context", None, "choice_of_probability_zero"]
    assert summary["coverage"]["text"] == "scored 3 of 3"
    assert (summary["accuracy"], summary["pmi_failed_count"]) == (1.0, 2)
    assert summary["pmi_missing"] == {"choice_of_probability_zero": 1, "no_context": 1}
    pmi = summary["normalisations"]["pmi"]
    assert (pmi["correct_count"], pmi["total_count"], pmi["known_count"]) == (1, 3, 1)
    assert summary["notes"] == ["questions without PMI, which count as not right by it: 2"]


def test_without_pmi_nothing_is_asked_for_it(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"question": "a?", "choices": ["yes", "no"], "answer_index": 0})
    model = OnPaper({" yes": -1.0, " no": -3.0})
    result = howsure.mcq(path, model, out=tmp_path / "run", pmi=False)
    assert len(model.asked) == 1
    assert result.samples[0].result["predicted_index_pmi"] is None
    assert result.samples[0].result["unconditional_log_likelihoods"] is None
    assert result.summary["normalisations"]["pmi"] is None
    assert result.summary["pmi_failed_count"] == 0
    assert result.summary["notes"] == []


def test_a_choice_without_tokens_never_wins() -> None:
    scored = [TokenLogprobs((), np.array([])), TokenLogprobs(("b",), np.array([-1.0]))]
    sample = to_sample(0, ITEM, scored)
    assert (sample.reason, sample.outcome) == ("no_tokens", None)
    assert "choices[0]" in (sample.detail or "")


def test_batch_size_bounds_the_questions_that_run_together(tmp_path: Path) -> None:
    rows = [{"question": f"{i}?", "choices": ["yes", "no"], "answer_index": 0} for i in range(7)]
    path = write(tmp_path / "q.jsonl", *rows)
    model = OnPaper({" yes": -1.0, " no": -3.0})
    howsure.mcq(path, model, out=tmp_path / "run", batch_size=3)
    assert [len(asked) for asked in model.asked[::2]] == [3, 3, 1]
    with pytest.raises(InputError, match="--batch-size must be at least 1"):
        howsure.mcq(path, model, out=tmp_path / "run", batch_size=0)


def test_a_dry_run_counts_the_choices_by_themselves(tmp_path: Path, tiny_folder: Path) -> None:
    rows = [{"question": f"the {i} sky is", "choices": [f"{i} fox", "the dog"], "answer_index": 0} for i in range(9)]
    path = write(tmp_path / "q.jsonl", *rows)
    for options in ({"pmi": True}, {"pmi": False}, {"pmi": True, "batch_size": 2}):
        model = howsure.load(f"hf:{tiny_folder}", token_budget=40)
        with prepared(MCQ, McqOptions(path, model, **options)) as ready:
            counts = ready.cost()
        before = (model.counters.calls, model.counters.tokens_run)
        howsure.mcq(path, model, out=tmp_path / str(options), **options)
        ran = (model.counters.calls - before[0], model.counters.tokens_run - before[1])
        assert (counts["model_calls"], counts["tokens"]) == ran


def test_resumed_in_the_middle_of_a_batch_with_pmi_it_ends_alike(tmp_path: Path, tiny_folder: Path) -> None:
    rows = [
        {"question": f"the {i} sky is", "choices": [f"{i % 3} fox", "the dog"], "answer_index": 0} for i in range(9)
    ]
    path = write(tmp_path / "q.jsonl", *rows)
    model = howsure.load(f"hf:{tiny_folder}")
    whole = howsure.mcq(path, model, out=tmp_path / "whole", batch_size=4)
    lines = (tmp_path / "whole" / "samples.jsonl").read_bytes().splitlines(keepends=True)
    for kept in ([0], [1, 2, 3], [0, 5], [8]):
        folder = tmp_path / str(kept)
        folder.mkdir()
        (folder / "run.json").write_bytes((tmp_path / "whole" / "run.json").read_bytes())
        (folder / "samples.jsonl").write_bytes(b"".join(lines[i] for i in kept))
        again = howsure.mcq(path, model, out=folder, batch_size=4)
        assert (folder / "summary.json").read_bytes() == (tmp_path / "whole" / "summary.json").read_bytes()
        assert again.samples == whole.samples


def test_a_model_opened_by_its_name_is_given_back_and_a_users_own_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "q.jsonl", {"question": "a?", "choices": ["yes", "no"], "answer_index": 0})
    model = OnPaper({" yes": -1.0, " no": -3.0})
    howsure.mcq(path, model, out=tmp_path / "a")
    assert not model.closed
    monkeypatch.setattr("howsure.studies.study.load", lambda name, **options: model)
    howsure.mcq(path, "by-name", out=tmp_path / "b")
    assert model.closed


def test_an_option_that_would_change_nothing_is_refused(tmp_path: Path, tiny_folder: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"question": "a?", "choices": ["yes", "no"], "answer_index": 0})
    with pytest.raises(InputError, match="'token_budget' is for a model that is opened by its name"):
        howsure.mcq(path, OnPaper({}), out=tmp_path / "run", token_budget=9)
    with pytest.raises(TypeError, match="has no option 'promt'"):
        howsure.mcq(path, f"hf:{tiny_folder}", out=tmp_path / "run", promt="{question}")
