"""What results, runs and evidence show of themselves in a notebook."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import howsure
from howsure.evidence import Distribution, TokenLogprobs
from howsure.studies.entropy import Text, entropy_of_counts, entropy_of_distribution, entropy_of_text
from howsure.studies.reading import Reading
from howsure.studies.theorem import theorem
from howsure.studies.trust.coherent import coherent
from howsure.studies.trust.logs import analyse
from runs_to_look_at import ATTACKS, STUDIES, make_hostile, make_runs
from scripted import Scorer, Writer, with_logprobs
from studies.on_paper import OnPaper, write
from tiny import build_ngram
from trajectory_logs import message, results, scored, simulation

VILE = "<script>alert(1)</script><b>x"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_runs(tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("data"))


def folder_of(runs: Path, study: str) -> Path:
    return runs / study / "before" if study == "mcq" else runs / study


class Page(HTMLParser):
    """Every tag with its attributes, and the text that a reader sees."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "style" not in self.inside:
            self.text += data


def shown(thing: Any) -> Page:
    """What a notebook would show, after the checks that hold for everything: one box, our style, nothing that acts."""
    page = Page(thing._repr_html_())
    assert page.tags[0] == ("div", {"class": "hs"})
    assert [tag for tag, _ in page.tags].count("style") == 1
    assert not {"script", "iframe", "object", "link", "form"} & {tag for tag, _ in page.tags}
    for _, attributes in page.tags:
        assert not [name for name in attributes if name == "style" or name.startswith("on")]
        assert not (attributes.get("href") or "").startswith(("http", "javascript"))
    return page


# -- runs and results -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("study", STUDIES)
def test_a_finished_run_shows_its_figures_its_plots_and_where_it_is(runs: Path, study: str) -> None:
    run = howsure.Run(folder_of(runs, study))
    page = shown(run)
    summary = run.summary
    assert summary is not None
    for entry in summary["headline"]:
        assert entry["name"] in page.text
    coverage = summary["coverage"]
    assert f"{coverage['scored']:,} of {coverage['items']:,}" in page.text
    before_the_fold = [tag for tag, attributes in page.tags]
    before_the_fold = before_the_fold[: before_the_fold.index("details")]
    assert 1 <= before_the_fold.count("figure") <= 2
    assert f"Run folder: {run.path}" in page.text
    assert "cannot be" not in page.text


def test_figures_are_those_of_the_summary_with_their_intervals(runs: Path) -> None:
    run = howsure.Run(runs / "mcq" / "before")
    assert run.summary is not None
    accuracy = run.summary["headline"][0]
    text = shown(run).text
    assert f"{accuracy['value']:.1%}".replace("%", " %") in text
    assert f"95% interval {accuracy['low'] * 100:.1f} to {accuracy['high'] * 100:.1f}" in text


def test_a_result_shows_what_its_run_shows(tmp_path: Path) -> None:
    data = write(tmp_path / "q.jsonl", {"question": "q", "choices": ["a", "b"], "answer_index": 0})
    found = howsure.mcq(data, OnPaper({" a": [-0.5], " b": [-2.0]}), out=tmp_path / "run")
    assert found._repr_html_() == found.run._repr_html_()
    assert "1 of 1" in shown(found).text


def test_a_result_without_a_run_folder(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results(scored([1.0, 2.0], [0.5]))))
    text = shown(howsure.trajectories(path)).text
    assert "1.500 nats" in text
    assert "Nothing was written" in text


