"""A tiny Qwen3-VL that has learned to write clicks: random weights, then a few seconds of training in the test.

Its answers have the document's form and depend on the picture and the instruction, so that a run has points, hits and
misses to be judged. It is saved as a trainer would leave it: in a folder `checkpoint-<steps>`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from howsure.models.contract import Message, ModelOptions
from howsure.models.hf.files import ModelFiles
from howsure.models.hf.image_text import HFImageTextModel
from howsure.models.images import inspect_picture
from tiny_vision import build_vision, picture

STEPS = 90


class Lesson(NamedTuple):
    image: Path
    prompt: str
    answer: str


def screens(folder: Path, count: int) -> list[Path]:
    """Pictures of different sizes."""
    folder.mkdir(parents=True, exist_ok=True)
    return [picture(folder / f"screen_{i}.png", 96 + 16 * (i % 3), 64 + 16 * (i % 2), seed=i) for i in range(count)]


def answer_text(name: str, x: int, y: int) -> str:
    return f"```referring\n{name}\n```\n```grounding\n({x}, {y})\n```"


def train_clicker(folder: Path, lessons: Sequence[Lesson], steps: int = STEPS) -> Path:
    """A folder with one `checkpoint-*` in it that answers most lessons as they were given."""
    import torch
    from transformers import AutoModelForImageTextToText

    start = build_vision("qwen3_vl", folder / "start")
    model = HFImageTextModel(
        "hf:start", lambda: ModelFiles(str(start)), None, ModelOptions(device="cpu"), built_in=False
    )
    network = AutoModelForImageTextToText.from_pretrained(start)
    rows = []
    for lesson in lessons:
        asked = model._question_of([Message("user", lesson.prompt, (inspect_picture(lesson.image),))])
        pixels = model.image_input.pixels(asked.images[0])
        rows.append((list(asked.ids), [*model.encoder.tokenizer(lesson.answer)["input_ids"], 0], pixels))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        optimiser = torch.optim.AdamW(network.parameters(), lr=4e-3, weight_decay=0.0)
        longest = max(len(asked) + len(answer) for asked, answer, _ in rows)
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        labels = torch.full_like(ids, -100)
        seen = torch.zeros_like(ids)
        for row, (asked, answer, _) in enumerate(rows):
            whole = torch.tensor([*asked, *answer])
            ids[row, : len(whole)], seen[row, : len(whole)] = whole, 1
            labels[row, len(asked) : len(whole)] = torch.tensor(answer)
        pixels = {name: torch.cat([one[name] for *_, one in rows]) for name in rows[0][2]}
        for _ in range(steps):
            out = network(
                input_ids=ids,
                attention_mask=seen,
                labels=labels,
                mm_token_type_ids=(ids == network.config.image_token_id).long(),
                **pixels,
            )
            optimiser.zero_grad()
            out.loss.backward()
            optimiser.step()
    checkpoint = folder / f"checkpoint-{steps}"
    network.save_pretrained(checkpoint)
    for name in start.iterdir():
        if not (checkpoint / name.name).exists():
            shutil.copy(name, checkpoint / name.name)
    shutil.rmtree(start)
    return folder
