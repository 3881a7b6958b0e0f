"""One document feeds the terminal, pages and notebooks: what a study says once is seen in all three."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from markupsafe import escape

import howsure
from howsure.errors import InputError
from howsure.report import comparison, run_report
from howsure.report.document import Facts, Section, Table, Value
from howsure.report.text import figure
from howsure.report.views import document_of, view_of
from howsure.runs import Run
from howsure.studies import registry
from howsure.studies.summary import Figure
from report.rendered import as_html, printed, stored
from runs_to_look_at import STUDIES, make_runs

ADDED = Figure("weight of doubt", 0.4321, "kg", 0.4, 0.5, level=0.95, note="as weighed", meaning="what it weighs")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("minigrid", reason="the extra `grid` is not installed")
    return make_runs(tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("data"))


def folder_of(runs: Path, study: str) -> Path:
    return runs / study / "before" if study == "mcq" else runs / study


def everywhere(folder: Path) -> dict[str, str]:
    """A run as each renderer shows it, in one line without the spaces of tables."""
    run = stored(folder)
    document = document_of(run.study, run.summary, run)
    texts = {
        "terminal": printed(document, 400),
        "narrow terminal": printed(document, 80),
        "page": str(run_report.whole(run)),
        "notebook": Run(folder)._repr_html_(),
    }
    return {place: " ".join(text.split()) for place, text in texts.items()}


@pytest.mark.parametrize("study", STUDIES)
def test_a_figure_that_is_added_to_a_study_is_seen_everywhere(runs: Path, study: str, tmp_path: Path) -> None:
    """Only the summary says it: no renderer knows its name."""
    folder = tmp_path / "run"
    shutil.copytree(folder_of(runs, study), folder)
    summary = stored(folder).summary
    summary.headline.append(ADDED)
    (folder / "summary.json").write_bytes(msgspec.json.encode(summary))
    for place, text in everywhere(folder).items():
        assert "weight of doubt" in text, place
        assert "0.43" in text, place
        assert "as weighed" in text or "narrow" in place, place
    assert figure(ADDED) == "weight of doubt 0.43 kg (0.40 to 0.50; as weighed)"


@pytest.mark.parametrize("study", STUDIES)
def test_a_block_that_is_added_to_a_document_is_seen_everywhere(
    runs: Path, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = view_of(study)
    made = view.document
    added = Section(
        "Added", [Facts([("name", Value(0.25, "share", 0.2, 0.3))]), Table(["moon", "weight"], [("Io", "heavy moon")])]
    )
    monkeypatch.setattr(view, "document", lambda summary, run: [*made(summary, run), added])
    for place, text in everywhere(folder_of(runs, study)).items():
        assert "25.0 %" in text, place
        assert "heavy moon" in text, place


@pytest.mark.parametrize("study", STUDIES)
def test_every_section_of_every_study_is_rendered_on_every_renderer(runs: Path, study: str) -> None:
    run = stored(folder_of(runs, study))
    document = document_of(study, run.summary, run)
    assert document.sections
    terminal, html = printed(document, 400), as_html(document.sections)
    assert "do not hold" not in terminal + html
    for section in document.sections:
        places = {block.on for block in section.blocks}
        if "everywhere" in places and section.on == "everywhere" and section.title in terminal:
            assert str(escape(section.title)) in html, section.title
    notebook = document_of(study, run.summary, None)
    assert as_html(notebook.sections), "what the summary alone gives"


@pytest.mark.parametrize("study", STUDIES)
def test_a_comparison_is_a_document_too(runs: Path, study: str) -> None:
    folder = folder_of(runs, study)
    try:
        compared: Any = howsure.compare(folder, folder)
    except InputError as error:
        pytest.skip(f"runs of {study} are not compared: {error}")
    terminal = printed(comparison.document_of(compared), 400)
    run = stored(folder)
    html = as_html(comparison.laid_out(compared, run, run).sections)
    notebook = compared._repr_html_()
    for text in (terminal, html, notebook):
        assert "What changed" in text
        assert "B − A (95 % interval, paired)" in text
        for note in compared.notes[:4]:
            assert str(escape(note)) in text or note in text or text is html


def test_every_study_has_a_view() -> None:
    for name in registry.HOMES:
        view = view_of(name)
        assert view.COLUMNS
        assert callable(view.document)
        assert callable(view.about)
