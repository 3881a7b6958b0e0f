"""Image-text models against forwards of one choice at a time, written with transformers alone."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import howsure
from howsure.errors import InputError, WeightsError
from howsure.models.contract import Failure, Message, ScoreItem
from howsure.models.hf import scoring
from howsure.models.hf.packing import Layout, PackedBatch, PackedRow
from howsure.models.images import Picture, inspect_picture
from tiny_vision import KINDS, build_vision, gemma3, paligemma2, picture

TOLERANCE = 1e-4
PREFIX = "what is the colour of the sky?\nAnswer:"
CHOICES = (" blue", " not blue at all", " the dog", " the lazy dog")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("vision")
    return {kind: build_vision(kind, root / kind) for kind in KINDS}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Picture]:
    """Two sizes, wide and tall."""
    root = tmp_path_factory.mktemp("pictures")
    sizes = [(60, 40), (48, 100)]
    return [inspect_picture(picture(root / f"{i}.png", *size, seed=i)) for i, size in enumerate(sizes)]


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


# -- an independent reference -------------------------------------------------------------------------------------


def reference(kind: str, folder: Path, prefix: str, continuation: str, seen: Picture | None) -> np.ndarray:
    """The continuation's log-probabilities by one forward of the network as transformers loads it."""
    import torch
    from PIL import Image

    network, tokenizer, processor = loaded(folder)
    image = None if seen is None else Image.open(seen.path).convert("RGB")
    inputs, prefix_tokens = INPUTS[kind](tokenizer, processor, network, prefix, continuation, image)
    ids = inputs["input_ids"][0]
    with torch.inference_mode():
        logprobs = torch.log_softmax(network(**inputs).logits[0], dim=-1)
    return np.array([float(logprobs[i - 1, ids[i]]) for i in range(prefix_tokens, len(ids))])


@functools.cache
def loaded(folder: Path) -> tuple[Any, Any, Any]:
    import torch
    from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer

    network = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float64).eval()
    return network, AutoTokenizer.from_pretrained(folder), AutoImageProcessor.from_pretrained(folder)


def qwen_inputs(tokenizer, processor, network, prefix, continuation, image) -> tuple[dict[str, Any], int]:
    import torch

    extra: dict[str, Any] = {}
    if image is not None:
        extra = dict(processor(images=[image], return_tensors="pt"))
        tokens = int(extra["image_grid_thw"].prod()) // 4
        prefix = "<|vision_start|>" + "<|image_pad|>" * tokens + "<|vision_end|>" + prefix
    ids = torch.tensor([tokenizer(prefix + continuation)["input_ids"]])
    if image is not None:
        extra["mm_token_type_ids"] = (ids == network.config.image_token_id).int()
    return {"input_ids": ids, **extra}, len(tokenizer(prefix)["input_ids"])


def paligemma_inputs(tokenizer, processor, network, prefix, continuation, image) -> tuple[dict[str, Any], int]:
    import torch

    start = ("<image>" * 16 if image is not None else "") + "<s>" + prefix
    ids = tokenizer(start + continuation, add_special_tokens=False)["input_ids"]
    length = len(tokenizer(start, add_special_tokens=False)["input_ids"])
    types = torch.tensor([[0] * length + [1] * (len(ids) - length)])
    extra = {} if image is None else dict(processor(images=[image], return_tensors="pt"))
    return {"input_ids": torch.tensor([ids]), "token_type_ids": types, **extra}, length


def tiled_inputs(tokenizer, processor, network, prefix, continuation, image) -> tuple[dict[str, Any], int]:
    from transformers import Idefics3ImageProcessorPil, Idefics3Processor

    # SmolVLM's own processor needs packages for video; the text that it writes for an image is the same.
    settings = {name: getattr(processor, name) for name in ("size", "max_image_size")}
    whole = Idefics3Processor(Idefics3ImageProcessorPil(**settings), tokenizer, image_seq_len=4)
    if image is None:
        return dict(tokenizer(prefix + continuation, return_tensors="pt")), len(tokenizer(prefix)["input_ids"])
    inputs = whole(text=f"<image>{prefix}{continuation}", images=[image], return_tensors="pt")
    return dict(inputs), whole(text=f"<image>{prefix}", images=[image], return_tensors="pt")["input_ids"].shape[1]


