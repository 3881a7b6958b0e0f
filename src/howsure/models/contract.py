"""What a model is to the rest of howsure: a name, a fingerprint, and its capabilities.

`generate` takes conversations and gives answers with the log-probabilities of their tokens.
`score` takes prefixes with continuations and gives the log-probabilities of each continuation, by forward
passes only. `click` takes screens with instructions and gives the place to click, without any words. A back end is one
file that subclasses `Model` and implements some of them.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from howsure.errors import InputError, MissingCapability
from howsure.evidence import TokenLogprobs
from howsure.models.images import Picture, inspect_picture
from howsure.models.options import MODEL as MODEL
from howsure.models.options import ModelOptions as ModelOptions


class Capability(StrEnum):
    """What a back end can do; a study names the one that it needs before any work starts."""

    GENERATE = "generate"
    SCORE = "score"
    CLICK = "click"


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One message of a conversation, in the form that every chat API shares; its images stand before its text."""

    role: str
    content: str
    images: tuple[Picture, ...] = ()


class ScoreItem(NamedTuple):
    """One prefix and the continuations to be scored after it.

    A prefix of messages goes through the model's chat template, up to where its answer begins. The image stands
    before the text, in a conversation at the start of the first user message; there it may as well be given in its
    message, but not both ways.
    """

    prefix: str | tuple[Message, ...]
    continuations: Sequence[str]
    image: Picture | None = None


Conversation = str | Sequence[Message | Mapping[str, Any]]
"""A conversation; a plain string is one user message."""


class Answer(msgspec.Struct, frozen=True):
    """What came back for one conversation: text with its evidence, or the reason why there is none.

    Exactly one of `text` and `failure` is None. `logprobs` is None where the source gave none that can be used, and
    `logprobs_missing` then says why. `not_aligned`: there were some, for tokens that do not spell the text.
    """

    text: str | None
    logprobs: TokenLogprobs | None = None
    logprobs_missing: str | None = None
    finish_reason: str | None = None
    failure: str | None = None
    retries: int = 0
    not_aligned: bool = False


NOT_ASKED = "not asked for"
"""Why an answer has no log-probabilities where nobody wanted any."""


class Failure(msgspec.Struct, frozen=True):
    """Why one item has no evidence: a short countable reason, and the particulars."""

    reason: str
    detail: str


class ClickRequest(NamedTuple):
    """A screen, and what is wanted on it."""

    instruction: str
    screen: Picture


class Click(msgspec.Struct, frozen=True):
    """Where a model would click, in pixels of the image as it is shown, and how sure it is of that, from 0 to 1.

    `matched` is what stands there, in words; `how` names the way in which the place was chosen.
    """

    x_px: float
    y_px: float
    confidence: float
    matched: str | None = None
    how: str | None = None


class Batch(NamedTuple):
    """Items that are run together: the unit of work, for resuming and for spreading over machines."""

    indices: tuple[int, ...]
    tokens: int


class ScorePlan(NamedTuple):
    """Every item is in exactly one batch, or refused with its reason."""

    batches: list[Batch]
    refused: dict[int, Failure]

    @property
    def tokens(self) -> int:
        return sum(batch.tokens for batch in self.batches)


def plan_batches(sizes: Sequence[int], order: Sequence[int], budget: int) -> list[Batch]:
    """Longest first, as many as fit the budget with padding counted; a batch has at least one item.

    Planning the items of one batch again gives that one batch, so a batch can be redone by itself.
    """
    return plan_rows([(size, 0) for size in sizes], order, budget)


def plan_rows(shapes: Sequence[tuple[int, int]], order: Sequence[int], budget: int) -> list[Batch]:
    """The same for rows of two parts, context and suffixes, which are padded each by itself."""
    sizes = [context + suffixes for context, suffixes in shapes]
    ranked = sorted(order, key=lambda i: (-sizes[i], i))
    batches: list[Batch] = []
    current: list[int] = []
    context = suffixes = 0
    for i in ranked:
        context, suffixes = max(context, shapes[i][0]), max(suffixes, shapes[i][1])
        if current and (context + suffixes) * (len(current) + 1) > budget:
            batches.append(Batch(tuple(current), sum(sizes[i] for i in current)))
            current, (context, suffixes) = [], shapes[i]
        current.append(i)
    if current:
        batches.append(Batch(tuple(current), sum(sizes[i] for i in current)))
    return batches


class Rolling(NamedTuple):
    """How a text longer than what a model sees at once is read: `window` tokens at a time, of which the last `stride`
    are new and get a probability. None leaves it to the model."""

    window: int | None = None
    stride: int | None = None


class Passage(NamedTuple):
    """A stretch of a document in a model's own form, ready to be read; a document is one passage after the other.

    `tokens` of them get a probability, and `tokens_run` are run for that, context included.
    """

    tokens: int
    tokens_run: int
    content: Any


