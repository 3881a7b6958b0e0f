"""The files of a model: which of them are read, and a folder that holds no others.

transformers and peft take whatever they find in a folder, or are told of by a configuration in it: pickled weights, an
index that leads elsewhere, an adapter, code. So they are never shown the folder itself. What they may read is listed
here, and must be a regular file of the folder, no larger than such a file is. It is laid out in a folder of howsure's
own, which is all that they see: weights and vocabularies as links, configurations written anew as they were decoded.
What is laid out is what the fingerprint is made of.
"""

from __future__ import annotations

import glob
import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from howsure.errors import HowsureError, InputError, StorageError, WeightsError
from howsure.models.hf.loading import quiet_transformers
from howsure.storage import new_folder_for, open_regular, read_regular
from howsure.storage.addresses import is_plain_name

MiB = 1 << 20
CONFIG_BYTES, TEMPLATE_BYTES, INDEX_BYTES, VOCABULARY_BYTES = 8 * MiB, MiB, 32 * MiB, 128 * MiB
HEADER_BYTES = 16 * MiB
"""Several times what the largest honest ones have (a tokenizer.json of Gemma: 33 MiB)."""

CONFIGS = (
    "config.json", "config.[0-9]*.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json",
    "chat_template.json",
)  # fmt: skip
TEMPLATES = ("chat_template.jinja", "additional_chat_templates/*.jinja")
VOCABULARIES = (
    "tokenizer.json", "tokenizer.[0-9]*.json", "vocab*.json", "vocab.txt", "merges.txt", "bpe.codes", "normalizer.json",
    "tekken.json", "*.model", "*.model.v*", "*.spm", "*.tiktoken",
)  # fmt: skip
CODE = ("*.py", "*.json", "*.txt", "*.jinja")
"""Read besides where `--trust-remote-code` was given: code, and what code may ask for."""

LINKED = dict.fromkeys(TEMPLATES, TEMPLATE_BYTES) | dict.fromkeys(VOCABULARIES, VOCABULARY_BYTES)
INDEX = ".index.json"
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")

ELSEWHERE = {
    "audio_tokenizer": "another model",
    "use_pretrained_backbone": "another model",
    "repo_path": "a file of another place",
    "megatron_config": "a module to be imported",
}
"""Entries of a configuration by which transformers or peft open what is not in the folder."""

KERNELS = ("attn_implementation", "experts_implementation")
"""Entries that may name a repository of compiled code on the Hub, which has a slash in its name."""

PARTS = re.compile(r"(layers?|depths?|experts)$")
MOST_PARTS = 2048
"""A network's layers and experts are built in memory before any of its weights is looked at."""

HASHED_BYTES, PIECE_BYTES = 1024 * MiB, MiB // 16
"""A folder up to this size is fingerprinted whole; of a larger one that much, in pieces that are evenly spaced."""


class Kind(NamedTuple):
    """What a folder is opened as: configurations, other files with their most bytes, and the name of its weights."""

    configs: tuple[str, ...]
    linked: Mapping[str, int]
    weights: str | None


MODEL = Kind(CONFIGS, LINKED, "model.safetensors")
TOKENIZER = Kind(CONFIGS, LINKED, None)
ADAPTER = Kind(("adapter_config.json",), {}, "adapter_model.safetensors")


MOST_GROWTH = 1000
"""Of a text by the replacements of its tokenizer together; honest ones are few, such as three bytes for a space."""


class _Tokenizer(msgspec.Struct):
    """What tokenizer.json does to a text before it cuts it up, and to tokens when it makes a text of them."""

    normalizer: Any = None
    decoder: Any = None


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


