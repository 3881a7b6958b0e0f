"""`score` against a plain forward of each continuation by itself, and the tokens it takes."""

from __future__ import annotations

import copy
import random
from pathlib import Path

import numpy as np
import pytest

import howsure
from howsure.errors import InputError
from howsure.models.contract import Failure, ScoreItem
from howsure.models.hf import scoring
from sizes import several
from tiny import build_tiny

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def double(smollm2):
    """SmolLM2 in double precision: in float32 a plain forward is itself off by up to 9e-5 on these cases."""
    return copy.deepcopy(smollm2.network).double()


def reference(model, prefix: str, continuation: str, shared: int, network=None) -> list[float]:
    """One continuation, one forward, the whole table of logits; written without any of the code under test."""
    import torch

    ids = model.encoder.tokenizer(prefix + continuation)["input_ids"]
    if shared == 0:
        ids, shared = [model.encoder.start_token, *ids], 1
    with torch.inference_mode():
        logits = (network or model.network)(torch.tensor([ids])).logits[0].double()
    logprobs = torch.log_softmax(logits, dim=-1)
    return [float(logprobs[i - 1, ids[i]]) for i in range(shared, len(ids))]


def check(model, network, items: list[tuple[str, list[str]]]) -> None:
    before_tokens, before_rows = model.counters.tokens_run, model.counters.head_rows_run
    found = model.score(items)
    tokens, rows = 0, 0
    for (prefix, continuations), scored in zip(items, found, strict=True):
        encoded = model.encoder.encode(prefix, continuations)
        shared = 0 if encoded.context == (model.encoder.start_token,) and not prefix else len(encoded.context)
        for continuation, evidence in zip(continuations, scored, strict=True):
            expected = reference(model, prefix, continuation, shared, network)
            assert np.abs(evidence.logprobs - expected).max() < TOLERANCE
        lengths = [len(evidence) for evidence in scored]
        tokens += len(encoded.context) + sum(n - 1 for n in lengths)
        rows += 1 + sum(n - 1 for n in lengths)
    assert model.counters.tokens_run - before_tokens == tokens, "P + Σ(c − 1) for each item, and not a token more"
    assert model.counters.head_rows_run - before_rows == rows, "1 + Σ(c − 1) rows of the head for each item"


LONG = " ".join(["The old lighthouse keeper counted ships until the fog came in from the north,"] * 3)

CASES = {
    "single tokens": ("The capital of France is", [" Paris", " Rome", " Berlin", " Madrid"]),
    "shared first tokens": ("He said", [" that it was", " that it is", " that", " that it was not so"]),
    "non-ASCII": ("Die Hauptstadt von Österreich heißt", [" Wien", " 維也納 🤖", " Zürich", " Ελλάδα"]),
    "empty context": ("", ["Paris is a city.", "Zebra", "1989"]),
    "straddling": ("The answer is ", ["four", "4", "not known"]),
    "long and short": ("Once upon a time", [" the", f" {LONG}"]),
    "one continuation": ("Two plus two is", [" four"]),
    "digits": ("The wall came down in", [" 1989", " 1961", " 19"]),
}


@pytest.mark.real_model
@pytest.mark.parametrize("case", CASES)
def test_smollm2_agrees_with_a_plain_forward(smollm2, double, case: str) -> None:
    prefix, continuations = CASES[case]
    check(smollm2, double, [(prefix, continuations)])


@pytest.mark.real_model
def test_smollm2_agrees_in_mixed_batches_of_1_to_40_tokens(smollm2, double) -> None:
    rng = random.Random(7)
    words = LONG.split()
    items = []
    for number in range(several(3, 10)):
        prefix = " ".join(rng.choices(words, k=rng.randint(1, 30)))
        counts = rng.choices(range(1, 36), k=3) if number else [1, 12, 35]
        items.append((prefix, [" " + " ".join(rng.choices(words, k=k)) for k in counts]))
    lengths = [len(s) for p, c in items for s in smollm2.encoder.encode(p, c).suffixes]
    assert min(lengths) <= 3
    assert max(lengths) >= 35
    check(smollm2, double, items)


