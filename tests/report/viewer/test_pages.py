"""The pages: what they show of a run, and that every view has its address."""

from __future__ import annotations

import html
import json
import os
import re
from pathlib import Path

import msgspec
import pytest
from filelock import FileLock

from howsure.errors import RunDamaged
from howsure.report.run_data import Embedded, StoredRun
from howsure.runs import Run, RunWriter
from howsure.runs.files import to_json
from howsure.studies.mcq.judge import judge
from howsure.studies.mcq.record import McqRecord
from report.viewer.asking import FOUR, SUMMARY, Browser, identity, question, write_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_run(tmp_path / "one")
    return tmp_path


def links(text: str) -> list[str]:
    return [html.unescape(found) for found in re.findall(r'href="([^"]*)"', text)]


# -- the list ---------------------------------------------------------------------------------------------------------


def test_the_list_shows_every_run_newest_first(folder: Path) -> None:
    write_run(folder / "deep" / "two", study="trust", model="other <i>", finished=False)
    (folder / "broken").mkdir()
    (folder / "broken" / "run.json").write_text("{")
    for place, name in enumerate(("one", "deep/two", "broken")):
        os.utime(folder / name / "run.json", (place, place))
    page = Browser(folder).get("/")
    assert page.status == 200
    assert page.rows == ["broken", "deep/two", "one"]
    assert page.count == "3 runs"
    assert "accuracy 50.0 % (25.0 to 75.0)" in page.text
    assert "4 of 4 samples so far" in page.text
    assert ">stopped<" in page.text
    assert "other &lt;i&gt;" in page.text
    assert "run.json cannot be read" in page.text
    assert "/run?path=deep%2Ftwo" in page.text
    assert "/run?path=broken" not in page.text


def test_the_list_sorts_and_filters(folder: Path) -> None:
    write_run(folder / "two", study="unheard-of", model="other")
    browser = Browser(folder)
    assert browser.get("/?f.study=%3Dunheard-of").rows == ["two"]
    assert browser.get("/?q=OTHER").rows == ["two"]
    assert browser.get("/?sort=run").rows == ["one", "two"]
    assert browser.get("/table?sort=-run").rows == ["two", "one"]
    assert browser.get("/table").text.startswith("<div"), "the table alone"


def test_two_runs_can_be_chosen_to_compare(folder: Path) -> None:
    page = Browser(folder).get("/?a=one&sort=run").text
    assert '<form id="compare" method="get" action="/compare"' in page
    assert '<input id="a.one" type="radio" form="compare" name="a" value="one" checked>' in page
    assert '<input id="b.one" type="radio" form="compare" name="b" value="one">' in page
    assert "/?a=one&sort=-run#table" in links(page), "the choice outlives sorting"
    elsewhere = Browser(folder).get("/?a=one&q=another").text
    assert '<input type="hidden" form="compare" name="a" value="one">' in elsewhere, "it outlives the filters"
    assert "Chosen: A is one." in elsewhere
    lacking = Browser(folder).get("/compare?a=one")
    assert lacking.status == 404
    assert "choose A and B" in lacking.text


def test_two_runs_are_compared(folder: Path) -> None:
    write_run(folder / "two", [FOUR[0], question(1, 0.7, group="b"), *FOUR[2:]], model="other")
    write_run(folder / "three", study="unheard-of")
    for name in ("one", "two"):
        (folder / name / "summary.json").write_bytes(to_json(judge(Run(folder / name).records(record=McqRecord))))
    browser = Browser(folder)
    page = browser.get("/compare?a=one&b=two")
    assert page.status == 200
    assert "accuracy" in page.text
    assert "/compare?a=two&b=one" in links(page.text)
    assert browser.get("/compare?a=one&b=two").text == page.text
    unlike = browser.get("/compare?a=one&b=three")
    assert unlike.status == 200
    assert browser.get("/compare?a=one&b=gone").status == 404


def test_a_folder_without_runs_says_how_to_make_some(tmp_path: Path) -> None:
    page = Browser(tmp_path).get("/")
    assert "howsure demo" in page.text
    assert page.count == "0 runs"


def test_the_folder_itself_can_be_a_run(folder: Path) -> None:
    browser = Browser(folder / "one")
    assert "/run?path=." in links(browser.get("/").text)
    assert browser.get("/run?path=.").rows == ["q-0", "q-1", "q-2", "q-3"]


def test_the_list_notices_what_changes(folder: Path) -> None:
    browser = Browser(folder)
    seen = json.loads(browser.get("/live").text)["version"]
    assert json.loads(browser.get(f"/live?seen={seen}").text)["changed"] is False
    write_run(folder / "two")
    assert json.loads(browser.get(f"/live?seen={seen}").text)["changed"] is True


# -- a run ------------------------------------------------------------------------------------------------------------


