"""`generate` of image-text models: batches answer as single questions do, and as `score` would judge the answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import howsure
from howsure.errors import MissingCapability
from howsure.models.contract import Failure, Message, Rolling, ScoreItem
from howsure.models.hf import generation
from howsure.models.images import Picture, inspect_picture
from tiny_vision import KINDS, build_vision, gemma3, picture

from .test_image_text import save_gemma3_processor

WRITERS = [kind for kind in KINDS if kind != "paligemma"]
TOKENS = 8


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every kind that writes, opened once, and Gemma 3, which goes by its processor."""
    root = tmp_path_factory.mktemp("vision")
    KINDS["gemma3"] = gemma3
    try:
        folders = {kind: build_vision(kind, root / kind) for kind in [*WRITERS, "gemma3"]}
    finally:
        del KINDS["gemma3"]
    save_gemma3_processor(folders["gemma3"])
    opened = {kind: howsure.load(f"hf:{folder}", lazy=True) for kind, folder in folders.items()}
    for model in opened.values():
        speaks_in_words(model.network, model.encoder.tokenizer)
    return opened


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Picture]:
    """Two sizes, wide and tall; the second was made here and lies nowhere."""
    root = tmp_path_factory.mktemp("pictures")
    wide = inspect_picture(picture(root / "0.png", 60, 40, seed=0))
    tall = picture(root / "1.png", 48, 100, seed=1)
    made = Picture.made(tall.read_bytes(), "frame 1", (48, 100))
    tall.unlink()
    return [wide, made]


@pytest.fixture(params=[*WRITERS, "gemma3"])
def model(request: pytest.FixtureRequest, models: dict[str, Any]) -> Any:
    return models[request.param]


def asked(text: str, *images: Picture) -> list[Message]:
    return [Message("system", "be brief"), Message("user", text, images)]


def speaks_in_words(network: Any, tokenizer: Any) -> None:
    """Random weights write noise; where only whole words are likely, a text reads back as the tokens it was."""
    import torch

    words = [i for name, i in tokenizer.get_vocab().items() if re.fullmatch("Ġ[a-z]{2,}", name)]
    unlikely = torch.full((network.get_output_embeddings().weight.shape[0],), -40.0)
    unlikely[words] = 0.0
    network.get_output_embeddings().register_forward_hook(lambda module, given, logits: logits + unlikely)


def test_unlike_conversations_together_answer_as_alone(model: Any, pictures: list[Picture]) -> None:
    """Two image sizes and no image, prompts of unlike length: padded on the left, each image with its own text."""
    conversations = [
        asked("what is it?", pictures[0]),
        asked("what is the colour of the sky over the lazy dog?"),
        asked("what?", pictures[1]),
        [*asked("the dog", pictures[1]), Message("assistant", "yes"), Message("user", "and this?", (pictures[0],))],
    ]
    before = model.counters.images_run
    together = model.generate(conversations, max_tokens=TOKENS, top_logprobs=3)
    assert model.counters.images_run - before == 4
    for conversation, answer in zip(conversations, together, strict=True):
        (alone,) = model.generate([conversation], max_tokens=TOKENS, top_logprobs=3)
        assert answer.failure is None
        assert answer.logprobs.tokens == alone.logprobs.tokens
        assert answer.text == alone.text == answer.logprobs.text
        assert np.abs(answer.logprobs.logprobs - alone.logprobs.logprobs).max() < 1e-4
    wide, tall = (one.logprobs.logprobs for one in model.generate([asked("what?", p) for p in pictures], max_tokens=1))
    assert abs(wide - tall) > 1e-2, "the pictures must matter for this test"


@pytest.mark.parametrize("way", ["beside the messages", "in a message"])
def test_score_agrees_with_what_generate_says_of_its_own_tokens(model: Any, pictures: list[Picture], way: str) -> None:
    for images in ((pictures[0],), (pictures[1],), ()):
        (answer,) = model.generate([asked("what is it?", *images)], max_tokens=TOKENS)
        if way == "in a message":
            item = ScoreItem(tuple(asked("what is it?", *images)), (answer.text,))
        else:
            item = ScoreItem(tuple(asked("what is it?")), (answer.text,), next(iter(images), None))
        (judged,) = model.score([item])[0]
        assert len(judged) == TOKENS
        assert judged.tokens == answer.logprobs.tokens
        assert np.abs(judged.logprobs - answer.logprobs.logprobs).max() < 1e-3


