"""Hugging Face text models, and the built-in SmolLM2: exact probabilities from weights on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from howsure.errors import EvidenceError, InputError, UnusableImage
from howsure.evidence import TokenLogprobs
from howsure.models import builtin
from howsure.models.contract import (
    Batch,
    Capability,
    ConversationCost,
    Failure,
    Message,
    ModelOptions,
    Passage,
    Rolling,
    ScoreItem,
    ScorePlan,
    Stretch,
    plan_batches,
    plan_rows,
)
from howsure.models.hf import conversations as chats
from howsure.models.hf import documents
from howsure.models.hf.documents import Tokens, tokens_of
from howsure.models.hf.files import ADAPTER, ModelFiles
from howsure.models.hf.loading import reads_images, resolve
from howsure.models.hf.model import HFModel
from howsure.models.registry import ModelName
from howsure.models.text import Encoded, Ints, TextItem

if TYPE_CHECKING:
    from howsure.models.hf.scoring import Readout

ENCODED_AT_ONCE = 1024
WindowOf = tuple[documents.Windows, documents.Window]
T = TypeVar("T")


class HFTextModel(HFModel):
    """A causal language model in the Hugging Face format."""

    capabilities = frozenset({Capability.GENERATE, Capability.SCORE})

    @classmethod
    def built_in(cls, name: str, options: ModelOptions) -> HFTextModel:
        return cls(name, lambda: builtin.model_files(options.announce), None, options, built_in=True)

    @classmethod
    def open(cls, name: ModelName, options: ModelOptions) -> HFTextModel:
        files = ModelFiles(resolve(name.target), trust_remote_code=options.trust_remote_code)
        adapter = ModelFiles(resolve(name.adapter), ADAPTER) if name.adapter is not None else None
        if reads_images(files):
            from howsure.models.hf.image_text import HFImageTextModel

            cls = HFImageTextModel
        return cls(str(name), lambda: files, adapter, options, built_in=False)

    # -- score ------------------------------------------------------------------------------------------------

    def plan_scores(self, items: Sequence[ScoreItem]) -> ScorePlan:
        shapes: list[tuple[int, int] | Failure] = []
        for start in range(0, len(items), ENCODED_AT_ONCE):  # tokens are many; only their number is kept
            encoded = self._encode(items[start : start + ENCODED_AT_ONCE])
            shapes += [one if isinstance(one, Failure) else one.shape for one in encoded]
        refused = {i: one for i, one in enumerate(shapes) if isinstance(one, Failure)}
        return ScorePlan(self._plan(shapes), refused)

    def _plan(self, shapes: Sequence[tuple[int, int] | Failure]) -> list[Batch]:
        """Batches of what can be run, by token budget."""
        sizes = [(0, 0) if isinstance(shape, Failure) else shape for shape in shapes]
        order = [i for i, shape in enumerate(shapes) if not isinstance(shape, Failure)]
        return plan_rows(sizes, order, self.token_budget)

    def try_score(
        self, items: Sequence[ScoreItem], *, top_logprobs: int = 0, entropies: bool = False
    ) -> list[list[TokenLogprobs] | Failure]:
        encoded = self._encode(items)
        results: list[Any] = list(encoded)
        for batch in self._plan([one if isinstance(one, Failure) else one.shape for one in encoded]):
            scored = self._score_batch([results[i] for i in batch.indices], top_logprobs, entropies)
            for i, result in zip(batch.indices, scored, strict=True):
                results[i] = result
        return results

    def _encode(self, items: Sequence[ScoreItem]) -> list[Encoded | Failure]:
        """Every item in tokens, or the reason why it cannot be run."""
        texts: list[TextItem | InputError] = [or_error(self._text_of, item) for item in items]
        readable = {i: text for i, text in enumerate(texts) if isinstance(text, TextItem)}
        encoded = dict(zip(readable, self.encoder.encode_many(list(readable.values())), strict=True))
        out: list[Encoded | Failure] = []
        for i, (item, text) in enumerate(zip(items, texts, strict=True)):
            tokens = text if isinstance(text, InputError) else encoded[i]
            out.append(self._checked(or_error(self._placed, item, tokens) if isinstance(tokens, Encoded) else tokens))
        return out

    def _checked(self, encoded: Encoded | InputError) -> Encoded | Failure:
        if isinstance(encoded, InputError):
            return Failure(
                "unreadable_image" if isinstance(encoded, UnusableImage) else "unreadable_text", str(encoded)
            )
        if not encoded.context:
            return Failure("no_context", self._no_context())
        limit = self.context_tokens
        if limit is not None and encoded.span > limit:
            return Failure("too_long", f"{encoded.span} tokens do not fit the model's context of {limit}")
        return encoded

    def _no_context(self) -> str:
        return f"{self.name} has no start token, so the first token of a text has no context"

    def _text_of(self, item: ScoreItem) -> TextItem:
        """The text that the tokenizer gets for an item."""
        if item.image is not None:
            raise InputError(f"{self.name} reads text only, and the item has an image")
        if isinstance(item.prefix, str):
            return TextItem(item.prefix, item.continuations)
        self._refuse_images(item.prefix)
        return TextItem(self.prompt_text(item.prefix), item.continuations, framed=True)

    def _placed(self, item: ScoreItem, encoded: Encoded) -> Encoded:
        """The tokens of an item, those of its image in their place."""
        return encoded

    def _pixels(self, items: list[Encoded]) -> list[Any]:
        """What the network sees beside the text; a `Failure` where an image cannot be used after all."""
        return [None] * len(items)

    def _score_batch(self, items: list[Encoded], top: int, entropies: bool) -> list[list[TokenLogprobs] | Failure]:
        pixels = self._pixels(items)
        seen = {i: one for i, one in enumerate(pixels) if not isinstance(one, Failure)}
        readouts = self._run([items[i] for i in seen], list(seen.values()), top, entropies)
        results: list[Any] = list(pixels)
        for i, readout in zip(seen, readouts, strict=True):
            results[i] = readout if isinstance(readout, Failure) else self._evidence(items[i], readout)
        return results

    def _run(self, items: list[Encoded], pixels: list[Any], top: int, entropies: bool) -> list[Readout | Failure]:
        """Readouts; an item with a token that the network has no row for fails alone."""
        rows = self.network.get_input_embeddings().num_embeddings
        image = self.scorer.layout.image_token_id
        known = [i for i, item in enumerate(items) if item.largest_id(but=image) < rows]
        readouts = self._run_known([items[i] for i in known], [pixels[i] for i in known], top, entropies)
        by_place = dict(zip(known, readouts, strict=True))
        strange = Failure("strange_token", f"the tokenizer makes a token that {self.name} does not have ({rows} rows)")
        return [by_place.get(i, strange) for i in range(len(items))]

    def _run_known(self, items: list[Encoded], pixels: list[Any], top: int, entropies: bool) -> list[Readout | Failure]:
        """Readouts; a batch that fits into no memory is run item by item, and what still does not fit fails alone."""
        from howsure.models.hf.scoring import Wanted, is_out_of_memory

        if not items:
            return []
        try:
            return list(self.scorer.run(items, Wanted(top, entropies), pixels))
        except (MemoryError, RuntimeError) as error:
            if not (isinstance(error, MemoryError) or is_out_of_memory(error)):
                raise
        if len(items) == 1:
            return [Failure("out_of_memory", f"{items[0].tokens} tokens do not fit into memory")]
        pairs = zip(items, pixels, strict=True)
        return [readout for item, seen in pairs for readout in self._run_known([item], [seen], top, entropies)]

    def _evidence(self, item: Encoded, out: Readout) -> list[TokenLogprobs] | Failure:
        evidence, start = [], 0
        try:
            for suffix, known in zip(item.suffixes, item.suffix_bytes, strict=True):
                rows = slice(start, start + len(suffix))
                columns = [None if column is None else column[rows] for column in out]
                evidence.append(self._tokens(suffix, known, columns, item.prefix_chars))
                start += len(suffix)
        except EvidenceError as error:
            return Failure("bad_logprobs", f"{self.name} gave {error}")
        return evidence

    # -- whole documents ----------------------------------------------------------------------------------------

    @property
    def takes_windows(self) -> bool:
        return True

    def rolling(self, wanted: Rolling) -> Rolling:
        return documents.decide(wanted, self.context_tokens, self._frame())

    def passages(self, chunks: Iterable[str], rolling: Rolling) -> Iterator[Passage]:
        return documents.passages(self._tokens_of(chunks), self._frame(), self.rolling(rolling))

    def _frame(self) -> documents.Frame:
        """What stands before a document; a sentence where nothing does, so that its first token cannot be read."""
        if self.encoder.lead:
            return documents.Frame(self.encoder.lead)
        if self.encoder.start_token is None:
            raise InputError(self._no_context())
        return documents.Frame((), (self.encoder.start_token,))

    def _tokens_of(self, chunks: Iterable[str]) -> Iterator[Tokens]:
        for tokens in tokens_of(self.encoder, chunks):
            self._check_document(tokens.ids)
            yield tokens

    def _check_document(self, ids: Ints) -> None:
        """Raise in a sentence where a document holds what the model would not take for text."""

    def calls_to_read(self, passages: Sequence[Passage]) -> int:
        return len(self._plan_windows(_windows(passages)))

    def _plan_windows(self, rows: Sequence[WindowOf]) -> list[Batch]:
        sizes = [content.tokens_run(window) for content, window in rows]
        return plan_batches(sizes, range(len(rows)), self.token_budget)

    def read(self, passages: Sequence[Passage]) -> list[Stretch | Failure]:
        rows = _windows(passages)
        by_row: dict[int, Readout | Failure] = {}
        for batch in self._plan_windows(rows):
            items = [content.encoded(window) for content, window in (rows[i] for i in batch.indices)]
            by_row |= zip(batch.indices, self._run(items, [None] * len(items), 0, False), strict=True)
        readouts = (by_row[i] for i in range(len(rows)))
        return [self._stretch(one.content, [next(readouts) for _ in one.content.windows]) for one in passages]

    def _stretch(self, content: documents.Windows, readouts: Sequence[Readout | Failure]) -> Stretch | Failure:
        failed = next((one for one in readouts if isinstance(one, Failure)), None)
        if failed is not None:
            return failed
        try:
            return documents.stretch(content, readouts)
        except EvidenceError as error:
            return Failure("bad_logprobs", f"{self.name} gave {error}")

    # -- whole conversations ----------------------------------------------------------------------------------------

    @property
    def takes_conversations(self) -> bool:
        return self.takes_chat

    def conversation_cost(
        self, conversations: Sequence[Sequence[Message]], rolling: Rolling
    ) -> list[ConversationCost | Failure]:
        decided = self._rolling_over_chats(rolling)
        return [one if isinstance(one, Failure) else chats.cost(one, decided) for one in self._spell(conversations)]

    def read_conversations(
        self, conversations: Sequence[Sequence[Message]], rolling: Rolling
    ) -> list[list[TokenLogprobs] | Failure]:
        decided, spelled = self._rolling_over_chats(rolling), self._spell(conversations)
        passages = [[] if isinstance(one, Failure) else chats.passages(one, decided) for one in spelled]
        stretches = iter(self.read([passage for row in passages for passage in row]))
        rows = [[next(stretches) for _ in row] for row in passages]
        return [
            one if isinstance(one, Failure) else self._messages(one, row, len(messages))
            for one, row, messages in zip(spelled, rows, conversations, strict=True)
        ]

    def _rolling_over_chats(self, wanted: Rolling) -> Rolling:
        if not self.takes_conversations:
            raise self._reads_no_conversations()
        return self.rolling(wanted)

    def _spell(self, conversations: Sequence[Sequence[Message]]) -> list[chats.Spelled | Failure]:
        return [self._spell_one(messages) for messages in conversations]

    def _spell_one(self, messages: Sequence[Message]) -> chats.Spelled | Failure:
        sighted = next((i for i, message in enumerate(messages) if message.images), None)
        if sighted is not None:
            return Failure("unreadable_image", f"message {sighted} has an image, and conversations are read as text")
        one = self._speller.spell(messages)
        refused = None if isinstance(one, Failure) else or_error(self._check_document, np.array(one.ids))
        return one if refused is None else Failure("unreadable_text", str(refused))

    @cached_property
    def _speller(self) -> chats.Speller:
        return chats.Speller(self.encoder, self._conversation_text)

    def _conversation_text(self, messages: Sequence[Message]) -> str:
        return self._apply_template([{"role": m.role, "content": m.content} for m in messages], begin_answer=False)

    def _messages(
        self, spelled: chats.Spelled, stretches: Sequence[Stretch | Failure], count: int
    ) -> list[TokenLogprobs] | Failure:
        """What was read of each message."""
        logprobs = [np.empty(0)]
        for stretch in stretches:
            if isinstance(stretch, Failure):
                return stretch
            logprobs.append(stretch.logprobs)
        column = np.concatenate(logprobs)
        spans = (spelled.spans.get(i, chats.Span(1, 1, 0)) for i in range(count))
        return [self._message(spelled, span, column[span.first - 1 : span.end - 1]) for span in spans]

    def _message(self, spelled: chats.Spelled, span: chats.Span, logprobs: Any) -> TokenLogprobs:
        tokens = slice(span.first, span.end)
        known = None if spelled.token_bytes is None else spelled.token_bytes[tokens]
        return self._tokens(spelled.ids[tokens], known, [logprobs, None, None, None], span.prefix_chars)


def _windows(passages: Sequence[Passage]) -> list[WindowOf]:
    return [(passage.content, window) for passage in passages for window in passage.content.windows]


def or_error(work: Callable[..., T], *given: Any) -> T | InputError:
    """What comes of it, or why nothing does."""
    try:
        return work(*given)
    except InputError as error:
        return error
