"""One screen asked and judged: what every answer becomes against every kind of target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from howsure.models.contract import Answer, Capability, Click, ClickRequest, Counters, Failure, Model
from howsure.models.images import Picture
from howsure.runs import Sample
from howsure.runs.run import Batch, prepared
from howsure.studies.grounding.ask import Asking, ask
from howsure.studies.grounding.frames import FRAMES
from howsure.studies.grounding.record import Confidence, Item, Sampled, Target
from howsure.studies.grounding.study import GROUNDING, GroundingOptions, grounding

from .screens import flat, screen, write_lines

SHOWN = Picture("/nowhere/a.png", 800, 400, "0" * 64)
POINT, BOX = Target("point", (500.0, 500.0)), Target("box", (400.0, 490.0, 600.0, 510.0))
TRIANGLE, NOTHING = Target("polygon", (0.0, 0.0, 1000.0, 0.0, 0.0, 1000.0)), Target("refusal")
NO_IDEA, REFUSES = "I have no idea.", "```grounding\n(-1, -1)\n```"


class Says(Model):
    """Gives the answers that it was given, one for each round."""

    name = "hf:says"
    capabilities = frozenset({Capability.GENERATE})

    def __init__(self, *answers: str | Answer, seen: tuple[int, int] | None = None) -> None:
        self.counters = Counters()
        self.rounds = [one if isinstance(one, Answer) else Answer(one, finish_reason="stop") for one in answers]
        self.asked: list[tuple[Any, dict[str, Any]]] = []
        self.closed = False
        self._seen = seen

    def fingerprint(self) -> dict[str, Any]:
        return {"backend": "test"}

    @property
    def answers_images(self) -> bool:
        return True

    def seen_size(self, picture: Picture) -> tuple[int, int] | None:
        return self._seen

    def generate(self, conversations: Any, **options: Any) -> list[Answer]:
        self.asked.append((list(conversations), options))
        return [self.rounds[len(self.asked) - 1]] * len(self.asked[-1][0])

    def close(self) -> None:
        self.closed = True


def asked(model: Model, target: Target = POINT, **how: Any) -> Sample:
    item = Item("one", SHOWN, "open the menu", target)
    return ask(model, Batch(("one",), (item,), (7,)), Asking(**{"logprobs": False} | how))[0]


@pytest.mark.parametrize(
    ("target", "answer", "l2", "within", "inside", "hit"),
    [
        (POINT, "(500, 640)", 140.0, True, None, True),
        (POINT, "(500, 641)", 141.0, False, None, False),
        (POINT, NO_IDEA, None, False, None, False),
        (POINT, REFUSES, None, False, None, False),
        (BOX, "(600, 500)", 100.0, True, True, True),
        (BOX, "(500, 520)", 20.0, True, False, False),
        (BOX, NO_IDEA, None, False, False, False),
        (TRIANGLE, "(100, 100)", pytest.approx(400 * 2**0.5), False, True, True),
        (TRIANGLE, "(501, 501)", pytest.approx(2**0.5), True, False, False),
        (NOTHING, REFUSES, None, None, None, True),
        (NOTHING, "(500, 500)", None, None, None, False),
        (NOTHING, NO_IDEA, None, None, None, False),
    ],
)
def test_an_answer_against_a_target(
    target: Target, answer: str, l2: Any, within: bool | None, inside: bool | None, hit: bool
) -> None:
    """A region decides by itself, a point by δ with its edge, and nothing but a refusal is right where none is."""
    sample = asked(Says(answer), target)
    found = [sample.result[name] for name in ("l2", "within_delta", "inside", "hit")]
    assert found == [l2, within, inside, hit]
    assert sample.outcome is not None
    assert (sample.outcome.correct, sample.outcome.distance) == (hit, l2)
    assert (sample.result["pred_coord"] is None) == (answer in (NO_IDEA, REFUSES))


def test_a_call_that_failed_has_no_verdict() -> None:
    sample = asked(Says(Answer(None, failure="the server hung up")))
    assert (sample.reason, sample.detail, sample.outcome) == ("no_answer", "the server hung up", None)
    assert {sample.result[name] for name in ("hit", "pred_coord", "l2", "says")} == {None}


def test_a_number_that_the_token_limit_ended_is_no_click() -> None:
    whole, cut = (Answer("500, 50", finish_reason=reason) for reason in ("stop", "length"))
    assert asked(Says(cut)).result["says"] == "wrong_format"
    assert asked(Says(whole)).result["says"] == "point"


def test_drawn_answers_are_counted_by_what_they_are() -> None:
    rounds = ("(500, 500)", "(500, 510)", NO_IDEA, REFUSES, Answer(None, failure="busy"), "(900, 900)")
    model = Says(*rounds)
    sample = asked(model, samples=5, temperature=0.3)
    points = ((500.0, 510.0), (900.0, 900.0))
    assert sample.result.samples == Sampled(asked=5, points=points, wrong_format=1, refusals=1, failed=1)
    assert sample.result["confidence"]["agreement"] == 0.25, "of four answers one is near"
    assert [options.get("temperature", 0.0) for _, options in model.asked] == [0.0, *[0.3] * 5]
    assert sample.evidence["samples"][3] == {"text": None, "failure": "busy"}


def test_the_screen_stands_in_the_users_message() -> None:
    model = Says(REFUSES)
    asked(model, NOTHING, may_refuse=True)
    ((message,),) = model.asked[0][0]
    assert (message.role, message.images) == ("user", (SHOWN,))
    assert "open the menu" in message.content
    assert "(-1, -1)" in message.content


def test_pixels_of_the_image_as_the_network_sees_it() -> None:
    """Half as wide and a quarter as high as it is shown: (100, 50) is a quarter across and half-way down."""
    sample = asked(Says("(100, 50)", seen=(400, 100)), frame=FRAMES["resized-pixels"])
    assert sample.result["pred_coord"] == (250.0, 500.0)
    assert asked(Says("(100, 50)"), frame=FRAMES["pixels"]).result["pred_coord"] == (125.0, 125.0)


def test_pixels_of_the_image_as_a_server_brings_it_to_size() -> None:
    """800×400 within 100,000 pixels is divided by √3.2, and has 15 × 7 tokens of 28 pixels: 420×196."""
    model = Says("(105, 49)", "(105, 49)")
    model.remote = True
    how: dict[str, Any] = {"frame": FRAMES["resized-pixels"]}
    assert asked(model, **how, server_max_pixels=100_000).result["pred_coord"] == (250.0, 250.0)
    whole = asked(model, **how).result["pred_coord"]
    assert whole == (pytest.approx(105 / 812 * 1000), pytest.approx(49 / 392 * 1000)), "29 × 14 tokens"


def test_a_model_that_clicks_is_taken_at_its_pixels() -> None:
    class Clicker(Says):
        capabilities = frozenset({Capability.CLICK})

        def click(self, requests: Any) -> list[Click | Failure]:
            assert requests == [ClickRequest("open the menu", SHOWN)]
            return [Click(200.0, 300.0, 0.75, "Menu", "exact")]

    result = asked(Clicker(), BOX).result
    assert result["pred_coord"] == (250.0, 750.0)
    assert (result["confidence"], result["pred_content"], result["form"]) == (Confidence(match=0.75), "Menu", "exact")


def test_what_is_written_into_the_run(tmp_path: Path) -> None:
    screen(tmp_path / "a.png")
    rows = [flat(), flat([], "refusal")]
    data = write_lines(tmp_path / "clicks.jsonl", rows)
    options = GroundingOptions(data, Says(NO_IDEA), samples=2, temperature=0.5, prompt="{instruction}!")
    with prepared(GROUNDING, options) as ready:
        (plan,) = ready.plans
    wanted = {"samples": 2, "temperature": 0.5, "may_refuse": True, "prompt": "{instruction}!", "delta": 140.0}
    assert wanted.items() <= plan.more_identity.items()
    assert plan.how.may_refuse
    with pytest.raises(ValueError, match="--temperature"):
        options.with_(temperature=0.0)


def test_a_model_that_was_opened_elsewhere_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen(tmp_path / "a.png")
    data = write_lines(tmp_path / "clicks.jsonl", [flat()])
    model = Says(NO_IDEA)
    with prepared(GROUNDING, GroundingOptions(data, model)):
        pass
    assert not model.closed
    monkeypatch.setattr("howsure.studies.study.load", lambda name, **options: model)
    with prepared(GROUNDING, GroundingOptions(data, "hf:says")):
        assert not model.closed
    assert model.closed


def test_two_models_are_compared(tmp_path: Path) -> None:
    screen(tmp_path / "a.png")
    data = write_lines(tmp_path / "clicks.jsonl", [flat()])
    pair = grounding(data, Says("(500, 500)"), model_b=Says(NO_IDEA), out=tmp_path / "run", logprobs=False)
    assert [pair.a.summary.accuracy, pair.b.summary.accuracy] == [1.0, 0.0]
    assert pair.comparison.difference.accuracy == -1.0
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["a", "b", "comparison.json", "report.html"]
