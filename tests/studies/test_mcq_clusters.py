"""Questions that hang together: `--cluster`, images, what is written down of it, and how two runs are paired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import howsure
from howsure.errors import InputError, RunMismatch
from howsure.measures import paired_means, paired_shares
from howsure.runs import Run
from howsure.studies.mcq.columns import units
from howsure.studies.mcq.data import LONGEST_LABEL, read_questions
from howsure.studies.mcq.judge import judge
from howsure.studies.mcq.record import McqRecord
from studies.on_paper import OnPaper, write


def row(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"q{number}",
        "question": f"{number}?",
        "choices": [f"a{number}", f"b{number}"],
        "answer_index": 0,
    } | more


def model(right: list[bool], name: str) -> OnPaper:
    """The right choice of question i leads by 1 + i / 10 nats, or falls as far behind."""
    table: dict[str, float | list[float]] = {}
    for i, is_right in enumerate(right):
        lead = (1.0 + i / 10) * (1 if is_right else -1)
        table |= {f" a{i}": -3.0 + min(lead, 0.0), f" b{i}": -3.0 - max(lead, 0.0)}
    return OnPaper(table, name=name)


def record(question: str, **labels: Any) -> McqRecord:
    return McqRecord(question=question, choices=["a", "b"], answer_index=0, **labels)


PASSAGES = [f"p{i // 4}" for i in range(40)]
RIGHT = [i // 4 % 3 != 0 for i in range(40)]
LATER = [i // 4 % 5 != 0 for i in range(40)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "q.jsonl", *(row(i, passage=passage) for i, passage in enumerate(PASSAGES)))


# -- data -----------------------------------------------------------------------------------------------------------


def clusters_of(tmp_path: Path, *values: Any, **how: Any) -> list[str | None]:
    rows = [row(i) if value == "leave out" else row(i, doc=value) for i, value in enumerate(values)]
    return [item.cluster for item in read_questions(write(tmp_path / "c.jsonl", *rows), cluster="doc", **how).items]


def test_equal_values_are_one_label(tmp_path: Path) -> None:
    found = clusters_of(tmp_path, "a", 7, "7", 1.5, True, None, " ", "leave out")
    assert found == ["a", "7", "7", "1.5", "true", None, None, None], "missing, null and blank stand for themselves"


def test_a_whole_passage_as_label_is_cut_and_stays_distinct(tmp_path: Path) -> None:
    text = "word " * 500
    first, second, again = clusters_of(tmp_path, text + "one", text + "two", text + "one")
    assert first == again != second
    assert first is not None
    assert len(first) < LONGEST_LABEL + 20


@pytest.mark.parametrize(("value", "kind"), [(["a"], "a list"), ({"a": 1}, "an object")])
def test_what_is_no_label_is_a_bad_line(tmp_path: Path, value: Any, kind: str) -> None:
    words = f"line 2: doc, the field of --cluster, must be a text or a number, not {kind}"
    with pytest.raises(InputError, match=words):
        clusters_of(tmp_path, "a", value)
    assert clusters_of(tmp_path, "a", value, skip_bad=True) == ["a"]


def test_any_field_can_be_named_and_one_that_nobody_has_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", row(0, group="g"), row(1, group="g"))
    assert [item.cluster for item in read_questions(path, cluster="group").items] == ["g", "g"]
    with pytest.raises(InputError, match="--cluster pasage: no question of .*q.jsonl has anything in that field"):
        read_questions(path, cluster="pasage")


# -- a run ----------------------------------------------------------------------------------------------------------


def test_a_run_is_judged_by_its_samples_alone(tmp_path: Path, data: Path) -> None:
    result = howsure.mcq(data, model(RIGHT, "m"), out=tmp_path / "run", cluster="passage")
    run = Run(tmp_path / "run")
    assert run.manifest.identity.options["cluster"] == "passage"
    assert [sample.result["cluster"] for sample in run.records()] == PASSAGES
    accuracy = result.summary["headline"][0]
    assert "over 10 clusters" in accuracy["method"]
    assert judge(run.records(record=McqRecord)) == result.summary
    plain = howsure.mcq(data, model(RIGHT, "m"), out=tmp_path / "plain").summary["headline"][0]
    assert accuracy["value"] == plain["value"]
    assert accuracy["high"] - accuracy["low"] > 1.5 * (plain["high"] - plain["low"])


def test_a_run_without_the_option_is_what_it_was(tmp_path: Path, data: Path) -> None:
    howsure.mcq(data, model(RIGHT, "m"), out=tmp_path / "run")
    identity = json.loads((tmp_path / "run" / "run.json").read_text())["identity"]
    assert "cluster" not in identity["options"]
    assert set(identity["data"]) == {"fingerprint", "skipped"}
    assert {sample.result["cluster"] for sample in Run(tmp_path / "run").records()} == {None}


def test_other_clusters_are_another_run(tmp_path: Path, data: Path) -> None:
    howsure.mcq(data, model(RIGHT, "m"), out=tmp_path / "run", cluster="passage")
    with pytest.raises(RunMismatch, match="cluster"):
        howsure.mcq(data, model(RIGHT, "m"), out=tmp_path / "run")
    other = write(data, *(row(i, passage=str(i // 8)) for i in range(40)))
    with pytest.raises(RunMismatch, match="clusters"):
        howsure.mcq(other, model(RIGHT, "m"), out=tmp_path / "run", cluster="passage")


def test_questions_about_one_image_hang_together(tmp_path: Path) -> None:
    for number in range(6):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(tmp_path / f"{number}.png")
    rows = [row(i, image_path=f"{i // 4}.png") for i in range(24)]
    known = OnPaper(model(RIGHT[:24], "m").table, images=True)
    found = howsure.mcq(write(tmp_path / "q.jsonl", *rows), known, out=tmp_path / "run").summary
    assert found["unit_count"] == 6
    assert "over 6 clusters" in found["headline"][0]["method"]
    assert found["headline"][0]["approximate"] is True
    assert found["notes"][0].startswith("questions that share an image are not independent")


def test_units_are_what_is_connected() -> None:
    """Against the definition: two questions are in one unit if a chain of shared labels leads from one to the other."""
    rng = np.random.default_rng(8)
    for _ in range(20):
        drawn = rng.integers(0, 12, (3, 15))
        names = ("image_sha256", "cluster", "cluster")
        rows = [
            [{names[k]: f"{drawn[k, i]}" for k in kinds if drawn[k, i] < 8} for i in range(15)]
            for kinds in ((0, 1), (0, 2))
        ]
        near = [[any(a[i].items() & a[j].items() for a in rows) for j in range(15)] for i in range(15)]
        reach = np.linalg.matrix_power(np.array(near, dtype=float) + np.eye(15), 15) > 0
        found = units(*([record(f"{i}", **labels) for i, labels in enumerate(side)] for side in rows))
        assert ((found[:, None] == found[None, :]) == reach).all()
    assert units([record(f"{i}") for i in range(3)]).tolist() == [0, 1, 2]


def test_a_question_that_is_there_again_is_no_new_one() -> None:
    """The same words, choices and image have the same answer: ten questions twenty times are ten."""
    rows = [record(f"what is {i % 3}?") for i in range(9)]
    assert units(rows).tolist() == [0, 1, 2] * 3
    rows[0].image_sha256 = "ab"
    assert units(rows).tolist() == [0, 1, 2, 3, 1, 2, 3, 1, 2], "another image, another question"


# -- two runs -------------------------------------------------------------------------------------------------------


def test_pairs_are_over_the_same_units(tmp_path: Path, data: Path) -> None:
    pair = howsure.mcq(data, model(RIGHT, "a"), model_b=model(LATER, "b"), out=tmp_path / "both", cluster="passage")
    difference, passage = pair.comparison["difference"], np.arange(40) // 4
    shares = paired_shares(RIGHT, LATER, clusters=passage)
    margins = [[sample.result["margin"] for sample in side.samples] for side in (pair.a, pair.b)]
    means = paired_means(*margins, clusters=passage)
    assert shares is not None
    assert shares.interval is not None
    assert means is not None
    found = difference["paired_accuracy"]
    assert (found["low"], found["high"]) == (shares.interval.low, shares.interval.high)
    assert "10 clusters" in found["method"]
    assert difference["paired_margin"]["mean_difference"] == means.mean_difference
    assert (difference["paired_count"], difference["paired_unit_count"]) == (40, 10)
    assert pair.comparison["notes"] == [
        "these 40 questions are 10 independent units: McNemar's test takes questions as independent, so "
        "that the intervals are the safer guide"
    ]


def test_clusters_of_one_run_hold_for_both(tmp_path: Path, data: Path) -> None:
    howsure.mcq(data, model(RIGHT, "a"), out=tmp_path / "old")
    howsure.mcq(data, model(LATER, "b"), out=tmp_path / "new", cluster="passage")
    found = howsure.compare(tmp_path / "old", tmp_path / "new")
    assert found["difference"]["paired_unit_count"] == 10
    assert found["notes"][0] == ("--cluster differs (none in A, passage in B): units of either run are joined here")


def test_no_flips_are_no_certainty(tmp_path: Path, data: Path) -> None:
    found = howsure.mcq(data, model(RIGHT, "a"), model_b=model(RIGHT, "b"), out=tmp_path / "both").comparison
    accuracy, margin = (found["difference"][f"paired_{name}"] for name in ("accuracy", "margin"))
    assert accuracy["low"] < -0.05 < 0.05 < accuracy["high"]
    assert (margin["low"], margin["note"]) == (None, "no interval: all changed alike")


def test_bad_lines_are_counted_by_the_same_rule(tmp_path: Path, data: Path) -> None:
    with data.open("a") as file:
        file.write("no JSON\n{}\n")
    pair = howsure.mcq(data, model(RIGHT, "a"), model_b=model(LATER, "b"), out=tmp_path / "both", skip_bad=True)
    found, right, later = pair.comparison, sum(RIGHT), sum(LATER)
    assert (found["a"]["accuracy"], found["b"]["accuracy"]) == (right / 42, later / 42)
    assert found["a"]["accuracy"] == pair.a.summary["accuracy"] == pair.a.summary["headline"][0]["value"]
    assert found["difference"]["accuracy"] == pytest.approx((later - right) / 42)
    assert found["difference"]["paired_accuracy"]["mean_difference"] == pytest.approx((later - right) / 40)
    assert found["notes"] == [
        "the table counts bad lines of the data (2) as not right; intervals, test and flips leave them out"
    ]
