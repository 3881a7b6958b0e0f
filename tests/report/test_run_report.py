"""report.html: written by every run, whole in one file, and never the reason why a run is lost."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markupsafe import escape
from PIL import Image

import howsure
from howsure.errors import InputError, ReportNotWritten
from howsure.report import run_report
from howsure.report.run_report import MOST_BYTES, chosen_runs, report_of, write_report, write_report_of
from runs_to_look_at import ATTACKS, STUDIES, make_hostile, make_mcq, make_runs
from studies.on_paper import OnPaper, write


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("minigrid", reason="the extra `grid` is not installed")
    folder = tmp_path_factory.mktemp("runs")
    return make_runs(folder / "runs", folder / "data")


FOLDERS = {"mcq": "mcq/before"}


@pytest.mark.parametrize("study", STUDIES)
def test_every_study_leaves_a_report_with_its_figures(runs: Path, study: str) -> None:
    folder = runs / FOLDERS.get(study, study)
    html = (folder / "report.html").read_text(encoding="utf-8")
    summary = json.loads((folder / "summary.json").read_text())
    assert len(html) < MOST_BYTES
    assert html.count("<figure") >= 2, "plots"
    assert html.count('class="card"') >= 4, "samples worth a look, on both sides"
    assert f"{summary['coverage']['scored']:,} of {summary['coverage']['items']:,}" in html
    for entry in summary["headline"]:
        assert entry["name"] in html
    assert "notice" not in re.sub(r"<style>.*?</style>", "", html, flags=re.S), "every part could be made"


def test_every_headline_figure_is_explained(runs: Path) -> None:
    summaries = {path.parent: json.loads(path.read_text()) for path in runs.rglob("summary.json")}
    assert len(summaries) == 6
    for folder, summary in summaries.items():
        html = (folder / "report.html").read_text(encoding="utf-8")
        for entry in summary["headline"]:
            assert str(escape(entry["meaning"])) in html, entry["name"]


def test_runs_for_which_a_report_has_no_room_are_there_in_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_mcq(tmp_path / "run", tmp_path, 0)
    alone = len(report_of([tmp_path / "run"]))
    most = run_report.SHELL_BYTES + 5 * run_report.SHORT_BYTES + alone
    monkeypatch.setattr(run_report, "MOST_BYTES", most)
    html = report_of([tmp_path / "run"] * 6)
    assert len(html.encode()) < most
    assert html.count("<h1>mcq: ") == html.count("scored / total") == 6, "every run has its figures"
    assert 1 <= html.count('id="run-') < 6, "and as many as there is room for have their samples"
    assert html.count("Samples and plots of this run are left out") == 6 - html.count(
        "<strong>By how much does the best"
    )


def test_pictures_go_first_where_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.effect_noise((400, 400), 90).save(tmp_path / "a.png")
    line = {"id": "q", "question": "?", "choices": ["x", "y"], "answer_index": 0, "image_path": str(tmp_path / "a.png")}
    model = OnPaper({" x": -1.0, " y": -2.0}, images=True)
    howsure.mcq(write(tmp_path / "q.jsonl", line), model, out=tmp_path / "run")
    with_it = report_of([tmp_path / "run"])
    assert "data:image/jpeg" in with_it
    monkeypatch.setattr(run_report, "MOST_BYTES", run_report.SHELL_BYTES + 30_000)
    without = report_of([tmp_path / "run"])
    assert "data:image/jpeg" not in without
    assert "By how much does the best choice win?" in without


def test_frames_within_drawings_go_first_too(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_them = report_of([runs / "trust"])
    assert "data:image/png" in with_them
    monkeypatch.setattr(run_report, "MOST_BYTES", len(with_them.encode()) - 2_000)
    without = report_of([runs / "trust"])
    assert "data:image/png" not in without
    assert "There is no room for more pictures in this file" in without
    assert "are left out, since the file would be larger" not in without


@pytest.mark.parametrize("study", STUDIES)
def test_a_report_needs_nothing_from_outside(runs: Path, study: str) -> None:
    html = (runs / FOLDERS.get(study, study) / "report.html").read_text(encoding="utf-8")
    assert re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', html) == []
    assert "style=" not in html
    assert not re.search(r"\son\w+=", re.sub(r"<script>.*?</script>", "", html, flags=re.S))


def test_nothing_in_a_report_of_several_runs_has_the_name_of_another_thing(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "trust", tmp_path / "trust")
    names = re.findall(r' id="([^"]*)"', report_of([runs / "trust", tmp_path / "trust", runs / "grounding"]))
    assert sum(name.startswith("replay-") and name.count("-") == 1 for name in names) == 2, "each has its own replay"
    assert [name for name in names if names.count(name) > 1] == []


class Harm(HTMLParser):
    """What a browser could run, or go to, in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "iframe", "object", "embed", "base", "form", "style", "textarea"):
            self.found.append(tag)
        for name, value in attrs:
            leads = name in ("src", "href", "action", "srcset", "data") and not re.match("data:image/|#", value or "")
            if name.startswith("on") or name in ("style", "srcdoc") or leads:
                self.found.append(f"{tag} {name}={value}")


