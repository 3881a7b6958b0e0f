"""Large comparisons in a process of their own: the same page, and the same sentence where there is none."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from howsure import isolated
from howsure.report.viewer import library, pages
from howsure.runs import Run
from howsure.runs.files import to_json
from howsure.studies.mcq.judge import judge
from howsure.studies.mcq.record import McqRecord
from report.viewer.asking import FOUR, Browser, question, write_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, samples in (("one", FOUR), ("two", (question(0, 0.1), *FOUR[1:]))):
        run = Run(write_run(tmp_path / name, samples, model=name))
        (run.path / "summary.json").write_bytes(to_json(judge(run.records(record=McqRecord), seed=0)))
    write_run(tmp_path / "stopped", FOUR, finished=False)
    return tmp_path


def test_a_process_of_its_own_finds_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    asked = ("/compare?a=one&b=two", "/compare?a=one&b=stopped")
    here = [Browser(folder).get(address).text for address in asked]
    assert "right in A, wrong in B: 1" in here[0]
    assert "A is not finished" in here[1] or "B is not finished" in here[1]
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "howsure.py").write_text("raise SystemExit('not ours')")
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr(library, "LARGE_BYTES", 0)
    assert [Browser(folder).get(address).text for address in asked] == here


def test_a_process_that_was_ended_is_a_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "LARGE_BYTES", 0)
    monkeypatch.setattr(isolated.sys, "executable", "/bin/false" if os.path.exists("/bin/false") else "/usr/bin/false")
    page = Browser(folder).get("/compare?a=one&b=two")
    assert page.status == 200
    assert "perhaps for want of memory" in page.text


def test_nobody_else_waits_for_a_comparison(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, enough = threading.Event(), threading.Event()

    def slow(*_: object, **__: object) -> dict[str, object]:
        begun.set()
        assert enough.wait(10)
        return {}

    monkeypatch.setattr(pages, "compare_apart", slow)
    monkeypatch.setattr("howsure.report.views.STRICT", False)
    browser = Browser(folder)
    comparing = threading.Thread(target=browser.get, args=("/compare?a=one&b=two",))
    comparing.start()
    assert begun.wait(10)
    assert len(browser.get("/table?path=one&sort=-confidence").rows) == 4
    enough.set()
    comparing.join()
