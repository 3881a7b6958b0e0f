"""The demo: every study once, on small data that comes with the package. Each study adds its function to `JOBS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

from howsure.models.contract import Model
from howsure.models.registry import load
from howsure.runs import Progress
from howsure.runs.files import storage_errors, to_json, write_atomic
from howsure.studies import grounding, mcq, perplexity, trajectories, trust
from howsure.studies.summary import Coverage, Figure, summary
from howsure.studies.theorem import Theorem, theorem

TRUST_EPISODES = 6
TRUST_STEPS = 2
"""Of each episode. Several short episodes that differ say more of T than a long one, which identifies nothing."""
GROUNDING_TOKENS = 128


class Done(NamedTuple):
    """What came of a study: its summary, whether some samples failed, and something to draw where there is."""

    summary: dict[str, Any]
    failed: bool
    to_draw: Theorem | None = None


class Job(NamedTuple):
    """A study ready to run: what it will take, and how to start it in a run folder."""

    study: str
    model_calls: int
    tokens: int
    run: Callable[[Path, Progress], Done]


def mcq_job(model: Model) -> Job:
    with _data("demo_mcq.jsonl") as data:
        prepared = mcq.prepare(data, model)

    def run(out: Path, progress: Progress) -> Done:
        result = mcq.carry_out(prepared, "howsure.data/demo_mcq.jsonl", out=out, progress=progress)
        return Done(result.summary, any(sample.failed for sample in result.samples))

    cost = prepared.cost()
    return Job("mcq", cost["model_calls"], cost["tokens"], run)


def perplexity_job(model: Model) -> Job:
    with _data("demo_text.txt") as data:
        cost = perplexity.prepare_all([data], [model])[0].cost()

    def run(out: Path, progress: Progress) -> Done:
        with _data("demo_text.txt") as data:
            (prepared,) = perplexity.prepare_all([data], [model])
            result = perplexity.carry_out(prepared, out=out, progress=progress)
        return Done(result.summary, result.failed)

    return Job("perplexity", cost["model_calls"], cost["tokens"], run)


def trajectories_job(model: Model) -> Job:
    """Conversations without log-probabilities, read by the model if it can read conversations."""
    reader = model if model.takes_conversations else None
    with _data("demo_trajectories.json") as data:
        cost = trajectories.prepare([data], score_with=reader).cost()

    def run(out: Path, progress: Progress) -> Done:
        with _data("demo_trajectories.json") as data:
            prepared = trajectories.prepare([data], score_with=reader, for_a_run=True)
            result = trajectories.carry_out(prepared, out=out, progress=progress)
        return Done(result.summary, result.failed)

    return Job("trajectories", cost.get("conversations_to_read", 0), cost.get("tokens_run", 0), run)


def trust_job(model: Model) -> Job:
    """A few steps of several episodes in the map with rooms and furniture, by exact scores."""
    with closing(_trust(model)) as prepared:
        cost = prepared.cost()

    def run(out: Path, progress: Progress) -> Done:
        with closing(_trust(model)) as prepared:
            result = trust.carry_out(prepared, out=out, progress=progress)
        return Done(result.summary, result.failed)

    return Job("trust", cost["model_calls_at_most"], cost.get("tokens_at_most", 0), run)


def _trust(model: Model) -> trust.Prepared:
    return trust.prepare("home", model, episodes=TRUST_EPISODES, max_steps=TRUST_STEPS, act="sample")


def grounding_job(model: Model) -> Job:
    """A drawn screen; the built-in baseline clicks on it where the model cannot see."""
    seeing = model if model.answers_images and not model.remote else load("ocr", lazy=True)
    with as_file(files("howsure.data")) as folder:
        cost = grounding.prepare(folder / "demo_grounding.jsonl", seeing, max_new_tokens=GROUNDING_TOKENS).cost()

    def run(out: Path, progress: Progress) -> Done:
        with as_file(files("howsure.data")) as folder:
            prepared = grounding.prepare(folder / "demo_grounding.jsonl", seeing, max_new_tokens=GROUNDING_TOKENS)
            result = grounding.carry_out(prepared, "howsure.data/demo_grounding.jsonl", out=out, progress=progress)
        return Done(result.summary, result.failed)

    return Job("grounding", cost["model_calls"], cost.get("new_tokens_at_most", 0), run)


def theorem_job(model: Model) -> Job:
    """A language of six words read by its own model; needs no other."""

    def run(out: Path, progress: Progress) -> Done:
        found = theorem(seed=0)
        with storage_errors(out):
            out.mkdir(parents=True, exist_ok=True)
        write_atomic(out / "theorem.json", to_json(found.to_dict(), indent=2) + b"\n")
        return Done(_of_theorem(found), False, found)

    return Job("theorem", 0, 0, run)


def _of_theorem(found: Theorem) -> dict[str, Any]:
    length = f"{found.lengths[-1]:,}"
    figures = [Figure("entropy rate", found.entropy_rate_bits, "bits per word, in closed form")]
    figures += [Figure(c.name, c.path_bits[-1], f"bits per word over {length} words") for c in found.curves]
    return summary("theorem", Coverage(found.paths, found.paths), figures, [])


@contextmanager
def _data(name: str) -> Iterator[Path]:
    with as_file(files("howsure.data") / name) as path:
        yield path


JOBS: tuple[Callable[[Model], Job], ...] = (
    trust_job,
    trajectories_job,
    perplexity_job,
    grounding_job,
    mcq_job,
    theorem_job,
)