def test_the_page_of_a_run(folder: Path) -> None:
    page = Browser(folder).get("/run?path=one")
    assert page.status == 200
    assert "<h1>mcq: tiny</h1>" in page.text
    assert "scored" not in page.count
    assert "50.0 %" in page.text
    assert "Confident but wrong" in page.text
    assert page.rows == ["q-0", "q-1", "q-2", "q-3"]
    assert page.count == "4 samples"
    assert "A &lt;b&gt;bold&lt;/b&gt; one" in page.text
    assert '<a class="skip" href="#main">' in page.text
    assert '<main data-live="/live?path=one"' in page.text
    assert 'data-poll=""' in page.text, "a finished run is not asked about again"


def test_the_table_sorts_filters_and_says_how_many(folder: Path) -> None:
    browser = Browser(folder)
    page = browser.get("/run?path=one&sort=-confidence")
    assert page.rows == ["q-0", "q-3", "q-1", "q-2"], "the missing one last"
    assert re.search(r'<th scope="col" class="num" aria-sort="descending"[^>]*><a id="sort.confidence"', page.text)
    assert browser.get("/run?path=one&sort=confidence").rows == ["q-1", "q-3", "q-0", "q-2"]
    filtered = browser.get("/table?path=one&f.confidence=%3E0.5&f.correct=yes&f.group=%3Da&q=bold")
    assert (filtered.rows, filtered.count) == (["q-3"], "1 of 4 samples")
    assert browser.get("/table?path=one&f.reason=%3Dcontext").rows == ["q-2"]
    wrong = browser.get("/table?path=one&f.confidence=abc")
    assert "«abc» is no condition on a number" in wrong.text
    assert wrong.count == "4 samples"
    assert "Nothing fits these filters." in browser.get("/table?path=one&f.confidence=%3E2").text


def test_the_form_keeps_what_was_asked(folder: Path) -> None:
    page = Browser(folder).get("/run?path=one&f.confidence=%3E0.5&f.correct=yes&sort=-margin&q=%22%3Cx").text
    assert 'name="f.confidence" value="&gt;0.5" aria-label="Filter by confidence"' in page
    assert '<option value="yes" selected>yes</option>' in page
    assert '<input type="hidden" name="sort" value="-margin">' in page
    assert 'name="q" value="&#34;&lt;x"' in page
    assert '<input type="hidden" name="path" value="one">' in page
    assert "/run?path=one#table" in links(page), "the way to clear all"


def test_a_table_of_many_rows_comes_in_pages(tmp_path: Path) -> None:
    write_run(tmp_path / "many", [question(place, 0.7) for place in range(120)])
    browser = Browser(tmp_path)
    first, last = browser.get("/run?path=many"), browser.get("/run?path=many&page=3")
    assert (len(first.rows), first.rows[0], first.rows[-1]) == (50, "q-0", "q-49")
    assert (len(last.rows), last.rows[-1]) == (20, "q-119")
    assert "page 3 of 3" in last.text
    assert browser.get("/run?path=many&page=99").rows == last.rows
    assert "/run?path=many&page=2#table" in links(first.text)
    assert "/run?path=many&sort=margin#table" in links(last.text), "another order begins at its first page"


def test_lines_that_hold_no_sample_are_counted(folder: Path) -> None:
    samples = folder / "one" / "samples.jsonl"
    for said in (">1 line of samples.jsonl holds no sample that can be read, and is left out.<",
                 ">2 lines of samples.jsonl hold no sample that can be read, and are left out.<"):  # fmt: skip
        samples.write_bytes(samples.read_bytes() + b"{\n")
        assert said in Browser(folder).get("/run?path=one").text


def test_columns_say_what_they_mean_and_empty_ones_are_hidden(folder: Path) -> None:
    write_run(folder / "right", [question(0, 0.9)])
    page = Browser(folder).get("/table?path=right").text
    assert 'title="Probability of the likeliest choice among the choices given."' in page
    assert "<dt>confidence</dt><dd>Probability of the likeliest" in page
    assert "missing because" not in page
    assert "missing because" in Browser(folder).get("/table?path=one").text


def test_plots_of_a_large_run_come_after_its_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howsure.report.viewer.pages.DRAWN_AT_ONCE", 3)
    browser = Browser(folder)
    page = browser.get("/run?path=one").text
    assert 'data-later="/parts?path=one"' in page
    assert "Confident but wrong" not in page
    assert '<a href="/parts?path=one">' in page, "also without a script"
    assert "Confident but wrong" in browser.get("/parts?path=one").text
    assert "Confident but wrong" in browser.get("/run?path=one").text, "once drawn, it is at hand"


# -- a sample ---------------------------------------------------------------------------------------------------------


def test_a_sample_knows_its_neighbours_in_the_order_that_was_asked_for(folder: Path) -> None:
    browser = Browser(folder)
    table = browser.get("/run?path=one&sort=-confidence&f.confidence=known")
    address = next(link for link in links(table.text) if link.endswith("key=q-3") and "sort=-confidence" in link)
    page = browser.get(address)
    assert page.status == 200
    assert "A &lt;b&gt;bold&lt;/b&gt; one" in page.text
    assert "2 of 3 of the samples as sorted and filtered" in page.text
    found = links(page.text)
    assert "/sample?path=one&f.confidence=known&sort=-confidence&key=q-0" in found
    assert "/sample?path=one&f.confidence=known&sort=-confidence&key=q-1" in found
    assert "/run?path=one&f.confidence=known&sort=-confidence#table" in found


