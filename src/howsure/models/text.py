"""A text in tokens: where a prefix ends and its continuations begin, what is a word, where a text may be cut.

Prefix and continuation are tokenised together, as the model would see them. The tokens before the boundary are shared
by all continuations; where a token straddles it, or the continuations disagree about the prefix's tokens, everything
from that token on is scored, for all continuations alike.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Hashable, Sequence, Set
from functools import cached_property
from itertools import accumulate, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.errors import InputError

if TYPE_CHECKING:
    from howsure.models.images import Picture

Ints = NDArray[np.int64]

DOCUMENT_SEPARATOR = "<|endoftext|>"
_PROBE = "Aé 🤖 x1\n"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_AT_ONCE = 512
"""Items that are given to the tokenizer in one call; it works on their texts in parallel."""


def utf8(text: str) -> bytes:
    """The text's bytes; a sentence where it is no text."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"character {error.start} of a text is half of a surrogate pair, which no model can read; "
            "decode the file as UTF-8 first"
        ) from error


def is_space(text: bytes) -> NDArray[np.bool_]:
    """For each byte whether it is white space: NUL, tab to carriage return (9 to 13), or a space.

    Words are what stands between, wherever they are counted. That is all that KenLM takes for white space, in training
    (which takes NUL, and neither form feed nor vertical tab) or in asking (the other way round). A no-break space or an
    ideographic one belongs to the word that it stands in, as there.
    """
    values = np.frombuffer(text, dtype=np.uint8)
    spaces: NDArray[np.bool_] = (values == 0) | (values - np.uint8(9) < 5) | (values == 32)
    return spaces


def starts_of_words(text: bytes, *, after_space: bool = True) -> NDArray[np.int64]:
    """The places where words begin; `after_space` tells whether what came before the text ended in white space.

    >>> starts_of_words(b"so it  goes").tolist()
    [0, 3, 7]
    """
    space = is_space(text)
    before = np.concatenate([[after_space], space[:-1]]) if len(space) else space
    return np.flatnonzero(before & ~space).astype(np.int64)


def shares(text: bytes, ends: Sequence[int], *, after_space: bool = True) -> tuple[Ints, Ints]:
    """For tokens that end at these places of a text: the bytes that each accounts for, the words that begin in each.

    What lies behind the last token is its own too, so that no byte is lost.
    """
    places = np.minimum(np.maximum.accumulate(np.array(ends, dtype=np.int64)), len(text))
    places[-1] = len(text)
    starts = starts_of_words(text, after_space=after_space)
    holders = np.searchsorted(places, starts, side="right")
    return np.diff(places, prepend=0), np.bincount(holders, minlength=len(places)).astype(np.int64)


# -- the boundary -----------------------------------------------------------------------------------------------------


class TextItem(NamedTuple):
    """A prefix and its continuations. A framed prefix brings its own special tokens, as a chat template's text does."""

    prefix: str
    continuations: Sequence[str]
    framed: bool = False


class Encoded(NamedTuple):
    """One item in tokens: the shared context and what follows it in each continuation."""

    context: tuple[int, ...]
    suffixes: tuple[tuple[int, ...], ...]
    suffix_bytes: tuple[tuple[bytes, ...] | None, ...]
    prefix_chars: int
    image: Picture | None = None

    @property
    def tokens(self) -> int:
        """Tokens that must be run: the context once, each suffix without its last token."""
        return len(self.context) + sum(max(len(s) - 1, 0) for s in self.suffixes)

    @property
    def shape(self) -> tuple[int, int]:
        """The two parts of a row: context, and suffixes."""
        return len(self.context), self.tokens - len(self.context)

    def largest_id(self, but: int | None = None) -> int:
        """The largest number of a token, that of an image left out: no row of the network belongs to it."""
        return max((i for ids in (self.context, *self.suffixes) for i in ids if i != but), default=0)

    @property
    def span(self) -> int:
        """The longest sequence that the model sees at once."""
        return len(self.context) + max((len(s) - 1 for s in self.suffixes), default=0)


class Pieces(NamedTuple):
    """A text in tokens, with the byte where each token ends and its bytes where they are known.

    `leading` counts the tokens that the tokenizer itself put before the text.
    """

    ids: tuple[int, ...]
    leading: int
    ends: tuple[int, ...]
    token_bytes: tuple[bytes, ...] | None


