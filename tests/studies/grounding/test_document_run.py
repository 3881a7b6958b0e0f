"""The run that people come with: pickles per user, a Qwen3-VL, click accuracy; stopped, taken up, and unbatched."""

from __future__ import annotations

import json
import math
import pickle
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import howsure
from howsure.runs import NoProgress, Run, Sample
from howsure.studies.grounding.answers import parse
from howsure.studies.grounding.study import grounding

from .tiny_clicker import Lesson, answer_text, screens, train_clicker

PROMPT = """Given a GUI image, what are the relative (0-1000) pixel point coordinates \
for the element corresponding to the following instruction: {}

Think step-by-step, provide referring for the element first and then the grounded point coordinates.

### Output (Example)
```referring
"left arrow"
```
```grounding
(100, 200)
```
"""
USERS = {1: 4, 2: 3, 10: 2}
LEARNED = 5
NEW_TOKENS = 56

pytestmark = pytest.mark.long


def message(role: str, *parts: dict[str, str]) -> dict[str, Any]:
    return {"role": role, "content": list(parts)}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder of user_<id>.pkl files with their screens, and the name of a model that has learned some of them."""
    folder = tmp_path_factory.mktemp("clicks")
    data = folder / "dataset_pkl"
    images = screens(data / "shots", sum(USERS.values()))
    lessons = [
        Lesson(image, PROMPT.format(f"open item {i}"), answer_text(f"item {i}", 100 + 90 * i, 900 - 70 * i))
        for i, image in enumerate(images)
    ]
    rest = iter(lessons)
    for user, count in USERS.items():
        samples = [
            [
                message(
                    "system",
                    {"type": "image", "image": f"shots/{lesson.image.name}"},
                    {"type": "text", "text": lesson.prompt},
                ),
                message("assistant", {"type": "text", "text": lesson.answer.replace("(", "[").replace(")", "]")}),
            ]
            for lesson in (next(rest) for _ in range(count))
        ]
        (data / f"user_{user}.pkl").write_bytes(pickle.dumps(samples))
    return data, f"hf:{train_clicker(folder / 'model', lessons[:LEARNED])}"


class StopsAfter(NoProgress):
    """Ctrl-C once so many samples are on the disk."""

    def __init__(self, samples: int) -> None:
        self.left = samples

    def advance(self, samples: Sequence[Sample]) -> None:
        self.left -= len(samples)
        if self.left <= 0:
            raise KeyboardInterrupt


OPTIONS: dict[str, Any] = {"max_new_tokens": NEW_TOKENS, "samples": 2, "device": "cpu"}


@pytest.fixture(scope="module")
def undisturbed(study: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    data, model = study
    return grounding(data, model, out=tmp_path_factory.mktemp("runs") / "whole", **OPTIONS).run


def files_of(run: Path) -> dict[str, bytes]:
    """Everything that a run leaves, but for times and the order in which samples came."""
    timed = ("run.json", "report.html", ".lock")
    names = sorted(path for path in run.rglob("*") if path.is_file() and path.name not in timed)
    return {
        str(path.relative_to(run)): b"".join(sorted(path.read_bytes().splitlines(True)))
        if path.name == "samples.jsonl"
        else path.read_bytes()
        for path in names
    }


def test_the_answers_are_those_of_a_plain_loop(study: tuple[Path, str], undisturbed: Run) -> None:
    """transformers alone, one sample at a time, and every figure computed here."""
    data, model = study
    expected = [row for user in USERS for row in plain_loop(data, user, model)]
    records = undisturbed.records()
    assert [record.result["pred_raw"] for record in records] == [row["raw"] for row in expected]
    readable = 0
    for record, row in zip(records, expected, strict=True):
        assert record.result["pred_coord"] == row["point"]
        assert record.result["gt_coord"] == row["target"]
        readable += row["point"] is not None
        distance = None if row["point"] is None else math.dist(row["point"], row["target"])
        assert record.result["l2"] == (None if distance is None else pytest.approx(distance, rel=1e-12))
    assert readable >= LEARNED, "the model was to learn its lessons"
    distances = [record.result["l2"] for record in records if record.result["l2"] is not None]
    summary = undisturbed.summary
    assert summary is not None
    assert summary["accuracy"] == pytest.approx(sum(d <= 140 for d in distances) / len(records))
    assert summary["mean_l2"] == pytest.approx(statistics.fmean(distances))
    assert summary["median_l2"] == pytest.approx(statistics.median(distances))
    assert summary["wrong_format_count"] == len(records) - readable


def plain_loop(data: Path, user: int, model: str) -> list[dict[str, Any]]:
    import torch
    from PIL import Image
    from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer

    folder = next(Path(model.removeprefix("hf:")).glob("checkpoint-*"))
    network = AutoModelForImageTextToText.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    processor = AutoImageProcessor.from_pretrained(
        folder, size={"shortest_edge": 4 * 16**2, "longest_edge": 1280 * 28 * 28}
    )
    rows = []
    for asked, answered in pickle.loads((data / f"user_{user}.pkl").read_bytes()):
        image, text = asked["content"]
        pixels = processor(images=[Image.open(data / image["image"])], return_tensors="pt")
        prompt = tokenizer.apply_chat_template([{**asked, "role": "user"}], tokenize=False, add_generation_prompt=True)
        visual = int(pixels["image_grid_thw"].prod()) // 4
        prompt = prompt.replace("<|image_pad|>", "<|image_pad|>" * visual)
        ids = torch.tensor([tokenizer(prompt, add_special_tokens=False)["input_ids"]])
        types = (ids == network.config.image_token_id).long()
        with torch.inference_mode():
            output = network.generate(
                input_ids=ids, mm_token_type_ids=types, max_new_tokens=NEW_TOKENS, do_sample=False, **pixels
            )
        raw = tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True)
        cut = output.shape[1] - ids.shape[1] == NEW_TOKENS
        found, right = parse.read_answer(raw, cut_short=cut), parse.read_answer(answered["content"][0]["text"])
        point = None if found.x is None else [found.x, found.y]
        rows.append({"raw": raw, "point": point, "target": [right.x, right.y], "text": text["text"]})
    return rows


@pytest.mark.parametrize("after", [1, 5])
def test_a_run_that_was_stopped_ends_as_an_undisturbed_one(
    study: tuple[Path, str], undisturbed: Run, tmp_path: Path, after: int
) -> None:
    data, model = study
    out = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        grounding(data, model, out=out, progress=StopsAfter(after), **OPTIONS)
    assert Run(out).manifest.status == "interrupted"
    written = [json.loads(path.read_text()) for path in sorted(out.glob("user_*/out.json"))]
    assert sum(map(len, written)) == len(Run(out).records()) < sum(USERS.values())
    # A power cut may come between a sample and its export, and in the middle of either.
    (out / "user_1" / "out.json").write_bytes((out / "user_1" / "out.json").read_bytes()[:-40])
    with (out / "samples.jsonl").open("ab") as file:
        file.write(b'{"id": "user_2-0", "ind')
    again = grounding(data, model, out=out, **OPTIONS)
    assert again.run.status == "finished"
    assert files_of(out) == files_of(undisturbed.path)


def test_what_a_user_finds_in_the_folder(undisturbed: Run) -> None:
    for user, count in USERS.items():
        rows = json.loads((undisturbed.path / f"user_{user}" / "out.json").read_text())
        assert len(rows) == count
        assert all({"pred_raw", "pred_coord", "gt_coord", "pred_content", "gt_content"} <= set(row) for row in rows)
        text = (undisturbed.path / f"user_{user}" / "results.txt").read_text()
        assert all(word in text for word in ("accuracy", "mean_l2", "median_l2"))
    first = json.loads((undisturbed.path / "user_1" / "out.json").read_text())[0]
    assert first["pred_content"] == first["gt_content"] == "item 0"
    assert first["gt_coord"] == first["pred_coord"] == [100.0, 900.0]


def test_it_is_surer_of_what_it_has_learned(undisturbed: Run) -> None:
    """Greedy answers have the probabilities of their coordinates, and drawn ones say how far they spread."""
    learned = [record.result for record in undisturbed.records()][:LEARNED]
    assert all(result["confidence"]["coordinate_min"] > 0.5 for result in learned if result["hit"])
    summary = undisturbed.summary
    assert summary is not None
    assert {"coordinate_mean", "coordinate_min", "agreement"} <= set(summary["knows"])
    for result in learned:
        assert result["samples"]["asked"] == 2
        assert result["confidence"]["coordinate_joint"] <= result["confidence"]["coordinate_min"]
        assert result["confidence"]["coordinate_min"] <= result["confidence"]["coordinate_mean"]


def test_the_manifest_says_how_it_was_asked(undisturbed: Run) -> None:
    identity = undisturbed.manifest.identity
    assert identity.options["frame"] == "relative-1000"
    assert identity.options["frame_because"] == "what the prompts of the data ask for"
    assert identity.options["parser"] == "strict"
    assert identity.model["max_pixels"] == 1280 * 28 * 28


def test_only_the_users_that_were_asked_for(study: tuple[Path, str], tmp_path: Path) -> None:
    data, model = study
    found = howsure.grounding(data, model, users="2,10", out=tmp_path / "run", max_new_tokens=NEW_TOKENS, device="cpu")
    assert [sample.id for sample in found.samples] == ["user_2-0", "user_2-1", "user_2-2", "user_10-0", "user_10-1"]
    assert sorted(path.name for path in (tmp_path / "run").glob("user_*")) == ["user_10", "user_2"]
