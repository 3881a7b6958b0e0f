"""Logs that inspect_ai itself wrote: every turn's uncertainty, rewards, and files that are damaged or foreign."""

from __future__ import annotations

import io
import json
import math
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from howsure.errors import MissingExtra
from howsure.studies.trajectories.inspect_logs import read_inspect
from howsure.studies.trajectories.turns import Loaded, Mark, Said, Trajectory

LONG = "Think it over. " * 20
"""Long enough for Inspect to keep it apart, as an attachment."""

VALUES: dict[str, tuple[Any, float | None, str | None]] = {
    "correct": ("C", 1.0, None),
    "incorrect": ("I", 0.0, None),
    "partly": ("P", 0.5, None),
    "silent": ("N", 0.0, None),
    "true": (True, 1.0, None),
    "false": (False, 0.0, None),
    "quarter": (0.25, 0.25, None),
    "three": (3, 3.0, None),
    "yes": ("yes", 1.0, None),
    "spelled": ("0.5", 0.5, None),
    "unscored": (float("nan"), None, "no_reward"),
    "several": ({"a": 1, "b": 0}, None, "unreadable"),
    "praise": ("excellent", None, "unreadable"),
}
"""What scorers give, the reward that it is, and why it is none."""


def logprobs(number: int) -> list[float]:
    """Those of the answer with this number."""
    rng = np.random.default_rng(number)
    return (-rng.exponential(1.0, size=1 + number % 7)).tolist()


def uncertainty(text: str) -> float:
    """By the number that each answer carries."""
    values = logprobs(int(re.findall(r"#(\d+)", text)[0]))
    return -math.fsum(values) / len(values)


def say(number: int, text: str = "", call: dict[str, Any] | None = None, known: bool = True) -> Any:
    """An answer with its log-probabilities. Its usage is given, since Inspect would fetch a tokenizer to count it."""
    from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant, Logprob, Logprobs, ModelOutput, ModelUsage
    from inspect_ai.tool import ToolCall

    calls = [ToolCall(id=f"call{number}", function="add", arguments=call)] if call is not None else None
    tokens = [Logprob(token=f"t{i}", logprob=value) for i, value in enumerate(logprobs(number))]
    choice = ChatCompletionChoice(
        message=ChatMessageAssistant(content=f"#{number} {text}".strip(), tool_calls=calls, source="generate"),
        stop_reason="tool_calls" if calls else "stop",
        logprobs=Logprobs(content=tokens) if known else None,
    )
    return ModelOutput(model="mockllm/model", choices=[choice], usage=ModelUsage())


def run(folder: Path, task: Any, answers: Callable[..., Any], **options: Any) -> Path:
    from inspect_ai import eval as inspect_eval
    from inspect_ai.model import get_model

    model = get_model("mockllm/model", custom_outputs=answers, memoize=False)
    given = {"display": "none", "fail_on_error": False, "log_format": "eval", "log_dir": str(folder)} | options
    (log,) = inspect_eval(task, model=model, **given)
    assert log.status == "success"
    return Path(log.location)


def conversations() -> Any:
    """Adding with a tool that refuses negative numbers, then a second question, asked by a model of its own."""
    from inspect_ai import Task
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ChatMessageUser, get_model
    from inspect_ai.scorer import includes, match
    from inspect_ai.solver import generate, solver, use_tools
    from inspect_ai.tool import ToolError, tool

    @tool
    def add() -> Any:
        async def execute(x: int, y: int) -> str:
            """Add two numbers.

            Args:
                x: The first.
                y: The second.
            """
            if x < 0:
                raise ToolError("no negative numbers")
            return str(x + y)

        return execute

    @solver
    def second_question() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            if state.sample_id == "broken":
                raise ValueError("the phone rang")
            asked = await get_model().generate("Ask the agent something.")
            state.messages.append(ChatMessageUser(content=asked.completion))
            state.messages.append(ChatMessageUser(content=f"And then? {LONG}"))
            return await generate(state)

        return solve

    return Task(
        name="sums",
        dataset=[
            Sample(id="right", input=f"1 + 2? {LONG}", target="done"),
            Sample(id="wrong", input="-1 + 2?", target="never"),
            Sample(id="broken", input="0 + 0?", target="done"),
        ],
        solver=[use_tools(add()), generate(), second_question()],
        scorer=[includes(), match()],
    )