@pytest.mark.real_model
def test_a_long_text_never_has_its_whole_table_in_memory(smollm2, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in small slices of the head, with entropies and alternatives, and compared with the table."""
    import torch

    text = LONG * 2
    whole = smollm2.score([("", [text])], top_logprobs=3, entropies=True)[0][0]
    monkeypatch.setattr(scoring, "HEAD_ROWS", 7)
    sliced = smollm2.score([("", [text])], top_logprobs=3, entropies=True)[0][0]
    assert np.allclose(whole.logprobs, sliced.logprobs, atol=1e-5)
    assert np.allclose(whole.entropies_nats, sliced.entropies_nats, atol=1e-4)
    ids = [smollm2.encoder.start_token, *smollm2.encoder.tokenizer(text)["input_ids"]]
    with torch.inference_mode():
        logprobs = torch.log_softmax(smollm2.network(torch.tensor([ids])).logits[0, :-1].double(), dim=-1)
    entropies = -(logprobs.exp() * logprobs).sum(-1).numpy()
    assert np.allclose(whole.entropies_nats, entropies, atol=1e-4)
    best = logprobs.max(-1).values.numpy()
    assert whole.top is not None
    assert np.allclose([whole.top.row(i)[0][1] for i in range(len(whole))], best, atol=1e-4)


def test_answers_do_not_depend_on_company(tiny_folder: Path) -> None:
    """A packed neighbour, padding and order change nothing beyond rounding."""
    model = howsure.load(f"hf:{tiny_folder}")
    item = ("the sky is", [" blue", " not blue", "", " 数字"])
    others = [("what", [" is"]), ("the quick brown fox jumps over", [" the lazy dog and the answer"])]
    alone = model.score([item])[0]
    together = model.score([others[0], item, others[1]])[1]
    for a, b in zip(alone, together, strict=True):
        assert np.allclose(a.logprobs, b.logprobs, atol=1e-5)
    assert len(alone[2]) == 0


def test_a_network_that_cannot_be_packed_is_run_plainly(tmp_path: Path) -> None:
    """ALiBi builds its positions from a padding mask, so packing would be wrong; the trial at load finds out."""
    import torch
    from transformers import BloomConfig, BloomForCausalLM

    from tiny import byte_level_tokenizer

    tokenizer = byte_level_tokenizer()
    torch.manual_seed(0)
    config = BloomConfig(vocab_size=len(tokenizer), hidden_size=32, n_layer=2, n_head=4, initializer_range=0.3)
    BloomForCausalLM(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    said: list[str] = []
    model = howsure.load(f"hf:{tmp_path}", announce=said.append)
    assert model.scorer.way == "plain"
    assert "each choice is run by itself" in said[-1]
    scored = model.score([("the sky", [" is blue", " the"])])[0]
    for continuation, evidence in zip([" is blue", " the"], scored, strict=True):
        shared = len(model.encoder.encode("the sky", [" is blue", " the"]).context)
        expected = reference(model, "the sky", continuation, shared)
        assert np.allclose(evidence.logprobs, expected, atol=TOLERANCE)


@pytest.mark.parametrize("family", ["gemma2", "cohere", "granite", "qwen3", "mistral", "gpt2", "gpt_neox"])
def test_families_agree_with_their_own_forward(tmp_path: Path, family: str) -> None:
    """Soft caps, logit scales, sliding windows: packed or plain, the numbers are the network's own."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from tiny import byte_level_tokenizer

    tokenizer = byte_level_tokenizer()
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "head_dim": 8,
    }
    sizes |= {"num_key_value_heads": 2, "vocab_size": len(tokenizer), "initializer_range": 0.3, "sliding_window": 8}
    sizes |= {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    if family == "gpt2":
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": len(tokenizer), "initializer_range": 0.3}
    torch.manual_seed(0)
    network = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes))
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = howsure.load(f"hf:{tmp_path}")
    items = [
        ("the quick", [" brown", " fox jumps"]),
        ("the answer is four, not five. the sky is", [" blue", " the dog"]),
    ]
    for (prefix, continuations), scored in zip(items, model.score(items), strict=True):
        shared = len(model.encoder.encode(prefix, continuations).context)
        for continuation, evidence in zip(continuations, scored, strict=True):
            assert np.allclose(evidence.logprobs, reference(model, prefix, continuation, shared), atol=TOLERANCE)


