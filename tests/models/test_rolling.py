"""Documents in windows: against the usual sliding-window loop, written out, and the tokens that it takes."""

from __future__ import annotations

import copy
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import howsure
from howsure.errors import InputError
from howsure.models.contract import Failure, Passage, Rolling, ScoreItem, Stretch
from howsure.models.hf import documents, scoring
from howsure.models.hf.documents import Frame, Tokens
from sizes import several
from tiny import TINY_TEXT, build_tiny, byte_level_tokenizer
from tiny_vision import build_vision

from .test_text_boundary import sentencepiece_like

TOLERANCE = 1e-4
KJV = Path(__file__).parents[2].parent / "shared" / "data" / "ngram" / "kjv.test.txt"


def reference(network: Any, ids: list[int], start: list[int], lead: list[int], window: int, stride: int) -> np.ndarray:
    """Hugging Face's sliding-window loop over [start, …], one forward and one whole table of logits a window.

    Where its stride is its length, it leaves the first token of a window out; here that token sees the one before it.
    """
    import torch

    tokens, found = [*start, *ids], []
    max_length = window - len(lead)
    prev_end_loc = len(start)
    for begin_loc in range(0, len(tokens), stride):
        end_loc = min(begin_loc + max_length, len(tokens))
        trg_len = end_loc - prev_end_loc
        seen = begin_loc - 1 if begin_loc == prev_end_loc > 0 and not lead else begin_loc
        input_ids = torch.tensor([[*lead, *tokens[seen:end_loc]]])
        with torch.inference_mode():
            logprobs = torch.log_softmax(network(input_ids=input_ids).logits[0].double(), dim=-1)
        places = range(input_ids.shape[1] - trg_len, input_ids.shape[1])
        found += [float(logprobs[place - 1, input_ids[0, place]]) for place in places]
        prev_end_loc = end_loc
        if end_loc == len(tokens):
            break
    return np.array(found)


def read(model: Any, text: str, window: int | None = None, stride: int | None = None) -> tuple[list[Passage], Stretch]:
    """A document read to its end, as one stretch."""
    decided = model.rolling(Rolling(window, stride))
    passages = list(model.passages([text], decided))
    stretches = model.read(passages)
    assert not any(isinstance(one, Failure) for one in stretches), stretches
    return passages, Stretch(*(np.concatenate(column) for column in list(zip(*stretches, strict=True))[:3]))


# -- SmolLM2 on real text -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def verses() -> str:
    if not KJV.is_file():
        pytest.skip(f"{KJV} is not there")
    return KJV.read_text()[: several(1100, 2200)]


@pytest.mark.real_model
@pytest.mark.parametrize(("window", "stride"), [(several(128, 256), several(64, 128)), (None, None)])
def test_smollm2_agrees_with_the_usual_loop(smollm2, verses: str, window: int | None, stride: int | None) -> None:
    ids, start = smollm2.encoder.tokenizer(verses)["input_ids"], [smollm2.encoder.start_token]
    tokens, rows = smollm2.counters.tokens_run, smollm2.counters.head_rows_run
    passages, found = read(smollm2, verses, window, stride)
    expected = reference(smollm2.network, ids, start, [], window or 8192, stride or 4096)
    assert len(ids) > several(250, 500)
    assert np.exp(-found.logprobs.mean()) == pytest.approx(np.exp(-expected.mean()), rel=1e-4)
    assert np.abs(found.logprobs - expected).max() < 2e-3, "in float32, on tokens as unlikely as e^-20"
    run = smollm2.counters.tokens_run - tokens
    if window is None:
        assert run == len(ids), "the start token and all but the last"
    else:
        whole = window - 1
        later = -(-(len(ids) - whole) // stride)
        short = later * stride - (len(ids) - whole)
        assert run == whole + later * whole - short, "the overlap, and nothing beyond it"
    assert run == sum(passage.tokens_run for passage in passages)
    assert smollm2.counters.head_rows_run - rows == len(ids) == sum(passage.tokens for passage in passages)
    assert found.byte_counts.sum() == len(verses.encode())
    assert found.word_starts.sum() == len(verses.split())


def test_windows_are_those_of_lm_eval() -> None:
    """Its rolling windows, for texts that end with a whole window: it lets the last one reach further back.

    It counts the tokens that are run, of which a window has one less."""
    from lm_eval.utils import get_rolling_token_windows

    for window, stride, later in [(9, 8, 3), (9, 3, 5), (6, 1, 9), (3, 2, 1), (8, 4, 0)]:
        ids = list(range(100, 100 + window - 1 + later * stride))
        theirs = list(get_rolling_token_windows(ids, 0, window - 1, window - stride))
        ours = [
            (list(item.context + item.suffixes[0])[:-1], list(item.suffixes[0]))
            for passage in documents.passages(blocks(ids, [9]), Frame((), (0,)), Rolling(window, stride))
            for item in map(passage.content.encoded, passage.content.windows)
        ]
        assert ours == theirs


# -- tiny models of every kind ------------------------------------------------------------------------------------


def begun_by(tokens: str):
    """A byte-level tokenizer that puts begin tokens before every text and an end token behind it."""
    from tokenizers import processors

    tokenizer = byte_level_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{tokens} $A <s>", special_tokens=[("<s>", 0)]
    )
    return tokenizer


