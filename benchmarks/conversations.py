"""Scoring every turn of a conversation: once through, against a forward pass a turn over all that came before it.

The conversations are those of the demo; SmolLM2, float32. The contender is what scripts do: render the chat up to a
turn, run all of it, and read the probabilities of the turn's tokens.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from benchmarks.harness import Case


def cases() -> list[Case]:
    import howsure
    from howsure.models.contract import Rolling
    from howsure.studies.trajectories.proxy import conversation_of
    from howsure.studies.trajectories.tau2 import read_tau2

    model = howsure.load("smollm2")
    data = (files("howsure.data") / "demo_trajectories.json").read_bytes()
    talks = [conversation_of(one).messages for one in read_tau2(data, "demo").trajectories]
    prefixes = [talk[: i + 1] for talk in talks for i in range(len(talk))]
    rolling = model.rolling(Rolling())

    def ours() -> list[float]:
        found: Any = model.read_conversations(talks, rolling)
        return [one.nll_nats for talk in found for one in talk]

    def theirs() -> list[float]:
        return [_nll(model, talk) for talk in prefixes]

    gap = max(abs(a - b) for a, b in zip(ours(), theirs(), strict=True))
    assert gap < 1e-2, f"the contenders differ by {gap} nats"
    costs: Any = model.conversation_cost(talks, rolling)
    notes = {
        "conversations": len(talks),
        "tokens": f"{sum(cost.tokens for cost in costs):,}",
        "tokens run by ours": f"{sum(cost.tokens_run for cost in costs):,}",
        "tokens run turn by turn": f"{sum(len(_ids(model, talk)) for talk in prefixes):,}",
        "largest difference": f"{gap:.1e} nats a turn",
    }
    return [Case("every message of eight conversations", {"howsure": ours, "a pass for each message": theirs}, notes)]


def _render(model: Any, talk: Any) -> str:
    messages = [{"role": message.role, "content": message.content} for message in talk]
    return str(model.encoder.tokenizer.apply_chat_template(messages, tokenize=False))


def _ids(model: Any, talk: Any) -> list[int]:
    return list(model.encoder.tokenizer(_render(model, talk), add_special_tokens=False)["input_ids"])


def _nll(model: Any, talk: Any) -> float:
    """−ln p of the last message's content, after everything before it."""
    import torch

    text = _render(model, talk)
    content = talk[-1].content
    begin = text.rindex(content)
    found = model.encoder.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    places = [
        i for i, (start, end) in enumerate(found["offset_mapping"]) if start < begin + len(content) and end > begin
    ]
    ids = torch.tensor([found["input_ids"]])
    with torch.inference_mode():
        logits = model.network(ids).logits[0].float()
    logprobs = torch.log_softmax(logits, dim=-1)
    return -sum(float(logprobs[i - 1, ids[0, i]]) for i in places)
