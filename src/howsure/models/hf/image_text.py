"""Hugging Face image-text models: Qwen-VL, PaliGemma, SmolVLM, LLaVA and others; an image is encoded once an item."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from howsure.errors import InputError, UnusableImage, UnusableText, WeightsError
from howsure.models.contract import Answer, Capability, Conversation, Failure, Message, ScoreItem, as_messages
from howsure.models.hf import HFTextModel, or_error
from howsure.models.hf.documents import Frame
from howsure.models.hf.loading import load_network
from howsure.models.hf.model import Question
from howsure.models.hf.pixels import Family, ImageInput, Pixels, family_of, ready_for
from howsure.models.images import Picture
from howsure.models.text import Encoded, Ints, TextItem

if TYPE_CHECKING:
    from howsure.models.hf.scoring import Scorer

READERS = 8
TRIAL_SIZE = (64, 48)


class HFImageTextModel(HFTextModel):
    """A model that reads text after an image; questions without an image are welcome too."""

    @property
    def capabilities(self) -> frozenset[Capability]:  # type: ignore[override]
        """A prefix-LM only scores: writing an answer token by token would read its prompt causally."""
        scores = frozenset({Capability.SCORE})
        return scores if self.family.prefix_lm else scores | {Capability.GENERATE}

    @cached_property
    def family(self) -> Family:
        return family_of(self.whole_config.model_type)

    @property
    def takes_images(self) -> bool:
        return True

    @property
    def answers_images(self) -> bool:
        return Capability.GENERATE in self.capabilities

    @property
    def architecture(self) -> str | None:
        return str(self.whole_config.model_type)

    @property
    def limits_pixels(self) -> bool:
        return self.family.seen is not None

    def fingerprint(self) -> dict[str, Any]:
        limit = self._options.max_pixels
        return super().fingerprint() | ({} if limit is None else {"max_pixels": limit})

    def seen_size(self, picture: Picture) -> tuple[int, int] | None:
        return self.image_input.seen_size((picture.width, picture.height))

    @property
    def _image_token_id(self) -> int | None:
        return self.image_input.image_token_id

    @property
    def takes_chat(self) -> bool:
        return self.image_input.chat_template is not None and not self.family.begin_token

    @cached_property
    def image_input(self) -> ImageInput:
        options = self._options
        return ImageInput(
            self.files, self.whole_config, self.encoder.tokenizer, options.trust_remote_code, options.max_pixels
        )

    @cached_property
    def network(self) -> Any:
        self._announce_loading()
        return load_network(
            self.files, self._adapter, self.dtype, self.device, self._options.trust_remote_code, images=True
        )

    def _make_scorer(self) -> Scorer:
        from howsure.models.hf.packing import Layout
        from howsure.models.hf.scoring import Scorer

        layout = Layout.of(self.family, self.image_input.image_token_id, self.whole_config)
        return Scorer(self.network, self.pad_id, self.counters, layout, self._trial())

    def _trial(self) -> tuple[Encoded, Pixels] | None:
        """An item with an image, for kinds that are not in the table; the others are known to pack."""
        if self.family.block is not None:
            return None
        from PIL import Image

        blank = Image.new("RGB", TRIAL_SIZE, (90, 140, 30))
        item = Encoded(self.image_input.block(TRIAL_SIZE), (), (), 0)
        return item, self.image_input.pixels_of(blank, "of the trial at load")

    # -- text around an image ---------------------------------------------------------------------------------

    def _text_of(self, item: ScoreItem) -> TextItem:
        """The prefix with what stands for the image."""
        family, prefix = self.family, item.prefix
        if not isinstance(prefix, str):
            _ = _image_of(item)  # more than one is refused
            return TextItem(self.prompt_text(prefix, item.image), item.continuations, framed=True)
        if family.begin_token:
            return TextItem(f"{self._begin_token()}{prefix}", item.continuations, framed=True)
        if item.image is None or family.image_text is None:
            return TextItem(prefix, item.continuations)
        return TextItem(self._images_text(1) + prefix, item.continuations)

    def _begin_token(self) -> str:
        begin = self.encoder.tokenizer.bos_token
        if begin is None:
            raise WeightsError(f"the tokenizer of {self.name} has no begin token, which every prompt starts with")
        return str(begin)

    def _placed(self, item: ScoreItem, encoded: Encoded) -> Encoded:
        image = _image_of(item)
        images = () if image is None else (image,)
        self._check_places((encoded.context, *encoded.suffixes), len(images) if self._has_places else 0)
        return encoded._replace(context=self._with_images(encoded.context, images), image=image)

    @property
    def _has_places(self) -> bool:
        """Whether images stand where the text says; else they come before all of it."""
        return self.family.image_text is not None

    def _check_places(self, rows: Sequence[tuple[int, ...]], expected: int) -> None:
        marks = {self.image_input.image_token_id, self.image_input.placeholder_id}
        held = sum(row.count(mark) for row in rows for mark in marks)
        if held > expected:
            raise self._holds_image()
        if held < expected:
            raise UnusableImage(f"{self.name}'s chat template has no place for an image")

    def _with_images(self, ids: tuple[int, ...], images: Sequence[Picture]) -> tuple[int, ...]:
        """The tokens with those of each image in its place."""
        blocks = [self.image_input.block((image.width, image.height)) for image in images]
        if not self._has_places:
            return (*(token for block in blocks for token in block), *ids)
        out: list[int] = []
        start = 0
        for block in blocks:
            place = ids.index(self.image_input.placeholder_id, start)
            out += (*ids[start:place], *block)
            start = place + 1
        return (*out, *ids[start:])

    def _holds_image(self) -> UnusableText:
        return UnusableText(f"the text itself holds {self.image_input.placeholder}, which stands for an image")

    def _frame(self) -> Frame:
        """A document is read without an image; where every prompt has a begin token, so has every window of it."""
        if not self.family.begin_token:
            return super()._frame()
        begin = self.encoder.tokenizer.convert_tokens_to_ids(self._begin_token())
        return Frame((int(begin),), prefix_lm=self.family.prefix_lm)

    def _check_document(self, ids: Ints) -> None:
        if np.isin(ids, [self.image_input.image_token_id, self.image_input.placeholder_id]).any():
            raise self._holds_image()

    def prompt_text(self, conversation: Conversation, image: Picture | None = None) -> str:
        """A conversation through the chat template, with `image` at the start of the first user message."""
        messages = as_messages(conversation)
        if image is not None:
            messages = _with_image(messages, image)
        if any(self.image_input.placeholder in message.content for message in messages):
            raise self._holds_image()
        template = self.image_input.chat_template
        if template is None:
            return self._images_text(sum(len(m.images) for m in messages)) + super().prompt_text(messages)
        parts = [
            {"role": m.role, "content": [*({"type": "image"} for _ in m.images), {"type": "text", "text": m.content}]}
            for m in messages
        ]
        return self._apply_template(parts, template)

    def _images_text(self, count: int) -> str:
        """What stands for so many images at the start of a plain prompt."""
        return (self.family.image_text or "").replace("{image}", self.image_input.placeholder) * count

    def _question_of(self, messages: Sequence[Message]) -> Question:
        images = tuple(image for message in messages for image in message.images)
        ids = self._prompt_ids(messages)
        self._check_places([ids], len(images))
        return Question(self._with_images(ids, images), images)

    def _conversation_text(self, messages: Sequence[Message]) -> str:
        parts = [{"role": m.role, "content": [{"type": "text", "text": m.content}]} for m in messages]
        return self._apply_template(parts, self.image_input.chat_template, begin_answer=False)

    def generate(self, conversations: Iterable[Conversation], **options: Any) -> list[Answer]:
        self.require(Capability.GENERATE, "generate")
        return super().generate(conversations, **options)

    # -- looking ----------------------------------------------------------------------------------------------

    def prefetch(self, items: Sequence[ScoreItem]) -> None:
        """Read and prepare the images of the batch that comes next, while this one runs."""
        _ = self.network  # loaded here, not by several readers at once
        images = [or_error(_image_of, item) for item in items]
        pictures = {one.sha256: one for one in images if isinstance(one, Picture)}
        self._ahead.append({content: self._readers.submit(self._look, one) for content, one in pictures.items()})

    @cached_property
    def _ahead(self) -> deque[dict[str, Future[Pixels | Failure]]]:
        """What is being prepared, by content, for the batch that runs and the next; older ones are forgotten."""
        return deque(maxlen=2)

    @cached_property
    def _readers(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(READERS, "howsure-images", self._begin_reading)

    def _begin_reading(self) -> None:
        """Readers are many; beside a GPU each works with one thread. Beside a CPU, threads belong to the network."""
        import torch

        if self.device != "cpu":
            torch.set_num_threads(1)

    def _pixels(self, items: list[Encoded]) -> list[Pixels | Failure | None]:
        seen = self._looks(item.image for item in items if item.image is not None)
        return [None if item.image is None else seen[item.image.sha256] for item in items]

    def _question_pixels(self, questions: Sequence[Question]) -> list[Any]:
        seen = self._looks(image for question in questions for image in question.images)
        rows = [[seen[image.sha256] for image in question.images] for question in questions]
        return [next((one for one in row if isinstance(one, Failure)), row) for row in rows]

    def _looks(self, pictures: Iterable[Picture]) -> dict[str, Pixels | Failure]:
        """Every distinct image, by its content; one that stands in several items is prepared once."""
        _ = self.network  # loaded here, not by several readers at once
        started = {one.sha256: self._started(one) for one in {one.sha256: one for one in pictures}.values()}
        return {content: future.result() for content, future in started.items()}

    def _started(self, picture: Picture) -> Future[Pixels | Failure]:
        known = (batch[picture.sha256] for batch in self._ahead if picture.sha256 in batch)
        return next(known, None) or self._readers.submit(self._look, picture)

    def _look(self, picture: Picture) -> Pixels | Failure:
        try:
            return ready_for(self.image_input.pixels(picture), self.network)
        except InputError as error:
            return Failure("unreadable_image", str(error))

    def close(self) -> None:
        if "_readers" in self.__dict__:
            self._readers.shutdown(cancel_futures=True)
        for part in ("_readers", "_ahead"):
            self.__dict__.pop(part, None)
        super().close()


def _image_of(item: ScoreItem) -> Picture | None:
    """The image of an item to be scored, given beside its prefix or in one of its messages."""
    within = () if isinstance(item.prefix, str) else tuple(image for one in item.prefix for image in one.images)
    images = within if item.image is None else (item.image, *within)
    if len(images) > 1:
        ways = "beside its messages and in them" if item.image is not None else "in its messages"
        raise UnusableImage(f"an item to be scored may hold one image, and this one has {len(images)}, {ways}")
    return images[0] if images else None


def _with_image(messages: Sequence[Message], image: Picture) -> list[Message]:
    """The image at the start of the first user message, or of the first of all where no user speaks."""
    first = next((i for i, message in enumerate(messages) if message.role == "user"), 0)
    changed = msgspec.structs.replace(messages[first], images=(image, *messages[first].images))
    return [*messages[:first], changed, *messages[first + 1 :]]