def build_sliding(folder: Path, family: str = "mistral") -> Path:
    """A network that sees eight tokens back, in all layers or in every second."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    tokenizer = byte_level_tokenizer()
    config = AutoConfig.for_model(
        family, vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=256, sliding_window=8,
        initializer_range=0.3, bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


KINDS = ["start token", "begin token", "two begin tokens", "sliding window", "cannot be cut", "plain way"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Any, list[int]]]:
    """For each kind the model, its network in double precision, and what its tokenizer puts before a text."""
    root, out = tmp_path_factory.mktemp("rolling"), {}
    leads = {"begin token": [0], "two begin tokens": [0, 0], "cannot be cut": [1]}
    for number, kind in enumerate(KINDS):
        folder = root / str(number)
        (build_sliding if kind == "sliding window" else build_tiny)(folder)
        if kind in leads:
            begin = "<s> <s>" if kind == "two begin tokens" else "<s>"
            (sentencepiece_like() if kind == "cannot be cut" else begun_by(begin)).save_pretrained(folder)
        model = howsure.load(f"hf:{folder}", token_budget=64)
        if kind == "plain way":
            model.scorer.way = "plain"
        out[kind] = model, copy.deepcopy(model.network).double(), leads.get(kind, [])
    return out


pieces = st.sampled_from(["the", " sky", " is", " blue", "数", " 🤖", "\n", " don't ", "é", "e\u0301", "  ", " 1989"])
shapes = st.tuples(st.integers(2, 30), st.integers(1, 30)).filter(lambda shape: shape[1] <= shape[0] + 1)


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.lists(pieces, min_size=1, max_size=40).map("".join), shape=shapes)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_window_and_stride_agrees_with_the_usual_loop(models, kind: str, text: str, shape: tuple[int, int]):
    model, network, lead = models[kind]
    window, stride = shape[0] + 1, min(shape[1], shape[0] + 1 - len(lead))
    start = [] if lead else [model.encoder.start_token]
    ids = [int(i) for i in model.encoder.tokenizer(text, add_special_tokens=False)["input_ids"]]
    before = copy.copy(model.counters)
    passages, found = read(model, text, window, stride)
    expected = reference(network, ids, start, lead, window, stride)
    assert len(found.logprobs) == len(expected) == len(ids)
    assert np.abs(found.logprobs - expected).max() < TOLERANCE
    assert found.byte_counts.sum() == len(text.encode())
    assert found.word_starts.sum() == len(text.split())
    assert model.counters.tokens_run - before.tokens_run == sum(passage.tokens_run for passage in passages)
    assert model.counters.head_rows_run - before.head_rows_run == len(ids)


@pytest.mark.parametrize("family", ["mistral", "gemma2", "gemma3_text"])
def test_a_sliding_window_is_read_in_batches_with_a_sliced_head(
    tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the network's own forward, which would make the whole table of logits."""
    monkeypatch.setattr(scoring, "HEAD_ROWS", 5)
    sizes: list[int] = []
    model = howsure.load(f"hf:{build_sliding(tmp_path, family)}", token_budget=64)
    network, text = copy.deepcopy(model.network).double(), TINY_TEXT * 3
    measure = scoring._measure

    def watched(logits, rows, targets, wanted):
        sizes.append(logits.shape[0])
        return measure(logits, rows, targets, wanted)

    monkeypatch.setattr(scoring, "_measure", watched)
    calls = model.counters.calls
    passages, found = read(model, text, 16, 8)
    assert len(passages[0].content.windows) > 10
    assert model.counters.calls - calls <= len(passages[0].content.windows) // 3
    assert max(sizes) == 5
    ids = model.encoder.tokenizer(text)["input_ids"]
    expected = reference(network, ids, [model.encoder.start_token], [], 16, 8)
    assert np.abs(found.logprobs - expected).max() < TOLERANCE


