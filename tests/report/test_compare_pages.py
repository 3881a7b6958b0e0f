"""Two runs on one page: paired where they can be, side by side where not, and every card leads to both samples."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import howsure
from howsure.report.charts import MOST_POINTS, thinned
from howsure.report.comparison import compared, laid_out, mcnemar_in_words
from howsure.report.document import Notes, Section, Value
from howsure.report.html import MOST_CARDS
from howsure.report.mcq import _confidence as sure_of_the_same
from howsure.report.run_data import StoredRun
from howsure.report.run_report import NAME, report_of, write_pair_report
from howsure.runs import Identity, RunWriter
from howsure.studies.comparing import McNemar
from howsure.studies.grounding.judge import judge as judge_clicks
from report.rendered import as_html
from report.test_run_report import harmful
from runs_to_look_at import make_hostile, make_mcq
from studies.grounding import clicks_on_paper
from studies.on_paper import OnPaper, write
from studies.readers import PROBS, Reader, poem, put


class Led:
    number = 0

    """Links as the viewer has them."""

    def __init__(self, name: str) -> None:
        self.name = name

    def sample(self, key: str) -> str | None:
        return f"/{self.name}/{key}"

    def picture(self, name: str) -> str | None:
        return None


def sections_of(a: Path, b: Path) -> dict[str, Section]:
    """What changed, and what a reader must know of it as a section too."""
    runs = StoredRun(a, Led("a")), StoredRun(b, Led("b"))
    document = laid_out(compared(*runs), *runs)
    notes = Section("Notes", [Notes(document.notes)])
    return {one.title: one for one in (*document.sections, notes)}


def page_of(a: Path, b: Path) -> str:
    return as_html(list(sections_of(a, b).values()))


def page_part(a: Path, b: Path, title: str) -> str:
    return as_html([sections_of(a, b)[title]])


@pytest.fixture(scope="module")
def mcq(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mcq")
    for number, name in enumerate("ab"):
        make_mcq(folder / name, folder, number)
    return folder


# -- multiple choice --------------------------------------------------------------------------------------------------


def test_mcq_figures_are_those_of_the_comparison(mcq: Path) -> None:
    found = howsure.compare(mcq / "a", mcq / "b")["difference"]
    page = page_part(mcq / "a", mcq / "b", "What changed")
    paired = found["paired_accuracy"]
    shown = f"{paired['mean_difference'] * 100:+.1f} points ({paired['low'] * 100:+.1f} to {paired['high'] * 100:+.1f})"
    assert shown in page
    test = found["mcnemar"]
    assert f"{test['only_b_correct']} questions turned right and {test['only_a_correct']} turned wrong" in page


def test_flips_are_cards_with_links_to_both_samples(mcq: Path) -> None:
    flips = howsure.compare(mcq / "a", mcq / "b")["difference"]["flips"]
    page = page_part(mcq / "a", mcq / "b", "What flipped")
    lost, won = (page.partition("wrong in A, right in B")[place] for place in (0, 2))
    for side, kind in ((lost, "right_to_wrong"), (won, "wrong_to_right")):
        shown = re.findall(r"<h4>([^<]+)</h4>", side)
        assert shown == [flip["id"] for flip in flips[kind][:MOST_CARDS]], "the farthest first"
        for name in shown:
            assert f'href="/a/{name}"' in side
            assert f'href="/b/{name}"' in side
        first = flips[kind][0]
        assert first["choice_a"] in side
        assert first["choice_b"] in side
        assert f"moved by {first['moved_nats']:+.2f}" in side
    assert f"right in A, wrong in B: {len(flips['right_to_wrong'])}" in page


def test_confidence_is_drawn_against_confidence(mcq: Path) -> None:
    page = page_part(mcq / "a", mcq / "b", "Sure of the same things?")
    test = howsure.compare(mcq / "a", mcq / "b")["difference"]["mcnemar"]
    rows = dict(re.findall(r"<tr><td>([a-zA-Z ]+)</td><td class=\"num\">(\d+)</td>", page))
    names = {"right in both": "both_correct", "right in A alone": "only_a_correct"}
    names |= {"right in B alone": "only_b_correct", "wrong in both": "both_wrong"}
    assert rows == {label: str(test[name]) for label, name in names.items()}
    assert len(re.findall(r"<title>q-\d\d: ", page)) == 60


def test_no_more_than_so_many_points_are_drawn() -> None:
    assert thinned(5) == [0, 1, 2, 3, 4]
    some = thinned(100_000)
    assert len(set(some)) == MOST_POINTS
    assert (some[0], some[-1]) == (0, 99_999)
    assert some == thinned(100_000), "the same ones each time"


def test_a_run_against_itself_says_so(mcq: Path) -> None:
    page = page_of(mcq / "a", mcq / "a")
    assert "both are the same run" in page
    assert "No question flipped." in page
    assert "Nothing flipped." in page


def test_one_question_that_turned_without_bound(tmp_path: Path) -> None:
    data = write(tmp_path / "q.jsonl", {"id": "q", "question": "Q?", "choices": ["x", "y"], "answer_index": 0})
    howsure.mcq(data, OnPaper({" x": -1.0, " y": -float("inf")}), out=tmp_path / "a")
    howsure.mcq(data, OnPaper({" x": -2.0, " y": -1.0}), out=tmp_path / "b")
    assert "moved without bound" in page_of(tmp_path / "a", tmp_path / "b")


# -- the other studies ------------------------------------------------------------------------------------------------


def test_perplexity_is_compared_per_byte(tmp_path: Path) -> None:
    data = put(tmp_path / "t.jsonl", *(poem(200, seed=seed) for seed in range(6)))
    howsure.perplexity(data, Reader(PROBS), out=tmp_path / "a")
    howsure.perplexity(data, Reader(1 / 4), out=tmp_path / "b")
    found = howsure.compare(tmp_path / "a", tmp_path / "b")["difference"]
    page = page_of(tmp_path / "a", tmp_path / "b")
    assert str(Value.at(found, "bits_per_byte", "bits", is_difference=True)) in page
    assert "The line is its 95 % interval over documents" in page
    assert f"B needs fewer bits for {found['documents_b_needs_less']} of 6 documents." in page
    assert len(re.findall(r"<title>t\d: ", page)) == 6


def test_few_texts_are_compared_without_an_interval_and_the_page_says_so(tmp_path: Path) -> None:
    data = put(tmp_path / "t.jsonl", *(poem(900, seed=seed) for seed in range(3)))
    howsure.perplexity(data, Reader(PROBS), out=tmp_path / "a")
    howsure.perplexity(data, Reader(1 / 4), out=tmp_path / "b")
    page = page_of(tmp_path / "a", tmp_path / "b")
    assert "B − A: of these 3 texts only; an interval takes 5 documents." in page
    assert "The line is its 95 % interval" not in page


def clicks(out: Path, places: list[tuple[float, float] | None]) -> Path:
    """Targets at the middle of a screen."""
    samples = [
        clicks_on_paper.answered(f"c-{i}", i, clicks_on_paper.about(instruction=f"press {i}", user=f"u{i % 2}"), place)
        for i, place in enumerate(places)
    ]
    identity = Identity("grounding", {"delta": 140.0}, {"name": out.name}, {"fingerprint": "0"}, 0)
    with RunWriter(out, identity, len(samples), source="screens") as writer:
        writer.append(samples)
        writer.finish(judge_clicks(samples, delta=140.0, skipped=0, seed=0))
    return out


def test_documents_without_a_difference_are_counted(tmp_path: Path) -> None:
    texts = put(tmp_path / "t.jsonl", *(poem(60, seed=i).replace("five", "sky") for i in range(520)), "sky five")
    howsure.perplexity(texts, Reader(PROBS), out=tmp_path / "a")
    howsure.perplexity(texts, Reader({**PROBS, "five": 0.0, "sky": 0.5}, name="other"), out=tmp_path / "b")
    page = page_of(tmp_path / "a", tmp_path / "b")
    assert "1 of 521 documents are not drawn: A or B gives part of them probability 0." in page
    assert "500 of 520 are drawn." in page


def test_questions_that_one_run_did_not_score_are_counted(tmp_path: Path) -> None:
    lines = [{"id": f"q{i}", "question": f"Q{i}", "choices": ["x", "y"], "answer_index": 0} for i in range(3)]
    data = write(tmp_path / "q.jsonl", *lines)
    howsure.mcq(data, OnPaper({" x": -1.0, " y": -2.0}), out=tmp_path / "a")
    howsure.mcq(data, OnPaper({" x": -2.0, " y": -1.0}, name="other"), out=tmp_path / "b")
    path = tmp_path / "b" / "samples.jsonl"
    samples = [json.loads(line) for line in path.read_text().splitlines()]
    samples[1]["result"] |= {"confidence": None, "correct": None}
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    runs = [StoredRun(tmp_path / name, Led(name)) for name in "ab"]
    assert "1 question not scored by both: left out." in as_html(sure_of_the_same(*runs))


def test_one_answer_that_flipped_is_one() -> None:
    test = McNemar(both_correct=8, only_a_correct=0, only_b_correct=1, both_wrong=0, p_value=1.0)
    told = mcnemar_in_words(test, None, "question", hang_together=False)
    assert told.startswith("1 question turned right and 0 turned wrong;")


def test_clicks_that_turned_have_both_distances(tmp_path: Path) -> None:
    a = clicks(tmp_path / "a", [(500, 500), (500, 800), None, (510, 500)])
    b = clicks(tmp_path / "b", [(900, 500), (500, 510), (500, 500), (500, 500)])
    page = page_of(a, b)
    lost, won = (page.partition("missed in A, hit in B")[place] for place in (0, 2))
    assert re.findall(r"<h4>([^<]+)</h4>", lost) == ["c-0"]
    assert re.findall(r"<h4>([^<]+)</h4>", won) == ["c-1", "c-2"]
    assert "+400 thousandths of the screen" in lost
    assert "press 0" in lost
    assert "wrong format" in won, "what there was in place of a distance"
    assert 'href="/b/c-2"' in won
    assert "2 samples became hits and 1 became misses" in page
    assert "Hit rate by user" in page


# -- what cannot be paired --------------------------------------------------------------------------------------------


def test_runs_over_other_questions_stand_side_by_side(mcq: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "q.jsonl", {"id": "q", "question": "Q?", "choices": ["x", "y"], "answer_index": 0})
    howsure.mcq(data, OnPaper({" x": -1.0, " y": -2.0}), out=tmp_path / "other")
    page = page_of(mcq / "a", tmp_path / "other")
    assert "These runs cannot be paired: A and B are over different questions: 60 are in the first alone" in page
    assert "not paired" in page
    assert "What flipped" not in page
    assert str(mcq / "a") not in page, "places on somebody's disk"
    summary = json.loads((mcq / "a" / "summary.json").read_text())
    assert f"{summary['headline'][0]['value'] * 100:.1f} %" in page


def test_runs_of_two_studies_stand_side_by_side(mcq: Path, tmp_path: Path) -> None:
    howsure.perplexity(put(tmp_path / "t.jsonl", poem(200)), Reader(PROBS), out=tmp_path / "p")
    page = page_of(mcq / "a", tmp_path / "p")
    assert "A is a run of mcq, B one of perplexity" in page
    assert "bits per byte" in page
    assert "accuracy" in page


def other_study(folder: Path, value: float | None) -> Path:
    """A run of a study that pairs nothing."""
    note = "not identified" if value is None else None
    entry = {"name": "trust T", "value": value, "unit": "", "low": None, "high": None, "method": None, "note": note}
    coverage = {"items": 0, "scored": 0, "missing": {}, "text": "scored 0 of 0"}
    with RunWriter(folder, Identity("trust coherent", {}, {"name": folder.name}, {}, 0), 0) as writer:
        writer.finish({"study": "trust coherent", "headline": [entry], "coverage": coverage, "notes": []})
    return folder


@pytest.mark.usefixtures("lenient_pages")
def test_studies_without_pairs_say_so(tmp_path: Path) -> None:
    a, b = other_study(tmp_path / "a", None), other_study(tmp_path / "b", 0.25)
    page = page_of(a, b)
    assert "These runs cannot be paired: A is a run of &#39;trust coherent&#39;" in page
    assert "not identified" in page
    assert "0.250" in page
    assert "<figure" not in page, "one of two values is no plot"


def test_a_run_that_is_not_finished_is_not_paired(mcq: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(mcq / "b", tmp_path / "b")
    (folder / "summary.json").unlink()
    manifest = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(manifest | {"status": "interrupted"}))
    page = page_of(mcq / "a", folder)
    assert "B is not finished (interrupted, 60 of 60 questions)" in page
    assert "45.0 %" in page or "accuracy" in page


# -- on paper ---------------------------------------------------------------------------------------------------------


def test_the_report_of_two_runs_begins_with_what_changed(mcq: Path) -> None:
    page = report_of([mcq / "a", mcq / "b"])
    headings = re.findall(r"<h1>([^<]+)</h1>", page)
    assert headings == ["mcq: checkpoint-0 against checkpoint-1", "A: mcq: checkpoint-0", "B: mcq: checkpoint-1"]
    assert page.index("What changed") < page.index("Confident but wrong")
    assert "<a " not in page, "a file leads nowhere"


def test_a_pair_has_one_report_in_the_folder_that_holds_both(mcq: Path) -> None:
    path = write_pair_report(mcq, mcq / "a", mcq / "b")
    assert path == mcq / NAME
    assert "What changed" in path.read_text(encoding="utf-8")


@pytest.mark.usefixtures("lenient_pages")
def test_hostile_runs_are_text(mcq: Path, tmp_path: Path) -> None:
    a, b = (make_hostile(mcq / name, tmp_path / name) for name in "ab")
    worse = make_hostile(mcq / "b", tmp_path / "worse", everything=True)
    for pair in ((a, b), (mcq / "a", worse)):
        page = page_of(*pair)
        assert harmful(re.sub(r'href="/[ab]/', 'href="#', page)) == []
        assert len(page) < 1_000_000
