"""The table of targets: every reader of what comes from outside, the form of its input, and where it begins."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

from fuzz import seeds
from fuzz.feeds import answers, data, folders, logs, templates, weights

INSPECT = "inspect_ai"
POEM = "The sky is blue.\nÜber allen Gipfeln ist Ruh.\n하늘은 파랗다 👩‍👩‍👧\n"


class Target(NamedTuple):
    """One reader. `needs` is a package without which it only says that it is missing."""

    name: str
    form: str
    feed: Callable[[bytes], None]
    begin: Callable[[], list[bytes]]
    about: str
    examples: int = 40
    """Inputs in the short round of `make test`."""
    needs: str | None = None

    @property
    def is_here(self) -> bool:
        return self.needs is None or find_spec(self.needs) is not None

    @functools.cache  # noqa: B019  a handful of targets, for as long as the process lives
    def seeds(self) -> list[bytes]:
        return self.begin()


def _json(*values: object) -> Callable[[], list[bytes]]:
    return lambda: [seeds.as_json(value) for value in values]


def _lines(*values: list[object]) -> Callable[[], list[bytes]]:
    return lambda: [seeds.as_lines(value) for value in values]  # type: ignore[arg-type]


def _texts(*values: str) -> Callable[[], list[bytes]]:
    return lambda: seeds.texts(*values)


TARGETS = {
    target.name: target
    for target in (
        Target("tau2", "json", logs.tau2, seeds.tau2, "τ²-bench results: whole, a list, one simulation"),
        Target("tau2-in-parts", "json", logs.tau2_in_parts, seeds.tau2, "τ²-bench results as a folder", 20),
        Target("tau2-study", "json", logs.tau2_study, seeds.tau2, "scores, figures and document of such a log", 10),
        Target("chats", "json lines", logs.chats, _lines(seeds.chat_lines()), "chats as JSON lines"),
        Target("chats-study", "json lines", logs.chats_study, _lines(seeds.chat_lines()), "figures of such chats", 10),
        Target(
            "inspect-log", "binary", logs.inspect_log, lambda: [seeds.inspect_log()], "Inspect's .eval", 10, INSPECT
        ),
        Target(
            "inspect-sample",
            "json",
            logs.inspect_sample,
            lambda: [seeds.inspect_sample()],
            "what it packs",
            10,
            INSPECT,
        ),
        Target("questions", "json lines", data.questions, _lines(seeds.QUESTIONS), "multiple-choice questions"),  # type: ignore[arg-type]
        Target("clicks", "json", data.clicks_json, seeds.clicks, "ScreenSpot, OSWorld-G, flat lines, chats", 30),
        Target("click-lines", "json lines", data.clicks_json, seeds.clicks, "the same, line by line", 30),
        Target("pickle", "pickle", data.clicks_pickle, seeds.pickles, "chats as a pickle, of which nothing is run"),
        Target("pickle-bytes", "binary", data.clicks_pickle, seeds.pickles, "the same, its instructions damaged"),
        Target("image", "binary", data.image, seeds.images, "PNG, JPEG, WebP, BMP, GIF, TIFF, PPM"),
        Target("map", "json", data.map_, seeds.maps, "a map: read, drawn, told, searched and walked", 12, "minigrid"),
        Target("knowledge", "lines", data.knowledge, _texts(seeds.KNOWLEDGE, '[["a b."], ["c"]]'), "knowledge files"),
        Target("texts", "lines", data.texts, _texts(POEM), "texts of `perplexity`"),
        Target("texts-json", "json lines", data.texts_json, _lines([{"text": POEM}, {"text": "b"}]), "texts in lines"),
        Target("texts-gzip", "gzip", data.texts_gzip, lambda: seeds.zipped(POEM), "texts, packed", 15),
        Target("arpa", "lines", data.arpa, _texts(seeds.ARPA), "n-gram models"),
        Target("arpa-gzip", "gzip", data.arpa, lambda: seeds.zipped(seeds.ARPA), "n-gram models, packed", 15),
        Target("entropy-text", "lines", data.entropy_text, _texts(POEM * 3), "texts of `entropy`", 15),
        Target("entropy-gzip", "gzip", data.entropy_gzip, lambda: seeds.zipped(POEM), "the same, packed", 10),
        Target("trust-csv", "lines", logs.trust_csv, _texts(seeds.STEPS_CSV), "logs of steps for `trust analyse`", 15),
        Target("coordinates", "text", answers.coordinates, _texts(*seeds.COORDINATES), "clicks in answers", 60),
        Target("verbalized", "json", answers.verbalized, _json(seeds.VERBALIZED), "probabilities in answers"),
        Target("verbalized-text", "text", answers.verbalized, _json(seeds.VERBALIZED), "the same, broken JSON"),
        Target("action", "json", answers.action, _json(seeds.ACTION), "actions in answers, with their tokens"),
        Target("action-text", "text", answers.action, _json(seeds.ACTION), "the same, broken JSON"),
        Target("openai-logprobs", "json", answers.openai_logprobs, _json(seeds._tokens(-0.5)), "OpenAI's evidence"),
        Target("gemini-logprobs", "json", answers.gemini_logprobs, _json(seeds.GEMINI), "Gemini's evidence"),
        Target("recorded-evidence", "json", answers.recorded_evidence, _json(*seeds.RECORDED), "evidence in samples"),
        Target("openai-body", "json", answers.openai_body, _json(seeds.OPENAI_BODY), "a chat server's answer"),
        Target(
            "scored-body",
            "json",
            answers.scored_body,
            _json(seeds.VLLM_BODY, seeds.ECHO_BODY),
            "a scoring server's answer, laid along the text",
        ),
        Target("gemini-body", "json", answers.gemini_body, _json(seeds.GEMINI_BODY), "Gemini's answer"),
        Target("address", "text", answers.address, _texts(*seeds.ADDRESSES), "addresses of stores, paths below them"),
        Target("policy-config", "json", data.policy_config, _json(*seeds.POLICIES), "LeRobot's config.json"),
        Target("weights-index", "run", weights.weights_index, weights.models, "a model's weights", 10, "peft"),
        Target("adapter-folder", "run", weights.adapter_folder, weights.adapters, "a LoRA adapter", 10, "peft"),
        Target("model-name", "text", answers.model_name, _texts(*seeds.MODEL_NAMES), "names of models"),
        Target("prompt-template", "text", answers.prompt_template, _texts(*seeds.TEMPLATES), "templates of prompts"),
        Target(
            "chat-template", "text", templates.chat_template, _texts(*templates.SEEDS), "a checkpoint's chat template"
        ),
        Target("run-folder", "run", folders.run_folder, seeds.runs, "run.json, samples.jsonl, summary.json", 20),
        Target("run-resumed", "run", folders.run_resumed, seeds.runs, "a run taken up again", 20),
        Target("run-table", "run", folders.run_table, seeds.runs, "samples as a table", 20, "polars"),
        Target("run-exported", "run", folders.run_exported, seeds.runs, "samples as Parquet", 10, "pyarrow"),
        Target("run-report", "run", folders.run_report, seeds.runs, "the report of a run", 15),
        Target("overlay", "run", folders.run_overlaid, seeds.run_of_a_screen, "screens of a run, drawn on", 10, "PIL"),
        Target("run-viewed", "run", folders.run_viewed, seeds.runs, "every page of the viewer", 8, "starlette"),
        Target("runs-compared", "run", folders.runs_compared, seeds.compared_runs, "two runs compared", 10),
        Target(
            "viewer-request",
            "text",
            folders.viewer_request,
            _texts(*seeds.REQUESTS),
            "addresses asked of the viewer",
            25,
            "starlette",
        ),
    )
}
