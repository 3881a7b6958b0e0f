"""Run folders made to do harm: every page answers, in time, and nothing in them reaches a page as it is."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from howsure.report import views
from report.viewer.asking import FOUR, Browser, write_run

SCRIPT = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
RIGHT_TO_LEFT = "\u202egnp.exe\u2066 \u200f"
MEGABYTE = "<b>" + "m" * 1_000_000
NASTY: tuple[Any, ...] = (
    SCRIPT, RIGHT_TO_LEFT, MEGABYTE, "\x1b[2J\x00\r\n", "", 0, -1, 10**30, 1e300, -1e-300, 0.5, True, False, None, [],
    {}, [[[[SCRIPT]]]], {SCRIPT: {SCRIPT: [SCRIPT]}}, [None, True, "x"], [0.1] * 5, [["x", -1.0]], "../x",
)  # fmt: skip
FIELDS = {
    "mcq": "question choices answer_index group predicted_index log_likelihoods correct margin tie confidence "
    "entropy_nats predicted_index_pmi image_path image_sha256",
    "perplexity": "blocks document last part text",
    "trajectories": "agent domain id index marks opening reward said set_name skipped source task_id termination trial "
    "turns unsupported",
    "trust": "action action_probability agent_dir agent_x agent_y answer_form asked best_actions carrying conditions "
    "effect episode instruction learned moved on_shortest_path reached reward shortest_distance step told trust",
    "grounding": "confidence form gt_content gt_coord hit image_path image_sha256 image_size inside instruction l2 "
    "labels pred_content pred_coord pred_raw says target why_not within_delta",
    "unheard-of <i>": "anything",
}
EVIDENCE = ("choices", "answers", "prompts", "tokens", "logprobs", "answer")


@pytest.fixture(autouse=True)
def as_users_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests are strict elsewhere: there, a part that cannot be made is an error."""
    monkeypatch.setattr(views, "STRICT", False)


def lines(study: str) -> Iterator[bytes]:
    """Samples in which everything is wrong at once, each in another way, between lines that are none."""
    names = FIELDS[study].split()
    for turn in range(len(NASTY)):
        result = {name: NASTY[(place + turn) % len(NASTY)] for place, name in enumerate(names)}
        evidence = {name: NASTY[(place * 3 + turn) % len(NASTY)] for place, name in enumerate(EVIDENCE)}
        name = (SCRIPT, RIGHT_TO_LEFT, "plain", "", MEGABYTE)[turn] if turn < 5 else f"s{turn}"
        sample = {"id": name, "index": turn - 3, "result": result, "evidence": evidence}
        if turn % 3 == 0:
            sample |= {"reason": NASTY[turn % 4], "detail": SCRIPT if turn else MEGABYTE, "outcome": {"correct": True}}
        yield json.dumps(sample).encode()
    yield from (b"", b"{", b"null", b"[]", b'"x"', b'{"id": 3, "index": 0}', b'{"id": "x"}', b"\xff\xfe", b"[" * 5_000)
    yield b'{"id": "far", "index": 1' + b"0" * 400 + b"}"


def make_hostile(folder: Path, study: str, summary: str, most: int | None = None) -> None:
    write_run(folder, (), study=study, model=SCRIPT)
    manifest = json.loads((folder / "run.json").read_text())
    manifest |= {"source": MEGABYTE, "started": MEGABYTE, "error": SCRIPT, "items": -3, "owner": {SCRIPT: MEGABYTE}}
    manifest["identity"] |= {"options": dict.fromkeys(("prompt", "chat", SCRIPT), MEGABYTE), "data": {SCRIPT: [SCRIPT]}}
    (folder / "run.json").write_text(json.dumps(manifest))
    (folder / "samples.jsonl").write_bytes(b"\n".join(list(lines(study))[:most]) + b"\n")
    (folder / "summary.json").write_text(summary)


def assert_harmless(text: str, where: str) -> None:
    assert "<script>alert" not in text, where
    assert "<img src=x" not in text, where
    assert "<b>m" not in text, where
    assert not set(RIGHT_TO_LEFT.replace("gnp.exe", "").replace(" ", "")) & set(text), where
    assert "\x1b" not in text, where
    assert "Traceback" not in text, where
    assert len(text) < 3_000_000, where