class TextEncoder:
    """A Hugging Face tokenizer, asked for what scoring needs."""

    def __init__(self, tokenizer: Any) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise InputError(
                "this model's tokenizer cannot tell where its tokens lie in the text; scoring needs a fast tokenizer "
                "(a tokenizer.json in the model's folder)"
            )
        self.tokenizer = tokenizer
        self._added = {token.content for token in tokenizer.added_tokens_decoder.values()}
        self._scheme: str | None = None
        self._spellings: dict[int, bytes | None] = {}
        self._scheme = self._find_scheme()
        self.start_token: int | None = self._find_start()
        self.cuts = self._scheme == "byte-level" and can_be_cut(tokenizer)

    def encode(self, prefix: str, continuations: Sequence[str], *, framed: bool = False) -> Encoded:
        """Tokenise one item; an empty context is begun with the model's start token."""
        encoded = self.encode_many([TextItem(prefix, continuations, framed)])[0]
        if isinstance(encoded, InputError):
            raise encoded
        return encoded

    def encode_many(self, items: Sequence[TextItem]) -> list[Encoded | InputError]:
        """What `encode` gives for each item, in few calls of the tokenizer; the error where a text is unreadable."""
        encoded: list[Encoded | InputError] = []
        for start in range(0, len(items), _AT_ONCE):
            encoded += self._encode_some(items[start : start + _AT_ONCE])
        return encoded

    def _encode_some(self, items: Sequence[TextItem]) -> list[Encoded | InputError]:
        done: dict[int, Encoded | InputError] = {i: e for i, item in enumerate(items) if (e := _unreadable(item))}
        cuts = {i: last_cut(item.prefix) for i, item in enumerate(items) if self.cuts and len(item.continuations) > 1}
        done |= self._encode_cut(items, {i: cut for i, cut in cuts.items() if cut and i not in done})
        for framed in (False, True):
            rest = [i for i, item in enumerate(items) if i not in done and item.framed == framed]
            rows = self._rows([[items[i].prefix + c for c in items[i].continuations] for i in rest], framed)
            done |= {i: self._assemble(utf8(items[i].prefix), (), 0, row) for i, row in zip(rest, rows, strict=True)}
        return [done[i] for i in range(len(items))]

    def _rows(self, texts: Sequence[Sequence[str]], framed: bool) -> list[list[Pieces]]:
        pieces = iter(self.pieces([text for row in texts for text in row], framed=framed))
        return [[next(pieces) for _ in row] for row in texts]

    def _encode_cut(self, items: Sequence[TextItem], cuts: dict[int, int]) -> dict[int, Encoded]:
        """Items whose prefix is tokenised once up to a safe cut, and only the rest with each continuation.

        Left out are those whose tokens do not spell their text, byte for byte; they are tokenised whole.
        """
        heads = self._heads(items, cuts)
        rows = self._rows([[items[i].prefix[cuts[i] :] + c for c in items[i].continuations] for i in heads], True)
        return {
            i: self._assemble(utf8(items[i].prefix), ids, len(utf8(items[i].prefix[: cuts[i]])), row)
            for (i, ids), row in zip(heads.items(), rows, strict=True)
            if all(text.token_bytes is not None for text in row)
        }

    def _heads(self, items: Sequence[TextItem], cuts: dict[int, int]) -> dict[int, tuple[int, ...]]:
        """The tokens of each prefix up to its cut, where they spell it."""
        heads = {}
        for framed in (False, True):
            chosen = [i for i in cuts if items[i].framed == framed]
            texts = [items[i].prefix[: cuts[i]] for i in chosen]
            for i, text, ids, added in zip(chosen, texts, *self._tokenise(texts, framed), strict=True):
                leading, ids = _without_trailing(ids, added)
                if self._spells(ids[leading:], text.encode()):
                    heads[i] = tuple(ids)
        return heads

    def _spells(self, ids: Sequence[int], text: bytes) -> bool:
        for token_id in set(ids).difference(self._spellings):
            self._spelling(token_id)
        spelled = list(map(self._spellings.__getitem__, ids))
        return None not in spelled and b"".join(spelled) == text  # type: ignore[arg-type]

    def _assemble(self, before: bytes, head: tuple[int, ...], skipped: int, texts: Sequence[Pieces]) -> Encoded:
        """Find the boundary in texts that go on after `head`, which is `skipped` bytes of the prefix."""
        boundary = len(before) - skipped  # before a text, only the tokenizer's own tokens
        shared = min((bisect_right(text.ends, boundary) if boundary else text.leading for text in texts), default=0)
        shared = min(shared, common_length([text.ids[:shared] for text in texts]))
        covered = skipped + (texts[0].ends[shared - 1] if texts and shared else 0)
        context = head + (texts[0].ids[:shared] if texts else ())
        if not context and self.start_token is not None:
            context = (self.start_token,)
        return Encoded(
            context=context,
            suffixes=tuple(text.ids[shared:] for text in texts),
            suffix_bytes=tuple(text.token_bytes and text.token_bytes[shared:] for text in texts),
            prefix_chars=len(before[covered:].decode("utf-8", errors="ignore")),
        )

    @cached_property
    def lead(self) -> tuple[int, ...]:
        """The tokens that the tokenizer itself puts before every text."""
        pieces = self.pieces(["a"])[0]
        return pieces.ids[: pieces.leading]

    def pieces(self, texts: Sequence[str], *, framed: bool = False) -> list[Pieces]:
        """The tokens of each text; tokens that the tokenizer puts after its end are taken off."""
        spelled = [utf8(text) for text in texts]
        rows = zip(texts, spelled, *self._tokenise(texts, framed), strict=True)
        return [self._pieces(*row, framed) for row in rows]

    def _tokenise(self, texts: Sequence[str], framed: bool) -> tuple[list[list[int]], list[list[int]]]:
        """The ids of each text, and which of them the tokenizer put there itself."""
        if not texts:
            return [], []
        encodings = self.tokenizer(
            list(texts),
            return_special_tokens_mask=not framed,
            return_attention_mask=False,
            add_special_tokens=not framed,
            verbose=False,  # or a text longer than the context, which nobody runs as it is, is warned of
        )
        masks = [[0] * len(ids) for ids in encodings["input_ids"]] if framed else encodings["special_tokens_mask"]
        return encodings["input_ids"], masks

    def _pieces(self, text: str, spelled: bytes, ids: list[int], added: list[int], framed: bool) -> Pieces:
        leading, ids = _without_trailing(ids, added)
        silent = frozenset(i for i in range(len(ids)) if added[i])
        known = self._token_bytes(ids, spelled, silent)
        if known is not None:
            ends = tuple(accumulate(map(len, known)))
        else:
            whole = self.tokenizer(text, return_offsets_mapping=True, add_special_tokens=not framed, verbose=False)
            ends = _byte_ends(text, [end for _, end in whole["offset_mapping"][: len(ids)]])
        return Pieces(tuple(ids), leading, ends, None if known is None else tuple(known))

    def answer(self, ids: Sequence[int]) -> tuple[str, list[bytes] | None]:
        """Generated tokens as text, special ones left out, and the bytes that each spells where that is known."""
        special = set(self.tokenizer.all_special_ids)
        silent = frozenset(i for i, token_id in enumerate(ids) if token_id in special)
        text = str(self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))
        known = self._token_bytes(ids, text.encode("utf-8"), silent)
        if known is None and "\ufffd" in text and (spelled := self._spell_all(ids, silent)) is not None:
            # An answer may end or break within a character, and decoders disagree about what to show for that.
            return b"".join(spelled).decode("utf-8", errors="replace"), spelled
        return text, known

    def _token_bytes(self, ids: Sequence[int], text: bytes, silent: Set[int]) -> list[bytes] | None:
        """The bytes that each token spells, if together they spell the text; None where that is not known."""
        spelled = self._spell_all(ids, silent)
        return None if spelled is None else _without_dummy_space(spelled, text)

    def _spell_all(self, ids: Sequence[int], silent: Set[int]) -> list[bytes] | None:
        if self._scheme is None:
            return None
        pieces = [self._spelling(token_id) for token_id in ids]
        for i in silent:
            pieces[i] = b""
        return None if None in pieces else [piece for piece in pieces if piece is not None]

    def _spelling(self, token_id: int) -> bytes | None:
        if token_id not in self._spellings:
            self._spellings[token_id] = self._spell(self.tokenizer.convert_ids_to_tokens(token_id))
        return self._spellings[token_id]

    def piece(self, token_id: int) -> str:
        """One token as text; half a character shows as U+FFFD."""
        spelled = None if self._scheme is None else self._spelling(token_id)
        if spelled is None:
            return str(self.tokenizer.decode([token_id], clean_up_tokenization_spaces=False))
        return spelled.decode("utf-8", errors="replace")

    def _find_start(self) -> int | None:
        """The token that stands before a text that has no context.

        Many chat checkpoints name their turn marker as the begin token (SmolLM2: `<|im_start|>`), after which a
        plain text is a surprise in itself. Where the vocabulary has the separator of documents that the model was
        trained with, that is what stands before a text.
        """
        if DOCUMENT_SEPARATOR in self._added:
            return int(self.tokenizer.convert_tokens_to_ids(DOCUMENT_SEPARATOR))
        for token_id in (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id):
            if token_id is not None:
                return int(token_id)
        return None

    def _find_scheme(self) -> str | None:
        """How this tokenizer writes bytes: the way that spells a difficult text right."""
        ids = self.tokenizer(_PROBE, add_special_tokens=False)["input_ids"]
        for scheme in ("byte-level", "sentencepiece"):
            self._scheme, self._spellings = scheme, {}
            if self._token_bytes(ids, _PROBE.encode("utf-8"), frozenset()) is not None:
                return scheme
        return None

    def _spell(self, name: str | None) -> bytes | None:
        if name is None:  # an id beyond the tokenizer: many networks have a few rows more than it has tokens
            return b""
        if name in self._added:
            return name.encode("utf-8")
        return spell_byte_level(name) if self._scheme == "byte-level" else spell_sentencepiece(name)