def test_samples_with_one_name_have_a_page_each(tmp_path: Path) -> None:
    write_run(tmp_path / "one", [FOUR[0], FOUR[1], msgspec.structs.replace(FOUR[3], id="q-0")])
    browser = Browser(tmp_path)
    pages = [browser.get(address) for address in links(browser.get("/table?path=one").text) if "/sample" in address]
    assert ["Question number 0?" in page.text for page in pages] == [True, False, False]
    assert [re.search("([0-9]) of 3 of all", page.text)[1] for page in pages] == ["1", "2", "3"]


def test_a_sample_is_never_shown_under_the_name_of_another(folder: Path) -> None:
    material = StoredRun(folder / "one", Embedded(folder, 0))
    path = folder / "one" / "samples.jsonl"
    path.write_bytes(path.read_bytes().replace(b"q-0", b"q-9"))
    assert material.sample(1).id == "q-1"
    with pytest.raises(RunDamaged, match="written anew while it was read"):
        material.sample(0)


def test_the_way_back_leads_to_the_page_of_the_table_that_the_sample_is_on(tmp_path: Path) -> None:
    write_run(tmp_path / "many", [question(place, 0.7) for place in range(120)])
    page = Browser(tmp_path).get("/sample?path=many&key=q-70")
    assert "/run?path=many&page=2#table" in links(page.text)
    assert "71 of 120 of all samples" in page.text


def test_a_sample_outside_the_filter_is_shown_all_the_same(folder: Path) -> None:
    page = Browser(folder).get("/sample?path=one&key=q-1&f.correct=yes")
    assert page.status == 200
    assert "not among those filtered" in page.text


def test_a_failed_sample_says_why(folder: Path) -> None:
    page = Browser(folder).get("/sample?path=one&key=q-2").text
    assert "Missing because: context." in page
    assert "too long" in page


@pytest.mark.parametrize(
    "address",
    [
        "/sample?path=one&key=nothing",
        "/sample?path=one",
        "/sample?key=q-0",
        "/run",
        "/run?path=gone",
        "/nowhere",
        "/assets/secret.txt",
        "/assets/../run.json",
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(address: str, folder: Path) -> None:
    answer = Browser(folder).get(address)
    assert answer.status == 404
    assert "This cannot be shown" in answer.text
    assert "Traceback" not in answer.text


# -- runs in progress -------------------------------------------------------------------------------------------------


def test_a_run_in_progress_is_seen_as_it_grows(tmp_path: Path) -> None:
    browser = Browser(tmp_path)
    with RunWriter(tmp_path / "now", identity(), items=4) as writer:
        writer.append(FOUR[:1])
        page = browser.get("/run?path=now&sort=-margin")
        assert page.rows == ["q-0"]
        assert 'data-poll="2000"' in page.text
        assert "1 of 4 samples" in page.text
        first = json.loads(browser.get("/live?path=now").text)
        assert (first["status"], first["samples"], first["items"], first["share_right"]) == ("running", 1, 4, 1.0)
        assert json.loads(browser.get(f"/live?path=now&seen={first['version']}").text)["changed"] is False
        writer.append(FOUR[1:3])
        second = json.loads(browser.get(f"/live?path=now&seen={first['version']}").text)
        assert second["changed"] is True
        assert (second["samples"], second["share_right"], second["missing"]) == (3, 0.5, {"context": 1})
        assert "1 missing: 1 context" in second["html"]
        assert browser.get("/table?path=now&f.correct=no").rows == ["q-1"]
        writer.append(FOUR[3:])
        writer.finish(SUMMARY)
    third = json.loads(browser.get(f"/live?path=now&seen={second['version']}").text)
    assert (third["changed"], third["status"], third["html"]) == (True, "finished", "")
    assert "95% interval" in browser.get("/run?path=now").text, "the figures appear"


def test_a_run_that_was_killed_is_seen_to_have_stopped(tmp_path: Path) -> None:
    write_run(tmp_path / "now", finished=False)
    browser = Browser(tmp_path)
    with FileLock(tmp_path / "now" / ".lock"):
        running = json.loads(browser.get("/live?path=now").text)
    stopped = json.loads(browser.get(f"/live?path=now&seen={running['version']}").text)
    assert (running["status"], stopped["status"], stopped["changed"]) == ("running", "stopped", True)


def test_looking_leaves_the_folder_as_it_was(folder: Path) -> None:
    write_run(folder / "held", finished=False)
    write_run(folder / "stopped", finished=False)
    (folder / "stopped" / ".lock").unlink()

    def everything() -> dict[str, tuple[int, bytes]]:
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}

    before = everything()
    browser = Browser(folder)
    every = "/ /run?path=one /run?path=stopped /live?path=stopped /live?path=held /live /report?path=one"
    for address in f"{every} /parts?path=stopped /sample?path=one&key=q-0 /compare?a=one&b=stopped".split():
        browser.get(address)
    assert everything() == before
