"""Clicks asked of a server: whether it sees, seeds, faults, what is asked again, and what nobody can place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from howsure.errors import InputError, MissingCapability
from howsure.models.servers.openai import OpenAIServer
from howsure.runs import Run
from howsure.studies.grounding.study import grounding
from models.misbehaving_server import Behaviour, Connection, MisbehavingServer, error, ok

from .screens import flat, screen, write_lines

ITEMS = 6
UNLUCKY = ("press 1", "press 4")


def logprobs(text: str) -> dict[str, Any]:
    """A character a token, each with probability 1/2 or so."""
    rows = [{"token": c, "logprob": -0.7, "top_logprobs": [{"token": c, "logprob": -0.7}]} for c in text]
    return {"content": rows}


def said(body: dict[str, Any]) -> str:
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else str(content[-1]["text"])


def by_seed(body: dict[str, Any]) -> Behaviour:
    """A click that the question decides, and of a drawn answer the seed too."""
    seed = body["seed"] if body["temperature"] else ""
    number = int(hashlib.sha256(f"{said(body)}{seed}".encode()).hexdigest(), 16)
    text = f"({number % 1000}, {number // 1000 % 1000})"
    return ok(text, logprobs(text) if "logprobs" in body else None)


class Clicker(MisbehavingServer):
    """Clicks, but for the instructions in `unlucky`, which it fails to answer."""

    def __init__(self) -> None:
        super().__init__()
        self.unlucky: tuple[str, ...] = ()
        self.only_drawn = False
        self.script = [self._behave]

    def _behave(self, connection: Connection) -> None:
        body = connection.asked.body
        fails = any(f"{name}\n" in said(body) for name in self.unlucky) and (not self.only_drawn or body["temperature"])
        (error(400, "bad luck") if fails else by_seed(body))(connection)

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The requests with a screen of the data, not those that try the server out."""
        return [one.body for one in self.requests if "following instruction" in said(one.body)]