def test_two_images_in_one_message(models: dict[str, Any], pictures: list[Picture]) -> None:
    """Qwen3-VL, against transformers' own generation from inputs written out by hand."""
    import torch

    model = models["qwen3_vl"]
    (answer,) = model.generate([asked("which?", *pictures)], max_tokens=TOKENS, top_logprobs=2)
    pixels = [model.image_input.pixels(one) for one in pictures]
    blocks = [
        f"<|vision_start|>{'<|image_pad|>' * (int(p['image_grid_thw'].prod()) // 4)}<|vision_end|>" for p in pixels
    ]
    text = f"<|turn|>system: be brief<|turn|>user: {''.join(blocks)}which?<|turn|>assistant:\n"
    ids = torch.tensor([model.encoder.tokenizer(text, add_special_tokens=False)["input_ids"]])
    inputs = {name: torch.cat([p[name] for p in pixels]) for name in ("pixel_values", "image_grid_thw")}
    types = (ids == model.image_input.image_token_id).int()
    out = model.network.generate(
        input_ids=ids, mm_token_type_ids=types, max_new_tokens=TOKENS, do_sample=False, **inputs
    )
    assert model.encoder.answer(out[0, ids.shape[1] :].tolist())[0] == answer.text
    swapped, one = model.generate([asked("which?", *pictures[::-1]), asked("which?", pictures[0])], max_tokens=TOKENS)
    assert len({answer.text, swapped.text, one.text}) == 3


def test_an_image_in_three_conversations_is_prepared_once(models, pictures, monkeypatch) -> None:
    model = models["qwen3_vl"]
    looks: list[str] = []
    look = model.image_input.pixels_of
    monkeypatch.setattr(model.image_input, "pixels_of", lambda image, name: looks.append(name) or look(image, name))
    model.generate([asked(text, pictures[1]) for text in ("a", "b", "c")], max_tokens=2)
    model.score([ScoreItem(tuple(asked(text, pictures[1])), ("a", "b")) for text in ("a", "b", "c")])
    assert looks == ["frame 1", "frame 1"]


def test_evidence_that_nobody_asked_for_is_not_kept(models, pictures) -> None:
    model = models["smolvlm"]
    conversations = [asked("what is it?", pictures[0]), asked("what?")]
    plain = model.generate(conversations, max_tokens=TOKENS, top_logprobs=None, answer_schema={"type": "object"})
    assert [(one.logprobs, one.logprobs_missing) for one in plain] == [(None, "not asked for")] * 2
    assert [one.text for one in plain] == [one.text for one in model.generate(conversations, max_tokens=TOKENS)]


def test_without_a_chat_template_images_come_before_the_text(models, pictures, tmp_path: Path) -> None:
    folder = build_vision("llava", tmp_path)
    for place in ("chat_template.jinja", "chat_template.json"):
        (folder / place).unlink(missing_ok=True)
    model = howsure.load(f"hf:{folder}")
    assert not model.takes_chat
    speaks_in_words(model.network, model.encoder.tokenizer)
    (answer,) = model.generate([[Message("user", "what is it?", (pictures[0],))]], max_tokens=4, top_logprobs=0)
    (judged,) = model.score([ScoreItem("what is it?", (answer.text,), pictures[0])])[0]
    assert judged.tokens == answer.logprobs.tokens
    assert np.abs(judged.logprobs - answer.logprobs.logprobs).max() < 1e-3


# -- trouble ------------------------------------------------------------------------------------------------------


def test_what_cannot_be_answered_fails_alone(model: Any, pictures: list[Picture], tmp_path: Path) -> None:
    gone = inspect_picture(picture(tmp_path / "gone.png", 40, 40, seed=3))
    changed = inspect_picture(picture(tmp_path / "changed.png", 40, 40))
    (tmp_path / "gone.png").unlink()
    picture(tmp_path / "changed.png", 41, 40, seed=5)
    good, named, absent, other, long = model.generate(
        [
            asked("what is it?", pictures[0]),
            asked(f"what is {model.image_input.placeholder}?", pictures[0]),
            asked("what is it?", pictures[0], gone),
            asked("what is it?", changed),
            asked("what is it? " * 300, pictures[0]),
        ],
        max_tokens=2,
    )
    assert good.failure is None
    assert "stands for an image" in named.failure
    assert "gone.png cannot be read" in absent.failure
    assert "changed.png has changed since it was checked" in other.failure
    assert "too long" in long.failure
    assert [one.text for one in (named, absent, other, long)] == [None] * 4