def llava_inputs(tokenizer, processor, network, prefix, continuation, image) -> tuple[dict[str, Any], int]:
    from transformers import LlavaProcessor

    if image is None:
        return dict(tokenizer(prefix + continuation, return_tensors="pt")), len(tokenizer(prefix)["input_ids"])
    whole = LlavaProcessor(
        processor, tokenizer, patch_size=8, vision_feature_select_strategy="default", num_additional_image_tokens=1
    )
    inputs = whole(text=f"<image>\n{prefix}{continuation}", images=image, return_tensors="pt")
    return dict(inputs), whole(text=f"<image>\n{prefix}", images=image, return_tensors="pt")["input_ids"].shape[1]


INPUTS = {
    "qwen3_vl": qwen_inputs,
    "qwen2_5_vl": qwen_inputs,
    "paligemma": paligemma_inputs,
    "idefics3": tiled_inputs,
    "smolvlm": tiled_inputs,
    "llava": llava_inputs,
}


def largest_gap(kind: str, folder: Path, model: Any, items: list[ScoreItem]) -> float:
    gaps = []
    for item, scored in zip(items, model.score(items), strict=True):
        for continuation, evidence in zip(item.continuations, scored, strict=True):
            expected = reference(kind, folder, str(item.prefix), continuation, item.image)
            assert len(expected) == len(evidence)
            gaps.append(np.abs(evidence.logprobs - expected).max())
    return float(max(gaps))


# -- agreement ----------------------------------------------------------------------------------------------------


def test_two_image_sizes_and_none_in_one_batch(kind: str, folders, pictures) -> None:
    """Every number is the network's own, and the vision tower sees each image once, however many choices there are."""
    model = howsure.load(f"hf:{folders[kind]}")
    assert model.takes_images
    items = [ScoreItem(PREFIX, CHOICES, seen) for seen in (*pictures, None)]
    seen_by_tower = count_images(model)
    assert largest_gap(kind, folders[kind], model, items) < TOLERANCE
    assert model.scorer.way == "packed"
    assert (model.counters.calls, model.counters.images_run) == (1, 2)
    assert seen_by_tower() == (1, patches_of(kind, model, pictures))
    encoded = model._encode(items)
    assert model.counters.tokens_run == sum(len(e.context) + sum(len(s) - 1 for s in e.suffixes) for e in encoded)
    assert model.counters.head_rows_run == sum(1 + sum(len(s) - 1 for s in e.suffixes) for e in encoded)


def count_images(model: Any) -> Any:
    """What goes into the vision tower: how often it is called, and with how many patches or tiles in all."""
    calls: list[int] = []
    base = model.network.base_model
    tower = next(getattr(base, n) for n in ("visual", "vision_tower", "vision_model") if hasattr(base, n))

    def hook(module: Any, args: Any, kwargs: Any) -> None:
        given = args[0] if args else kwargs["pixel_values"]
        calls.append(given.shape[0])

    tower.register_forward_pre_hook(hook, with_kwargs=True)
    return lambda: (len(calls), sum(calls))


def patches_of(kind: str, model: Any, pictures: list[Picture]) -> int:
    """How many patches (Qwen), tiles (Idefics3, SmolVLM) or images the pictures make when each is seen once."""
    total = 0
    for seen in pictures:
        pixels = model.image_input.pixels(seen)["pixel_values"]
        total += pixels.shape[1] if kind in ("idefics3", "smolvlm") else pixels.shape[0]
    return total


def test_the_pictures_matter(kind: str, folders, pictures) -> None:
    model = howsure.load(f"hf:{folders[kind]}")
    first, second, none = model.score([ScoreItem(PREFIX, CHOICES, seen) for seen in (*pictures, None)])
    for a, b in ((first, second), (first, none)):
        assert max(np.abs(x.logprobs - y.logprobs).max() for x, y in zip(a, b, strict=True)) > 1e-3


def test_a_choice_sees_nothing_that_comes_after_it(kind: str, folders, pictures) -> None:
    """Neither its own later tokens nor its sisters; also where the prefix attends both ways."""
    model = howsure.load(f"hf:{folders[kind]}")
    short, long = model.score([ScoreItem(PREFIX, (" not blue", " not blue at all"), pictures[0])])[0]
    alone = model.score([ScoreItem(PREFIX, (" not blue",), pictures[0])])[0][0]
    assert np.allclose(short.logprobs, long.logprobs[: len(short)], atol=1e-5)
    assert np.allclose(short.logprobs, alone.logprobs, atol=1e-5)


def test_the_plain_way_agrees_too(kind: str, folders, pictures) -> None:
    """It serves networks that cannot be packed, and rows longer than a sliding window."""
    model = howsure.load(f"hf:{folders[kind]}")
    model.scorer.way = "plain"
    items = [ScoreItem(PREFIX, CHOICES[:2], seen) for seen in (*pictures, None)]
    assert largest_gap(kind, folders[kind], model, items) < TOLERANCE


