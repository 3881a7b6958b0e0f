"""How a model is opened: options that every command and function with a model has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from howsure.options import HERE, INTERNAL, Opt, Options

MODEL = Opt("Model name; `howsure models` lists the kinds.", flags=("--model", "-m"), identity="no")
"""Of an option that names a model."""


@dataclass(frozen=True, kw_only=True)
class ModelOptions(Options):
    """How to open a model; what a back end has no use for, it ignores.

    `max_pixels` is the most that an image-text model on this machine sees of an image, None what the checkpoint says.
    `elsewhere` means that others open the model for the work: `device` is theirs, and not looked for on this machine.
    """

    base_url: Annotated[
        str | None,
        Opt("Address of an OpenAI-compatible server, such as http://127.0.0.1:8080/v1.", identity="no"),
    ] = None
    device: Annotated[str | None, Opt("cpu, cuda, cuda:1, mps. Default: a GPU where there is one.", identity="no")] = (
        None
    )
    dtype: Annotated[
        str | None,
        Opt("float32, bfloat16, float16. Default: float32 on a CPU, the checkpoint's on a GPU.", identity="no"),
    ] = None
    compile: Annotated[
        bool,
        Opt("For long runs on a GPU: some 20 s of compiling, then about a third faster.", identity="no"),
    ] = False
    tokenizer: Annotated[
        str | None,
        Opt("Folder or name to take the tokenizer from, where the checkpoint has none.", identity="no"),
    ] = None
    token_budget: Annotated[
        int | None, Opt("Tokens run at once. Default: 2048 on a CPU, 16384 on a GPU.", identity="no")
    ] = None
    trust_remote_code: Annotated[bool, Opt("Let a checkpoint run Python code of its own.", identity="no")] = False
    max_pixels: Annotated[int | None, HERE] = None
    concurrency: Annotated[int, HERE] = 8
    elsewhere: Annotated[bool, INTERNAL] = False
    announce: Annotated[Callable[[str], None] | None, HERE] = None