def adding_agent() -> Callable[..., Any]:
    """Calls the tool first, answers then, and numbers all that it says; what follows an error is without evidence."""
    count = iter(range(1, 1000))

    def answer(messages: Any, *_: Any) -> Any:
        number, last = next(count), messages[-1]
        if last.text.startswith("Ask the agent"):
            return say(number, "are you sure?")
        if last.role == "user" and "?" in last.text and "And then" not in last.text:
            return say(number, "", {"x": int(last.text.split()[0]), "y": 2})
        return say(number, f"done. {LONG}", known=getattr(last, "error", None) is None)

    return answer


@pytest.fixture(scope="module")
def inspect_ai() -> Any:
    return pytest.importorskip("inspect_ai", reason='inspect-ai is not installed: pip install "howsure[inspect]"')


@pytest.fixture(scope="module")
def log(inspect_ai: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("logs"), conversations(), adding_agent(), epochs=2)


@pytest.fixture(scope="module")
def loaded(log: Path) -> Loaded:
    return read_inspect(log, "sums.eval")


def trajectory(loaded: Loaded, name: str) -> Trajectory:
    return next(one for one in loaded.trajectories if one.id == name)


def scores(one: Trajectory) -> list[float | None]:
    return [turn.uncertainty_nats for turn in one.turns]


def rewritten(log: Path, path: Path, change: Callable[[dict[str, Any]], None], name: str = "right") -> Path:
    """The same log with one change in the first epoch of a sample."""
    with zipfile.ZipFile(log) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.namelist():
            data = old.read(entry)
            if entry == f"samples/{name}_epoch_1.json":
                sample = json.loads(data)
                change(sample)
                data = json.dumps(sample).encode()
            new.writestr(entry, data)
    return path


# -- turns ---------------------------------------------------------------------------------------------------------


def test_every_sample_and_epoch_is_a_trajectory(log: Path, loaded: Loaded) -> None:
    names = {one.id for one in loaded.trajectories}
    assert names == {f"{name}/{epoch}" for name in ("right", "wrong", "broken") for epoch in (1, 2)}
    one = trajectory(loaded, "right/2")
    assert (one.task_id, one.trial, one.domain, one.agent) == ("right", 2, "sums", "mockllm/model")
    assert (loaded.byte_count, loaded.source) == (log.stat().st_size, "sums.eval")
    assert loaded.timestamp


def test_every_turn_has_the_uncertainty_of_its_own_answer(loaded: Loaded) -> None:
    compared = 0
    for one in loaded.trajectories:
        for turn in one.turns:
            if turn.reason is None:
                assert turn.uncertainty_nats == pytest.approx(uncertainty(turn.content), abs=1e-9)
                compared += 1
    assert compared == 2 * (4 + 3 + 2)


def test_who_said_what_and_why_a_turn_has_no_score(loaded: Loaded) -> None:
    turns = [(turn.actor, turn.kind, turn.reason) for turn in trajectory(loaded, "right/1").turns]
    assert turns == [
        ("user", "text", "given"),
        ("agent", "tool_call", None),
        ("agent", "text", None),
        ("user", "text", None),  # a model wrote it elsewhere: found by its words
        ("user", "text", "no_logprobs"),  # nobody knows who wrote it
        ("agent", "text", None),
    ]
    assert [turn.reason for turn in trajectory(loaded, "wrong/1").turns][2] == "no_logprobs"
    assert trajectory(loaded, "right/1").skipped == {"tool": 1}


def test_long_texts_and_calls_are_whole(loaded: Loaded) -> None:
    one = trajectory(loaded, "right/1")
    assert one.opening == one.turns[0].content == f"1 + 2? {LONG}"
    assert one.turns[1].calls == ('add {"x":1,"y":2}',)
    assert one.turns[-1].content.endswith(f"done. {LONG}".strip())


def test_a_tool_that_fails_marks_the_turn_that_called_it(loaded: Loaded) -> None:
    assert trajectory(loaded, "wrong/1").marks == (Mark("tool_error", 2),)
    assert Said("tool", "no negative numbers") in trajectory(loaded, "wrong/1").said
    assert trajectory(loaded, "right/1").marks == ()


def test_tokens_are_shown_where_asked_for(log: Path, loaded: Loaded) -> None:
    turn = trajectory(read_inspect(log, "sums.eval", with_tokens=True), "right/1").turns[1]
    assert turn.tokens is not None
    assert turn.statistics is not None
    assert [row["token"] for row in turn.tokens] == [f"t{i}" for i in range(turn.statistics.token_count)]
    assert trajectory(loaded, "right/1").turns[1].tokens is None


