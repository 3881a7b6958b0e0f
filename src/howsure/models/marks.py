"""Special tokens that only a chat template may write.

Contents come from logs and may spell anything, `<|im_end|>` too. Read as text of the whole conversation, that would
close a turn. So where a content spells such a mark, the conversation is tokenised by a copy of the tokenizer in which
the marks have other names, names that stand in no content, and the frames are written with these. Everything else is as
in the tokenizer itself: what a content spells is plain text, and the frames' marks are the tokens that they were.

Marks are the tokenizer's special tokens, and other added tokens that the frames of the conversation hold (some families
do not declare their turn markers special); white space is no mark.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from howsure.errors import InputError
from howsure.models.framing import Framed, unused_word
from howsure.models.text_boundary import TextEncoder


class Marked(NamedTuple):
    """A conversation ready to be tokenised, and what tokenises it."""

    framed: Framed
    encoder: TextEncoder


class Marks:
    """The marks of one tokenizer, and the copies of it in which they have other names."""

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder
        added = [token for token in encoder.tokenizer.added_tokens_decoder.values() if token.content.strip()]
        self._special = frozenset(token.content for token in added if token.special)
        self._added = _pattern(token.content for token in added)
        self._copies: dict[tuple[str, frozenset[str]], TextEncoder] = {}

    def protect(self, framed: Framed) -> Marked:
        """The conversation as it is, unless a mark would be read where the template did not write it."""
        marks = self._special.union(*(self._added.findall(one) for one in framed.frames))
        pattern = _pattern(marks)
        if not _is_forged(framed, pattern):
            return Marked(framed, self._encoder)
        word = unused_word(framed.text)
        names = {mark: f"<|{word}{i}|>" for i, mark in enumerate(sorted(marks))}
        frames = tuple(pattern.sub(lambda found: names[found[0]], one) for one in framed.frames)
        if (word, marks) not in self._copies:
            self._copies[word, marks] = TextEncoder(_renamed(self._encoder.tokenizer, names))
        return Marked(framed._replace(frames=frames), self._copies[word, marks])


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Finds any of the names, the longest where several begin; nothing where there are none."""
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def _is_forged(framed: Framed, pattern: re.Pattern[str]) -> bool:
    """Whether a mark lies in a content, or across the border of one."""
    ends = list(accumulate(map(len, framed.parts)))
    for found in pattern.finditer(framed.text):
        part = bisect_right(ends, found.start())
        if part % 2 or found.end() > ends[part]:
            return True
    return False


def _renamed(tokenizer: Any, names: Mapping[str, str]) -> Any:
    """A copy of a tokenizer in which tokens have other names and the numbers that they had."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    state = json.loads(tokenizer.backend_tokenizer.to_str())
    for token in state["added_tokens"]:
        token["content"] = names.get(token["content"], token["content"])
    model = state["model"]
    if isinstance(model["vocab"], dict):
        model["vocab"] = {names.get(name, name): number for name, number in model["vocab"].items()}
    else:
        model["vocab"] = [[names.get(name, name), score] for name, score in model["vocab"]]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    copy = Tokenizer.from_str(json.dumps(state))
    if any(copy.token_to_id(name) != tokenizer.convert_tokens_to_ids(mark) for mark, name in names.items()):
        raise InputError("a message spells a special token, and this tokenizer cannot be kept from taking it for one")
    return PreTrainedTokenizerFast(tokenizer_object=copy)