# -- known wrong ways, each of which the comparison above must catch -----------------------------------------------


def off_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import howsure.models.hf.packing as packing

    right = packing._pack_row

    def wrong(item, pad_id, split) -> PackedRow:
        row = right(item, pad_id, split)
        return row._replace(reads=row.reads - 1)

    monkeypatch.setattr(packing, "_pack_row", wrong)


def sees_what_comes_after(monkeypatch: pytest.MonkeyPatch) -> None:
    right = PackedBatch.visible

    def wrong(self, *, both_ways=False, start=0):
        same = self.segments[:, start:, None] == self.segments[:, None, :]
        return right(self, both_ways=both_ways, start=start) | same

    monkeypatch.setattr(PackedBatch, "visible", wrong)


def sees_its_sisters(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self, *, both_ways=False, start=0):
        places = np.arange(self.ids.shape[1])
        causal = places[start:, None] >= places[None, :]
        return np.broadcast_to(causal, (len(self.ids), *causal.shape)) & (self.segments >= 0)[:, None, :]

    monkeypatch.setattr(PackedBatch, "visible", wrong)


def wrong_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Layout.positions
    monkeypatch.setattr(Layout, "positions", lambda self, *given: right(self, *given) * 2)


def causal_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    from howsure.models.hf import packing, pixels

    paligemma = pixels.FAMILIES["paligemma"]
    wrong = pixels.Family(**{**paligemma.__dict__, "prefix_lm": False})
    monkeypatch.setitem(pixels.FAMILIES, "paligemma", wrong)
    monkeypatch.setattr(packing, "BOTH_WAYS", packing.CAUSAL)


@pytest.mark.parametrize("mistake", [off_by_one, sees_what_comes_after, sees_its_sisters, wrong_positions])
@pytest.mark.parametrize("kind", ["qwen3_vl", "paligemma"])
def test_wrong_ways_would_be_caught(kind: str, mistake, folders, pictures, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    model = howsure.load(f"hf:{folders[kind]}")
    assert model.scorer.way == "plain", "the trial at load sees it first"
    model.scorer.way = "packed"
    items = [ScoreItem(PREFIX, CHOICES, seen) for seen in pictures]
    assert largest_gap(kind, folders[kind], model, items) > 100 * TOLERANCE


def test_a_prefix_lm_read_causally_would_be_caught(folders, pictures, monkeypatch: pytest.MonkeyPatch) -> None:
    causal_prefix(monkeypatch)
    model = howsure.load(f"hf:{folders['paligemma']}")
    items = [ScoreItem(PREFIX, CHOICES, seen) for seen in pictures]
    assert largest_gap("paligemma", folders["paligemma"], model, items) > 100 * TOLERANCE


# -- chat, adapters, other kinds ----------------------------------------------------------------------------------


def test_chat_puts_the_image_into_the_first_user_message(kind: str, folders, pictures) -> None:
    model = howsure.load(f"hf:{folders[kind]}")
    assert model.takes_chat == (kind != "paligemma"), "PaliGemma knows no turns"
    if not model.takes_chat:
        return
    words = (Message("system", "be brief"), Message("user", "what is it?"))
    item = ScoreItem(words, ("blue", "the dog"), pictures[0])
    text = model.prompt_text(words, pictures[0])
    assert text.startswith("<|turn|>system: be brief")
    assert text.endswith("what is it?<|turn|>assistant:\n")
    scored = model.score([item])[0]
    assert [e.text for e in scored] == ["blue", "the dog"]
    without = model.score([ScoreItem(words, ("blue", "the dog"))])[0]
    assert abs(scored[0].nll_nats - without[0].nll_nats) > 1e-3


def test_a_kind_that_is_not_in_the_table_goes_by_its_processor(tmp_path: Path, pictures, monkeypatch) -> None:
    """Gemma 3 lets the tokens of an image see each other; packing is tried with an image, and is not used."""
    monkeypatch.setitem(KINDS, "gemma3", gemma3)
    folder = build_vision("gemma3", tmp_path / "gemma3")
    save_gemma3_processor(folder)
    model = howsure.load(f"hf:{folder}")
    assert model.scorer.way == "plain"
    item = ScoreItem(PREFIX, CHOICES[:2], pictures[0])
    for continuation, evidence in zip(item.continuations, model.score([item])[0], strict=True):
        expected = gemma3_reference(folder, PREFIX, continuation, pictures[0])
        assert np.abs(evidence.logprobs - expected).max() < TOLERANCE


def test_a_language_model_inside_another_is_read_as_the_whole_reads_it(tmp_path: Path, pictures, monkeypatch) -> None:
    monkeypatch.setitem(KINDS, "paligemma2", paligemma2)
    folder = build_vision("paligemma2", tmp_path / "paligemma2")
    model = howsure.load(f"hf:{folder}")
    assert model.scorer.way == "packed"
    assert not model.scorer.bends_logits
    items = [ScoreItem(PREFIX, CHOICES, seen) for seen in pictures]
    assert largest_gap("paligemma", folder, model, items) < TOLERANCE


def save_gemma3_processor(folder: Path) -> None:
    from transformers import AutoTokenizer, Gemma3ImageProcessorPil, Gemma3Processor

    names = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    tokenizer = AutoTokenizer.from_pretrained(folder, extra_special_tokens=names)
    images = Gemma3ImageProcessorPil(size={"height": 32, "width": 32})
    Gemma3Processor(images, tokenizer, image_seq_length=4).save_pretrained(folder)


def gemma3_reference(folder: Path, prefix: str, continuation: str, seen: Picture) -> np.ndarray:
    import torch
    from PIL import Image
    from transformers import AutoModelForImageTextToText, AutoProcessor

    network = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float64).eval()
    processor = AutoProcessor.from_pretrained(folder)
    image = Image.open(seen.path)
    inputs = processor(text=f"<start_of_image>{prefix}{continuation}", images=image, return_tensors="pt")
    length = processor(text=f"<start_of_image>{prefix}", images=image, return_tensors="pt")["input_ids"].shape[1]
    ids = inputs["input_ids"][0]
    with torch.inference_mode():
        logprobs = torch.log_softmax(network(**inputs).logits[0], dim=-1)
    return np.array([float(logprobs[i - 1, ids[i]]) for i in range(length, len(ids))])