def spell_byte_level(name: str) -> bytes | None:
    """The bytes of a token that a vocabulary writes as `Ġthe`; None where it holds other characters."""
    values = [_BYTE_OF_CHARACTER.get(character) for character in name]
    return None if None in values else bytes(v for v in values if v is not None)


def spell_sentencepiece(name: str) -> bytes:
    """The bytes of a token that a vocabulary writes as `▁the` or `<0xE2>`."""
    byte = _BYTE_TOKEN.fullmatch(name)
    return bytes([int(byte[1], 16)]) if byte else name.replace("▁", " ").encode("utf-8")


def _unreadable(item: TextItem) -> InputError | None:
    try:
        for text in (item.prefix, *(item.prefix + continuation for continuation in item.continuations)):
            utf8(text)
    except InputError as error:
        return error
    return None


def _without_trailing(ids: list[int], added: list[int]) -> tuple[int, list[int]]:
    """How many tokens the tokenizer put before the text, and the ids without those that it put after it."""
    leading = next((i for i, flag in enumerate(added) if not flag), len(added))
    end = len(ids)
    while end > leading and added[end - 1]:
        end -= 1
    return leading, ids[:end]


def _byte_ends(text: str, ends: Sequence[int]) -> tuple[int, ...]:
    """Places between characters as places between bytes, in one walk along the text."""
    characters = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    widths = 1 + (characters >= 0x80) + (characters >= 0x800) + (characters >= 0x10000)
    places = np.concatenate([[0], np.cumsum(widths)])
    return tuple(places[np.minimum(np.array(ends, dtype=np.int64), len(text))].tolist())