def test_a_log_that_was_analysed(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    rows = "".join(f"{step},2.0,1.5,{0.5 + step / 10}\n" for step in range(4))
    path.write_text(f"step,entropy_H_X,entropy_H_X_given_S,entropy_H_X_given_LS\n{rows}")
    page = shown(analyse([path]))
    assert "H(X)" in page.text
    assert "there is no run folder" in page.text
    assert "out=" not in page.text, "an analysis takes none"
    assert "4 of 4" in page.text


def test_coherent_trust(tmp_path: Path) -> None:
    (tmp_path / "l.txt").write_text("go to the lamp\ngo to the chair\n")
    (tmp_path / "s.txt").write_text("- Stairs are steep.\n\n- Roofs leak.\n")
    sets = {"instructions": tmp_path / "l.txt", "groundings": tmp_path / "s.txt"}
    model = Scorer(lambda condition, text: [-0.5, -1.5])
    text = shown(coherent("MiniGrid-Empty-8x8-v0", model, out=tmp_path / "run", states=2, **sets)).text
    assert "coherent trust T" in text
    assert "H(X|L,S)" in text


def test_studies_in_which_nothing_could_be_measured(tmp_path: Path) -> None:
    """Nothing is drawn, and the coverage says so."""
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results(simulation([message("user", "so"), message("assistant", "yes")]))))
    assert "0 of 2" in shown(howsure.trajectories(path)).text
    silent = Writer(lambda messages, number: None)
    page = shown(howsure.trust("home", silent, evidence="verbalized", out=tmp_path / "trust", max_steps=2))
    assert "0 of 2" in page.text
    assert "no_answer" in page.text or "no answer" in page.text
    (tmp_path / "a.txt").write_text("zebra zebra")
    page = shown(howsure.perplexity(tmp_path / "a.txt", f"ngram:{build_ngram(tmp_path)}", out=tmp_path / "texts"))
    assert "figure" not in [tag for tag, _ in page.tags]


@pytest.mark.parametrize("study", STUDIES)
def test_hostile_runs_are_shown_as_text(runs: Path, tmp_path: Path, study: str, lenient_pages: None) -> None:
    run = howsure.Run(make_hostile(folder_of(runs, study), tmp_path / "run", everything=True))
    html = run._repr_html_()
    shown(run)
    assert len(html) < 400_000
    assert not [attack for attack in ATTACKS[:2] if attack in html]


# -- runs that are not whole ------------------------------------------------------------------------------------------


def copy(runs: Path, to: Path) -> Path:
    shutil.copytree(runs / "mcq" / "before", to)
    return to