def test_too_long_is_refused_by_plan_and_score_alike(tiny_folder: Path) -> None:
    model = howsure.load(f"hf:{tiny_folder}", lazy=True)
    items = [ScoreItem("the sky", (" is",)), ScoreItem("x " * 300, (" is",)), ScoreItem("a\ud800", (" is",))]
    plan = model.plan_scores(items)
    assert [plan.refused[i].reason for i in sorted(plan.refused)] == ["too_long", "unreadable_text"]
    assert [batch.indices for batch in plan.batches] == [(0,)]
    found = model.try_score(items)
    assert isinstance(found[1], Failure)
    assert "context of 256" in found[1].detail
    with pytest.raises(InputError, match="item 0 cannot be scored"):
        model.score([("x " * 300, [" is"])])


def test_nan_from_a_network_is_a_failed_item_not_a_number(tiny_folder: Path) -> None:
    import torch

    model = howsure.load(f"hf:{tiny_folder}")
    with torch.no_grad():
        model.network.lm_head.weight[5] = float("nan")
    found = model.try_score([ScoreItem("the sky", (" is",))])[0]
    assert isinstance(found, Failure)
    assert found.reason == "bad_logprobs"
    assert "NaN at token 0" in found.detail


def test_out_of_memory_halves_the_batch_and_changes_nothing(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = howsure.load(f"hf:{tiny_folder}")
    items = [ScoreItem("the sky is", (f" {word}", " the")) for word in ("blue", "lazy", "quick", "brown", "dog")]
    expected = model.try_score(items)
    whole = scoring.Scorer.run_packed

    def cramped(self, items, wanted, pixels):
        if len(items) > 2:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return whole(self, items, wanted, pixels)

    monkeypatch.setattr(scoring.Scorer, "run_packed", cramped)
    found = model.try_score(items)
    for a, b in zip(expected, found, strict=True):
        assert all(np.allclose(x.logprobs, y.logprobs, atol=1e-5) for x, y in zip(a, b, strict=True))


def test_an_item_that_fits_no_memory_fails_by_name(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = howsure.load(f"hf:{tiny_folder}")

    def none_left(self, items, wanted, pixels):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    monkeypatch.setattr(scoring.Scorer, "run_packed", none_left)
    found = model.try_score([ScoreItem("the sky", (" is",)), ScoreItem("the dog", (" is",))])
    assert [f.reason for f in found if isinstance(f, Failure)] == ["out_of_memory", "out_of_memory"]


def test_a_bug_is_not_taken_for_a_lack_of_memory(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = howsure.load(f"hf:{tiny_folder}")

    def broken(self, items, wanted, pixels):
        raise RuntimeError("shape mismatch")

    monkeypatch.setattr(scoring.Scorer, "run_packed", broken)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        model.try_score([ScoreItem("the sky", (" is",))])


def test_uniform_logits_give_the_logarithm_of_the_vocabulary(tmp_path: Path) -> None:
    """A model known on paper: all output weights zero, so every token costs ln V and the entropy is ln V."""
    import torch

    folder = build_tiny(tmp_path, tie_word_embeddings=False)
    model = howsure.load(f"hf:{folder}")
    with torch.no_grad():
        model.network.lm_head.weight.zero_()
    evidence = model.score([("the", [" sky is blue"])], entropies=True)[0][0]
    expected = np.log(model.network.config.vocab_size)
    assert np.allclose(evidence.logprobs, -expected, atol=1e-5)
    assert np.allclose(evidence.entropies_nats, expected, atol=1e-4)
