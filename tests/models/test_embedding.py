"""Sentence embeddings: against sentence-transformers' published figures and the pooling written out."""

from __future__ import annotations

import builtins
import json
from pathlib import Path

import numpy as np
import pytest

from howsure.errors import InputError, MissingExtra, WeightsError
from howsure.models import embedding
from howsure.models.builtin import CACHE_VARIABLE, unpacked
from howsure.models.embedding import SentenceEmbedder

pytestmark = pytest.mark.real_model

AIRLINE = "gpt-4.1_airline_default_gpt-4.1_1trials.json"
TAU2 = Path(__file__).parents[2].parent / "shared" / "data" / "tau2" / AIRLINE


@pytest.fixture(scope="module")
def embedder() -> SentenceEmbedder:
    embedder = SentenceEmbedder()
    try:
        embedder.load()
    except WeightsError as error:
        if "could not be fetched" in str(error):
            pytest.skip(str(error))
        raise
    return embedder


def naive(embedder: SentenceEmbedder, text: str) -> np.ndarray:
    """One sentence alone: the mean of the last layer over [CLS], its pieces and [SEP], divided by its length."""
    import torch

    ids = embedder.tokenizer.encode(text).ids
    assert (ids[0], ids[-1]) == (101, 102)
    with torch.inference_mode():
        hidden = embedder.network(input_ids=torch.tensor([ids])).last_hidden_state[0].double().numpy()
    total = sum(hidden[i] for i in range(len(ids)))
    return total / np.sqrt((total**2).sum())


# -- the vectors ------------------------------------------------------------------------------------------------


def test_cosines_are_those_that_sentence_transformers_documents(embedder) -> None:
    """From its front page, to the four digits printed there."""
    found = embedder.embed(["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."])
    expected = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    assert np.abs(found @ found.T - expected).max() < 6e-5
    assert found.dtype == np.float32
    assert found.shape == (3, 384)


def test_the_pooling_written_out(embedder) -> None:
    for text in ("The quick brown fox.", "Ünïcödé wörds, 数字 and emoji 🤖", "word " * 254):
        assert np.abs(embedder.embed([text])[0] - naive(embedder, text)).max() < 1e-6


def test_a_vector_does_not_depend_on_its_company(embedder) -> None:
    texts = ["a", "The sky is blue today.", "refund " * 100, "Where is my order?", "x y z " * 200, "a"]
    together = embedder.embed(texts)
    assert np.abs(np.linalg.norm(together, axis=1) - 1).max() < 1e-6
    for text, found in zip(texts, together, strict=True):
        assert np.abs(embedder.embed([text])[0] - found).max() < 1e-5
    small = SentenceEmbedder(token_budget=16)
    small.network = embedder.network
    assert np.abs(small.embed(texts) - together).max() < 1e-5
    assert (embedder.embed(texts) == together).all(), "same digits"


def test_paraphrases_are_nearer_than_strangers(embedder) -> None:
    pairs = [
        ("I want to cancel my reservation.", "Please call off my booking."),
        ("The flight was delayed by three hours.", "Our plane left three hours late."),
        ("How do I reset my password?", "I forgot my login and need a new one."),
    ]
    left, right = (embedder.embed(side) for side in zip(*pairs, strict=True))
    cosines = left @ right.T
    assert (cosines.argmax(axis=1) == [0, 1, 2]).all()
    assert cosines.diagonal().min() > max(cosines[i, j] for i in range(3) for j in range(3) if i != j) + 0.1


def test_capital_letters_do_not_count(embedder) -> None:
    found = embedder.embed(["Cancel MY Flight", "cancel my flight"])
    assert (found[0] == found[1]).all()