@pytest.mark.parametrize("kind", ["paligemma", "qwen3_vl"])
def test_image_text_models_read_text_without_an_image(tmp_path: Path, kind: str) -> None:
    """A prefix-LM too reads it causally: in every window, everything behind the begin token is continuation."""
    import torch

    model = howsure.load(f"hf:{build_vision(kind, tmp_path)}")
    network = copy.deepcopy(model.network).double()
    ids = model.encoder.tokenizer(TINY_TEXT)["input_ids"]
    lead, start = ([0], []) if kind == "paligemma" else ([], [model.encoder.start_token])

    def alone(input_ids: Any) -> Any:
        types = torch.ones_like(input_ids)
        types[:, 0] = 0
        extra = {"token_type_ids": types} if kind == "paligemma" else {}
        return network(input_ids=input_ids, **extra)

    for window, stride in [(24, 9), (None, None)]:
        _, found = read(model, TINY_TEXT, window, stride)
        expected = reference(alone, ids, start, lead, window or 1024, stride or 512)
        assert np.abs(found.logprobs - expected).max() < TOLERANCE
    assert found.logprobs.sum() == model.score([("", [TINY_TEXT])])[0][0].logprobs.sum()
    with pytest.raises(InputError, match="stands for an image"):
        list(model.passages(["the sky ", f"{model.image_input.placeholder} is"], model.rolling(Rolling())))


# -- the windows by themselves ------------------------------------------------------------------------------------


def blocks(ids: list[int], sizes: list[int]) -> Iterator[Tokens]:
    """Tokens in blocks of these sizes in turn; each accounts for as many bytes as its number, and one word."""
    start, turn = 0, 0
    while start < len(ids):
        block = np.array(ids[start : start + sizes[turn % len(sizes)]], dtype=np.int64)
        yield Tokens(block, block, np.ones_like(block))
        start, turn = start + sizes[turn % len(sizes)], turn + 1


def plain(passages: list[Passage]) -> list[Any]:
    """Passages in a form that can be compared."""
    return [
        (one.tokens, one.tokens_run, [c.tolist() if isinstance(c, np.ndarray) else c for c in one.content])
        for one in passages
    ]


def frames(lead: int) -> Frame:
    return Frame(tuple(range(-lead, 0))) if lead else Frame((), (-1,))


@given(
    count=st.integers(0, 120),
    lead=st.integers(0, 3),
    shape=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=3),
    enough=st.integers(1, 40),
)
def test_each_token_is_new_once_after_enough_others(count, lead, shape, sizes, enough) -> None:
    window, stride = shape[0] + max(lead, 1), min(shape)
    with patch.object(documents, "PASSAGE_TOKENS", enough):
        passages = list(documents.passages(blocks(list(range(count)), sizes), frames(lead), Rolling(window, stride)))
        at_once = list(documents.passages(blocks(list(range(count)), [999]), frames(lead), Rolling(window, stride)))
    assert plain(passages) == plain(at_once)
    items = [p.content.encoded(w) for p in passages for w in p.content.windows]
    assert [token for item in items for token in item.suffixes[0]] == list(range(count)), "each once, in order"
    for item in items:
        first = item.suffixes[0][0]
        assert len(item.context) >= min(first + max(lead, 1), window - stride)
        text = [token for token in (*item.context, *item.suffixes[0]) if token >= 0]
        assert text == list(range(text[0], text[-1] + 1))
        assert item.context[:lead] == tuple(range(-lead, 0))
        assert (-1 in item.context) == (lead > 0 or first == 0)
    assert all(item.tokens == window - 1 for item in items[:-1]), "every window but the last is full"
    assert [p.tokens for p in passages] == [len(p.content.byte_counts) for p in passages]
    assert sum(item.tokens for item in items) == sum(p.tokens_run for p in passages)
    assert all(enough <= p.tokens < enough + max(stride, window + 1) for p in passages[:-1])
    assert [int(n) for p in passages for n in p.content.byte_counts] == list(range(count))
    assert sum(int(p.content.word_starts.sum()) for p in passages) == count