def test_an_older_json_log_says_the_same(log: Path, loaded: Loaded, tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log, write_eval_log

    path = tmp_path / "sums.json"
    write_eval_log(read_eval_log(str(log)), str(path), format="json")
    again = read_inspect(path, "sums.eval")
    assert {one.id: scores(one) for one in again.trajectories} == {one.id: scores(one) for one in loaded.trajectories}
    assert again.problems == loaded.problems


def test_a_large_log_is_read_sample_by_sample(log: Path, loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    import inspect_ai.log

    def no_samples(*args: Any, header_only: bool = False, **options: Any) -> Any:
        assert header_only
        return read(*args, header_only=header_only, **options)

    read = inspect_ai.log.read_eval_log
    monkeypatch.setattr(inspect_ai.log, "read_eval_log", no_samples)
    monkeypatch.setattr("howsure.studies.trajectories.inspect_logs.WHOLE_BYTES", 0)
    again = read_inspect(log, "sums.eval")
    assert {one.id: scores(one) for one in again.trajectories} == {one.id: scores(one) for one in loaded.trajectories}
    assert {one.id: one.said for one in again.trajectories} == {one.id: one.said for one in loaded.trajectories}
    assert again.problems == loaded.problems


def test_without_ids_answers_are_found_by_their_words(log: Path, loaded: Loaded, tmp_path: Path) -> None:
    def forget(sample: dict[str, Any]) -> None:
        answers = [
            choice for event in sample["events"] if event["event"] == "model" for choice in event["output"]["choices"]
        ]
        for message in [*sample["messages"], *(choice["message"] for choice in answers)]:
            message["id"] = None

    again = trajectory(read_inspect(rewritten(log, tmp_path / "old.eval", forget), "old.eval"), "right/1")
    assert scores(again) == scores(trajectory(loaded, "right/1"))


def test_without_events_the_last_answer_is_in_the_output(log: Path, loaded: Loaded, tmp_path: Path) -> None:
    def forget(sample: dict[str, Any]) -> None:
        sample["events"] = []

    again = trajectory(read_inspect(rewritten(log, tmp_path / "old.eval", forget), "old.eval"), "right/1")
    last = again.turns[-1]
    assert last.uncertainty_nats == pytest.approx(uncertainty(last.content), abs=1e-9)
    assert [turn.reason for turn in again.turns[:-1]] == ["given", "tool_call", *["no_logprobs"] * 3]


# -- rewards -------------------------------------------------------------------------------------------------------


def test_grades_are_rewards_and_the_first_of_several_scorers_counts(loaded: Loaded) -> None:
    assert [trajectory(loaded, name).reward for name in ("right/1", "wrong/1", "right/2", "wrong/2")] == [1, 0, 1, 0]
    assert loaded.problems == []
    assert loaded.notes == [
        "sums.eval has several scores a sample (includes, match); the reward is the first, includes"
    ]


def test_a_sample_that_failed_has_turns_and_no_reward(loaded: Loaded) -> None:
    one = trajectory(loaded, "broken/1")
    assert (one.reward, one.reward_missing, one.termination) == (None, "not_evaluable", "error")
    assert [turn.reason for turn in one.turns] == ["given", None, None]


def test_what_inspect_would_count_as_nothing_is_missing(inspect_ai: Any, tmp_path: Path) -> None:
    from inspect_ai import Task
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import Score, scorer

    @scorer(metrics=[])
    def told() -> Any:
        async def score(state: Any, target: Any) -> Score:
            return Score(value=VALUES[state.sample_id][0])

        return score

    task = Task(dataset=[Sample(id=name, input="?") for name in VALUES], scorer=told())
    found = read_inspect(run(tmp_path, task, lambda *_: say(1)), "told.eval")
    assert {one.task_id: (one.reward, one.reward_missing) for one in found.trajectories} == {
        name: expected[1:] for name, expected in VALUES.items()
    }
    assert {problem.sentence for problem in found.problems} == {
        "told.eval: sample several, epoch 1: its score told is {'a': 1, 'b': 0}, which is no number; "
        "that part is left out",
        "told.eval: sample praise, epoch 1: its score told is 'excellent', which is no number; that part is left out",
    }


# -- damage --------------------------------------------------------------------------------------------------------


def test_a_damaged_sample_costs_no_other(log: Path, tmp_path: Path) -> None:
    def damage(sample: dict[str, Any]) -> None:
        sample["messages"] = "none"

    found = read_inspect(rewritten(log, tmp_path / "bad.eval", damage), "bad.eval")
    assert len(found.trajectories) == 5
    assert found.problems[0].sentence.startswith("bad.eval: sample right, epoch 1: ")
    assert "\n" not in found.problems[0].sentence


def test_what_is_no_log_probability_is_refused_by_its_place(log: Path, tmp_path: Path) -> None:
    def damage(sample: dict[str, Any]) -> None:
        answers = [event["output"] for event in sample["events"] if event["event"] == "model"]
        answers[0]["choices"][0]["logprobs"]["content"][0]["logprob"] = 0.5

    found = read_inspect(rewritten(log, tmp_path / "bad.eval", damage), "bad.eval")
    turn = trajectory(found, "right/1").turns[1]
    assert (turn.uncertainty_nats, turn.reason) == (None, "unreadable")
    assert "sample right, epoch 1: log-probabilities of messages[1]" in found.problems[-1].sentence


def test_a_run_that_did_not_finish_is_told(log: Path, tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log, write_eval_log

    half = read_eval_log(str(log))
    half.status, half.samples = "cancelled", (half.samples or [])[:2]
    write_eval_log(half, str(tmp_path / "half.eval"))
    found = read_inspect(tmp_path / "half.eval", "half.eval")
    assert len(found.trajectories) == 2
    assert found.problems == []
    assert found.notes[0] == (
        "half.eval is of a run that did not finish (status cancelled); the 2 samples that it holds are read"
    )


def test_a_sample_that_vanished_is_counted(log: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(log) as old, zipfile.ZipFile(tmp_path / "few.eval", "w") as new:
        for entry in old.namelist():
            if entry != "samples/right_epoch_1.json":
                new.writestr(entry, old.read(entry))
    found = read_inspect(tmp_path / "few.eval", "few.eval")
    assert len(found.trajectories) == 5
    sentence = "few.eval is of a run with 6 samples, but holds only 5; the others are missing"
    assert sentence in [problem.sentence for problem in found.problems]


def test_a_log_without_samples_is_told(log: Path, tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log, write_eval_log

    header = read_eval_log(str(log))
    header.samples = []
    write_eval_log(header, str(tmp_path / "none.eval"))
    found = read_inspect(tmp_path / "none.eval", "none.eval")
    assert [problem.reason for problem in found.problems] == ["no_samples"]


def foreign_zip() -> bytes:
    with zipfile.ZipFile(data := io.BytesIO(), "w") as file:
        file.writestr("readme.txt", "nothing of Inspect's")
    return data.getvalue()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.eval", b""),
        ("a.eval", b"no zip file"),
        ("a.eval", foreign_zip()),
        ("a.json", b""),
        ("a.json", b'{"simulations": []}'),
        ("a.json", b"[" * 10_000),
    ],
)
def test_a_foreign_file_is_one_sentence(inspect_ai: Any, tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    found = read_inspect(tmp_path / name, name)
    assert found.trajectories == []
    (problem,) = found.problems
    assert problem.reason == "malformed"
    assert problem.sentence.startswith(f"{name} is ")
    assert "restore" in problem.sentence
    assert "\n" not in problem.sentence


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_half_a_log_is_one_sentence(log: Path, tmp_path: Path, keep: float) -> None:
    data = log.read_bytes()
    (tmp_path / "half.eval").write_bytes(data[: int(len(data) * keep)])
    found = read_inspect(tmp_path / "half.eval", "half.eval")
    assert found.trajectories == []
    assert [problem.reason for problem in found.problems] == ["malformed"]


@pytest.mark.parametrize("seed", range(20))
def test_a_log_with_flipped_bytes_is_read_as_far_as_it_goes(log: Path, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = bytearray(log.read_bytes())
    for i in rng.integers(0, len(data), size=4):
        data[i] ^= int(rng.integers(1, 256))
    (tmp_path / "flipped.eval").write_bytes(data)
    found = read_inspect(tmp_path / "flipped.eval", "flipped.eval")
    assert len(found.trajectories) == 6 or {problem.reason for problem in found.problems}
    assert all("\n" not in problem.sentence for problem in found.problems)


def test_a_file_that_is_not_there_is_the_callers_to_tell(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_inspect(tmp_path / "none.eval", "none.eval")


def test_without_the_package_there_is_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    (tmp_path / "a.eval").write_bytes(b"")
    with pytest.raises(MissingExtra, match=r'pip install "howsure\[inspect\]"'):
        read_inspect(tmp_path / "a.eval", "a.eval")
