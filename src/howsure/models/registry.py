"""Models by name: one string that means the same on the command line, in Python and in a run's manifest.

Its first part names the back end: what that can do, what it needs and how to open it is one entry of `BACK_ENDS`. A new
back end is one file and one entry here; the conformance tests and `howsure models` go by this table.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from howsure.errors import InputError, MissingExtra, UnknownModel
from howsure.models.contract import Capability, Model, ModelOptions


class ModelName(NamedTuple):
    """A parsed name: the kind of back end, what it should open, and a LoRA adapter where one is added."""

    kind: str
    target: str
    adapter: str | None = None

    def __str__(self) -> str:
        if not self.target:
            return self.kind
        return f"{self.kind}:{self.target}" + (f"+{self.adapter}" if self.adapter else "")


class BackEnd(NamedTuple):
    kind: str
    form: str
    what: str
    capabilities: frozenset[Capability]
    packages: tuple[str, ...]
    extra: str | None
    open: Callable[[ModelName, ModelOptions], Model]

    @property
    def takes_target(self) -> bool:
        """Whether its name goes on after a colon."""
        return "<" in self.form

    def missing_package(self) -> str | None:
        """The first package that is not installed, or None."""
        return next((name for name in self.packages if not _is_installed(name)), None)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package around it is missing
        return False


def _open_smollm2(name: ModelName, options: ModelOptions) -> Model:
    from howsure.models.hf import HFTextModel

    return HFTextModel.built_in(str(name), options)


def _open_hf(name: ModelName, options: ModelOptions) -> Model:
    from howsure.models.hf import HFTextModel

    return HFTextModel.open(name, options)


def _open_lerobot(name: ModelName, options: ModelOptions) -> Model:
    from howsure.models.lerobot import Pi0FastModel

    return Pi0FastModel.open(name, options)


def _open_openai(name: ModelName, options: ModelOptions) -> Model:
    from howsure.models.servers.openai import OpenAIServer

    return OpenAIServer(
        name.target, base_url=options.base_url, concurrency=options.concurrency, announce=options.announce
    )


def _open_gemini(name: ModelName, options: ModelOptions) -> Model:
    from howsure.models.servers.gemini import GeminiModel

    return GeminiModel(
        name.target, base_url=options.base_url, concurrency=options.concurrency, announce=options.announce
    )


def _open_ngram(name: ModelName, options: ModelOptions) -> Model:
    from howsure.models.ngram.model import NgramModel

    return NgramModel(name.target)


def _open_ocr(name: ModelName, options: ModelOptions) -> Model:
    from howsure.models.ocr import OcrModel

    return OcrModel(options)


_BOTH = frozenset({Capability.GENERATE, Capability.SCORE})
_LOCAL = ("torch", "transformers", "accelerate")

BACK_ENDS: dict[str, BackEnd] = {
    back_end.kind: back_end
    for back_end in (
        BackEnd(
            "smollm2", "smollm2", "built in: SmolLM2-135M-Instruct, fetched once (93 MB)",
            _BOTH, (*_LOCAL, "gguf"), "local", _open_smollm2,
        ),
        BackEnd(
            "hf", "hf:<repo or folder>[+<adapter>]", "a Hugging Face text or image-text model, with a LoRA adapter",
            _BOTH, _LOCAL, "local", _open_hf,
        ),
        BackEnd(
            "lerobot", "lerobot:<folder>", "a LeRobot Pi0Fast policy: the PaliGemma inside it (--tokenizer)",
            frozenset({Capability.SCORE}), _LOCAL, "local", _open_lerobot,
        ),
        BackEnd(
            "openai", "openai:<model>", "an OpenAI-compatible server (--base-url); vLLM and its like can score",
            _BOTH, ("openai",), None, _open_openai,
        ),
        BackEnd(
            "gemini", "gemini:<model>", "Google's Gemini, by developer key or Vertex AI; some give log-probabilities",
            frozenset({Capability.GENERATE}), ("google.genai",), "gemini", _open_gemini,
        ),
        BackEnd(
            "ngram", "ngram:<file.arpa>", "an n-gram model, from `howsure ngram train`, KenLM or SRILM",
            frozenset({Capability.SCORE}), (), None, _open_ngram,
        ),
        BackEnd(
            "ocr", "ocr", "built in: reads the text on a screen and clicks what matches the instruction",
            frozenset({Capability.CLICK}), ("rapidocr_onnxruntime", "PIL"), "gui", _open_ocr,
        ),
    )
}  # fmt: skip


def parse_name(name: str) -> ModelName:
    """Read a model's name, with a sentence about what is known where it is not.

    >>> parse_name("hf:base+adapter")
    ModelName(kind='hf', target='base', adapter='adapter')
    """
    kind, colon, target = name.strip().partition(":")
    if kind not in BACK_ENDS:
        raise UnknownModel(_unknown(name))
    if not BACK_ENDS[kind].takes_target:
        if colon:
            raise UnknownModel(f"model {name!r}: {kind!r} takes nothing after it")
        return ModelName(kind, "")
    if not target:
        raise UnknownModel(f"model {name!r} names nothing: write {kind}:<name>")
    if kind != "hf" or _exists(target):
        return ModelName(kind, target)
    base, plus, adapter = target.partition("+")
    if plus and not (base and adapter):
        raise UnknownModel(f"model {name!r}: write hf:<base>+<adapter>, with both given")
    return ModelName(kind, base, adapter or None)


def _unknown(name: str) -> str:
    kinds = {kind: f"{kind}:<name>" if back_end.takes_target else kind for kind, back_end in BACK_ENDS.items()}
    close = difflib.get_close_matches(name.partition(":")[0], list(kinds), n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}? " if close else ""
    if not close and ("/" in name or _exists(name)):
        hint = f"did you mean 'hf:{name}'? "
    return f"unknown model {name!r}: {hint}known are {', '.join(kinds.values())}; `howsure models` explains each"


def _exists(path: str) -> bool:
    """Whether there is such a file or folder; a text that cannot be a path at all names none."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def load(name: str, *, lazy: bool = False, **options: Any) -> Model:
    """Open a model by its name; see `ModelOptions` for the options.

    The weights are loaded at once, so that a broken checkpoint is reported here; with `lazy=True` at first use.
    """
    parsed = parse_name(name)
    back_end = BACK_ENDS[parsed.kind]
    missing = back_end.missing_package()
    if missing is not None:
        raise MissingExtra(f"model {name!r}", back_end.extra or "all", missing)
    chosen = _options(options)
    model = back_end.open(parsed, chosen)
    model.opened_by = (reopen, (name, replace(chosen, announce=None, elsewhere=False)))
    if not lazy:
        model.load()
    return model


def reopen(name: str, options: ModelOptions) -> Model:
    """The same model in another process, without its weights yet."""
    return load(name, lazy=True, **vars(options))


def _options(given: dict[str, Any]) -> ModelOptions:
    known = ModelOptions.__dataclass_fields__
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise InputError(f"unknown model option {unknown[0]!r}; known are {', '.join(known)}")
    return ModelOptions(**given)
