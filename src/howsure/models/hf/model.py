"""What a Hugging Face model is made of, each part loaded when it is first needed, and how it answers conversations.

A dry run, which only counts tokens, costs no weights, and a model that was closed loads them again. A conversation is
written out by the chat template and tokenised; an answer comes with the evidence of each token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from howsure.errors import EvidenceError, InputError, UnusableImage, UnusableText
from howsure.evidence import TokenLogprobs, TopAlternatives
from howsure.models import builtin, chat_templates
from howsure.models.contract import (
    NOT_ASKED,
    Answer,
    Conversation,
    Counters,
    Failure,
    Message,
    Model,
    ModelOptions,
    as_messages,
    plan_batches,
)
from howsure.models.hf.files import TOKENIZER, ModelFiles
from howsure.models.hf.loading import choose_device, load_config, load_network, load_tokenizer, resolve, threads_on
from howsure.models.images import Picture
from howsure.models.text import TextEncoder

if TYPE_CHECKING:  # both import torch
    from howsure.models.hf.generation import Manner, Prompt, Written
    from howsure.models.hf.scoring import Scorer

CPU_TOKEN_BUDGET = 2048
GPU_TOKEN_BUDGET = 16384


class Question(NamedTuple):
    """A conversation in tokens, those of its images in their places."""

    ids: tuple[int, ...]
    images: tuple[Picture, ...] = ()


class HFModel(Model):
    """One checkpoint: its tokenizer, configuration, network and scorer, and how it answers conversations."""

    def __init__(
        self,
        name: str,
        files: Callable[[], ModelFiles],
        adapter: ModelFiles | None,
        options: ModelOptions,
        built_in: bool,
    ) -> None:
        self.name = name
        self.counters = Counters()
        self._find_files = files
        self._adapter = adapter
        self._options = options
        self._built_in = built_in
        if options.token_budget is not None and options.token_budget < 1:
            raise InputError(f"the token budget must be at least 1, not {options.token_budget}")

    @cached_property
    def files(self) -> ModelFiles:
        return self._find_files()

    @property
    def source(self) -> str:
        """The folder, or the name on the Hub, as it was given."""
        return self.files.source

    @cached_property
    def tokenizer_files(self) -> ModelFiles:
        """Those of the model, unless a tokenizer was named."""
        if self._options.tokenizer is None:
            return self.files
        named = Path(self._options.tokenizer).expanduser()
        alone = any((named / name).exists() for name in ("tokenizer.json", "tokenizer_config.json"))
        source = str(named) if alone else resolve(self._options.tokenizer)
        return ModelFiles(source, TOKENIZER, trust_remote_code=self._options.trust_remote_code)

    @cached_property
    def device(self) -> str:
        return choose_device(self._options.device, self._options.elsewhere)

    @property
    def threads(self) -> int | None:
        return threads_on(self.device)

    @cached_property
    def encoder(self) -> TextEncoder:
        return TextEncoder(load_tokenizer(self.tokenizer_files, self._options.trust_remote_code))

    @cached_property
    def network(self) -> Any:
        self._announce_loading()
        return load_network(self.files, self._adapter, self.dtype, self.device, self._options.trust_remote_code)

    @property
    def dtype(self) -> str:
        return self._options.dtype or ("float32" if self.device == "cpu" else "auto")

    def _announce_loading(self) -> None:
        if not self._built_in:
            self._announce(f"loading {self.name}")

    def _announce(self, remark: str) -> None:
        if self._options.announce is not None:
            self._options.announce(remark)

    @cached_property
    def scorer(self) -> Scorer:
        scorer = self._make_scorer()
        if scorer.way == "plain":
            self._announce(f"{self.name} does not take packed rows: each choice is run by itself, which is slower")
        if self._options.compile:
            scorer.compile()
        return scorer

    def _make_scorer(self) -> Scorer:
        from howsure.models.hf.scoring import Scorer

        return Scorer(self.network, self.pad_id, self.counters)

    @cached_property
    def whole_config(self) -> Any:
        return load_config(self.files, self._options.trust_remote_code)

    @property
    def config(self) -> Any:
        """The configuration of the language part."""
        return self.whole_config.get_text_config()

    @property
    def pad_id(self) -> int:
        pad = self.encoder.tokenizer.pad_token_id
        return int(pad) if pad is not None else 0

    @property
    def token_budget(self) -> int:
        default = CPU_TOKEN_BUDGET if self.device == "cpu" else GPU_TOKEN_BUDGET
        return self._options.token_budget if self._options.token_budget is not None else default

    @property
    def context_tokens(self) -> int | None:
        """The longest sequence that the model was made for; None where its configuration does not say."""
        limit = getattr(self.config, "max_position_embeddings", None)
        return limit if isinstance(limit, int) else None

    @property
    def takes_chat(self) -> bool:
        return self.encoder.tokenizer.chat_template is not None

    def load(self) -> None:
        _ = self.scorer

    def close(self) -> None:
        """Let go of the weights; the next use loads them again."""
        for part in ("scorer", "network"):
            self.__dict__.pop(part, None)
        if "device" in self.__dict__ and self.device != "cpu":
            import torch

            torch.cuda.empty_cache()

    def fingerprint(self) -> dict[str, Any]:
        out: dict[str, Any] = {"backend": "hf", "token_budget": self.token_budget, "device": self.device}
        if self._options.dtype is not None:
            out["dtype"] = self._options.dtype
        if self._options.compile:
            out["compile"] = True
        out |= builtin.fingerprint() if self._built_in else {"weights": self.files.fingerprint}
        if self._adapter is not None:
            out["adapter"] = self._adapter.fingerprint
        if self._options.tokenizer is not None:
            out["tokenizer"] = self.tokenizer_files.fingerprint
        return out

    # -- writing -------------------------------------------------------------------------------------------------------

    def prompt_text(self, conversation: Conversation) -> str:
        """What the model reads for a conversation: its chat template applied, the answer's turn begun."""
        messages = as_messages(conversation)
        tokenizer = self.encoder.tokenizer
        if tokenizer.chat_template is None:
            if len(messages) == 1 and messages[0].role == "user":
                return messages[0].content
            raise InputError(f"{self.name} has no chat template, so it takes one user message, which it continues")
        return self._apply_template([{"role": m.role, "content": m.content} for m in messages])

    def _apply_template(
        self, messages: list[dict[str, Any]], template: str | None = None, begin_answer: bool = True
    ) -> str:
        tokenizer = self.encoder.tokenizer
        try:
            chosen = tokenizer.get_chat_template(template)
        except ValueError as error:  # several under names, none of which is the usual one
            raise InputError(f"{self.name}'s chat template refuses these messages: {error}") from error
        return chat_templates.apply(
            self.name, chosen, messages, begin_answer=begin_answer, special_tokens=tokenizer.special_tokens_map
        )

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
        """`answer_schema` changes nothing: the weights write freely, and the conversation has to ask for the form."""
        if max_tokens < 1 or temperature < 0 or (top_logprobs or 0) < 0:
            raise InputError("max_tokens must be at least 1, temperature and top_logprobs not negative")
        chat_templates.begin()
        from howsure.models.hf.generation import Manner

        manner = Manner(max_tokens, temperature, top_logprobs, seed)
        results: list[Any] = [self._question(conversation, max_tokens) for conversation in conversations]
        order = [i for i, one in enumerate(results) if isinstance(one, Question)]
        sizes = [len(one.ids) + max_tokens if isinstance(one, Question) else 0 for one in results]
        for batch in plan_batches(sizes, order, 4 * self.token_budget):
            answers = self._answer_batch([results[i] for i in batch.indices], manner)
            for i, answer in zip(batch.indices, answers, strict=True):
                results[i] = answer
        return results

    def _question(self, conversation: Conversation, max_tokens: int) -> Question | Answer:
        """What the network gets for a conversation; the answer with the reason where it gets nothing."""
        try:
            question = self._question_of(as_messages(conversation))
        except (UnusableText, UnusableImage) as error:
            return Answer(None, failure=str(error))
        tokens, limit = len(question.ids), self.context_tokens
        if limit is not None and tokens + max_tokens > limit:
            return Answer(None, failure=f"too long: {tokens} + {max_tokens} tokens, the context is {limit}")
        return question

    def _question_of(self, messages: Sequence[Message]) -> Question:
        self._refuse_images(messages)
        return Question(self._prompt_ids(messages))

    def _refuse_images(self, messages: Sequence[Message]) -> None:
        if any(message.images for message in messages):
            raise UnusableImage(f"{self.name} reads text only, and a message has an image")

    def _prompt_ids(self, conversation: Conversation) -> tuple[int, ...]:
        text = self.prompt_text(conversation)
        # A chat template writes its own start token; a second one would be out of place.
        ids = tuple(self.encoder.tokenizer(text, add_special_tokens=not self.takes_chat)["input_ids"])
        if not ids and self.encoder.start_token is not None:
            ids = (self.encoder.start_token,)
        if not ids:
            raise InputError("an empty prompt gives the model nothing to continue")
        return ids

    def _question_pixels(self, questions: Sequence[Question]) -> list[Any]:
        """The pixels of each question's images; a `Failure` where one cannot be used after all."""
        return [()] * len(questions)

    def _answer_batch(self, questions: Sequence[Question], manner: Manner) -> list[Answer]:
        from howsure.models.hf.generation import Prompt

        pixels = self._question_pixels(questions)
        seen = {i: one for i, one in enumerate(pixels) if not isinstance(one, Failure)}
        answers = iter(self._write([Prompt(questions[i].ids, one) for i, one in seen.items()], manner))
        return [Answer(None, failure=one.detail) if isinstance(one, Failure) else next(answers) for one in pixels]

    def _write(self, prompts: Sequence[Prompt], manner: Manner) -> list[Answer]:
        """Answers; a batch that fits into no memory is written one by one, and what still does not fit fails alone."""
        from howsure.models.hf.generation import write
        from howsure.models.hf.scoring import is_out_of_memory

        if not prompts:
            return []
        image, pad = self._image_token_id, self.pad_id
        try:
            written = write(self.network, prompts, manner, pad_id=pad, counters=self.counters, image_token_id=image)
            return [self._answer(one, manner.top is not None) for one in written]
        except (MemoryError, RuntimeError) as error:
            if not (isinstance(error, MemoryError) or is_out_of_memory(error)):
                raise
        if len(prompts) == 1:
            tokens = f"{len(prompts[0].ids)} tokens and {manner.max_tokens} new ones"
            return [Answer(None, failure=f"out of memory: {tokens} do not fit")]
        return [answer for prompt in prompts for answer in self._write([prompt], manner)]

    @property
    def _image_token_id(self) -> int | None:
        """The token that stands for a part of an image, in a network that sees."""
        return None

    def _answer(self, written: Written, with_evidence: bool) -> Answer:
        text, known = self.encoder.answer(written.ids)
        reason = "stop" if written.finished else "length"
        if not with_evidence:
            return Answer(text, None, NOT_ASKED, finish_reason=reason)
        columns = [written.logprobs, written.entropies, written.top_ids or None, written.top_logprobs]
        try:
            evidence, missing = self._tokens(written.ids, known, columns), None
        except EvidenceError as error:
            evidence, missing = None, f"{self.name} gave {error}"
        return Answer(text, evidence, missing, finish_reason=reason)

    def _tokens(
        self, ids: Sequence[int], known: Sequence[bytes] | None, columns: Sequence[Any], prefix_chars: int = 0
    ) -> TokenLogprobs:
        logprobs, entropies, top_ids, top_logprobs = columns
        names = self._pieces(ids) if known is None else [b.decode("utf-8", errors="replace") for b in known]
        top = None
        if top_ids is not None:
            rows = [
                list(zip(self._pieces(row_ids), map(float, row), strict=True))
                for row_ids, row in zip(top_ids, top_logprobs, strict=True)
            ]
            top = TopAlternatives.from_rows(rows)
        return TokenLogprobs(
            tokens=tuple(names),
            logprobs=np.asarray(logprobs, dtype=np.float64),
            token_bytes=None if known is None else tuple(known),
            top=top,
            entropies_nats=None if entropies is None else np.asarray(entropies, dtype=np.float64),
            prefix_chars=prefix_chars,
        )

    def _pieces(self, ids: Iterable[int]) -> list[str]:
        return [self.encoder.piece(int(i)) for i in ids]
