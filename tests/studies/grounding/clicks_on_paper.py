"""Clicks that were never asked of a model: drawn screens, samples with places known on paper, and runs of them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from PIL import Image

from howsure.evidence import Outcome
from howsure.models.images import Picture, inspect_picture
from howsure.runs import Identity, Run, RunWriter, Sample
from howsure.studies.grounding.record import GroundingRecord

DELTA = 140.0


def screen(path: Path, size: tuple[int, int] = (800, 400), colour: tuple[int, int, int] = (250, 250, 250)) -> Picture:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return inspect_picture(path)


def about(
    picture: Picture | None = None,
    target: Sequence[float] | None = (500.0, 500.0),
    kind: str | None = None,
    *,
    user: str | Sequence[str] | None = None,
    instruction: str = "open the menu",
) -> dict[str, Any]:
    """The part of a sample that is known before anybody answers."""
    shown = picture or Picture("/nowhere/screen.png", 800, 400, "0" * 64)
    coords = list(target or ())
    known = kind or {0: "refusal", 2: "point", 4: "box"}.get(len(coords), "polygon")
    xs, ys = coords[0::2], coords[1::2]
    users = [user] if isinstance(user, str) else list(user or ())
    return {
        "instruction": instruction,
        "labels": {"user": users} if users else {},
        "image_path": str(Path(shown.path).absolute()),
        "image_sha256": shown.sha256,
        "image_size": [shown.width, shown.height],
        "target": {"kind": known, "coords": coords},
        "gt_coord": [(min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2] if coords else None,
        "gt_content": "the menu" if coords else None,
    }


def answered(
    name: str, index: int, item: dict[str, Any], click: Sequence[float] | None, says: str | None = None, **more: Any
) -> Sample:
    """A sample whose answer is this click; None is an answer in the wrong format unless `says` tells otherwise."""
    told = says or ("point" if click is not None else "wrong_format")
    centre, kind, coords = item["gt_coord"], item["target"]["kind"], item["target"]["coords"]
    l2 = math.dist(click, centre) if click is not None and centre is not None else None
    within = None if kind == "refusal" else l2 is not None and l2 <= DELTA
    inside = None
    if kind in ("box", "polygon"):
        left, top, right, bottom = min(coords[0::2]), min(coords[1::2]), max(coords[0::2]), max(coords[1::2])
        inside = click is not None and left <= click[0] <= right and top <= click[1] <= bottom
    hit = told == "refusal" if kind == "refusal" else (inside if inside is not None else bool(within))
    result = item | {
        "pred_raw": f"({click[0]}, {click[1]})" if click is not None else "I would rather not",
        "pred_coord": None if click is None else list(click),
        "pred_content": None,
        "says": told,
        "form": "pair" if click is not None else None,
        "why_not": "no_numbers" if told == "wrong_format" else None,
        "finish_reason": "stop",
        "l2": l2,
        "within_delta": within,
        "inside": inside,
        "hit": hit,
        "confidence": {"coordinate_mean": None if click is None else 0.9},
        "confidence_missing": {"coordinate_mean": "no_coordinates"} if click is None else {},
    }
    result |= more
    return Sample(name, index, record(result), outcome=Outcome(correct=result["hit"], distance=l2))


def record(result: dict[str, Any]) -> GroundingRecord:
    return msgspec.convert(result, GroundingRecord)


def as_written(sample: Sample) -> Sample:
    """The same with a plain dictionary, as pages read it and as anybody may have changed it."""
    return msgspec.structs.replace(sample, result=json.loads(msgspec.json.encode(sample.result)))


def failed(name: str, index: int, item: dict[str, Any], detail: str = "the server hung up") -> Sample:
    return Sample(name, index, record(item), reason="no_answer", detail=detail)


def run_of(folder: Path, samples: Sequence[Sample], study: str = "grounding", **options: Any) -> Run:
    asked = {"delta": DELTA, "parser": "strict", "frame": "relative-1000"} | options
    identity = Identity(study, asked, {"name": "on paper"}, {"fingerprint": "0"}, 0)
    with RunWriter(folder, identity, len(samples)) as writer:
        writer.append(samples)
    return Run(folder)