def test_a_text_or_a_template_that_is_at_odds_with_the_images_fails_alone(models, pictures, monkeypatch) -> None:
    model = models["gemma3"]
    token = model.encoder.tokenizer.convert_ids_to_tokens(model.image_input.image_token_id)
    assert token != model.image_input.placeholder
    bad, good = model.generate([asked(f"what is {token}?", pictures[0]), asked("what?", pictures[0])], max_tokens=2)
    assert "stands for an image" in bad.failure
    assert good.failure is None
    monkeypatch.setattr(model.image_input, "chat_template", "{{ messages[-1]['content'][-1]['text'] }}")
    blind, good = model.generate([asked("what?", pictures[0]), asked("what?")], max_tokens=2)
    assert blind.failure == f"{model.name}'s chat template has no place for an image"
    assert good.failure is None


def test_the_tokens_of_an_image_count_against_the_context(models, pictures, monkeypatch) -> None:
    model = models["qwen3_vl"]
    parts = int(model.image_input.pixels(pictures[1])["image_grid_thw"].prod()) // 4
    image = f"<|vision_start|>{'<|image_pad|>' * parts}<|vision_end|>"
    text = f"<|turn|>system: be brief<|turn|>user: {image}what?<|turn|>assistant:\n"
    tokens = len(model.encoder.tokenizer(text, add_special_tokens=False)["input_ids"])
    assert tokens > parts > 10
    monkeypatch.setattr(type(model), "context_tokens", tokens + 3)
    (fits,), (more,) = (model.generate([asked("what?", pictures[1])], max_tokens=n) for n in (3, 4))
    assert fits.failure is None
    assert more.failure == f"too long: {tokens} + 4 tokens, the context is {tokens + 3}"


def test_out_of_memory_together_is_written_one_by_one(models, pictures, monkeypatch) -> None:
    model, write = models["qwen2_5_vl"], generation.write
    conversations = [asked("what is it?", pictures[0]), asked("the lazy dog " * 9), asked("what?", pictures[1])]
    expected = model.generate(conversations, max_tokens=4)

    def small(network: Any, prompts: Any, *given: Any, **options: Any) -> Any:
        if len(prompts) > 1 or not prompts[0].pixels:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return write(network, prompts, *given, **options)

    monkeypatch.setattr(generation, "write", small)
    first, second, third = model.generate(conversations, max_tokens=4)
    assert (first.text, third.text) == (expected[0].text, expected[2].text)
    assert second.failure.startswith("out of memory: ")
    assert second.failure.endswith(" tokens and 4 new ones do not fit")


def test_a_text_model_fails_a_conversation_with_an_image_and_answers_the_others(tiny_folder: Path, pictures) -> None:
    model = howsure.load(f"hf:{tiny_folder}")
    assert not model.answers_images
    good, bad = model.generate(["the sky", [Message("user", "the sky", (pictures[0],))]], max_tokens=2)
    assert good.text is not None
    assert bad.failure == f"{model.name} reads text only, and a message has an image"
    found = model.try_score([ScoreItem((Message("user", "the", (pictures[0],)),), (" sky",))])[0]
    assert isinstance(found, Failure)
    assert (found.reason, found.detail) == ("unreadable_image", bad.failure)


def test_who_answers_images_is_known_without_weights(models, tmp_path: Path) -> None:
    assert all(model.answers_images for model in models.values())
    model = howsure.load(f"hf:{build_vision('paligemma', tmp_path)}", lazy=True)
    assert model.takes_images
    assert not model.answers_images
    with pytest.raises(MissingCapability, match="can only score"):
        model.generate(["hello"])
    assert "network" not in model.__dict__


def test_several_images_are_not_scored_and_no_image_is_read_past(models, pictures) -> None:
    model = models["qwen3_vl"]
    both = ScoreItem(tuple(asked("what?", pictures[0])), ("a",), pictures[1])
    two = ScoreItem(tuple(asked("what?", *pictures)), ("a",))
    details = [one.detail for one in model.try_score([both, two]) if isinstance(one, Failure)]
    assert details == [
        "an item to be scored may hold one image, and this one has 2, beside its messages and in them",
        "an item to be scored may hold one image, and this one has 2, in its messages",
    ]
    assert set(model.plan_scores([both, two]).refused) == {0, 1}
    model.prefetch([both, two])
    (read,) = model.read_conversations([asked("what?", pictures[0])], model.rolling(Rolling()))
    assert isinstance(read, Failure)
    assert read.detail == "message 1 has an image, and conversations are read as text"
