"""Goldens of `howsure grounding`: drawn screens, a server that clicks, and every form of data."""

from __future__ import annotations

import json
import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from goldens.pinned import Case
from goldens.speaking import Speaker, chance
from studies.grounding.screens import answer, chat, flat, spot

pytest.importorskip("pyarrow", reason="the extra `stats` is not installed")
pytest.importorskip("PIL", reason="the extra `gui` is not installed")

ASKED = ("start", "stop", "menu", "help", "quit", "save")


def screen(path: Path, size: tuple[int, int], shade: int) -> None:
    """A PNG whose bytes are the same everywhere: not packed, since packers differ."""
    width, height = size
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = b"".join(b"\0" + bytes((shade + x + y) % 256 for x in range(width)) for y in range(height))
    stored = b"\x78\x01\x01" + struct.pack("<HH", len(pixels), len(pixels) ^ 0xFFFF) + pixels
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0),
        b"IDAT": stored + struct.pack(">I", zlib.adler32(pixels)),
        b"IEND": b"",
    }
    blocks = (struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
              for name, body in parts.items())  # fmt: skip
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(blocks))


def write_screens(case: Case) -> str:
    """Eight instructions of two users on three screens; one has nothing to be clicked, and one no user."""
    for i in range(3):
        screen(case.folder / f"{i}.png", (120 + 20 * i, 80), 40 * i)
    targets = [
        {"kind": "point", "coords": [300, 400]},
        {"kind": "box", "coords": [100, 100, 400, 300]},
        {"kind": "polygon", "coords": [500, 500, 900, 500, 700, 900]},
        {"kind": "refusal", "coords": []},
    ]
    rows: list[dict[str, Any]] = []
    for i in range(8):
        labels = {} if i == 6 else {"user": [str(1 + i % 2)], "platform": ["web" if i < 4 else "phone"]}
        asked = {"id": f"c{i}", "image": f"{i % 3}.png", "instruction": f"press {ASKED[i % 6]} {i}"}
        rows.append(asked | {"target": targets[i % 4], "labels": labels})
    return case.put("clicks.jsonl", *rows)


def clicking(skill: int) -> Speaker:
    """Clicks near the target, or says something that is none; the third instruction is answered by an error."""

    def say(text: str, seed: int) -> str | None:
        if "press menu 2" in text and skill < 2:
            return None
        if "press help 3" in text:
            return "There is no such element on the screen." if skill else answer(10, 20, "help")
        if "press quit 4" in text:
            return "I would click somewhere on the left."
        drawn = [round(300 * chance(text, skill, seed, axis)) for axis in "xy"]
        return f"({200 + drawn[0]}, {150 + drawn[1]})" if "press start" in text else answer(*drawn, "a button")

    return Speaker(say)


def test_grounding(case: Case) -> None:
    data = write_screens(case)
    with clicking(1) as server:
        model = ("--model", "openai:clicker", "--base-url", server.base_url)
        case.howsure("plan", "grounding", "run", data, *model, "--dry-run")
        case.howsure("plan-json", "grounding", "run", data, *model, "--dry-run", "--json")
        case.howsure("shown", "grounding", "run", data, *model, "--out", "first")
        case.run("first")
        case.howsure("json", "grounding", data, *model, "--out", "first", "--json", "--quiet")
        case.howsure("users", "grounding", data, *model, "--users", "2", "--out", "second", "--json", "--quiet")
        case.run("second")
    case.howsure("overlay-plan", "grounding", "overlay", "first", "--dry-run")
    case.howsure("overlay", "grounding", "overlay", "first", "c0", "--to", "drawn")
    case.howsure("exported", "export", "first", "--quiet")
    case.table("first/samples.parquet")
    case.check()


def test_grounding_samples(case: Case) -> None:
    """Answers drawn again, another delta, parser and prompt, bad lines, and nothing asked about probabilities."""
    data = write_screens(case)
    with (case.folder / data).open("a") as file:
        file.write(json.dumps(flat(image="gone.png")) + "\n")
    with clicking(1) as server:
        model = ("--model", "openai:clicker", "--base-url", server.base_url)
        case.howsure("bad", "grounding", "run", data, *model, "--out", "none")
        how = ("--samples", "2", "--no-logprobs", "--delta", "200", "--parser", "compat", "--skip-bad", "--seed", "3")
        prompt = ("--prompt", "Click: {instruction}\\nAs (x, y)", "--batch-size", "4")
        case.howsure("shown", "grounding", "run", data, *model, *how, *prompt, "--out", "first")
    case.run("first")
    case.howsure("exported", "export", "first", "--no-evidence", "--quiet")
    case.table("first/samples.parquet")
    case.check()