def test_a_document_longer_than_memory(models) -> None:
    """Megabytes of text, 6 in the long suite, go through in a few, and no more of it is taken than a passage needs."""
    model = models["start token"][0]
    taken, verses = 0, several(200, 600)

    def document() -> Iterator[str]:
        nonlocal taken
        for number in range(verses):
            taken += 1
            yield f"verse {number}: the quick brown fox jumps over the lazy dog, " * 2 + "and the sky is blue. " * 470

    decided = model.rolling(Rolling(64, 32))
    tracemalloc.start()
    try:
        passages = model.passages(document(), decided)
        next(passages)
        assert taken < 100, "not more than a part of the text"
        tokens = sum(passage.tokens for passage in islice(passages, 100_000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken == verses
    assert tokens > 2_000 * verses
    assert peak < 26 * 2**20, f"{peak / 2**20:.1f} MiB; the tokens alone are {3 * 8 * tokens / 2**20:.0f}"


def test_the_pieces_in_which_a_document_comes_change_nothing(models) -> None:
    for kind in ("start token", "cannot be cut"):
        model, text = models[kind][0], TINY_TEXT * 30
        decided = model.rolling(Rolling(40, 10))
        with patch.object(documents, "PASSAGE_TOKENS", 100), patch("howsure.models.hf.documents.PART_CHARS", 300):
            whole = list(model.passages([text], decided))
            letters = list(model.passages(iter(text), decided))
            lines = list(model.passages(text.splitlines(keepends=True), decided))
        assert len(whole) > 10
        assert plain(whole) == plain(letters) == plain(lines)


def test_an_empty_document_has_no_passages(models) -> None:
    for model, _, _ in models.values():
        assert list(model.passages([], model.rolling(Rolling()))) == []
        assert list(model.passages([""], model.rolling(Rolling()))) == []
        assert model.read([]) == []


def test_one_token_is_read_after_what_stands_before_the_text(models) -> None:
    for kind in ("start token", "begin token"):
        model = models[kind][0]
        passages, found = read(model, "the")
        assert [(p.tokens, p.tokens_run) for p in passages] == [(1, 1)]
        assert found.logprobs.tolist() == model.score([("", ["the"])])[0][0].logprobs.tolist()


def test_passages_of_several_documents_are_read_together(models) -> None:
    """Whatever is read with it, and in whichever batch, a passage is the same up to rounding."""
    model = models["start token"][0]
    decided = model.rolling(Rolling(20, 10))
    texts = ["the sky is blue", TINY_TEXT, "数字", "the dog " * 30]
    documents = [next(model.passages([text], decided)) for text in texts]
    together = model.read(documents)
    for passage, found in zip(documents, together, strict=True):
        alone = model.read([passage])[0]
        assert np.allclose(alone.logprobs, found.logprobs, atol=1e-5)
        assert alone.byte_counts.tolist() == found.byte_counts.tolist()
    again = model.read(documents)
    assert all((a.logprobs == b.logprobs).all() for a, b in zip(together, again, strict=True)), "same digits"


# -- what cannot be done ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "wanted", "said"),
    [
        ("start token", Rolling(1), "at least 2 tokens, not 1"),
        ("start token", Rolling(0, 1), "at least 2 tokens, not 0"),
        ("two begin tokens", Rolling(2), "at least 3 tokens, not 2"),
        ("start token", Rolling(257), "a window of 257 tokens does not fit the model's context of 256"),
        ("start token", Rolling(16, 0), "1 to 16 tokens for a window of 16, not 0"),
        ("start token", Rolling(16, 17), "1 to 16 tokens for a window of 16, not 17"),
        ("begin token", Rolling(16, 16), "1 to 15 tokens for a window of 16, not 16"),
        ("two begin tokens", Rolling(16, 15), "1 to 14 tokens for a window of 16, not 15"),
        ("start token", Rolling(None, 300), "1 to 256 tokens for a window of 256, not 300"),
    ],
)
def test_windows_that_cannot_be_are_refused_in_a_sentence(models, kind: str, wanted: Rolling, said: str) -> None:
    with pytest.raises(InputError, match=said):
        models[kind][0].rolling(wanted)
    with pytest.raises(InputError, match=said):
        models[kind][0].passages(["the sky"], wanted)


def test_what_is_left_open_is_decided(models, monkeypatch: pytest.MonkeyPatch) -> None:
    model = models["start token"][0]
    assert model.rolling(Rolling()) == (256, 128)
    assert model.rolling(Rolling(window=3)) == (3, 1)
    assert model.rolling(Rolling(stride=10)) == (256, 10)
    assert models["two begin tokens"][0].rolling(Rolling(3)) == (3, 1)
    assert model.rolling(model.rolling(Rolling(9))) == (9, 4)
    monkeypatch.setattr(type(model), "context_tokens", None)
    assert model.rolling(Rolling()) == (1024, 512)
    assert model.rolling(Rolling(5000)) == (5000, 2500)
    monkeypatch.setattr(type(model), "context_tokens", 131_072)
    assert model.rolling(Rolling()) == (8192, 4096)
    assert model.rolling(Rolling(131_072)) == (131_072, 65_536)


def test_deciding_loads_no_weights(tiny_folder: Path) -> None:
    model = howsure.load(f"hf:{tiny_folder}", lazy=True)
    next(model.passages(["the sky is blue"], model.rolling(Rolling())))
    assert "network" not in model.__dict__


def test_without_a_start_token_a_text_cannot_be_begun(tmp_path: Path) -> None:
    tokenizer = byte_level_tokenizer()
    tokenizer.bos_token = tokenizer.eos_token = None
    build_tiny(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = howsure.load(f"hf:{tmp_path}", lazy=True)
    with pytest.raises(InputError, match="has no start token, so the first token of a text has no context"):
        model.rolling(Rolling())


def test_half_a_surrogate_pair_is_refused_in_words(models) -> None:
    model = models["start token"][0]
    with pytest.raises(InputError, match="surrogate"):
        list(model.passages(["the sky", "\udc80"], model.rolling(Rolling())))


def test_nan_from_a_network_fails_the_passage_by_name(tiny_folder: Path) -> None:
    import torch

    model = howsure.load(f"hf:{tiny_folder}")
    with torch.no_grad():
        model.network.lm_head.weight[5] = float("nan")
    passages = list(model.passages(["the sky is blue"], model.rolling(Rolling(4))))
    (found,) = model.read(passages)
    assert isinstance(found, Failure)
    assert found.reason == "bad_logprobs"
    assert "NaN at token 0" in found.detail


def test_a_passage_that_fits_no_memory_fails_alone(models, monkeypatch: pytest.MonkeyPatch) -> None:
    model = models["start token"][0]
    decided = model.rolling(Rolling(12))
    passages = [next(model.passages([text], decided)) for text in ("the sky is blue", "数字", "the lazy dog")]
    expected = model.read(passages)
    whole, heavy = scoring.Scorer.run_packed, int(passages[1].content.ids[-1])

    def cramped(self, items, wanted, pixels):
        if any(heavy in item.suffixes[0] for item in items):
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return whole(self, items, wanted, pixels)

    monkeypatch.setattr(scoring.Scorer, "run_packed", cramped)
    found = model.read(passages)
    assert isinstance(found[1], Failure)
    assert found[1].reason == "out_of_memory"
    for i in (0, 2):
        assert np.allclose(found[i].logprobs, expected[i].logprobs, atol=1e-5)


def test_a_tokenizer_with_more_tokens_than_the_network_fails_what_needs_them(tmp_path: Path) -> None:
    known = byte_level_tokenizer()
    model = howsure.load(f"hf:{build_tiny(tmp_path, vocab_size=len(known) - 40)}")
    ids = {
        word: max(known(word)["input_ids"]) for word in (" the", " sky", " fox", " jumps", " lazy", " question", "q")
    }
    strange = max(ids, key=ids.__getitem__)
    assert ids[strange] >= len(known) - 40 > ids["q"]
    decided = model.rolling(Rolling())
    found = model.read([next(model.passages([text], decided)) for text in ("q", strange, "q")])
    assert [isinstance(one, Stretch) for one in found] == [True, False, True]
    assert found[1].reason == "strange_token"
    scored = model.try_score([ScoreItem("q", ("q", strange)), ScoreItem("q", ("q",))])
    assert [isinstance(one, Failure) for one in scored] == [True, False]
