"""`generate` on a local model: the emitted token's own probability, exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import howsure
from howsure.errors import InputError
from tiny import build_tiny, byte_level_tokenizer


def check_against_a_plain_forward(model, prompt_ids: list[int], answer) -> None:
    """Every figure of an answer, from one forward over prompt and answer."""
    import torch

    new = model.encoder.tokenizer(answer.logprobs.text, add_special_tokens=False)["input_ids"]
    assert len(new) == len(answer.logprobs), "the answer's tokens must read back alike for this comparison"
    with torch.inference_mode():
        logits = model.network(torch.tensor([[*prompt_ids, *new]])).logits[0, len(prompt_ids) - 1 : -1].double()
    table = torch.log_softmax(logits, dim=-1)
    expected = table[range(len(new)), new].numpy()
    assert np.abs(answer.logprobs.logprobs - expected).max() < 1e-4
    entropies = -(table.exp() * table).sum(-1).numpy()
    assert np.abs(answer.logprobs.entropies_nats - entropies).max() < 1e-3
    top = table.topk(3, dim=-1).values.numpy()
    found = [[value for _, value in answer.logprobs.top.row(i)] for i in range(len(new))]
    assert np.abs(np.array(found) - top).max() < 1e-3


@pytest.mark.real_model
def test_greedy_answers_have_their_own_probabilities(smollm2) -> None:
    questions = ["What is the capital of France?", "Say yes."]
    answers = smollm2.generate(questions, max_tokens=12, top_logprobs=3)
    assert "Paris" in answers[0].text
    assert answers[0].finish_reason == "stop"
    for question, answer in zip(questions, answers, strict=True):
        prompt = smollm2.encoder.tokenizer(smollm2.prompt_text(question), add_special_tokens=False)["input_ids"]
        check_against_a_plain_forward(smollm2, prompt, answer)


@pytest.mark.real_model
def test_at_temperature_1_it_is_the_emitted_token_not_the_likeliest(smollm2) -> None:
    question = "Tell me something about rivers."
    (answer,) = smollm2.generate([question], max_tokens=24, temperature=1.0, top_logprobs=3, seed=3)
    best = np.array([answer.logprobs.top.row(i)[0][1] for i in range(len(answer.logprobs))])
    assert (answer.logprobs.logprobs < best - 0.1).any(), "sampling must have left the likeliest path for this test"
    prompt = smollm2.encoder.tokenizer(smollm2.prompt_text(question), add_special_tokens=False)["input_ids"]
    check_against_a_plain_forward(smollm2, prompt, answer)


def test_sampling_is_decided_by_the_seed_and_leaves_torch_alone(tiny_folder: Path) -> None:
    import torch

    model = howsure.load(f"hf:{tiny_folder}")
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first = model.generate(["the sky"], max_tokens=8, temperature=1.0, seed=5)[0]
    assert torch.equal(torch.rand(3), expected)
    assert model.generate(["the sky"], max_tokens=8, temperature=1.0, seed=5)[0].text == first.text
    texts = {model.generate(["the sky"], max_tokens=8, temperature=1.0, seed=s)[0].text for s in range(6)}
    assert len(texts) > 1


def test_batches_of_unlike_length_answer_as_alone(tiny_folder: Path) -> None:
    model = howsure.load(f"hf:{tiny_folder}")
    prompts = ["the", "the quick brown fox jumps over the lazy dog", "what is the colour"]
    together = model.generate(prompts, max_tokens=6)
    for prompt, answer in zip(prompts, together, strict=True):
        alone = model.generate([prompt], max_tokens=6)[0]
        assert alone.text == answer.text
        assert np.allclose(alone.logprobs.logprobs, answer.logprobs.logprobs, atol=1e-5)


def test_what_comes_after_the_end_is_not_counted(tiny_folder: Path) -> None:
    """Rows that end early are padded by the generator; padding must carry no evidence."""
    import torch

    model = howsure.load(f"hf:{tiny_folder}")
    with torch.no_grad():
        model.network.lm_head.weight[0] = 0.0
        model.network.model.norm.weight.mul_(0.2)
    answers = model.generate(["the sky", "what is the"] * 6, max_tokens=40, temperature=1.0, seed=1)
    lengths = {len(answer.logprobs) for answer in answers}
    assert len(lengths) > 1, "some must end early for this test"
    for answer in answers:
        assert answer.finish_reason == ("length" if len(answer.logprobs) == 40 else "stop")
        assert "<s>" not in answer.text
        assert len(answer.logprobs.entropies_nats) == len(answer.logprobs)


def test_a_network_with_more_rows_than_its_tokenizer_has_tokens(tmp_path: Path) -> None:
    """Padded vocabularies are common; a token without a name spells nothing, and its probability still counts."""
    size = len(byte_level_tokenizer())
    model = howsure.load(f"hf:{build_tiny(tmp_path, vocab_size=size + 400)}")
    (answer,) = model.generate(["the sky"], max_tokens=40, temperature=2.0, seed=0)
    assert "" in answer.logprobs.tokens, "a nameless token must have come up for this test"
    assert answer.logprobs.text == answer.text
    assert len(answer.logprobs) == 40


def test_too_long_a_prompt_fails_alone(tiny_folder: Path) -> None:
    model = howsure.load(f"hf:{tiny_folder}")
    good, bad = model.generate(["the sky", "x " * 300], max_tokens=4)
    assert good.text is not None
    assert bad.text is None
    assert "the context is 256" in bad.failure


@pytest.mark.parametrize("options", [{"max_tokens": 0}, {"temperature": -1.0}, {"top_logprobs": -1}])
def test_impossible_wishes_are_refused(tiny_folder: Path, options: dict[str, float]) -> None:
    with pytest.raises(InputError, match="max_tokens must be at least 1"):
        howsure.load(f"hf:{tiny_folder}").generate(["the"], **options)


@pytest.mark.parametrize(
    "conversation",
    [[], [{"role": "user"}], [{"role": "user", "content": 3}], [3], [{"role": "user", "content": "x", "name": "y"}]],
)
def test_what_is_no_conversation_is_refused(tiny_folder: Path, conversation: list[object]) -> None:
    with pytest.raises(InputError, match="conversation"):
        howsure.load(f"hf:{tiny_folder}", lazy=True).generate([conversation])


def test_without_a_chat_template_only_one_user_message(tiny_folder: Path) -> None:
    with pytest.raises(InputError, match="no chat template"):
        howsure.load(f"hf:{tiny_folder}").generate([[{"role": "system", "content": "be kind"}]])
