"""Opening a Hugging Face checkpoint so that nothing in it is random and nothing in it runs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from howsure.errors import HowsureError, InputError, WeightsError
from howsure.models.names import newest_checkpoint

SAMPLED_BYTES = 1 << 20
"""Files above this size are fingerprinted by their size and their first and last this many bytes."""


def resolve(target: str) -> str:
    """A folder on disk (the newest checkpoint in it), or a name to be looked up on the hub."""
    path = Path(target).expanduser()
    if path.exists():
        return str(newest_checkpoint(path))
    if target.startswith(("/", "./", "../", "~")) or target.count("/") > 1:
        raise InputError(f"there is no folder {target!r}; hf: takes a model folder or a hub name such as org/model")
    return target


def refuse_lone_adapter(source: str) -> None:
    """Say what an adapter lacks; without its base it holds no network."""
    folder = Path(source)
    if not (folder / "adapter_config.json").is_file() or (folder / "config.json").is_file():
        return
    base = cached_json(source, "adapter_config.json").get("base_model_name_or_path") or "<base>"
    raise InputError(f"{source} is a LoRA adapter without the model that it belongs to: write hf:{base}+{source}")


def choose_device(wanted: str | None, elsewhere: bool = False) -> str:
    """The device asked for, if this machine has it or it is another's; else a GPU where there is one."""
    if wanted is not None and elsewhere:
        return wanted
    import torch

    if wanted is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=wanted)
    except (RuntimeError, AssertionError) as error:
        words = " ".join(str(error).split())[:160]
        raise InputError(f"device {wanted!r} cannot be used here ({words}); leave --device out, or take cpu") from error
    return wanted


def threads_on(device: str) -> int | None:
    """With how many threads a network computes on this device; None where it is none of this machine's cores."""
    if device != "cpu":
        return None
    import torch

    return int(torch.get_num_threads())


def load_tokenizer(source: str, trust_remote_code: bool) -> Any:
    from transformers import AutoTokenizer

    with explained(source, "tokenizer"):
        return AutoTokenizer.from_pretrained(source, trust_remote_code=trust_remote_code)


def load_config(source: str, trust_remote_code: bool) -> Any:
    from transformers import AutoConfig

    with explained(source, "configuration"):
        return AutoConfig.from_pretrained(source, trust_remote_code=trust_remote_code)


def reads_images(source: str) -> bool:
    """Whether a checkpoint is an image-text model, by the kind that its configuration names."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    with explained(source, "configuration"):
        found = cached_json(source, "config.json")
    if not found and not Path(source).exists():
        raise WeightsError(
            f"the configuration of {source!r} cannot be had, neither from this machine nor from the hub: check the "
            "name and the connection, or give the model's folder"
        )
    return found.get("model_type") in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES


def cached_json(source: str, name: str) -> dict[str, Any]:
    """A JSON file of a checkpoint; empty where there is none."""
    from transformers.utils import cached_file

    with quiet_transformers():
        found = cached_file(source, name, _raise_exceptions_for_missing_entries=False)
    if found is None:
        return {}
    try:
        content = json.loads(Path(os.fspath(found)).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise WeightsError(f"{name} of {source} cannot be read: {error}") from error
    return content if isinstance(content, dict) else {}


def check_dtype(dtype: str) -> str:
    kinds = {"auto", "float32", "float16", "bfloat16", "float64"}
    if dtype not in kinds:
        raise InputError(f"dtype must be one of {', '.join(sorted(kinds))}, not {dtype!r}")
    return dtype


def load_network(
    source: str, adapter: str | None, dtype: str, device: str, trust_remote_code: bool, images: bool = False
) -> Any:
    """The language model, checked to be whole, in evaluation mode on its device."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    check_dtype(dtype)
    kind = AutoModelForImageTextToText if images else AutoModelForCausalLM
    with explained(source, "model"):
        network, info = kind.from_pretrained(
            source,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # so that they are reported by name, and refused below
        )
    refuse_random_weights(source, info)
    if adapter is not None:
        network = _add_adapter(network, adapter)
    return network.to(device).eval()


def refuse_random_weights(source: str, info: Any) -> None:
    """transformers only warns when a checkpoint lacks tensors, and fills them with noise."""
    for kind in ("missing_keys", "mismatched_keys", "error_msgs"):
        keys = sorted(str(key) for key in info.get(kind) or ())
        if keys:
            raise WeightsError(
                f"{source} does not hold the whole model: {kind.replace('_', ' ')} {', '.join(keys[:5])}"
                + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")
                + "; they would be random, so it is not used"
            )


def weights_fingerprint(source: str) -> str:
    """What tells these weights from others: the hub's commit, or a hash over the files of a folder.

    Large files count by their size and their ends, so that it stays quick.
    """
    if not Path(source).is_dir():
        return f"hub:{_snapshot(source).name}"
    folder, digest = Path(source), hashlib.sha256()
    kinds = {".json", ".safetensors", ".jinja", ".model", ".txt", ".py"}
    for path in sorted(p for p in folder.iterdir() if p.suffix in kinds):
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        with path.open("rb") as file:
            digest.update(file.read(SAMPLED_BYTES))
            if size > SAMPLED_BYTES:
                file.seek(max(size - SAMPLED_BYTES, SAMPLED_BYTES))
                digest.update(file.read(SAMPLED_BYTES))
    return f"sha256:{digest.hexdigest()}"


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No bars and warnings while a checkpoint is opened; the user's own settings are put back after it."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def explained(source: str, part: str) -> Iterator[None]:
    """transformers' many exceptions as one sentence, without its own remarks."""
    try:
        with quiet_transformers():
            yield
    except HowsureError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        raise WeightsError(
            f"the {part} of {source!r} cannot be loaded: {type(error).__name__}: {words[:300]}"
        ) from error


def _add_adapter(network: Any, adapter: str) -> Any:
    folder = resolve(adapter)
    with explained(folder, "adapter"):
        import warnings

        from peft import PeftModel

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            wrapped = PeftModel.from_pretrained(network, folder)
        missing = [str(w.message) for w in caught if "missing adapter keys" in str(w.message).lower()]
        if missing:
            raise WeightsError(f"adapter {folder} is not whole: {missing[0][:300]}")
        return wrapped.merge_and_unload()


def _snapshot(source: str) -> Path:
    """The folder of a hub model in the hub's cache; it is named after the commit."""
    from transformers.utils import cached_file

    with explained(source, "configuration"):
        found = cached_file(source, "config.json")
    return Path(os.fspath(found)).parent