class Stretch(NamedTuple):
    """What a model thought of a passage, token by token: columns of equal length.

    `byte_counts` are the bytes of the text that each token accounts for, all bytes of a document once; `word_starts`
    the words that begin in it (`models.text`). `unknown` marks tokens outside of a closed vocabulary, and is None
    for a model that can spell any text. `sentence_ends` marks tokens that end a sentence (`</s>`), which are predicted
    and are no words; None for a model that has none.
    """

    logprobs: NDArray[np.float64]
    byte_counts: NDArray[np.int64]
    word_starts: NDArray[np.int64]
    unknown: NDArray[np.bool_] | None = None
    sentence_ends: NDArray[np.bool_] | None = None


class ConversationCost(NamedTuple):
    """What reading one conversation takes.

    tokens      the whole conversation in the model's own form, frames included
    tokens_run  those that are run, again where windows overlap
    windows     how many stretches it is read in: one where it fits, none where no message holds any text
    rendering   how its messages were given to the chat template: `hf.conversations` has the ways
    """

    tokens: int
    tokens_run: int
    windows: int
    rendering: str


class Counters(msgspec.Struct):
    """What a model has run since it was loaded, to be checked against the minimum of the design."""

    calls: int = 0
    tokens_run: int = 0
    head_rows_run: int = 0
    padding_run: int = 0
    images_run: int = 0


class Model(ABC):
    """The contract. A back end raises `MissingCapability` for what it cannot do, by not overriding it."""

    name: str
    capabilities: frozenset[Capability]
    counters: Counters
    remote: bool = False
    """Whether a server answers, which nobody can promise to answer the same twice."""
    opened_by: tuple[Callable[..., Model], tuple[Any, ...]] | None = None
    """How the same model is opened elsewhere; None for one that was not opened by its name."""
    answer_form: str | None = None
    """How the last answers were held to a schema, one of `forms.FORMS`; None where nothing holds them to one."""

    @property
    def threads(self) -> int | None:
        """With how many threads a network on a CPU computes, which decides about its last digits; None without one."""
        return None

    @property
    def takes_images(self) -> bool:
        """Whether an item to be scored may have an image; known without loading the weights."""
        return False

    @property
    def answers_images(self) -> bool:
        """Whether a message to be answered may hold images; known without loading the weights.

        Whether the model behind a server sees them, only the server can tell: where it does not, it refuses them.
        """
        return False

    @property
    def architecture(self) -> str | None:
        """The kind of network as its configuration names it, such as `qwen3_vl`; None where only a server knows."""
        return None

    @property
    def limits_pixels(self) -> bool:
        """Whether `max_pixels` says how much of an image the network sees."""
        return False

    def seen_size(self, picture: Picture) -> tuple[int, int] | None:
        """Width and height of the image as the network gets it, in pixels; None where that is not known here."""
        return None

    @property
    def takes_chat(self) -> bool:
        """Whether the prefix of an item may be a conversation; known without loading the weights."""
        return False

    @property
    def takes_conversations(self) -> bool:
        """Whether a whole conversation is read at once, every message of it; known without loading the weights."""
        return False

    @property
    def takes_windows(self) -> bool:
        """Whether a document is read in windows, so that their size can be chosen."""
        return False

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """What makes this model this model; equal fingerprints mean equal answers. Never holds a secret."""

    def load(self) -> None:  # noqa: B027 - a back end may have nothing to load
        """Fetch and load everything that the first answer needs; loading twice does nothing."""

    def close(self) -> None:  # noqa: B027 - or nothing to give back
        """Give back what the model holds."""

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        """A model travels as its name and options, never with its weights: whoever gets it opens it anew.

        What stands for a server has no weights, and travels as it is.
        """
        if self.opened_by is not None:
            return self.opened_by
        if self.remote:
            return super().__reduce_ex__(protocol)
        raise InputError(
            f"{self.name!r} is open in this process and cannot be sent to workers: give the model by its name"
        )

    def require(self, capability: Capability, purpose: str) -> None:
        """Raise in one sentence where the model cannot do what `purpose` needs."""
        if capability not in self.capabilities:
            raise self._lacks(capability, purpose)

    def _lacks(self, capability: Capability, purpose: str) -> MissingCapability:
        has = " and ".join(sorted(c.value for c in self.capabilities)) or "nothing"
        return MissingCapability(
            f"{purpose} needs a model that can {capability.value}, and {self.name!r} can only {has}; "
            "`howsure models` lists what each kind of model can do"
        )

    def plan_scores(self, items: Sequence[ScoreItem]) -> ScorePlan:
        """Batches that cover all items; a pure function of the items and the model's options."""
        raise self._lacks(Capability.SCORE, "score")

    def prefetch(self, items: Sequence[ScoreItem]) -> None:  # noqa: B027 - a hint, which a back end may ignore
        """Hear which items will be scored after those that are scored now, and begin to prepare them."""

    def try_score(
        self, items: Sequence[ScoreItem], *, top_logprobs: int = 0, entropies: bool = False
    ) -> list[list[TokenLogprobs] | Failure]:
        """For each item the evidence of its continuations, or the reason why it has none."""
        raise self._lacks(Capability.SCORE, "score")

    def score(
        self,
        items: Iterable[ScoreItem | tuple[Any, ...]],
        *,
        top_logprobs: int = 0,
        entropies: bool = False,
    ) -> list[list[TokenLogprobs]]:
        """For each (prefix, continuations) the `TokenLogprobs` of every continuation; raises if one has none.

        A third part, where the model takes one, is the path of an image.
        """
        wanted = [_as_item(item) for item in items]
        results = self.try_score(wanted, top_logprobs=top_logprobs, entropies=entropies)
        out = []
        for i, result in enumerate(results):
            if isinstance(result, Failure):
                raise InputError(f"item {i} cannot be scored: {result.detail}")
            out.append(result)
        return out

    # -- whole documents ----------------------------------------------------------------------------------------

    def rolling(self, wanted: Rolling) -> Rolling:
        """How this model would read a document, everything decided; a sentence where that cannot be done."""
        raise self._lacks(Capability.SCORE, "reading a text")

    def passages(self, chunks: Iterable[str], rolling: Rolling) -> Iterator[Passage]:
        """A document, given as text in pieces of any size, as passages; no more of it is held than is needed.

        The passages are a pure function of the text and of `rolling` (as `self.rolling` gave it), not of the pieces.
        """
        raise self._lacks(Capability.SCORE, "reading a text")

    def read(self, passages: Sequence[Passage]) -> list[Stretch | Failure]:
        """What the model thought of each passage; a pure function of the list, so that it can be done again."""
        raise self._lacks(Capability.SCORE, "reading a text")

    def calls_to_read(self, passages: Sequence[Passage]) -> int:
        """How many calls of the network or server reading these together takes."""
        return len(passages)

    # -- whole conversations --------------------------------------------------------------------------------------

    def conversation_cost(
        self, conversations: Sequence[Sequence[Message]], rolling: Rolling
    ) -> list[ConversationCost | Failure]:
        """What reading each conversation would take, or why it cannot be read; costs no weights."""
        raise self._reads_no_conversations()

    def read_conversations(
        self, conversations: Sequence[Sequence[Message]], rolling: Rolling
    ) -> list[list[TokenLogprobs] | Failure]:
        """For each conversation the evidence of every message in it, in order, or the reason why it has none.

        A message's evidence are the tokens of its content, given everything before it. What the chat template writes
        around contents is context and gets no probability; a message without content has no tokens. A token that
        straddles the border of a content belongs to it, and `prefix_chars` counts what lies before the border.
        """
        raise self._reads_no_conversations()

    def _reads_no_conversations(self) -> MissingCapability:
        return MissingCapability(
            f"reading a conversation needs a model with a chat template on this machine, and {self.name!r} is none; "
            "take smollm2, or hf:<a chat model>"
        )

    def check_logprobs(self, top_logprobs: int = 5) -> None:  # noqa: B027 - weights at hand always give them
        """Raise in one sentence, before any work, unless answers will come with the log-probabilities of tokens."""

    def generate(
        self,
        conversations: Iterable[Conversation],
        *,
        max_tokens: int = 256,
        temperature: float = 0.0,
        top_logprobs: int | None = 5,
        seed: int = 0,
        answer_schema: Mapping[str, Any] | None = None,
    ) -> list[Answer]:
        """One answer for each conversation, in order; a conversation that fails has its reason in it.

        `top_logprobs` None asks for no log-probabilities at all. `answer_schema` is a JSON Schema that a server holds
        the answer to, where it can; weights on this machine write freely, so the conversation has to ask for the form.
        """
        raise self._lacks(Capability.GENERATE, "generate")

    def click(self, requests: Sequence[ClickRequest]) -> list[Click | Failure]:
        """One place for each request, in order, or the reason why there is none."""
        raise self._lacks(Capability.CLICK, "click")