class ModelFiles:
    """A model's folder, or its name on the Hub. `path` is the folder that transformers is given instead.

    `verify` sees to it that the weights are those that howsure knows, before they are used.
    """

    def __init__(
        self,
        source: str,
        kind: Kind = MODEL,
        *,
        trust_remote_code: bool = False,
        verify: Callable[[], None] | None = None,
    ) -> None:
        self.source = source
        self.verified = verify is not None
        self._verify = verify
        self.configs: dict[str, dict[str, Any]] = {}
        self._kind = kind
        self._trusted = trust_remote_code
        self._linked = {**kind.linked, **(dict.fromkeys(CODE, VOCABULARY_BYTES) if trust_remote_code else {})}
        self._on_hub = not Path(source).is_dir()
        patterns = ("adapter_config.json", *kind.configs, *self._linked)
        self._folder = _snapshot(source, patterns, None) if self._on_hub else Path(source)
        self._root = _root(self._folder)
        self._files: dict[str, Path] = {}
        if kind is MODEL:
            self._refuse_adapter()
        contents = {name: content for name in sorted(self._names()) if (content := self._content(name)) is not None}
        self._path = new_folder_for(source if self._on_hub else os.path.abspath(source))
        self._lay_out(contents)

    @property
    def path(self) -> str:
        """A folder that holds the files that may be read; the weights too once `lay_out_weights` was called."""
        return os.fspath(self._path)

    def config(self, name: str) -> dict[str, Any]:
        """A configuration as it was decoded; empty where there is none."""
        return self.configs.get(name, {})

    def lay_out_weights(self) -> str:
        """`path`, with the weights."""
        _ = self._weights
        return self.path

    @property
    def weight_bytes(self) -> int:
        return sum(os.path.getsize(self._folder / name) for name in self._weights)

    @cached_property
    def fingerprint(self) -> str:
        """What tells these files from others: the Hub's commit, or a hash over all that is read of a folder."""
        if self._on_hub:
            return f"hub:{self._folder.name}"
        _ = self._weights
        digest = hashlib.sha256()
        most = HASHED_BYTES // max(len(self._files), 1)
        whole = sum(path.stat().st_size for path in self._files.values()) <= HASHED_BYTES
        for name, path in sorted(self._files.items()):
            size = path.stat().st_size
            digest.update(f"{name}\0{size}\0".encode())
            with open_regular(path) as file:
                for start, length in [(0, size)] if whole or size <= most else _pieces(size, most // PIECE_BYTES):
                    file.seek(start)
                    _hash(file, length, digest)
        return f"sha256:{digest.hexdigest()}"

    # -- what lies in the folder --------------------------------------------------------------------------------

    def _names(self) -> Iterator[str]:
        templates = self._folder / "additional_chat_templates"
        try:
            yield from os.listdir(self._folder)
            if templates.is_dir():
                yield from (f"{templates.name}/{name}" for name in os.listdir(templates))
        except OSError as error:
            raise WeightsError(f"{self.source} cannot be listed ({error.strerror})") from error

    def _content(self, name: str) -> bytes | Path | None:
        """What is laid out under this name: a configuration written anew, or the file to link to; None for neither."""
        if any(fnmatchcase(name, pattern) for pattern in self._kind.configs):
            self.configs[name] = document = self._decoded(name)
            # Old releases of transformers open the vocabularies that a configuration names, wherever they lie.
            return json.dumps({key: value for key, value in document.items() if not key.endswith("_file")}).encode()
        most = next((most for pattern, most in self._linked.items() if fnmatchcase(name, pattern)), None)
        if most is None or name.endswith(INDEX):
            return None
        if fnmatchcase(name, "tokenizer*.json"):
            self._refuse_growth(name, most)
        return self._regular(name, most)

    def _refuse_growth(self, name: str, most_bytes: int) -> None:
        """A few replacements, one after the other, make gigabytes of a word, in code that hears no Ctrl-C."""
        with _readable(self.source, name):
            tokenizer = msgspec.json.decode(self._bytes(name, most_bytes), type=_Tokenizer)
        for part in (tokenizer.normalizer, tokenizer.decoder):
            growth = math.prod(_growth(entry) for entry in _objects(part))
            if growth > MOST_GROWTH:
                raise WeightsError(
                    f"{name} of {self.source} replaces texts by ones that are up to {growth:.0f} times as long, which "
                    "no tokenizer needs: take the tokenizer of another copy of the model (--tokenizer)"
                )

    def _regular(self, name: str, most_bytes: int | None = None) -> Path:
        path = self._folder / name
        with _readable(self.source, name), open_regular(path, within=self._root, most_bytes=most_bytes):
            self._files[name] = path
        return path

    def _bytes(self, name: str, most_bytes: int) -> bytes:
        with _readable(self.source, name):
            return read_regular(self._regular(name, most_bytes), most_bytes, within=self._root)

    def _decoded(self, name: str) -> dict[str, Any]:
        with _readable(self.source, name):
            document = json.loads(self._bytes(name, CONFIG_BYTES))
        if not isinstance(document, dict):
            raise WeightsError(f"{name} of {self.source} cannot be read: it is not a JSON object")
        if not self._trusted:
            self._refuse_what_leads_elsewhere(name, document)
        return document

    def _refuse_what_leads_elsewhere(self, name: str, document: dict[str, Any]) -> None:
        for key, value in (entry for one in _objects(document) for entry in one.items()):
            what = ELSEWHERE.get(key) if value else None
            if key.endswith(KERNELS) and "/" in json.dumps(value):
                what = "code on the Hub"
            if what is not None:
                raise WeightsError(
                    f"{name} of {self.source} names {what} ({key}), which is not opened: take the entry out of it"
                )
            if PARTS.search(key) and _largest(value) > MOST_PARTS:
                raise WeightsError(f"{name} of {self.source} cannot be right: {key} is {_largest(value)}")

    def _refuse_adapter(self) -> None:
        """transformers would load an adapter that lies in a model's folder unasked."""
        if not os.path.lexists(self._folder / "adapter_config.json"):
            return
        if os.path.lexists(self._folder / "config.json"):
            raise InputError(
                f"{self.source} holds a model's config.json and an adapter's adapter_config.json: write "
                f"hf:<base>+{self.source}, where <base> is this folder too if the model's weights lie in it"
            )
        base = self._decoded("adapter_config.json").get("base_model_name_or_path") or "<base>"
        raise InputError(
            f"{self.source} is a LoRA adapter without the model that it belongs to: write hf:{base}+{self.source}"
        )

    # -- weights ------------------------------------------------------------------------------------------------

    @cached_property
    def _weights(self) -> tuple[str, ...]:
        """The names of the weights, each checked and laid out; fetched first where they are on the Hub."""
        name = self._weights_name()
        if name is None:
            return ()
        if self._verify is not None:
            self._verify()
        contents: dict[str, bytes | Path] = {}
        self._fetch(name, name + INDEX)
        if not self._is_there(name) and self._kind is MODEL:
            name = name if name.endswith(INDEX) else name + INDEX
        if not self._is_there(name):
            raise self._no_weights()
        if name.endswith(INDEX):
            contents[name], shards = self._index(name)
            self._fetch(*shards)
        else:
            shards = (name,)
        contents |= {shard: self._safetensors(shard) for shard in shards}
        self._lay_out(contents)
        return shards

    def _safetensors(self, name: str) -> Path:
        """The library checks that a header fits its file, after it has read the whole header into memory."""
        path = self._regular(name)
        with _readable(self.source, name), open_regular(path) as file:
            length = int.from_bytes(file.read(8), "little")
        if length > HEADER_BYTES:
            raise WeightsError(
                f"{name} of {self.source} cannot be read as safetensors: its first eight bytes say {length:,} bytes of "
                f"header, and no model has more than {HEADER_BYTES:,}"
            )
        return path

    def _weights_name(self) -> str | None:
        """That of the kind, unless the configuration names another file for its weights."""
        named = self.config("config.json").get("transformers_weights")
        if self._kind.weights is None or named is None:
            return self._kind.weights
        if isinstance(named, str) and is_plain_name(named) and named.endswith((".safetensors", ".safetensors" + INDEX)):
            return named
        raise WeightsError(
            f"config.json of {self.source} names its weights {named!r}, which is no safetensors file of the folder: "
            "take the entry transformers_weights out of it"
        )

    def _index(self, name: str) -> tuple[bytes, tuple[str, ...]]:
        """The index written anew, and the shards that it names."""
        with _readable(self.source, name):
            weight_map = msgspec.json.decode(self._bytes(name, INDEX_BYTES), type=_Index).weight_map
        shards = tuple(sorted(set(weight_map.values())))
        for shard in shards:
            if not (is_plain_name(shard) and shard.endswith(".safetensors")):
                raise WeightsError(
                    f"{name} of {self.source} names {shard!r} as weights, and only safetensors files of the folder are "
                    "opened: save the model anew with save_pretrained, which writes such files"
                )
        return json.dumps({"metadata": {}, "weight_map": weight_map}).encode(), shards

    def _no_weights(self) -> WeightsError:
        pickled = [name for name in sorted(self._names()) if any(fnmatchcase(name, pattern) for pattern in PICKLED)]
        instead = f"; {pickled[0]} is a pickle, which can run code and is not opened" if pickled else ""
        return WeightsError(
            f"{self.source} holds no {self._kind.weights}{instead}: save it anew with save_pretrained, which writes "
            "safetensors" + (", or fetch it while the Hub can be reached" if self._on_hub else "")
        )

    def _is_there(self, name: str) -> bool:
        return os.path.lexists(self._folder / name)

    # -- the Hub, and the folder of howsure's own ---------------------------------------------------------------

    def _fetch(self, *names: str) -> None:
        if self._on_hub:
            _snapshot(self.source, [glob.escape(name) for name in names], self._folder.name)

    def _lay_out(self, contents: Mapping[str, bytes | Path]) -> None:
        try:
            for name, content in contents.items():
                target = os.path.join(self.path, name)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                if isinstance(content, bytes):
                    Path(target).write_bytes(content)
                else:
                    os.symlink(os.path.realpath(content), target)
        except OSError as error:
            raise StorageError(
                f"the files of {self.source} cannot be laid out in {self.path} ({error.strerror}): set TMPDIR to a "
                "folder that can be written, with room"
            ) from error


def _root(folder: Path) -> Path:
    """Where the files of a folder must lie: in it, or, for a snapshot in the Hub's cache, among that model's blobs."""
    real = Path(os.path.realpath(folder))
    model = real.parent.parent
    return model if real.parent.name == "snapshots" and model.name.startswith("models--") else real


def _snapshot(source: str, patterns: Sequence[str], commit: str | None) -> Path:
    """The folder of a Hub model in the Hub's cache, named after the commit, with the files of these names fetched."""
    from huggingface_hub import snapshot_download

    try:
        with quiet_transformers():
            return Path(snapshot_download(source, revision=commit, allow_patterns=list(patterns)))
    except Exception as error:  # of the Hub's client, of its HTTP library, of the disk
        words = " ".join(str(error).split())[:200]
        raise WeightsError(
            f"the {'weights' if commit else 'configuration'} of {source!r} was not found locally or on the Hub: check "
            f"the name and the connection, or give the model's folder ({words})"
        ) from error


@contextmanager
def _readable(source: str, name: str) -> Iterator[None]:
    try:
        yield
    except HowsureError:
        raise
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        words = error.strerror if isinstance(error, OSError) else error
        raise WeightsError(f"{name} of {source} cannot be read: {words}") from error


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON document, at whatever depth."""
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield value
            left += value.values()
        elif isinstance(value, list):
            left += value


def _growth(entry: dict[str, Any]) -> float:
    """How many times as long a text may be after a step of a tokenizer; what is put before it alone does not count."""
    content, pattern = entry.get("content"), entry.get("pattern")
    if not (isinstance(content, str) and isinstance(pattern, dict)):
        return 1.0
    replaced = pattern.get("String")
    shortest = len(replaced.encode()) if isinstance(replaced, str) and replaced else 1
    return max(1.0, len(content.encode()) / shortest)


def _largest(value: Any) -> int:
    numbers = value if isinstance(value, list) else [value]
    return max((number for number in numbers if isinstance(number, int)), default=0)


def _pieces(size: int, count: int) -> list[tuple[int, int]]:
    """Where evenly spaced pieces of a file begin, the first at its start and the last at its end, and their length."""
    return [(i * (size - PIECE_BYTES) // (count - 1), PIECE_BYTES) for i in range(count)]


def _hash(file: BinaryIO, length: int, digest: Any) -> None:
    while length > 0 and (block := file.read(min(length, MiB))):
        digest.update(block)
        length -= len(block)
