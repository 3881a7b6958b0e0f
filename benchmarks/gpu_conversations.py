"""Whole conversations on an accelerator: `python -m benchmarks.gpu_conversations`.

The network has the shapes of Qwen3-1.7B and random bf16 weights; the conversations are made of random words: 30
messages of 40 words. What is compared, on the same conversations in one run:

- a pass for each message over all that came before it, with the whole table of logits, which is what scripts do;
- howsure's `read_conversations`: once through, several conversations at a time, eager and compiled.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu_reading import build, make_text, measure

MESSAGES, WORDS = 30, 40
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


def main() -> None:
    import torch
    import transformers

    import howsure

    options = _options()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {torch.cuda.get_device_name()}")
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        _add_template(folder)
        few, many = make_talks(options.few), make_talks(options.many)
        plain = howsure.load(f"hf:{folder}", device="cuda")
        usual = measure("a pass for each message", lambda: one_by_one(plain, few), rounds=1)
        ours = measure("howsure, the same conversations", lambda: read(plain, few))
        measure("howsure, more conversations", lambda: read(plain, many))
        print(f"mean gap {np.abs(ours - usual).mean():.4f} nats, largest {np.abs(ours - usual).max():.3f}")
        compiled = howsure.load(f"hf:{folder}", device="cuda", compile=True)
        measure("howsure --compile, more conversations", lambda: read(compiled, many))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--few", type=int, default=4, help="conversations for both")
    parser.add_argument("--many", type=int, default=100, help="conversations for howsure alone")
    return parser.parse_args()


def _add_template(folder: str) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)


def make_talks(count: int) -> list[list[Any]]:
    from howsure.models.contract import Message

    words = make_text(200_000).split()
    draw = random.Random(1)

    def message(i: int) -> Any:
        begin = draw.randrange(len(words) - WORDS)
        return Message("user" if i % 2 else "assistant", " ".join(words[begin : begin + WORDS]))

    return [[message(i) for i in range(MESSAGES)] for _ in range(count)]


def read(model: Any, talks: list[list[Any]]) -> np.ndarray:
    from howsure.models.contract import Rolling

    found = model.read_conversations(talks, model.rolling(Rolling()))
    return np.concatenate([one.logprobs for talk in found for one in talk])


def one_by_one(model: Any, talks: list[list[Any]]) -> np.ndarray:
    return np.concatenate([_last(model, talk[: i + 1]) for talk in talks for i in range(len(talk))])


def _last(model: Any, talk: list[Any]) -> np.ndarray:
    import torch

    tokenizer = model.encoder.tokenizer
    messages = [{"role": message.role, "content": message.content} for message in talk]
    text = tokenizer.apply_chat_template(messages, tokenize=False)
    begin = text.rindex(talk[-1].content)
    end = begin + len(talk[-1].content)
    found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    places = [i for i, (start, stop) in enumerate(found["offset_mapping"]) if start < end and stop > begin]
    ids = torch.tensor([found["input_ids"]], device="cuda")
    with torch.inference_mode():
        logits = model.network(input_ids=ids).logits[0, places[0] - 1 : places[-1]].float()
    return torch.log_softmax(logits, dim=-1).gather(1, ids[0, places][:, None])[:, 0].cpu().numpy()


if __name__ == "__main__":
    main()
