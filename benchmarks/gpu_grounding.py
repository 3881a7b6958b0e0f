"""GUI clicks on an accelerator: `python -m benchmarks.gpu_grounding`.

The network has the shapes of Qwen3-VL-8B and random bf16 weights; a sample is a 1920 × 1080 screen in a JPEG file, seen
at 1280 × 28 × 28 pixels, some 95 tokens of text, and 60 new tokens, which random weights never end early. What is
compared, on the same files in one run:

- one sample at a time through transformers alone: open, prepare, generate, decode, as evaluation scripts do;
- howsure's `generate`, one at a time and in batches, the next batch's screens prepared meanwhile, with the evidence of
  every token (log-probability, entropy, five alternatives) and without;
- the whole study, from the data's file to the summary: `howsure.grounding`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu_mcq import _byte_tokenizer, build

SCREEN = (1920, 1080)
MAX_PIXELS = 1280 * 28 * 28
NEW_TOKENS = 60
PROMPT = "Point at the {instruction}: give the relative (0-1000) coordinates as (x, y), and nothing else."
ROUNDS = 3


def main() -> None:
    import torch
    import transformers

    options = _options()
    network = build(options.layers)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {torch.cuda.get_device_name()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = model_around(network, folder / "model")
        data = write_data(folder, options.screens)
        asked = conversations(data, folder)
        few = asked[: options.few]
        results: list[dict[str, Any]] = []
        for title, work, items in contenders(network, model, folder, asked, few, options):
            results.append(measure(title, work, items, results))
            print(json.dumps({key: value for key, value in results[-1].items() if key != "ids"}), flush=True)
        results.append(whole_study(model, data, folder, options))
        print(json.dumps(results[-1]))
    if options.out:
        kept = [{key: value for key, value in one.items() if key != "ids"} for one in results]
        Path(options.out).write_text(json.dumps(kept, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--screens", type=int, default=128)
    parser.add_argument("--few", type=int, default=12, help="screens for the slow contenders")
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 32, 64])
    parser.add_argument("--layers", type=int, default=36)
    parser.add_argument("--out", help="a file for the raw figures")
    return parser.parse_args()


def model_around(network: Any, folder: Path) -> Any:
    """howsure's model, with this network in place of one that is loaded from a file."""
    from transformers import Qwen2VLImageProcessor

    from howsure.models.contract import ModelOptions
    from howsure.models.hf.image_text import HFImageTextModel

    folder.mkdir()
    _byte_tokenizer().save_pretrained(folder)
    network.config.save_pretrained(folder)
    size = {"shortest_edge": 65536, "longest_edge": 16777216}
    Qwen2VLImageProcessor(patch_size=16, merge_size=2, size=size).save_pretrained(folder)
    options = ModelOptions(device="cuda", max_pixels=MAX_PIXELS, token_budget=32768)
    model = HFImageTextModel("hf:random", lambda: str(folder), None, options, built_in=False)
    model.fingerprint = lambda: {"device": "cuda"}  # type: ignore[method-assign]  # there are no weights on the disk
    model.__dict__["network"] = network
    return model


def write_data(folder: Path, count: int) -> Path:
    """Screens, no two alike, and the file that asks about them."""
    from PIL import Image

    rng = np.random.default_rng(1)
    lines = []
    for i in range(count):
        small = rng.integers(0, 255, (54, 96, 3), dtype=np.uint8)
        Image.fromarray(small).resize(SCREEN).save(folder / f"{i}.jpg", quality=90)
        target = {"kind": "point", "coords": [500.0, 500.0]}
        lines.append({"id": str(i), "image": f"{i}.jpg", "instruction": f"blue plus button {i}", "target": target})
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return data


def conversations(data: Path, folder: Path) -> list[Any]:
    from howsure.models.contract import Message
    from howsure.models.images import inspect_picture

    rows = [json.loads(line) for line in data.read_text().splitlines()]
    return [
        (Message("user", PROMPT.format(instruction=row["instruction"]), (inspect_picture(folder / row["image"]),)),)
        for row in rows
    ]