def test_grounding_compare(case: Case) -> None:
    data = write_screens(case)
    for skill, name in enumerate(("before", "after")):
        with clicking(skill) as server:
            model = ("--model", f"openai:{name}", "--base-url", server.base_url)
            case.howsure(name, "grounding", "run", data, *model, "--out", name, "--quiet")
    case.howsure("compared", "compare", "before", "after", "--output-json", "compared.json")
    case.file("compared.json")
    case.howsure("compared-quiet", "compare", "before", "after", "--quiet")
    case.howsure("compared-json", "compare", "before", "after", "--json")
    case.check()


def test_grounding_convert(case: Case) -> None:
    """Pickles of users, ScreenSpot, OSWorld-G and chats as JSON lines."""
    for name in ("a.png", "b.png"):
        screen(case.folder / "data" / name, (200, 100), 7)
    for user in (1, 2, 7):
        samples = [chat("a.png"), chat("b.png", "닫아", answer(0.125, 999.5)), chat("a.png", said="?")]
        (case.folder / "data" / f"user_{user}.pkl").write_bytes(pickle.dumps(samples[: 1 + user]))
    case.howsure("plan", "grounding", "convert", "data", "--to", "x.jsonl", "--dry-run")
    case.howsure("plan-json", "grounding", "convert", "data", "--to", "x.jsonl", "--skip-bad", "--dry-run", "--json")
    case.howsure("bad", "grounding", "convert", "data", "--to", "pickles.jsonl")
    case.howsure("pickles", "grounding", "convert", "data", "--to", "pickles.jsonl", "--skip-bad")
    case.file("pickles.jsonl")
    how = ("--users", "1", "7", "--max-samples", "3", "--skip-bad", "--json")
    case.howsure("users", "grounding", "convert", "data", *how, "--to", "users.jsonl")
    case.file("users.jsonl")
    case.put("data/spots.json", [spot([20, 10, 60, 40], data_type="text"), spot([0, 0, 100, 50], "b.png")])
    case.howsure("spots", "grounding", "convert", "data/spots.json", "--to", "spots.jsonl", "--boxes", "xyxy")
    case.file("spots.jsonl")
    odd = {"image_path": "a.png", "instruction": "press", "image_size": [200, 100], "GUI_types": ["Button"]}
    kinds = {"bbox": [100, 50, 20, 10], "polygon": [0, 0, 20, 0, 10, 50], "refusal": [0, 0, 0, 0]}
    rows = [odd | {"id": f"{kind}-0", "box_type": kind, "box_coordinates": places} for kind, places in kinds.items()]
    case.put("data/osworld.json", rows)
    case.howsure("osworld", "grounding", "convert", "data/osworld.json", "--to", "osworld.jsonl", "--quiet")
    case.file("osworld.jsonl")
    case.put("data/chats.jsonl", chat("a.png"), chat("b.png"))
    case.howsure("chats", "grounding", "convert", "data/chats.jsonl", "--to", "chats.jsonl")
    case.file("chats.jsonl")
    case.howsure("again", "grounding", "convert", "data/chats.jsonl", "--to", "chats.jsonl")
    case.check()


def test_grounding_pickles(case: Case) -> None:
    """A run over files of users, with the files that it writes for each of them."""
    screen(case.folder / "data" / "a.png", (200, 100), 7)
    for user in (1, 2):
        samples = [chat("a.png", f"press {one} {user}") for one in ASKED[:3]]
        (case.folder / "data" / f"user_{user}.pkl").write_bytes(pickle.dumps(samples))
    with clicking(1) as server:
        model = ("--model", "openai:clicker", "--base-url", server.base_url)
        case.howsure("shown", "grounding", "data", "--users", "1-2", *model, "--out", "first")
        server.say = clicking(2).say
        case.howsure("retried", "grounding", "data", "--users", "1-2", *model, "--out", "first", "--retry-failed")
    case.run("first")
    case.check()


def test_grounding_refused(case: Case) -> None:
    data = write_screens(case)
    with Speaker(lambda text, seed: None) as server:
        model = ("--model", "openai:clicker", "--base-url", server.base_url, "--out", "run")
        for name, more in {
            "delta": ("--delta", "-1"),
            "parser": ("--parser", "lenient"),
            "frame": ("--frame", "inches"),
            "prompt": ("--prompt", "where?"),
            "users": ("--users", "9"),
            "samples": ("--samples", "-1"),
        }.items():
            case.howsure(name, "grounding", "run", data, *more, *model)
    case.howsure("no-eyes", "grounding", "run", data, "--model", "ngram:gone.arpa", "--out", "run")
    case.howsure("no-run", "grounding", "overlay", "gone")
    case.check()