SUMMARIES = {
    "a list": "[]",
    "nothing of what it should hold": "{}",
    "wrong kinds": json.dumps({name: [SCRIPT] for name in ("headline", "coverage", "notes", "calibration", "groups")}),
    "broken": '{"headline": ',
}


@pytest.mark.parametrize("study", FIELDS)
def test_every_page_of_a_hostile_run_answers(study: str, tmp_path: Path) -> None:
    for place, summary in enumerate(SUMMARIES.values()):
        make_hostile(tmp_path / f"run{place}", study, summary, 3 if place else None)
    browser = Browser(tmp_path)
    began = time.monotonic()
    pages = ["/", "/live", "/table?sort=-figures", *(f"/run?path=run{place}" for place in range(len(SUMMARIES)))]
    pages += ["/live?path=run0", "/parts?path=run1", "/report?path=run2", "/table?path=run0&sort=-reason&q=script"]
    for address in pages:
        answer = browser.get(address)
        assert answer.status == 200, address
        if not address.startswith("/live"):
            assert_harmless(answer.text.partition("<main")[2] or answer.text, address)
    run = browser.get("/run?path=run0")
    assert re.search("(9|10) lines of samples.jsonl hold no sample", run.text)
    assert len(run.rows) >= len(NASTY)
    assert_every_sample_has_its_page(browser, run.text)
    assert time.monotonic() - began < 60


def assert_every_sample_has_its_page(browser: Browser, page: str) -> None:
    keys = sorted({part.partition('"')[0] for part in page.partition("<tbody")[2].split("&amp;key=")[1:]})
    assert len(keys) >= len(NASTY)
    for key in keys:
        answer = browser.get(f"/sample?path=run0&key={key}")
        assert answer.status == 200, key
        assert "Raw record" in answer.text, key
        assert_harmless(answer.text, key)


def test_addresses_made_to_do_harm(tmp_path: Path) -> None:
    write_run(tmp_path / "run", FOUR)
    browser = Browser(tmp_path)
    script = "%3Cscript%3Ealert(1)%3C/script%3E%22%27%3E%E2%80%AE"
    for address in (
        f"/run?path=run&q={script}&sort={script}&page={script}&f.{script}={script}&f.group={script}&f.correct={script}",
        f"/table?path=run&f.confidence={script}", f"/run?path={script}", f"/sample?path=run&key={script}&q={script}",
        f"/?a={script}&b={script}&q={script}", f"/{script}", f"/compare?a={script}&b={script}",
        "/run?" + "&".join(f"f.{i}=1" for i in range(150)) + "&path=run", "/run?path=run&q=%ff%fe", "/run?path=%00",
    ):  # fmt: skip
        answer = browser.get(address)
        assert answer.status in (200, 404), address
        assert_harmless(re.sub(' value="[^"]*"', "", answer.text), address)  # what was typed stays as it was
    assert browser.get("/run?" + "&".join(["x=1"] * 300)).status == 400


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_in_place_of_the_samples_keeps_nobody_waiting(tmp_path: Path) -> None:
    write_run(tmp_path / "run", FOUR, finished=False)
    (tmp_path / "run" / "samples.jsonl").unlink()
    os.mkfifo(tmp_path / "run" / "samples.jsonl")
    found: list[Any] = []
    looking = threading.Thread(target=lambda: found.append(Browser(tmp_path).get("/")), daemon=True)
    looking.start()
    looking.join(10)
    assert found, "the list of runs waits for the pipe"
    assert "samples.jsonl is not a file but a pipe or a device" in found[0].text


def test_hidden_pictures_are_not_shown(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", FOUR)
    (run / ".cache").mkdir()
    for name in ("seen.png", ".hidden.png", ".cache/x.png"):
        (run / name).write_bytes(b"png")
    browser = Browser(tmp_path)
    statuses = [browser.get(f"/picture?path=run&name={n}").status for n in ("seen.png", ".hidden.png", ".cache/x.png")]
    assert statuses == [200, 404, 404]