def harmful(html: str) -> list[str]:
    parser = Harm()
    parser.feed(html)
    return parser.found


def test_the_search_for_harm_finds_some() -> None:
    assert harmful("<p onclick=x><a href='javascript:x'><script>") == ["p onclick=x", "a href=javascript:x", "script"]
    assert harmful('<p title="<script> onload=">&lt;script&gt;</p>') == []


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.usefixtures("lenient_pages")
def test_a_hostile_run_is_text_and_stays_small(runs: Path, tmp_path: Path, study: str, everything: bool) -> None:
    folder = make_hostile(runs / FOLDERS.get(study, study), tmp_path / "run", everything=everything)
    html = write_report(folder).read_text(encoding="utf-8")
    assert len(html) < MOST_BYTES
    body = html.partition("<body")[2].rpartition("<script>")[0]
    assert harmful(f"<body{body}") == []
    assert not any(mark in body for mark in "\u202e\u202d\u2066\u200f\u061c\0\x1b")
    assert ATTACKS[-1] not in body, "no megabyte on one line"


def test_several_runs_on_one_page_and_two_are_compared(runs: Path) -> None:
    both = report_of([runs / "mcq" / "before", runs / "mcq" / "after"])
    assert "checkpoint-0" in both
    assert "checkpoint-1" in both
    assert "turned right" in both or "no answer turned" in both
    every = report_of(chosen_runs([runs]))
    assert every.count('<article class="run"') == 6
    assert len(every) < MOST_BYTES


def test_runs_are_found_within_a_folder_and_nothing_else_is_taken_for_one(runs: Path, tmp_path: Path) -> None:
    assert chosen_runs([runs / "mcq"]) == [runs / "mcq" / "after", runs / "mcq" / "before"]
    assert chosen_runs([runs / "trust"]) == [runs / "trust"]
    with pytest.raises(InputError, match="is not a run folder and holds none"):
        chosen_runs([tmp_path])
    with pytest.raises(InputError, match="is not a folder"):
        chosen_runs([tmp_path / "nowhere"])


def test_where_a_report_goes(runs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(runs / "mcq" / "before", tmp_path / "run")
    assert write_report_of([folder], tmp_path / "x.html") == tmp_path / "x.html"
    with pytest.raises(InputError, match="is a folder: name the file"):
        write_report_of([folder], tmp_path)
    with pytest.raises(InputError, match="there is no folder"):
        write_report_of([folder], tmp_path / "no" / "x.html")
    before = (folder / "samples.jsonl").read_bytes()
    with pytest.raises(InputError, match="is a part of the run itself: choose another file"):
        write_report_of([folder], folder / "samples.jsonl")
    assert (folder / "samples.jsonl").read_bytes() == before


def test_a_fault_in_the_report_does_not_cost_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Path) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(run_report, "write_report", fails)
    with pytest.warns(ReportNotWritten, match=r"no report was written .* the run itself is whole"):
        make_mcq(tmp_path / "run", tmp_path, 0)
    assert howsure.Run(tmp_path / "run").status == "finished"
    assert (tmp_path / "run" / "summary.json").is_file()


def test_an_unfinished_run_has_a_report_that_says_so(runs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(runs / "mcq" / "before", tmp_path / "run")
    (folder / "summary.json").unlink()
    manifest = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(manifest | {"status": "interrupted"}))
    html = report_of([folder])
    assert "This run is not finished: 60 of 60 samples are here, and there are no figures yet. The command that" in html
    assert "Confident but wrong" in html


@pytest.mark.parametrize("content", ["[]", "{", '{"headline": 3}', "null"])
@pytest.mark.usefixtures("lenient_pages")
def test_a_summary_that_is_none_becomes_a_sentence(runs: Path, tmp_path: Path, content: str) -> None:
    folder = shutil.copytree(runs / "mcq" / "before", tmp_path / "run")
    (folder / "summary.json").write_text(content)
    html = report_of([folder])
    assert "summary.json" in html
    assert "Confident but wrong" in html, "the samples are still there"