def contenders(
    network: Any, model: Any, folder: Path, asked: list[Any], few: list[Any], options: argparse.Namespace
) -> list[tuple[str, Callable[[Any], list[str]], list[Any]]]:
    plain = one_at_a_time(network, model, folder / "model")
    rows: list[tuple[str, Callable[[Any], list[str]], list[Any]]] = [("one at a time, transformers alone", plain, few)]
    rows.append(("howsure, batches of 1", batched(model, 1, evidence=True), few))
    for size in options.batches:
        rows.append((f"howsure, batches of {size}", batched(model, size, evidence=True), asked))
    most = max(options.batches)
    rows.append((f"howsure, batches of {most}, no evidence", batched(model, most, evidence=False), asked))
    return rows


def one_at_a_time(network: Any, model: Any, folder: Path) -> Callable[[Any], list[str]]:
    """The usual loop: every sample opened, prepared, generated and decoded by itself."""
    import torch
    from PIL import Image
    from transformers import AutoTokenizer, Qwen2VLImageProcessor

    tokenizer = AutoTokenizer.from_pretrained(folder)
    size = {"shortest_edge": 65536, "longest_edge": MAX_PIXELS}
    processor = Qwen2VLImageProcessor.from_pretrained(folder, size=size)
    token = network.config.image_token_id

    def answer(conversation: Any) -> str:
        (message,) = conversation
        pixels = processor(images=[Image.open(message.images[0].path).convert("RGB")], return_tensors="pt")
        visual = int(pixels["image_grid_thw"].prod()) // 4
        ids = torch.tensor([[*([token] * visual), *tokenizer(message.content)["input_ids"]]], device="cuda")
        with torch.inference_mode():
            output = network.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                mm_token_type_ids=(ids == token).int(),
                max_new_tokens=NEW_TOKENS,
                do_sample=False,
                **{name: value.cuda() for name, value in pixels.items()},
            )
        return str(tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True))

    return lambda asked: [answer(one) for one in asked]


def batched(model: Any, size: int, *, evidence: bool) -> Callable[[Any], list[str]]:
    from howsure.models.contract import ScoreItem

    def answer(asked: Sequence[Any]) -> list[str]:
        batches = [asked[start : start + size] for start in range(0, len(asked), size)]
        found = []
        for batch, following in zip_longest(batches, batches[1:]):
            model.prefetch([ScoreItem(one, ()) for one in following or []])
            answers = model.generate(batch, max_tokens=NEW_TOKENS, top_logprobs=5 if evidence else None)
            assert all(one.failure is None for one in answers), [one.failure for one in answers]
            found += [one.text for one in answers]
        return found

    return answer


def measure(title: str, work: Callable[[Any], list[str]], asked: list[Any], before: list[Any]) -> dict[str, Any]:
    import torch

    work(asked[: max(1, len(asked) // 4)])
    torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        texts = work(asked)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    speed = len(asked) / float(np.median(seconds))
    out = {"contender": title, "samples/s": round(speed, 3), "seconds": [round(s, 2) for s in seconds], "ids": texts}
    out["peak GiB"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    if before:
        out["times as fast"] = round(speed / before[0]["samples/s"], 2)
        pairs = list(zip(before[0]["ids"], texts, strict=False))
        out["same first character"] = f"{sum(a[:1] == b[:1] for a, b in pairs)} of {len(pairs)}"
    return out


def whole_study(model: Any, data: Path, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """From the file to the summary; images are inspected, samples written, exports made, figures judged."""
    from howsure.studies.grounding.study import grounding

    began = time.perf_counter()
    found = grounding(
        data, model, out=folder / "run", prompt=PROMPT, max_new_tokens=NEW_TOKENS, batch_size=max(options.batches)
    )
    seconds = time.perf_counter() - began
    return {
        "contender": "howsure, the whole study",
        "samples/s": round(len(found.samples) / seconds, 3),
        "seconds": [round(seconds, 2)],
        "coverage": found.summary["coverage"]["text"],
    }


if __name__ == "__main__":
    main()
