"""Chat templates: programs that come with a checkpoint, run where their time and memory are limited.

transformers' own renderer runs them, in Jinja's sandbox, which keeps them from files and from Python and does not keep
them from looping for ever. Imports nothing heavy, since a process is started to run it.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from logging import getLogger
from types import ModuleType, SimpleNamespace
from typing import Any

from howsure.errors import InputError, ModelError
from howsure.limited import Ended, LimitedFunction, Raised

CPU_SECONDS = 5
"""For one conversation, which takes a template milliseconds."""
MOST_MEMORY_BYTES = 2**30
MOST_BYTES = 64 * 2**20
"""What a template may write."""

_render = LimitedFunction(
    "howsure.models.chat_templates:render", cpu_seconds=CPU_SECONDS, memory_bytes=MOST_MEMORY_BYTES
)


def apply(
    name: str,
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    begin_answer: bool = True,
    special_tokens: Mapping[str, str],
) -> str:
    """The text of a conversation, as the template of the model of this name writes it.

    An InputError says that it refuses the messages; a ModelError that it does not end, or not within its limits, since
    then each of ten thousand conversations would take as long.
    """
    request = {"chat_template": template, "conversations": [messages], "add_generation_prompt": begin_answer}
    try:
        text = _render(json.dumps(dict(special_tokens) | request).encode())
    except Raised as error:
        raise InputError(f"{name}'s chat template refuses these messages: {error}") from None
    except Ended as error:
        raise ModelError(f"{name} cannot be used: its chat template {error}; take another checkpoint of it") from None
    return text.decode("utf-8", "surrogatepass")


def begin() -> None:
    """Start the process that will run the template, while something else is loaded."""
    _render.start()


def render(given: bytes) -> bytes:
    """What transformers' renderer makes of its arguments; runs in a process of its own (`howsure.limited`)."""
    (text,), _ = _renderer()(**json.loads(given))
    if len(text) > MOST_BYTES:
        raise ValueError(f"it writes more than {MOST_BYTES >> 20} MiB")
    content: bytes = text.encode("utf-8", "surrogatepass")
    return content


@functools.cache
def _renderer() -> Any:
    """transformers' renderer, which is one file of it; to import the rest takes ten times as long.

    What the file wants of the rest is a logger, and to know which packages there are. Should a release want more, all
    is imported.
    """
    package, name = find_spec("transformers"), "transformers.utils.chat_template_utils"
    if package is None or "transformers" in sys.modules:
        return import_module(name).render_jinja_template
    stand_ins = _stand_ins(package.submodule_search_locations or ())
    sys.modules |= stand_ins
    try:
        return import_module(name).render_jinja_template
    except (ImportError, AttributeError):
        for module in (*stand_ins, name):
            sys.modules.pop(module, None)
        return import_module(name).render_jinja_template


def _stand_ins(roots: Iterable[str]) -> dict[str, ModuleType]:
    names = ("transformers", "transformers.utils", "transformers.utils.import_utils")
    whole, utils, packages = modules = [ModuleType(name) for name in names]
    vars(whole)["__path__"] = []
    vars(utils).update(__path__=[f"{root}/utils" for root in roots], logging=SimpleNamespace(get_logger=getLogger))
    vars(packages).update(
        {f"is_{name}_available": partial(bool, name == "jinja") for name in ("jinja", "torch", "vision")}
    )
    return dict(zip(names, modules, strict=True))