def test_an_adapter_changes_an_image_text_model(folders, pictures, tmp_path: Path) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForImageTextToText

    torch.manual_seed(1)
    network = AutoModelForImageTextToText.from_pretrained(folders["qwen3_vl"])
    wrapped = get_peft_model(network, LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False))
    wrapped.save_pretrained(tmp_path / "adapter")
    item = ScoreItem(PREFIX, CHOICES, pictures[0])
    plain = howsure.load(f"hf:{folders['qwen3_vl']}").score([item])[0]
    tuned = howsure.load(f"hf:{folders['qwen3_vl']}+{tmp_path / 'adapter'}").score([item])[0]
    assert abs(plain[0].nll_nats - tuned[0].nll_nats) > 1e-3


# -- trouble ------------------------------------------------------------------------------------------------------


def test_a_text_that_names_an_image_is_refused(kind: str, folders, pictures) -> None:
    model = howsure.load(f"hf:{folders[kind]}")
    for item in (
        ScoreItem(f"what is {model.image_input.image_token}?", (" blue",), pictures[0]),
        ScoreItem("what is it?", (f" {model.image_input.image_token}",)),
    ):
        found = model.try_score([item])[0]
        assert isinstance(found, Failure)
        assert "stands for an image" in found.detail


def test_a_tokenizer_that_does_not_belong_to_the_model_is_said(folders, tiny_folder: Path, pictures) -> None:
    model = howsure.load(f"hf:{folders['qwen3_vl']}", tokenizer=str(tiny_folder), lazy=True)
    with pytest.raises(WeightsError, match="they do not belong together"):
        model.plan_scores([ScoreItem(PREFIX, CHOICES, pictures[0])])
    model = howsure.load(f"hf:{folders['paligemma']}", lazy=True)
    model.encoder.tokenizer.bos_token = None
    with pytest.raises(WeightsError, match="has no begin token"):
        model.plan_scores([ScoreItem(PREFIX, CHOICES, pictures[0])])


def test_an_image_that_the_model_cannot_take_fails_alone(kind: str, folders, pictures, tmp_path: Path) -> None:
    """A line of pixels: Qwen refuses it, others stretch it; either way the rest is scored."""
    line = inspect_picture(picture(tmp_path / "line.png", 2000, 2))
    model = howsure.load(f"hf:{folders[kind]}")
    items = [ScoreItem(PREFIX, CHOICES, pictures[0]), ScoreItem(PREFIX, CHOICES, line)]
    plan, (good, bad) = model.plan_scores(items), model.try_score(items)
    assert not isinstance(good, Failure)
    assert isinstance(bad, Failure) == kind.startswith("qwen")
    assert [failure.reason for failure in plan.refused.values()] == ["unreadable_image"] * isinstance(bad, Failure)
    if isinstance(bad, Failure):
        assert "2000×2 pixels cannot be prepared for the model" in bad.detail