@pytest.fixture
def clicker() -> Iterator[Clicker]:
    with Clicker() as server:
        yield server


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two instructions a screen."""
    for i in range(ITEMS // 2):
        screen(tmp_path / f"{i}.png", (200 + i, 100))
    rows = [flat([300, 300], image=f"{i // 2}.png", id=f"i{i}") | {"instruction": f"press {i}"} for i in range(ITEMS)]
    return write_lines(tmp_path / "clicks.jsonl", rows)


def ask(data: Path, server: MisbehavingServer, out: Path, **options: Any) -> Any:
    model = OpenAIServer("m", base_url=server.base_url, max_retries=1, backoff_s=0.01)
    return grounding(data, model, out=out, **options)


def test_a_server_without_eyes_is_found_out_before_any_work(data: Path, tmp_path: Path) -> None:
    with MisbehavingServer() as server:
        server.script = [error(500, "image input is not supported - you may need to provide the mmproj")]
        with pytest.raises(MissingCapability, match=r"sees.*'openai:m' refuses images \(HTTP 500: image input is not"):
            ask(data, server, tmp_path / "run")
        assert len(server.requests) == 2, "one picture, shown twice"
    assert Run(tmp_path / "run").records() == []


def test_a_fault_that_is_not_about_images_is_for_the_samples_to_meet(
    data: Path, tmp_path: Path, clicker: Clicker
) -> None:
    clicker.script = [error(400, "bad luck"), clicker._behave]
    assert ask(data, clicker, tmp_path / "run").summary["answered_count"] == ITEMS


def test_every_round_is_drawn_with_a_seed_of_its_own_that_any_server_takes(
    data: Path, tmp_path: Path, clicker: Clicker
) -> None:
    found = ask(data, clicker, tmp_path / "run", samples=3, batch_size=4, temperature=0.7, seed=2**64)
    greedy = [one for one in clicker.asked if one["temperature"] == 0]
    drawn = [one for one in clicker.asked if one["temperature"] == 0.7]
    assert (len(greedy), len(drawn)) == (ITEMS, 3 * ITEMS)
    assert all(one["logprobs"] for one in greedy)
    assert not any("logprobs" in one for one in drawn)
    assert len({one["seed"] for one in drawn}) == 3 * 2, "two batches"
    assert all(0 <= one["seed"] < 2**31 for one in clicker.asked)
    for sample in found.samples:
        assert len({tuple(point) for point in sample.result["samples"]["points"]}) == 3


def test_of_a_server_only_what_failed_is_asked_again(data: Path, tmp_path: Path, clicker: Clicker) -> None:
    options: dict[str, Any] = {"samples": 2, "batch_size": 4}
    whole = ask(data, clicker, tmp_path / "whole", **options)
    clicker.requests.clear()
    clicker.unlucky = UNLUCKY
    first = ask(data, clicker, tmp_path / "run", **options)
    assert first.failed
    assert len(clicker.asked) == ITEMS + 2 * (ITEMS - 2), "no draws for what has no answer"
    assert first.summary["figures"]["accuracy"]["of"] == ITEMS
    assert [row["pred_coord"] for row in json.loads((tmp_path / "run" / "out.json").read_text())].count(None) == 2
    clicker.requests.clear()
    clicker.unlucky = ()
    again = ask(data, clicker, tmp_path / "run", retry_failed=True, **options)
    assert {said(one).partition("instruction: ")[2].partition("\n")[0] for one in clicker.asked} == set(UNLUCKY)
    assert len(clicker.asked) == 2 * 3
    assert again.summary == whole.summary
    for name in ("out.json", "results.txt", "results.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_drawn_answers_that_failed_are_asked_for_again(data: Path, tmp_path: Path, clicker: Clicker) -> None:
    options: dict[str, Any] = {"samples": 2, "batch_size": 4}
    whole = ask(data, clicker, tmp_path / "whole", **options)
    clicker.unlucky, clicker.only_drawn = UNLUCKY, True
    first = ask(data, clicker, tmp_path / "run", **options)
    assert not first.failed
    assert any("4 of 12 drawn answers failed" in note for note in first.summary["notes"])
    clicker.requests.clear()
    clicker.unlucky = ()
    assert ask(data, clicker, tmp_path / "run", **options).summary == first.summary
    assert clicker.asked == [], "unless somebody says so"
    again = ask(data, clicker, tmp_path / "run", retry_failed=True, **options)
    assert len(clicker.asked) == 2 * 3
    assert again.summary == whole.summary


def test_a_screen_of_which_nobody_knows_what_a_server_made_fails_alone(tmp_path: Path, clicker: Clicker) -> None:
    screen(tmp_path / "a.png")
    screen(tmp_path / "line.png", (3, 900))
    data = write_lines(tmp_path / "clicks.jsonl", [flat(image="line.png"), flat()])
    found = ask(data, clicker, tmp_path / "run", frame="resized-pixels")
    assert [sample.reason for sample in found.samples] == ["unusable_image", None]
    assert found.samples[0].result.get("pred_coord") is None
    assert "3×900" in (found.samples[0].detail or "")


def test_the_limit_of_a_server_on_pixels(data: Path, tmp_path: Path, clicker: Clicker) -> None:
    """0 is what the checkpoint says, and less than a token is no limit that a server can have."""
    usual = ask(data, clicker, tmp_path / "usual", frame="resized-pixels")
    zero = ask(data, clicker, tmp_path / "zero", frame="resized-pixels", max_pixels=0)
    assert zero.summary == usual.summary
    with pytest.raises(InputError, match="at least 784"):
        ask(data, clicker, tmp_path / "run", frame="resized-pixels", max_pixels=783)


def test_bad_samples_are_counted_among_what_is_missing(data: Path, tmp_path: Path, clicker: Clicker) -> None:
    with data.open("a") as file:
        file.write(json.dumps(flat(image="gone.png")) + "\n")
    found = ask(data, clicker, tmp_path / "run", skip_bad=True)
    assert found.summary["coverage"]["text"] == f"scored {ITEMS} of {ITEMS + 1}; 1 missing: 1 bad sample"


def test_the_files_of_a_run_have_the_intervals_of_its_summary(tmp_path: Path, clicker: Clicker) -> None:
    for i in range(17):
        screen(tmp_path / f"{i}.png", (200 + i, 100))
    rows = [flat(image=f"{i * i * i % 31 % 17}.png", id=f"i{i}") | {"instruction": f"press {i}"} for i in range(45)]
    data = write_lines(tmp_path / "clicks.jsonl", rows)
    summary = ask(data, clicker, tmp_path / "run", seed=5, delta=400).summary
    accuracy = summary["figures"]["accuracy"]
    assert accuracy["method"] != "Wilson score", "the seed is to matter"
    written = json.loads((tmp_path / "run" / "results.json").read_text())
    assert (written["low"], written["high"]) == (accuracy["low"], accuracy["high"])
