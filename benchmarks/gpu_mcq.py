"""Multiple choice with an image on an accelerator: `python -m benchmarks.gpu_mcq`.

The network has the shapes of Qwen3-VL-8B and random bf16 weights; a question is an image of about 980 visual tokens, 90
tokens of text and four choices of six tokens. What is compared, on the same questions in one run:

- the four choices of a question in one batch, with transformers alone;
- one forward for each choice, the image encoded each time, as most evaluation scripts do;
- howsure's packed scoring, eager and compiled, on prepared pixels, and from JPEG files as a user has them.

Beside questions a second stands the share of the rate at which this machine multiplies large matrices: the work of the
minimal pass (image once, prefix once, choices once) at that rate is the arithmetic limit.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

GRID = (1, 56, 70)
"""Patches of 16 pixels: an image of 896 × 1120, 28 × 35 = 980 visual tokens."""
QUESTION_TOKENS = 90
CHOICES, CHOICE_TOKENS = 4, 6
SPECIAL = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]


def main() -> None:
    import torch
    import transformers

    options = _options()
    rate = matrix_rate()
    network = build(options.layers)
    questions = make_questions(options.questions, network)
    work = flops(network)
    limit = rate / work["total"]
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {torch.cuda.get_device_name()}")
    print(f"matrix rate {rate / 1e12:.0f} TFLOP/s; {work['total'] / 1e12:.2f} TFLOP a question")
    print(f"arithmetic limit {limit:.1f} questions/s", flush=True)
    results: list[dict[str, Any]] = []
    for name, score, count in contenders(network, options):
        results.append(measure(name, score, questions[:count], limit))
        gap = np.abs(results[-1]["scores"][: options.few] - results[0]["scores"])
        results[-1] |= {"largest gap, nats": float(gap.max()), "mean gap, nats": float(gap.mean())}
        print(json.dumps({key: value for key, value in results[-1].items() if key != "scores"}), flush=True)
    results.append(from_files(network, options, limit))
    print(json.dumps(results[-1]))
    if options.out:
        kept = [{key: value for key, value in one.items() if key != "scores"} for one in results]
        Path(options.out).write_text(
            json.dumps({"rate": rate, "work": work, "limit": limit, "results": kept}, indent=1)
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=128)
    parser.add_argument("--few", type=int, default=16, help="questions for the slow contenders")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--layers", type=int, default=36)
    parser.add_argument("--out", help="a file for the raw figures")
    return parser.parse_args()


def build(layers: int) -> Any:
    """Qwen3-VL-8B's shapes, random weights, on the accelerator."""
    import torch
    from transformers import AutoModelForImageTextToText, Qwen3VLConfig

    text = {
        "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": layers, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "max_position_embeddings": 262144,
        "tie_word_embeddings": False,
        "rope_parameters": {
            "rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True, "rope_theta": 5e6,
        },
    }  # fmt: skip
    vision = {
        "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16, "out_hidden_size": 4096,
        "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2, "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [8, 16, 24],
    }  # fmt: skip
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    special = dict(zip(names, _byte_tokenizer().convert_tokens_to_ids(SPECIAL), strict=True))
    config = Qwen3VLConfig(text_config=text, vision_config=vision, dtype="bfloat16", **special)
    torch.manual_seed(0)
    with torch.device("cuda"):
        network = AutoModelForImageTextToText.from_config(config, dtype=torch.bfloat16)
    return network.eval()