def test_an_image_that_changes_under_way_fails_alone(folders, tmp_path: Path) -> None:
    seen = [inspect_picture(picture(tmp_path / f"{i}.png", 40, 40, seed=i)) for i in range(2)]
    picture(tmp_path / "1.png", 41, 41, seed=7)
    model = howsure.load(f"hf:{folders['qwen3_vl']}")
    good, bad = model.try_score([ScoreItem(PREFIX, CHOICES, one) for one in seen])
    assert not isinstance(good, Failure)
    assert isinstance(bad, Failure)
    assert bad.reason == "unreadable_image"
    assert "has changed since it was checked" in bad.detail


def test_a_text_model_refuses_an_image(tiny_folder: Path, pictures) -> None:
    model = howsure.load(f"hf:{tiny_folder}")
    assert not model.takes_images
    with pytest.raises(InputError, match="reads text only"):
        model.score([ScoreItem(PREFIX, CHOICES, pictures[0])])


def test_an_image_may_be_given_by_its_path(folders, pictures, tmp_path: Path) -> None:
    model = howsure.load(f"hf:{folders['qwen3_vl']}")
    seen = pictures[0]
    assert model.score([(PREFIX, CHOICES, seen.path)]) == model.score([ScoreItem(PREFIX, CHOICES, seen)])
    with pytest.raises(InputError, match="gone.png cannot be read"):
        model.score([(PREFIX, CHOICES, tmp_path / "gone.png")])


def test_images_prepared_ahead_give_the_same_numbers(folders, pictures) -> None:
    model = howsure.load(f"hf:{folders['qwen3_vl']}")
    items = [ScoreItem(PREFIX, CHOICES, seen) for seen in pictures]
    expected = model.try_score(items)
    model.prefetch(items)
    model.prefetch([])
    assert model.try_score(items) == expected
    model.close()
    assert model.try_score(items) == expected, "closed, and loaded again"


def test_another_image_at_the_same_path_is_another_image(folders, tmp_path: Path) -> None:
    """Prepared ahead, and then replaced: the old pixels must not answer for the new ones."""
    model = howsure.load(f"hf:{folders['qwen3_vl']}")
    old = inspect_picture(picture(tmp_path / "x.png", 40, 40, seed=1))
    before = model.score([ScoreItem(PREFIX, CHOICES, old)])
    model.prefetch([ScoreItem(PREFIX, CHOICES, old)])
    assert model.score([ScoreItem(PREFIX, CHOICES, old)]) == before
    new = inspect_picture(picture(tmp_path / "x.png", 40, 40, seed=2))
    after = model.score([ScoreItem(PREFIX, CHOICES, new)])
    assert after != before
    assert after == howsure.load(f"hf:{folders['qwen3_vl']}").score([ScoreItem(PREFIX, CHOICES, new)])


def test_memory_does_not_grow_with_questions_or_with_vocabulary_times_prefix(tmp_path: Path, monkeypatch) -> None:
    """The largest tensor that a run makes: never a table of [prefix × vocabulary], never one for all questions."""
    from tiny import build_tiny

    monkeypatch.setattr(scoring, "HEAD_ROWS", 16)
    vocabulary, budget = 20_000, 1024
    model = howsure.load(f"hf:{build_tiny(tmp_path, vocab_size=vocabulary)}", token_budget=budget)
    sizes = {}
    for name, count, words in (("few", 4, 30), ("many", 60, 30), ("long", 4, 120)):
        items = [ScoreItem("the sky " * words, (" is blue", " is a dog")) for _ in range(count)]
        sizes[name] = largest_tensor(lambda items=items: model.score(items))
    assert sizes["few"] == sizes["many"] == sizes["long"]
    assert sizes["long"] == vocabulary * 16


def largest_tensor(work: Any) -> int:
    """Elements of the largest tensor that torch makes meanwhile, weights aside."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        largest = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, (tuple, list)) else (out,):
                made = isinstance(tensor, torch.Tensor) and not any(tensor is given for given in args)
                if made and tensor.storage_offset() == 0 and not function.is_view:
                    Watch.largest = max(Watch.largest, tensor.numel())
            return out

    with Watch():
        work()
    return Watch.largest
