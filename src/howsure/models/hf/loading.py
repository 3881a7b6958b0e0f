"""Opening a Hugging Face checkpoint so that nothing in it is random and nothing in it runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from howsure.errors import HowsureError, InputError, WeightsError
from howsure.storage import shown_path

if TYPE_CHECKING:
    from howsure.models.hf.files import ModelFiles


NUMBERS_PER_BYTE, NUMBERS_PER_QUANTIZED_BYTE = 2, 16
"""A number takes a byte, or a bit where weights are quantized; a tied matrix is kept once and counted twice."""
SMALL_NETWORK = 1 << 26
"""Numbers that are not worth a refusal: masks and tables are made, not kept."""


def resolve(target: str) -> str:
    """A folder on disk (the newest checkpoint in it), or a name to be looked up on the hub."""
    path = Path(target).expanduser()
    if path.exists():
        return str(newest_checkpoint(path))
    if target.startswith(("/", "./", "../", "~")) or target.count("/") > 1:
        raise InputError(f"there is no folder {target!r}; hf: takes a model folder or a hub name such as org/model")
    return target


def newest_checkpoint(folder: Path) -> Path:
    """The folder itself, or the newest of its `checkpoint-*` folders where it holds no model of its own."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder")
    if any(os.path.lexists(folder / name) for name in ("config.json", "adapter_config.json")):
        return folder
    steps = [(int(m[1]), p) for p in folder.iterdir() if (m := re.fullmatch(r"checkpoint-(\d+)", p.name))]
    if not steps:
        raise InputError(f"{folder} holds neither a config.json nor checkpoint-* folders, so it is no model")
    newest = max(steps)[1]
    if not newest.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{newest} leads out of {folder}: name the folder that it leads to")
    return newest


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


def load_tokenizer(files: ModelFiles, trust_remote_code: bool) -> Any:
    from transformers import AutoTokenizer

    with explained(files.path, "tokenizer"):
        return AutoTokenizer.from_pretrained(files.path, trust_remote_code=trust_remote_code)


def load_config(files: ModelFiles, trust_remote_code: bool) -> Any:
    from transformers import AutoConfig

    with explained(files.path, "configuration"):
        return AutoConfig.from_pretrained(files.path, trust_remote_code=trust_remote_code)


def reads_images(files: ModelFiles) -> bool:
    """Whether a checkpoint is an image-text model, by the kind that its configuration names."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    if "config.json" not in files.configs:
        raise WeightsError(f"{files.source} holds no config.json, so it is no model that transformers knows")
    kind = files.config("config.json").get("model_type")
    return isinstance(kind, str) and kind in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES


def check_dtype(dtype: str) -> str:
    kinds = {"auto", "float32", "float16", "bfloat16", "float64"}
    if dtype not in kinds:
        raise InputError(f"dtype must be one of {', '.join(sorted(kinds))}, not {dtype!r}")
    return dtype


def load_network(
    files: ModelFiles,
    adapter: ModelFiles | None,
    dtype: str,
    device: str,
    trust_remote_code: bool,
    images: bool = False,
) -> Any:
    """The language model, checked to be whole, in evaluation mode on its device."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    check_dtype(dtype)
    kind = AutoModelForImageTextToText if images else AutoModelForCausalLM
    source = files.lay_out_weights()
    if not (trust_remote_code or files.verified):
        _check_size(kind, files)
    with explained(source, "model"):
        network, info = kind.from_pretrained(
            source,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # so that they are reported by name, and refused below
        )
    refuse_random_weights(files.source, info)
    if adapter is not None:
        network = _add_adapter(network, adapter)
    return network.to(device).eval()


def _check_size(kind: Any, files: ModelFiles) -> None:
    """transformers makes room for the network that the configuration describes, and fills what the weights lack."""
    import torch

    config = load_config(files, trust_remote_code=False)
    with explained(files.path, "model"), torch.device("meta"):
        network = kind.from_config(config)
    described = sum(tensor.numel() for tensors in (network.parameters(), network.buffers()) for tensor in tensors)
    per_byte = NUMBERS_PER_BYTE if getattr(config, "quantization_config", None) is None else NUMBERS_PER_QUANTIZED_BYTE
    if described > SMALL_NETWORK + per_byte * files.weight_bytes:
        raise WeightsError(
            f"config.json of {files.source} describes a network of {described:,} numbers, and its weights have only "
            f"{files.weight_bytes:,} bytes: they do not belong together"
        )


def refuse_random_weights(source: str, info: Any) -> None:
    """transformers only warns when a checkpoint lacks tensors, and fills them with noise."""
    for kind in ("missing_keys", "mismatched_keys", "error_msgs"):
        keys = sorted(str(key)[:200] for key in info.get(kind) or ())
        if keys:
            raise WeightsError(
                f"{source} does not hold the whole model: {kind.replace('_', ' ')} {', '.join(keys[:5])}"
                + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")
                + "; they would be random, so it is not used"
            )


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
        name = shown_path(source)
        words = " ".join(str(error).replace(source, name).split())
        raise WeightsError(f"the {part} of {name!r} cannot be loaded: {type(error).__name__}: {words[:300]}") from error


def _add_adapter(network: Any, adapter: ModelFiles) -> Any:
    folder = adapter.lay_out_weights()
    _check_adapter(adapter)
    with explained(folder, "adapter"):
        import warnings

        from peft import PeftModel

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            wrapped = PeftModel.from_pretrained(network, folder)
        missing = [str(w.message) for w in caught if "missing adapter keys" in str(w.message).lower()]
        if missing:
            raise WeightsError(f"adapter {adapter.source} is not whole: {missing[0][:300]}")
        return wrapped.merge_and_unload()


def _check_adapter(adapter: ModelFiles) -> None:
    """Of peft's many kinds, only LoRA is read; and peft makes matrices of the rank that is said before it reads any."""
    from safetensors import safe_open

    config = adapter.config("adapter_config.json")
    if config.get("peft_type") != "LORA":
        raise WeightsError(
            f"adapter {adapter.source} is of type {config.get('peft_type')!r}, and only LORA can be added: merge it "
            "into its model with peft's merge_and_unload, and give the folder of the whole"
        )
    if config.get("layer_replication"):
        raise WeightsError(
            f"adapter {adapter.source} repeats layers of its model (layer_replication in adapter_config.json), as "
            "often as it likes: merge it into its model with peft's merge_and_unload, and give the folder of the whole"
        )
    pattern = config.get("rank_pattern")
    ranks = [config.get("r"), *(pattern.values() if isinstance(pattern, dict) else ())]
    with explained(adapter.path, "adapter"), safe_open(f"{adapter.path}/adapter_model.safetensors", "pt") as file:
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
    largest = max((side for shape in shapes for side in shape), default=0)
    if any(isinstance(rank, int) and rank > largest for rank in ranks):
        raise WeightsError(
            f"adapter {adapter.source} says rank {max(r for r in ranks if isinstance(r, int))} in its "
            f"adapter_config.json, and no matrix in adapter_model.safetensors has more than {largest} rows"
        )