def test_equal_stretches_are_run_once(embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    whole = SentenceEmbedder._run_batch
    monkeypatch.setattr(SentenceEmbedder, "_run_batch", lambda self, ws: seen.append(len(ws)) or whole(self, ws))
    found = embedder.embed(["hello there", "goodbye", "hello there", "hello there"])
    assert seen == [2]
    assert (found[0] == found[3]).all()


# -- long texts -------------------------------------------------------------------------------------------------


def test_a_long_text_is_the_weighted_mean_of_its_windows(embedder) -> None:
    words = ["flight"] * 254 + ["banana"] * 254 + ["piano"] * 46
    windows = [naive(embedder, " ".join(part)) for part in (words[:254], words[254:508], words[508:])]
    expected = 254 * windows[0] + 254 * windows[1] + 46 * windows[2]
    expected /= np.linalg.norm(expected)
    assert np.abs(embedder.embed([" ".join(words)])[0] - expected).max() < 1e-6


def test_the_end_of_a_long_text_counts(embedder) -> None:
    beginning = "the weather in Lisbon is fine " * 50
    same, other = embedder.embed([beginning * 2, beginning + "cancel my reservation at once " * 50])
    wish = embedder.embed(["cancel my reservation"])[0]
    assert other @ wish > same @ wish + 0.2


def test_a_text_that_just_fits_is_one_window(embedder) -> None:
    fits, more = (list(embedder._windows(["word " * count])) for count in (254, 255))
    assert [len(window.pieces) for window in fits] == [254]
    assert [len(window.pieces) for window in more] == [254, 1]


# -- what has no vector -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", ["", "   ", "\n\t", "\u0000", "\u200b"])
def test_a_text_without_words_is_refused_by_its_number(embedder, nothing: str) -> None:
    with pytest.raises(InputError, match=r"text 1 .* has no words to embed; leave such texts out"):
        embedder.embed(["fine", nothing, "fine"])
    assert embedder.readable(["fine", nothing, "🤖"]) == [True, False, True]


def test_no_texts_have_no_vectors(embedder) -> None:
    assert embedder.embed([]).shape == (0, 384)


def test_what_is_no_list_of_texts_is_refused(embedder) -> None:
    with pytest.raises(InputError, match="put it into a list"):
        embedder.embed("one text")
    with pytest.raises(InputError, match="surrogate"):
        embedder.embed(["\udc80"])
    with pytest.raises(InputError, match="at least 1, not 0"):
        SentenceEmbedder(token_budget=0)


# -- where the weights come from ----------------------------------------------------------------------------------


def test_its_fingerprint_is_plain_data(embedder) -> None:
    first = json.dumps(embedder.fingerprint(), sort_keys=True)
    assert "sha256:53aa5117" in first
    assert json.dumps(SentenceEmbedder().fingerprint(), sort_keys=True) == first


def test_a_closed_embedder_loads_again(embedder) -> None:
    before = embedder.embed(["the sky"])
    embedder.close()
    assert "network" not in embedder.__dict__
    assert (embedder.embed(["the sky"]) == before).all()


def test_without_network_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.delenv(embedding.WHEEL.variable, raising=False)
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(WeightsError, match=r"sentence embedder could not be fetched.*set HOWSURE_MINILM_WHEEL"):
        SentenceEmbedder().load()


def test_a_damaged_cache_is_noticed(embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = unpacked(embedding.WHEEL)
    folder = tmp_path / "minilm"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_bytes((good / name).read_bytes())
    (folder / "model.safetensors").write_bytes(b"torn")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    with pytest.raises(WeightsError, match=r"the cached model.safetensors .* wrong checksum"):
        SentenceEmbedder().load()


def test_an_installed_package_is_used_where_it_is(embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / embedding.PACKAGE / "model"
    model.mkdir(parents=True)
    (model.parent / "__init__.py").touch()
    for member in embedding.WHEEL.members:
        (tmp_path / member).symlink_to(unpacked(embedding.WHEEL) / Path(member).name)
    monkeypatch.syspath_prepend(tmp_path)
    assert embedding._installed_folder() == model
    (model / "config.json").unlink()
    assert embedding._installed_folder() is None, "not the files it should hold"


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name, *given, **named):
        if name.partition(".")[0] in ("tokenizers", "transformers", "torch"):
            raise ImportError(name, name=name)
        return real(name, *given, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    for part in ("tokenizer", "network", "device"):
        with pytest.raises(MissingExtra, match=r'pip install "howsure\[local\]"'):
            getattr(SentenceEmbedder(), part)


# -- real messages ------------------------------------------------------------------------------------------------


def test_messages_of_a_real_log_all_have_a_vector(embedder) -> None:
    if not TAU2.is_file():
        pytest.skip(f"{TAU2} is not there")
    log = json.loads(TAU2.read_bytes())
    texts = [m["content"] for m in log["simulations"][0]["messages"] if (m["content"] or "").strip()]
    found = embedder.embed(texts)
    assert np.isfinite(found).all()
    assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 1e-6
