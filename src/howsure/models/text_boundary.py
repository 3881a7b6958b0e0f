"""Where a prefix ends and its continuations begin, in tokens.

Prefix and continuation are tokenised together, as the model would see them. The tokens before the boundary are
shared by all continuations; where a token straddles it, or the continuations disagree about the prefix's
tokens, everything from that token on is scored, for all continuations alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from howsure.errors import InputError

DOCUMENT_SEPARATOR = "<|endoftext|>"
_PROBE = "Aé 🤖 x1\n"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Encoded(NamedTuple):
    """One item in tokens: the shared context and what follows it in each continuation."""

    context: tuple[int, ...]
    suffixes: tuple[tuple[int, ...], ...]
    suffix_bytes: tuple[tuple[bytes, ...] | None, ...]
    prefix_chars: int

    @property
    def tokens(self) -> int:
        """Tokens that must be run: the context once, each suffix without its last token."""
        return len(self.context) + sum(max(len(s) - 1, 0) for s in self.suffixes)

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
        self._scheme = self._find_scheme()
        self.start_token: int | None = self._find_start()

    def encode(self, prefix: str, continuations: Sequence[str]) -> Encoded:
        """Tokenise one item; an empty context is begun with the model's start token."""
        boundary = len(_utf8(prefix))
        texts = [self.pieces(prefix + continuation) for continuation in continuations]
        shared = min((_tokens_within(text, boundary) for text in texts), default=0)
        shared = min(shared, _common_length([text.ids[:shared] for text in texts]))
        covered = texts[0].ends[shared - 1] if texts and shared else 0
        context = texts[0].ids[:shared] if texts else ()
        if not context and self.start_token is not None:
            context = (self.start_token,)
        return Encoded(
            context=context,
            suffixes=tuple(text.ids[shared:] for text in texts),
            suffix_bytes=tuple(text.token_bytes and text.token_bytes[shared:] for text in texts),
            prefix_chars=len(_utf8(prefix)[covered:].decode("utf-8", errors="ignore")),
        )

    def pieces(self, text: str) -> Pieces:
        """The tokens of a text; tokens that the tokenizer puts after its end are taken off."""
        _utf8(text)
        found = self.tokenizer(
            text, return_offsets_mapping=True, return_special_tokens_mask=True, return_attention_mask=False
        )
        ids, added = list(found["input_ids"]), list(found["special_tokens_mask"])
        while added and added[-1] and found["offset_mapping"][len(ids) - 1] == (0, 0) and text:
            ids.pop(), added.pop()
        known = self.token_bytes(ids, text, added)
        if known is not None:
            ends, total = [], 0
            for piece in known:
                total += len(piece)
                ends.append(total)
        else:
            ends = [len(_utf8(text[:end])) for _, end in found["offset_mapping"][: len(ids)]]
        leading = next((i for i, flag in enumerate(added) if not flag), len(added))
        return Pieces(tuple(ids), leading, tuple(ends), None if known is None else tuple(known))

    def answer(self, ids: Sequence[int]) -> tuple[str, list[bytes] | None]:
        """Generated tokens as text, special ones left out, and the bytes that each spells where that is known."""
        special = set(self.tokenizer.all_special_ids)
        hidden = [int(token_id in special) for token_id in ids]
        text = str(self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))
        known = self.token_bytes(ids, text, hidden)
        if known is None and "\ufffd" in text and (spelled := self._spelled(ids, hidden)) is not None:
            # An answer may end or break within a character, and decoders disagree about what to show for that.
            return b"".join(spelled).decode("utf-8", errors="replace"), spelled
        return text, known

    def token_bytes(self, ids: Sequence[int], text: str, added: Sequence[int] = ()) -> list[bytes] | None:
        """The bytes that each token spells, if together they spell the text; None where that is not known."""
        spelled = self._spelled(ids, added)
        return None if spelled is None else _without_dummy_space(spelled, _utf8(text))

    def _spelled(self, ids: Sequence[int], silent: Sequence[int]) -> list[bytes] | None:
        if self._scheme is None:
            return None
        names = self.tokenizer.convert_ids_to_tokens(list(ids))
        pieces = [self._spell(name, self._scheme) for name in names]
        if any(piece is None for piece in pieces):
            return None
        return [b"" if i < len(silent) and silent[i] else piece or b"" for i, piece in enumerate(pieces)]

    def piece(self, token_id: int) -> str:
        """One token as text; half a character shows as U+FFFD."""
        name = self.tokenizer.convert_ids_to_tokens(token_id)
        spelled = None if self._scheme is None or name is None else self._spell(name, self._scheme)
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
        for scheme in ("byte-level", "sentencepiece"):
            self._scheme = scheme
            ids = self.tokenizer(_PROBE, add_special_tokens=False)["input_ids"]
            if self.token_bytes(ids, _PROBE) is not None:
                return scheme
        return None

    def _spell(self, name: str, scheme: str) -> bytes | None:
        if name in self._added:
            return name.encode("utf-8")
        if scheme == "byte-level":
            values = [_BYTE_OF_CHARACTER.get(character) for character in name]
            return None if None in values else bytes(v for v in values if v is not None)
        byte = _BYTE_TOKEN.fullmatch(name)
        return bytes([int(byte[1], 16)]) if byte else name.replace("▁", " ").encode("utf-8")


def _tokens_within(text: Pieces, boundary: int) -> int:
    """How many leading tokens end at or before the boundary; before a text, only the tokenizer's own."""
    if boundary == 0:
        return text.leading
    for i, end in enumerate(text.ends):
        if end > boundary:
            return i
    return len(text.ends)


def _common_length(rows: Sequence[Sequence[int]]) -> int:
    length = min((len(row) for row in rows), default=0)
    for i in range(length):
        if any(row[i] != rows[0][i] for row in rows):
            return i
    return length


def _without_dummy_space(pieces: list[bytes], text: bytes) -> list[bytes] | None:
    """SentencePiece puts a space before a text; it belongs to no byte of it."""
    joined = b"".join(pieces)
    if joined == text:
        return pieces
    if joined == b" " + text:
        first = next(i for i, piece in enumerate(pieces) if piece)
        return [piece[1:] if i == first else piece for i, piece in enumerate(pieces)]
    return None


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"character {error.start} of a text is half of a surrogate pair, which no model can read; "
            "decode the file as UTF-8 first"
        ) from error


def _byte_of_character() -> dict[str, int]:
    """The alphabet of byte-level tokenizers: printable bytes stand for themselves, the rest from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    rest = [byte for byte in range(256) if byte not in set(printable)]
    return table | {chr(0x100 + i): byte for i, byte in enumerate(rest)}


_BYTE_OF_CHARACTER = _byte_of_character()
