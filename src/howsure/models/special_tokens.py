"""Special tokens that only a chat template may write.

Contents come from logs and may spell anything, `<|im_end|>` too. Read as text of the whole conversation, that would
close a turn. So where a content spells a special token, the conversation is tokenised by a copy of the tokenizer in
which these tokens have other names, names that stand in no content, and the frames are written with these. Everything
else is as in the tokenizer itself: what a content spells is plain text, and those of the frames are the tokens that
they were.

Besides the tokenizer's special tokens, other added tokens that the frames of the conversation hold count as special
(some families do not declare their turn markers so); white space never does.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from howsure.errors import InputError
from howsure.models.chat_spans import ChatSpans, unused_word
from howsure.models.text_boundary import TextEncoder


class Protected(NamedTuple):
    """A conversation ready to be tokenised, and what tokenises it."""

    chat: ChatSpans
    encoder: TextEncoder


class SpecialTokens:
    """The special tokens of one tokenizer, and the copies of it in which they have other names."""

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder
        added = [token for token in encoder.tokenizer.added_tokens_decoder.values() if token.content.strip()]
        self._special = frozenset(token.content for token in added if token.special)
        self._added = _pattern(token.content for token in added)
        self._copies: dict[tuple[str, frozenset[str]], TextEncoder] = {}

    def protect(self, chat: ChatSpans) -> Protected:
        """The conversation as it is, unless a special token would be read where the template did not write it."""
        special = self._special.union(*(self._added.findall(frame) for frame in chat.frames))
        pattern = _pattern(special)
        if not _is_forged(chat, pattern):
            return Protected(chat, self._encoder)
        word = unused_word(chat.text)
        names = {token: f"<|{word}{i}|>" for i, token in enumerate(sorted(special))}
        frames = tuple(pattern.sub(lambda match: names[match[0]], frame) for frame in chat.frames)
        if (word, special) not in self._copies:
            self._copies[word, special] = TextEncoder(_renamed(self._encoder.tokenizer, names))
        return Protected(chat._replace(frames=frames), self._copies[word, special])


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Finds any of the names, the longest where several begin; nothing where there are none."""
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def _is_forged(chat: ChatSpans, pattern: re.Pattern[str]) -> bool:
    """Whether a special token lies in a content, or across the border of one."""
    ends = list(accumulate(map(len, chat.parts)))
    for match in pattern.finditer(chat.text):
        part = bisect_right(ends, match.start())
        if part % 2 or match.end() > ends[part]:
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
    if any(copy.token_to_id(name) != tokenizer.convert_tokens_to_ids(token) for token, name in names.items()):
        raise InputError("a message spells a special token, and this tokenizer cannot be kept from taking it for one")
    return PreTrainedTokenizerFast(tokenizer_object=copy)
