"""The viewer and the report in a real Chromium, as a person uses them; screenshots lie in artefacts/viewer/."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import htpy as h
import msgspec
import pytest

import browser as chrome
from howsure.report.document import Card
from howsure.report.html import card, standalone
from howsure.runs import Identity, Run, RunWriter
from howsure.studies.mcq.judge import judge
from howsure.studies.mcq.record import McqRecord
from report.viewer.asking import write_run
from runs_to_look_at import STUDIES, make_hostile, make_runs
from sizes import LONG, in_long, several

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(chrome.chromium() is None, reason="there is no Chromium here, and none could be installed"),
]
FOLDERS = {"mcq": "mcq/before"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("minigrid", "starlette", "uvicorn", "playwright"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("looked-at")
    return make_runs(folder / "runs", folder / "data")


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    pytest.importorskip("playwright", reason="Playwright, which drives the browser, is not installed")
    with chrome.browser() as found:
        yield found


@pytest.fixture(scope="module")
def address(runs: Path) -> Iterator[str]:
    with chrome.viewer(runs) as found:
        yield found


@pytest.fixture
def watched(opened: Any) -> Iterator[chrome.Watched]:
    """A page; whatever the test did, its console stayed clean and it spoke to nobody else."""
    with chrome.new_page(opened) as found:
        yield found
        assert found.problems == []
        assert [url for url in found.requests if not re.match(r"http://127\.0\.0\.1:|data:|file:", url)] == []


def query_of(watched: chrome.Watched) -> dict[str, list[str]]:
    return parse_qs(urlsplit(watched.page.url).query)


def column(watched: chrome.Watched, heading: str) -> list[str]:
    """What stands in a column of the table, from the top."""
    page = watched.page
    heads = [one.split(",")[0] for one in page.locator("table.grid thead tr").first.locator("th").all_inner_texts()]
    place = next(i for i, one in enumerate(heads) if one.strip(" ▲▼↑↓") == heading)
    return [row.locator("th, td").nth(place).inner_text() for row in page.locator("table.grid tbody tr").all()]


def until(watched: chrome.Watched, condition: str, seconds: float = 15.0) -> None:
    """Wait for something to become true. (Playwright's own way evaluates text, which the pages forbid.)"""
    end = time.monotonic() + seconds
    while not watched.page.evaluate(f"() => {condition}"):
        assert time.monotonic() < end, f"never came: {condition}"
        watched.page.wait_for_timeout(50)


def rows_are(count: str) -> str:
    return f"document.querySelectorAll('table.grid tbody tr').length {count}"


# -- as a person uses it ----------------------------------------------------------------------------------------------


def test_the_list_leads_to_a_run_and_the_run_to_a_sample(watched: chrome.Watched, address: str) -> None:
    page = watched.page
    page.goto(address)
    assert page.locator("table.grid tbody tr").count() == 6
    watched.keep("list")
    page.get_by_role("link", name="mcq/before", exact=True).click()
    page.wait_for_selector("text=Confident but wrong")
    assert "accuracy" in page.locator(".tiles").inner_text()
    watched.keep("run")
    page.locator("table.grid tbody a").first.click()
    page.wait_for_selector("text=Token by token")
    watched.keep("sample", whole=True)
    page.get_by_role("link", name="next").first.click()
    page.wait_for_load_state()
    assert "2 of 60" in page.locator("main").inner_text()
    page.get_by_role("link", name="Back to the table").first.click()
    page.wait_for_selector("table.grid")  # the new page may still be loading


def test_sorting_by_a_column_and_the_address_that_says_so(watched: chrome.Watched, address: str) -> None:
    page = watched.page
    page.goto(f"{address}/run?path=mcq/before")
    for order in ("ascending", "descending"):
        page.locator("[id='sort.confidence']").click()
        page.wait_for_selector(f"th[aria-sort={order}]")
        values = [float(text) for text in column(watched, "confidence")]
        assert values == sorted(values, reverse=order == "descending")
    assert "sort" in query_of(watched)
    page.reload()
    assert [float(text) for text in column(watched, "confidence")] == values, "the address says it all"
    page.go_back()
    page.wait_for_selector("th[aria-sort=ascending]")


def test_filters_narrow_the_table_and_can_be_shared(watched: chrome.Watched, address: str, opened: Any) -> None:
    page = watched.page
    page.goto(f"{address}/run?path=mcq/before")
    page.locator("[id='f.correct']").select_option("no")
    page.locator("[id='f.confidence']").fill(">0.5")
    page.locator("#q").fill("ROOM 1")
    until(watched, "location.search.includes('ROOM') && !document.querySelector('[aria-busy]')")
    until(watched, rows_are("< 20"))
    assert set(column(watched, "right")) == {"no"}
    assert all(float(text) > 0.5 for text in column(watched, "confidence"))
    assert all("room 1" in text for text in column(watched, "question"))
    watched.keep("filtered")
    rows = page.locator("table.grid tbody").inner_text()
    with chrome.new_page(opened) as other:
        other.page.goto(page.url)
        assert other.page.locator("table.grid tbody").inner_text() == rows
        assert other.page.locator("[id='f.confidence']").input_value() == ">0.5"
    page.locator("[id='f.confidence']").fill("rather sure")
    page.wait_for_selector("[data-swap=problems]:has-text('rather sure')")
    page.locator("#clear").click()
    until(watched, "document.querySelector('.count').textContent.startsWith('60')")


def test_what_is_typed_while_an_answer_is_on_its_way_is_not_lost(watched: chrome.Watched, address: str) -> None:
    page = watched.page
    page.goto(f"{address}/run?path=mcq/before")
    page.route("**/table?*", lambda route: (time.sleep(0.15), route.continue_()))
    page.locator("[id='f.correct']").select_option("no")
    page.locator("[id='f.confidence']").fill(">0.5")
    page.locator("#q").focus()
    until(watched, "location.search.includes('0.5') && !document.querySelector('[aria-busy]')")
    assert page.locator("[id='f.confidence']").input_value() == ">0.5"
    assert all(float(text) > 0.5 for text in column(watched, "confidence"))


def test_a_run_that_is_gone_or_damaged_says_so_where_it_is_looked_at(opened: Any, runs: Path, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "served" / "run", finished=False)
    with chrome.viewer(tmp_path / "served") as address, chrome.new_page(opened) as watched:
        page = watched.page
        page.goto(f"{address}/run?path=run")
        manifest = (folder / "run.json").read_bytes()
        (folder / "run.json").write_bytes(b"{")
        page.evaluate("() => look()")
        assert "run.json cannot be read" in page.locator("#lost").inner_text()
        (folder / "run.json").write_bytes(manifest)
        page.evaluate("() => look()")
        assert page.locator("#lost").is_hidden()
        shutil.rmtree(folder)
        page.evaluate("() => showTable()")
        assert page.locator("#lost").inner_text() == (
            "There is no run folder of this name; it may have been moved or deleted."
        )


def test_two_runs_on_different_pages_of_the_list_can_be_compared(opened: Any, tmp_path: Path) -> None:
    for place in range(55):
        run = write_run(tmp_path / "served" / f"run{place}", model=f"m{place}")
        os.utime(run / "run.json", (1000 - place, 1000 - place))
    with chrome.viewer(tmp_path / "served") as address, chrome.new_page(opened) as watched:
        page = watched.page
        page.goto(f"{address}/")
        page.locator("[id='a.run3']").check()
        until(watched, "document.querySelector('[data-swap=chosen]').textContent.includes('A is run3')")
        assert page.evaluate("() => document.activeElement.id") == "a.run3", "the keyboard stays where it was"
        page.locator("[id='page.next']").click()
        page.locator("[id='b.run52']").check()
        until(watched, "document.querySelector('[data-swap=chosen]').textContent.includes('B is run52')")
        page.locator("#compare button").click()
        page.wait_for_url("**/compare?*")
        assert query_of(watched) == {"a": ["run3"], "b": ["run52"]}
        assert watched.problems == []


def test_a_token_tells_its_probability_and_alternatives(watched: chrome.Watched, address: str) -> None:
    page = watched.page
    page.goto(f"{address}/sample?path=trust&key=e0001-s0001")
    token = page.locator(".tokens .said .tok").nth(2)
    assert not token.locator(".tip").is_visible()
    token.hover()
    assert token.locator(".tip").is_visible()
    tip = token.locator(".tip").inner_text()
    assert "80.0 %" in tip
    assert "«zebra» 10.0 %" in tip
    watched.keep("token")
    page.mouse.move(0, 0)
    page.locator(".tokens .said .tok").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert token.evaluate("one => one === document.activeElement")
    assert token.locator(".tip").is_visible(), "focus does what pointing does"


@pytest.mark.parametrize("where", ["viewer", "report"])
def test_stepping_through_a_trust_replay(watched: chrome.Watched, address: str, runs: Path, where: str) -> None:
    page = watched.page
    page.goto(f"{address}/run?path=trust" if where == "viewer" else (runs / "trust" / "report.html").as_uri())
    replay = page.locator(".stepper").first
    replay.scroll_into_view_if_needed()
    steps = replay.locator(":scope > .step")
    assert steps.count() >= 5
    shown = lambda: [steps.nth(i).is_visible() for i in range(steps.count())].index(True)  # noqa: E731
    assert shown() == 0
    replay.get_by_role("button", name="next").click()
    assert shown() == 1
    watched.keep(f"replay-{where}")
    replay.get_by_role("button", name="next").press("ArrowRight")
    assert shown() == 2
    assert page.url.endswith("=3"), "a step can be shared"
    replay.get_by_role("button", name="last").click()
    assert shown() == steps.count() - 1
    address_of_last = page.url
    page.goto("about:blank")
    page.goto(address_of_last)
    assert shown() == steps.count() - 1
    assert replay.locator(":scope > .step img:visible, :scope > .step svg:visible").count() >= 1, "the frame is seen"


def test_two_runs_compared(watched: chrome.Watched, address: str) -> None:
    page = watched.page
    page.goto(address)
    page.locator("[id='a.mcq/before']").check()
    page.locator("[id='b.mcq/after']").check()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_load_state()
    assert query_of(watched) == {"a": ["mcq/before"], "b": ["mcq/after"]}
    text = page.locator("main").inner_text()
    assert "checkpoint-0" in text
    assert "checkpoint-1" in text
    assert "turned right" in text
    watched.keep("compare", whole=True)


@pytest.mark.parametrize("study", ["mcq", "grounding", *in_long("perplexity", "trajectories", "trust")])
def test_every_study_has_its_pages(watched: chrome.Watched, address: str, study: str) -> None:
    page = watched.page
    page.goto(f"{address}/run?path={FOLDERS.get(study, study)}")
    page.wait_for_selector("figure.plot svg")
    assert not watched.is_too_wide()
    watched.keep(f"{study}-run", whole=True)
    page.locator("table.grid tbody a").first.click()
    page.wait_for_selector("text=Raw record")
    assert not watched.is_too_wide()
    watched.keep(f"{study}-sample", whole=True)
    assert page.locator(".notice:visible").all_inner_texts() == []


@pytest.mark.parametrize("scheme", ["light", *in_long("dark")])
@pytest.mark.parametrize("study", STUDIES)
def test_reports_alone(opened: Any, runs: Path, study: str, scheme: str) -> None:
    with chrome.new_page(opened, color_scheme=scheme, offline=True) as watched:
        watched.page.goto((runs / FOLDERS.get(study, study) / "report.html").as_uri())
        assert watched.page.locator("figure.plot svg").count() >= 2
        assert not watched.is_too_wide()
        watched.keep(f"{study}-report-{scheme}", whole=True)
        assert watched.problems == []
        assert {urlsplit(url).scheme for url in watched.requests} <= {"file", "data"}


def test_a_long_word_does_not_make_a_narrow_page_wider(watched: chrome.Watched, tmp_path: Path) -> None:
    path = "/a/folder/whose/name/goes/on/" + "and-on" * 30
    said = Card("a sample", "1.7 % sure, clicked where there is nothing to click at all", False, list)
    shown = [h.p(class_="quiet")[path], h.p[path], h.h2[path], card(said)]
    (tmp_path / "page.html").write_text(standalone("long", [h.main[shown]]))
    watched.page.set_viewport_size({"width": 390, "height": 800})
    watched.page.goto((tmp_path / "page.html").as_uri())
    assert not watched.is_too_wide()
    within = "one => one.getBoundingClientRect().right <= one.closest('.card').getBoundingClientRect().right"
    assert watched.page.locator(".badge").evaluate(within), "a verdict is seen whole"


def test_a_report_on_paper(opened: Any, runs: Path) -> None:
    with chrome.new_page(opened) as watched:
        watched.page.goto((runs / "mcq" / "before" / "report.html").as_uri())
        watched.page.emulate_media(media="print")
        paper = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(255, 255, 255)"
        assert not watched.page.locator("details.numbers").first.is_visible()
        chrome.ARTEFACTS.mkdir(parents=True, exist_ok=True)
        watched.page.pdf(path=chrome.ARTEFACTS / "mcq-report.pdf", format="A4")


def test_a_run_in_progress_updates_by_itself(opened: Any, runs: Path, tmp_path: Path) -> None:
    done = Run(runs / "mcq" / "before")
    samples, old = done.records(record=McqRecord), done.manifest.identity
    identity = Identity(**msgspec.to_builtins(old))
    with (
        RunWriter(tmp_path / "live" / "run", identity, len(samples)) as writer,
        chrome.viewer(tmp_path / "live") as address,
        chrome.new_page(opened) as watched,
    ):
        writer.append(samples[:5])
        page = watched.page
        page.goto(f"{address}/run?path=run")
        until(watched, rows_are("=== 5"))
        assert "running" in page.locator("main").inner_text()
        page.locator("#q").fill("room")
        writer.append(samples[5:12])
        until(watched, rows_are("=== 12"))
        assert page.locator("#q").input_value() == "room", "what is being typed stays"
        watched.keep("in-progress")
        writer.append(samples[12:])
        writer.finish(judge([sample.without_evidence() for sample in samples]))
        page.wait_for_selector(".tiles", timeout=20_000)
        assert watched.problems == []


def test_everything_can_be_reached_by_keyboard(watched: chrome.Watched, address: str) -> None:
    page = watched.page
    page.goto(f"{address}/run?path=mcq/before")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    assert {"q", "sort.confidence", "f.correct"} <= reached
    page.locator("[id='sort.margin']").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("th[aria-sort=ascending]")
    assert page.evaluate("document.activeElement.id") == "sort.margin", "the focus outlives the change"


# -- contrast ---------------------------------------------------------------------------------------------------------

CONTRASTS = """() => {
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (one) => { for (let at = one; at; at = at.parentElement) { const c = rgb(getComputedStyle(at).backgroundColor); if (c.length < 4 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
  const found = [];
  for (const one of document.querySelectorAll("body *")) {
    if (![...one.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !one.checkVisibility()) continue;
    const style = getComputedStyle(one), ink = rgb(one.closest("svg") ? style.fill : style.color).slice(0, 3);
    const [a, b] = [light(ink), light(behind(one))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push(`${one.tagName} ${one.className.baseVal ?? one.className} «${one.textContent.slice(0, 30)}» ${ratio.toFixed(2)}`);
  }
  return [...new Set(found)];
}"""  # noqa: E501
"""WCAG 2: text against what lies behind it, at least 4.5 to 1."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "where",
    ["/run?path=mcq/before", "/sample?path=trust&key=e0001-s0001", *in_long("/", "/run?path=trajectories")],
)
def test_words_stand_out_from_what_lies_behind(opened: Any, address: str, where: str, scheme: str) -> None:
    with chrome.new_page(opened, color_scheme=scheme) as watched:
        watched.page.goto(address + where)
        assert watched.page.evaluate(CONTRASTS) == []


def test_every_plot_has_its_table_and_every_picture_its_words(watched: chrome.Watched, address: str) -> None:
    for study in STUDIES:
        watched.page.goto(f"{address}/run?path={FOLDERS.get(study, study)}")
        watched.page.wait_for_selector("figure.plot")
        for plot in watched.page.locator("figure.plot").all():
            assert plot.locator("details table tbody tr").count() >= 1
            assert plot.locator("svg[role=img]").first.get_attribute("aria-label")
        assert watched.page.locator("img:not([alt])").count() == 0


HOSTILE = STUDIES if LONG else ("mcq", "trust")
"""In a browser; `test_hostile` asks for the pages of all of them."""
SAMPLES_OF_EACH = several(1, 3)


# -- hostile runs -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    for study in HOSTILE:
        for everything in (False, True):
            name = f"{study}-{'all' if everything else 'texts'}"
            make_hostile(runs / FOLDERS.get(study, study), folder / name, everything=everything)
    return folder


def test_nothing_in_a_hostile_run_executes_and_its_pages_stay_usable(opened: Any, hostile: Path) -> None:
    with chrome.viewer(hostile) as address, chrome.new_page(opened) as watched:
        page = watched.page
        page.goto(address)
        assert page.locator("table.grid tbody tr").count() == 2 * len(HOSTILE)
        watched.keep("hostile-list")
        for name in sorted(path.name for path in hostile.iterdir()):
            page.goto(f"{address}/run?path={name}")
            assert page.locator("table.grid tbody tr").count() >= 1, name
            assert not watched.is_too_wide(), name
            page.locator("table.grid thead a").nth(1).click()
            page.wait_for_selector("th[aria-sort]")
            if name == "mcq-texts":
                watched.keep("hostile-run", whole=True)
            links = [one.get_attribute("href") for one in page.locator("table.grid tbody a").all()]
            for link in links[:SAMPLES_OF_EACH]:
                page.goto(address + link)
                assert page.get_by_role("heading", name="Raw record").count() == 1, link
                assert not watched.is_too_wide(), link
                page.mouse.move(300, 300)
                page.keyboard.press("Tab")
            assert page.evaluate("window.pwned") is None, name
        page.goto(f"{address}/compare?a=mcq-texts&b=mcq-all")
        assert page.evaluate("window.pwned") is None
        assert watched.problems == []
        assert {urlsplit(url).hostname for url in watched.requests if url.startswith("http")} == {"127.0.0.1"}


def test_a_hostile_report_alone(opened: Any, hostile: Path) -> None:
    from howsure.report import views
    from howsure.report.run_report import write_report

    views.STRICT = False  # the fixture that set it puts it back
    for folder in sorted(hostile.iterdir()):
        with chrome.new_page(opened, offline=True) as watched:
            watched.page.goto(write_report(folder).as_uri())
            assert watched.page.evaluate("window.pwned") is None
            assert not watched.is_too_wide()
            assert watched.problems == []
            assert json.dumps(sorted({urlsplit(url).scheme for url in watched.requests} - {"data"})) == '["file"]'