def make_questions(count: int, network: Any) -> list[tuple[Any, dict[str, Any]]]:
    """Encoded items with the pixels that an image processor would give, in ordinary memory."""
    import torch

    from howsure.models.text import Encoded

    rng, config = np.random.default_rng(0), network.config
    patches = int(np.prod(GRID))
    width = 3 * config.vision_config.temporal_patch_size * config.vision_config.patch_size**2
    questions = []
    for _ in range(count):
        visual = (config.image_token_id,) * (patches // 4)
        words = tuple(map(int, rng.integers(1000, 100_000, QUESTION_TOKENS)))
        suffixes = tuple(tuple(map(int, rng.integers(1000, 100_000, CHOICE_TOKENS))) for _ in range(CHOICES))
        item = Encoded((words[0], *visual, *words[1:]), suffixes, (None,) * CHOICES, 0)
        pixels = {
            "pixel_values": torch.from_numpy(rng.standard_normal((patches, width), dtype=np.float32)),
            "image_grid_thw": torch.tensor([GRID]),
        }
        questions.append((item, pixels))
    return questions


def contenders(network: Any, options: argparse.Namespace) -> Iterator[tuple[str, Callable[[Any], Any], int]]:
    """Each with its name and how many questions it gets; the slow ones get few."""
    from howsure.models.contract import Counters
    from howsure.models.hf.packing import Layout
    from howsure.models.hf.pixels import family_of, ready_for
    from howsure.models.hf.scoring import Scorer, Wanted

    yield "choices of a question in one batch", lambda asked: _batched(network, asked), options.few
    layout = Layout.of(family_of("qwen3_vl"), network.config.image_token_id, network.config)
    scorer = Scorer(network, 0, Counters(), layout)
    assert scorer.way == "packed"

    def one_by_one(asked: Any) -> Any:
        return np.stack([scorer.run_plain(item, Wanted(), pixels).logprobs for item, pixels in asked])

    def packed(asked: Any) -> Any:
        found = []
        for start in range(0, len(asked), options.batch):
            items, pixels = zip(*asked[start : start + options.batch], strict=True)
            found += [readout.logprobs for readout in scorer.run(items, Wanted(), pixels)]
        return np.stack(found)

    yield "one forward a choice", one_by_one, options.few
    # As the model's readers prepare them: in the network's precision, in pinned memory.
    prepared: dict[int, Any] = {}

    def ready(asked: Any) -> Any:
        for _, pixels in asked:
            if id(pixels) not in prepared:
                prepared[id(pixels)] = ready_for(pixels, network)
        return packed([(item, prepared[id(pixels)]) for item, pixels in asked])

    yield "howsure", ready, options.questions
    scorer.compile()
    yield "howsure, compiled", ready, options.questions


def _batched(network: Any, asked: Any) -> Any:
    """A question's four choices as four rows, image and prefix run for each, logits where they are read."""
    import torch

    found = []
    for item, pixels in asked:
        rows = torch.tensor([[*item.context, *suffix[:-1]] for suffix in item.suffixes], device="cuda")
        given = {
            "pixel_values": pixels["pixel_values"].repeat(CHOICES, 1).cuda(),
            "image_grid_thw": pixels["image_grid_thw"].repeat(CHOICES, 1).cuda(),
            "mm_token_type_ids": (rows == network.config.image_token_id).int(),
        }
        with torch.inference_mode():
            logits = network(input_ids=rows, use_cache=False, logits_to_keep=CHOICE_TOKENS, **given).logits
            logprobs = torch.log_softmax(logits.float(), dim=-1)
        wanted = torch.tensor(item.suffixes, device="cuda")[..., None]
        found.append(logprobs.gather(-1, wanted).flatten().double().cpu().numpy())
    return np.stack(found)


def from_files(network: Any, options: argparse.Namespace, limit: float) -> dict[str, Any]:
    """The whole way of a user: JPEG files, text, plan, batches by token budget, images prepared a batch ahead."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = _model_around(network, folder)
        items = _items(folder, options.questions)
        plan = model.plan_scores(items)
        assert not plan.refused, plan.refused

        def score(_: Any) -> Any:
            batches = [[items[i] for i in batch.indices] for batch in plan.batches]
            for batch, following in zip_longest(batches, batches[1:]):
                model.prefetch(following or [])
                found = model.try_score(batch)
                assert all(isinstance(one, list) for one in found), found
            return None

        out = measure("howsure, compiled, from JPEG files", score, items, limit)
    out.pop("scores")
    return out


def _model_around(network: Any, folder: Path) -> Any:
    from transformers import Qwen2VLImageProcessor

    from howsure.models.contract import ModelOptions
    from howsure.models.hf.image_text import HFImageTextModel

    _byte_tokenizer().save_pretrained(folder)
    network.config.save_pretrained(folder)
    size = {"shortest_edge": 65536, "longest_edge": 16777216}
    Qwen2VLImageProcessor(patch_size=16, merge_size=2, size=size).save_pretrained(folder)
    model = HFImageTextModel("hf:random", lambda: str(folder), None, ModelOptions(device="cuda"), built_in=False)
    model.__dict__["network"] = network
    return model


def _byte_tokenizer() -> Any:
    """One token a byte, and Qwen's special tokens after them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    fast.add_special_tokens({"additional_special_tokens": SPECIAL})
    return fast


def _items(folder: Path, count: int) -> list[Any]:
    from PIL import Image

    from howsure.models.contract import ScoreItem
    from howsure.models.images import inspect_picture

    rng = np.random.default_rng(1)
    items = []
    for i in range(count):
        small = rng.integers(0, 255, (56, 70, 3), dtype=np.uint8)
        path = folder / f"{i}.jpg"
        Image.fromarray(small).resize((GRID[2] * 16, GRID[1] * 16)).save(path, quality=90)
        choices = tuple(" " + "abcdefgh"[j] * (CHOICE_TOKENS - 1) for j in range(CHOICES))
        items.append(ScoreItem("q" * (QUESTION_TOKENS - 3), choices, inspect_picture(path)))
    return items


def measure(name: str, score: Callable[[Any], Any], questions: Any, limit: float, rounds: int = 3) -> dict[str, Any]:
    import torch

    score(questions[: max(1, len(questions) // 2)])
    torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        began = time.perf_counter()
        scores = score(questions)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    speed = len(questions) / float(np.median(seconds))
    return {
        "contender": name,
        "questions/s": round(speed, 2),
        "share of the matrix rate": round(speed / limit, 3),
        "seconds": [round(s, 3) for s in seconds],
        "peak GiB": round(torch.cuda.max_memory_allocated() / 2**30, 2),
        "scores": scores,
    }


def matrix_rate(size: int = 8192, repeats: int = 30) -> float:
    """Floating-point operations a second of a large bf16 matrix product on random data."""
    import torch

    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(5):
        a @ b
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(repeats):
        a @ b
    torch.cuda.synchronize()
    return 2 * size**3 * repeats / (time.perf_counter() - began)


def flops(network: Any) -> dict[str, float]:
    """Operations of the minimal pass for one question: two for each weight and token, and the attention."""
    text, vision = network.config.text_config, network.config.vision_config
    patches = int(np.prod(GRID))
    suffixes = CHOICES * (CHOICE_TOKENS - 1)
    prefix = patches // 4 + QUESTION_TOKENS
    layers = sum(p.numel() for p in network.model.language_model.layers.parameters())
    blocks = sum(p.numel() for p in network.model.visual.blocks.parameters())
    mergers = sum(p.numel() for m in (network.model.visual.merger, network.model.visual.deepstack_merger_list)
                  for p in m.parameters())  # fmt: skip
    width = text.num_attention_heads * text.head_dim
    seen = prefix**2 / 2 + suffixes * (prefix + CHOICE_TOKENS / 2)
    out = {
        "language": 2 * layers * (prefix + suffixes) + 4 * text.num_hidden_layers * width * seen,
        "vision": 2 * blocks * patches + 2 * mergers * patches / 4 + 4 * vision.depth * vision.hidden_size * patches**2,
        "head": 2 * text.hidden_size * text.vocab_size * (1 + suffixes),
    }
    return out | {"total": sum(out.values())}


if __name__ == "__main__":
    main()