def common_length(rows: Sequence[tuple[Hashable, ...]]) -> int:
    """How many entries all rows begin with alike."""
    if all(row == rows[0] for row in rows):
        return len(rows[0]) if rows else 0
    return next(i for i, column in enumerate(zip_longest(*rows)) if len(set(column)) > 1)


def _without_dummy_space(pieces: list[bytes], text: bytes) -> list[bytes] | None:
    """SentencePiece puts a space before a text; it belongs to no byte of it."""
    joined = b"".join(pieces)
    if joined == text:
        return pieces
    if joined == b" " + text:
        first = next(i for i, piece in enumerate(pieces) if piece)
        return [piece[1:] if i == first else piece for i, piece in enumerate(pieces)]
    return None


def _byte_of_character() -> dict[str, int]:
    """The alphabet of byte-level tokenizers: printable bytes stand for themselves, the rest from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    rest = [byte for byte in range(256) if byte not in set(printable)]
    return table | {chr(0x100 + i): byte for i, byte in enumerate(rest)}


_BYTE_OF_CHARACTER = _byte_of_character()


# -- places to cut ----------------------------------------------------------------------------------------------------

_SHORT = "'s|'t|'re|'ve|'m|'ll|'d"
_OTHER, _SIGNS = r"[^\r\n\p{L}\p{N}]?", r" ?[^\s\p{L}\p{N}]+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
KNOWN_PATTERNS = {
    "gpt-2": rf"{_SHORT}| ?\p{{L}}+| ?\p{{N}}+|{_SIGNS}|\s+(?!\S)|\s+",
    "llama-3": rf"(?i:{_SHORT})|{_OTHER}\p{{L}}+|\p{{N}}{{1,3}}|{_SIGNS}[\r\n]*|{_SPACES}",
    "qwen-2": rf"(?i:{_SHORT})|{_OTHER}\p{{L}}+|\p{{N}}|{_SIGNS}[\r\n]*|{_SPACES}",
    "gpt-4o": rf"{_OTHER}{_UPPER}*{_LOWER}+(?i:{_SHORT})?|{_OTHER}{_UPPER}+{_LOWER}*(?i:{_SHORT})?"
    rf"|\p{{N}}{{1,3}}|{_SIGNS}[\r\n/]*|{_SPACES}",
}
_ACROSS = re.compile(r"[^\W_]\s")


def can_be_cut(tokenizer: Any) -> bool:
    r"""Whether a text may be cut at `last_cut`: its parts, tokenised apart, then give the tokens of the whole.

    So it is with tokenizers of the kind that GPT-2 began: byte-level BPE on words that a known pattern finds. It is
    exact, not likely:

    - Nothing in these patterns matches a letter or digit and the space after it: a space stands first in its word, or
      among other white space. So a word ends at the cut whatever stands around it.
    - Words before the cut do not depend on what follows it. The one look ahead, `\s+(?!\S)`, looks at the character
      after white space, and the cut has a letter or digit before it.
    - Words after the cut do not depend on what stands before it: there is no look behind.
    - BPE works within a word. NFC never joins a space to its neighbours.
    - Added tokens are found first; one that could reach across such a place, or eats white space around it, rules this
      way out, and so does everything that is not known here.
    """
    backend = tokenizer.backend_tokenizer
    if type(backend.model).__name__ != "BPE" or backend.model.dropout:
        return False
    if backend.normalizer is not None and _state(backend.normalizer) != {"type": "NFC"}:
        return False
    for token in tokenizer.added_tokens_decoder.values():
        if token.lstrip or token.rstrip or token.single_word or _ACROSS.search(token.content):
            return False
    if backend.pre_tokenizer is None:
        return False
    state = _state(backend.pre_tokenizer)
    kinds = [_kind(step) for step in (state["pretokenizers"] if state["type"] == "Sequence" else [state])]
    return "unknown" not in kinds and "words" in kinds


def last_cut(text: str) -> int:
    """The last place before a space that follows a letter or digit; 0 where there is none."""
    place = text.rfind(" ")
    while place > 0 and not text[place - 1].isalnum():
        place = text.rfind(" ", 0, place)
    return max(place, 0)


def _kind(step: Any) -> str:
    """Of a step before BPE; one must find words, and all must be known."""
    if step["type"] == "Digits":
        return "digits"
    if step["type"] == "ByteLevel" and not step["add_prefix_space"]:
        return "words" if step["use_regex"] else "bytes"
    if step["type"] == "Split" and step["behavior"] == "Isolated" and not step["invert"]:
        return "words" if step["pattern"].get("Regex") in KNOWN_PATTERNS.values() else "unknown"
    return "unknown"


def _state(part: Any) -> Any:
    """What a part of a tokenizer writes about itself into tokenizer.json."""
    return json.loads(part.__getstate__())