def test_a_run_that_stopped_says_how_far_it_came(runs: Path, tmp_path: Path) -> None:
    folder = copy(runs, tmp_path / "run")
    manifest = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(manifest | {"status": "failed", "error": f"it broke {VILE}"}))
    lines = (folder / "samples.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "samples.jsonl").write_bytes(b"".join(lines[:7]) + lines[7][:20])
    text = shown(howsure.Run(folder)).text
    assert f"This run is failed (it broke {VILE}): 7 of 60 samples are here" in text


def test_a_run_is_read_anew_each_time(runs: Path, tmp_path: Path) -> None:
    folder = copy(runs, tmp_path / "run")
    manifest = (folder / "run.json").read_text()
    (folder / "run.json").write_text(manifest.replace('"finished"', '"interrupted"'))
    run = howsure.Run(folder)
    assert "This run is interrupted" in shown(run).text
    (folder / "run.json").write_text(manifest)
    assert "60 of 60" in shown(run).text


def test_a_run_says_where_its_report_is_or_how_to_write_one(runs: Path, tmp_path: Path) -> None:
    folder = copy(runs, tmp_path / "my run")
    assert f"Report: {folder / 'report.html'}." in shown(howsure.Run(folder)).text
    (folder / "report.html").unlink()
    assert f"howsure report '{folder}' writes one" in shown(howsure.Run(folder)).text


def test_damaged_runs_are_a_sentence(runs: Path, tmp_path: Path) -> None:
    folder = copy(runs, tmp_path / "run")
    run = howsure.Run(folder)
    (folder / "summary.json").write_text('{"torn')
    assert "summary.json cannot be read" in shown(run).text
    (folder / "run.json").unlink()
    assert "is not a run folder" in shown(run).text


def test_a_summary_that_holds_something_else_is_a_sentence(runs: Path, tmp_path: Path, lenient_pages: None) -> None:
    folder = copy(runs, tmp_path / "run")
    (folder / "summary.json").write_text('{"study": "mcq"}')
    assert "summary.json cannot be read: Object missing required field" in shown(howsure.Run(folder)).text


# -- comparisons ------------------------------------------------------------------------------------------------------


def test_a_comparison_is_a_dict_that_shows_itself(runs: Path) -> None:
    found = howsure.compare(runs / "mcq" / "before", runs / "mcq" / "after")
    assert dict(found) == {name: found[name] for name in ("study", "a", "b", "difference", "notes")}
    text = shown(found).text
    for words in ("checkpoint-0", "checkpoint-1", "B − A", "mean margin", "McNemar's exact p"):
        assert words in text
    assert f"{found['difference']['accuracy'] * 100:+.1f} points" in text


@pytest.mark.parametrize("study", ["perplexity", "grounding"])
def test_comparisons_of_other_studies(runs: Path, study: str) -> None:
    row = {"perplexity": "bits per byte", "grounding": "accuracy within 140"}[study]
    assert row in shown(howsure.compare(runs / study, runs / study)).text


def test_a_pair_shows_what_changed_and_both_sides(tmp_path: Path) -> None:
    data = write(tmp_path / "q.jsonl", {"question": "q", "choices": ["a", "b"], "answer_index": 0})
    models = [OnPaper({" a": [-a], " b": [-1.0]}, name=f"model {a}") for a in (2.0, 0.5)]
    page = shown(howsure.mcq(data, models[0], model_b=models[1], out=tmp_path / "both"))
    assert "+100.0 points" in page.text
    assert "A by itself: model 2.0" in page.text
    assert str(tmp_path / "both" / "b") in page.text


# -- evidence, entropy, the theorem -----------------------------------------------------------------------------------


def test_a_reading_is_shaded_text() -> None:
    evidence = TokenLogprobs(("safe ", VILE), np.log([0.5, 2.0**-12]))
    page = shown(Reading(f"safe {VILE}", "a model", evidence))
    assert [attributes["class"] for tag, attributes in page.tags if "tabindex" in attributes and tag == "span"] == [
        "tok u1",
        "tok u4",
    ]
    assert VILE in page.text
    assert "6.50 bits per token" in page.text


def test_tokens_that_spell_one_character_are_one() -> None:
    pieces = [b"\xf0\x9f", b"\xa4\x96"]
    evidence = TokenLogprobs(("�", "�"), np.log([0.25, 0.25]), tuple(pieces))
    page = shown(Reading("🤖", "a model", evidence))
    assert "🤖" in page.text
    assert "4.0 bits" in page.text


def test_evidence_by_itself() -> None:
    assert "19" in shown(with_logprobs("The cat <b>sat</b> on the mat.")).text
    page = shown(Distribution(("left", VILE), np.array([0.25, 0.5]), 0.25))
    assert "1.500 bits" in page.text
    assert "(anything else)" in page.text
    shown(TokenLogprobs((), np.array([])))


def test_entropies() -> None:
    text = shown(entropy_of_distribution([0.5, 0.25, 0.25], [0.25, 0.25, 0.5])).text
    assert "1.5 bits" in text
    assert "1.75 bits" in text
    assert "Miller–Madow" in shown(entropy_of_counts([5, 3, 2])).text
    page = shown(entropy_of_text([Text("a text", b"abab" * 50)], "characters"))
    assert "1 bit" in page.text
    assert "characters in a block" in page.text
    assert "(single words" in shown(entropy_of_text([Text("a text", b"one two three")], "words")).text


def test_the_theorem() -> None:
    text = shown(theorem(longest=64, paths=2, seed=0)).text
    assert "true model: nears 0.892 bits" in text
    assert "order 0, 500 words" in text


# -- the style --------------------------------------------------------------------------------------------------------


def test_the_style_touches_nothing_outside_our_box() -> None:
    css = (files("howsure.report") / "assets" / "howsure.css").read_text(encoding="utf-8")
    bare = re.sub(r"/\*.*?\*/", "", css, flags=re.S)
    bare = re.sub(r"@media[^{]*\{", "", bare)
    selectors = [one.strip() for rule in re.findall(r"([^{}]*)\{", bare) for one in rule.split(",")]
    assert len(selectors) > 80
    assert [one for one in selectors if not re.match(r"(body)?\.hs(?![\w-])", one)] == []
    assert "@import" not in css
    assert "url(" not in css


def test_a_folder_that_was_deleted_is_not_said_to_lack_a_report(tmp_path: Path) -> None:
    line = {"question": "what is it?", "choices": ["a cup", "a cat"], "answer_index": 0}
    path = write(tmp_path / "q.jsonl", line)
    found = howsure.mcq(path, OnPaper({" a cup": -1.0, " a cat": -2.0}), out=tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    text = Page(found._repr_html_()).text
    assert "which is no longer there" in text
    assert "No report is there yet" not in text


def test_infinity_is_a_result_and_not_a_gap() -> None:
    text = Page(entropy_of_counts([3, 1], [1.0, 0.0])._repr_html_()).text
    assert "cross-entropy H(p, m)infinite" in text.replace("\n", "")