def _as_item(given: ScoreItem | tuple[Any, ...]) -> ScoreItem:
    item = ScoreItem(*given)
    if item.image is None or isinstance(item.image, Picture):
        return item
    return item._replace(image=inspect_picture(item.image))


def as_messages(conversation: Conversation) -> list[Message]:
    """Check a conversation from outside and bring it to one form."""
    if isinstance(conversation, str):
        return [Message("user", conversation)]
    try:
        messages = [m if isinstance(m, Message) else _as_message(m) for m in conversation]
    except (msgspec.ValidationError, TypeError) as error:
        raise InputError(
            f"a conversation is a text or a list of {{'role': …, 'content': …}} messages: {error}"
        ) from error
    if not messages:
        raise InputError("a conversation needs at least one message")
    return messages


def _as_message(given: Mapping[str, Any]) -> Message:
    """A message from outside; its images are paths."""
    paths = given.get("images") if isinstance(given, Mapping) else None
    if not paths:
        return msgspec.convert(given, Message)
    named = [paths] if isinstance(paths, str | os.PathLike) else paths
    images = tuple(one if isinstance(one, Picture) else inspect_picture(one) for one in named)
    plain = msgspec.convert({key: value for key, value in given.items() if key != "images"}, Message)
    return msgspec.structs.replace(plain, images=images)
