"""Where a text may be cut so that its two parts, tokenised apart, give the tokens of the whole.

Before a space that follows a letter or a digit, for tokenizers of the kind that GPT-2 began: byte-level BPE on words
that a known pattern finds. It is exact, not likely:

- Nothing in these patterns matches a letter or digit and the space after it: a space stands first in its word, or
  among other white space. So a word ends at the cut whatever stands around it.
- Words before the cut do not depend on what follows it. The one look ahead, `\\s+(?!\\S)`, looks at the character after
  white space, and the cut has a letter or digit before it.
- Words after the cut do not depend on what stands before it: there is no look behind.
- BPE works within a word. NFC never joins a space to its neighbours.
- Added tokens are found first; one that could reach across such a place, or eats white space around it, rules this
  way out, and so does everything that is not known here.
"""

from __future__ import annotations

import json
import re
from typing import Any

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
    """Whether this fast tokenizer is of the kind for which `last_cut` is exact."""
    backend = tokenizer.backend_tokenizer
    if type(backend.model).__name__ != "BPE" or backend.model.dropout:
        return False
    if backend.normalizer is not None and _state(backend.normalizer) != {"type": "NFC"}:
        return False
    if any(_reaches_across(token) for token in tokenizer.added_tokens_decoder.values()):
        return False
    return backend.pre_tokenizer is not None and _splits_words(_state(backend.pre_tokenizer))


def last_cut(text: str) -> int:
    """The last place before a space that follows a letter or digit; 0 where there is none."""
    place = text.rfind(" ")
    while place > 0 and not text[place - 1].isalnum():
        place = text.rfind(" ", 0, place)
    return max(place, 0)


def _splits_words(state: Any) -> bool:
    """Only steps that are known, at least one of them a pattern of words."""
    steps = state["pretokenizers"] if state["type"] == "Sequence" else [state]
    kinds = [_kind(step) for step in steps]
    return "unknown" not in kinds and "words" in kinds


def _kind(step: Any) -> str:
    if step["type"] == "Digits":
        return "digits"
    if step["type"] == "ByteLevel" and not step["add_prefix_space"]:
        return "words" if step["use_regex"] else "bytes"
    if step["type"] == "Split" and step["behavior"] == "Isolated" and not step["invert"]:
        return "words" if step["pattern"].get("Regex") in KNOWN_PATTERNS.values() else "unknown"
    return "unknown"


def _reaches_across(token: Any) -> bool:
    return bool(token.lstrip or token.rstrip or token.single_word or _ACROSS.search(token.content))


def _state(part: Any) -> Any:
    """What a part of a tokenizer writes about itself into tokenizer.json."""
    return json.loads(part.__getstate__())
