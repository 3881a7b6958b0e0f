"""A long text in overlapping windows on an accelerator: `python -m benchmarks.gpu_reading`.

The network has the shapes of Qwen3-1.7B and random bf16 weights; the text is made of random words. What is compared, on
the same text in one run:

- the usual sliding-window loop: one window after the other, the whole table of logits, softmax in float32;
- howsure's `passages` and `read`, from text to log-probabilities, eager and compiled.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

WINDOW, STRIDE = 2048, 1024
SHAPE = {
    "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "max_position_embeddings": 40960,
    "tie_word_embeddings": True, "rope_theta": 1e6,
}  # fmt: skip


def main() -> None:
    import torch
    import transformers

    import howsure

    options = _options()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {torch.cuda.get_device_name()}")
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        text, few = make_text(options.words), make_text(options.few_words)
        plain = howsure.load(f"hf:{folder}", device="cuda")
        usual = measure("the usual loop", lambda: usual_loop(plain, few))
        ours = measure("howsure, the same text", lambda: read(plain, few))
        measure("howsure, the long text", lambda: read(plain, text))
        print(f"mean gap {np.abs(ours - usual).mean():.4f} nats, largest {np.abs(ours - usual).max():.3f}")
        compiled = howsure.load(f"hf:{folder}", device="cuda", compile=True)
        measure("howsure --compile, the long text", lambda: read(compiled, text))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, default=150_000)
    parser.add_argument("--few-words", type=int, default=30_000, help="for the usual loop")
    return parser.parse_args()


def build(folder: Path) -> None:
    """A checkpoint as any other, with a small byte-level tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, Qwen3Config

    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from tiny import byte_level_tokenizer

    torch.manual_seed(0)
    with torch.device("cuda"):
        network = AutoModelForCausalLM.from_config(Qwen3Config(**SHAPE, dtype="bfloat16"), dtype=torch.bfloat16)
    network.save_pretrained(folder)
    byte_level_tokenizer().save_pretrained(folder)


def make_text(words: int) -> str:
    draw = random.Random(0)
    known = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "answer", "is", "four", "not"]
    return " ".join(draw.choice(known) for _ in range(words)) + "\n"


def measure(name: str, work: Any, rounds: int = 3) -> np.ndarray:
    """Tokens a second: once to warm up, then the median of some rounds."""
    import torch

    found, seconds = work(), []
    torch.cuda.reset_peak_memory_stats()
    for _ in range(rounds):
        torch.cuda.synchronize()
        began = time.perf_counter()
        found = work()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    rates = sorted(len(found) / s for s in seconds)
    peak = torch.cuda.max_memory_allocated() / 2**30
    print(
        f"{name}: {rates[len(rates) // 2]:,.0f} tokens/s ({rates[0]:,.0f} to {rates[-1]:,.0f}), {len(found):,} tokens, "
        f"peak {peak:.1f} GiB",
        flush=True,
    )
    return np.asarray(found)


def read(model: Any, text: str) -> np.ndarray:
    """As `howsure perplexity` does it: some passages at a time."""
    from howsure.models.contract import Rolling
    from howsure.studies.perplexity.study import TOKENS_AT_ONCE

    held, tokens, found = [], 0, []
    for passage in model.passages([text], model.rolling(Rolling(WINDOW, STRIDE))):
        held.append(passage)
        tokens += passage.tokens_run
        if tokens >= TOKENS_AT_ONCE:
            found += [one.logprobs for one in model.read(held)]
            held, tokens = [], 0
    found += [one.logprobs for one in model.read(held)] if held else []
    return np.concatenate(found)


def usual_loop(model: Any, text: str) -> np.ndarray:
    import torch

    ids = [model.encoder.start_token, *model.encoder.tokenizer(text)["input_ids"]]
    found, last_end = [], 1
    for begin in range(0, len(ids), STRIDE):
        end = min(begin + WINDOW, len(ids))
        window = torch.tensor([ids[begin:end]], device="cuda")
        new = end - last_end
        with torch.inference_mode():
            logprobs = torch.log_softmax(model.network(input_ids=window).logits[0, -new - 1 : -1].float(), dim=-1)
        found.append(logprobs.gather(1, window[0, -new:, None])[:, 0].cpu().numpy())
        last_end = end
        if end == len(ids):
            break
    return np.concatenate(found)


if __name__ == "__main__":
    main()
