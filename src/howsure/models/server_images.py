"""Messages as OpenAI's chat API takes them: plain text, or parts with images as data URLs before the text.

An image that stands in many requests, as one view of the world does in several questions about it, is written in
base64 once. What was written is kept by its content, up to a number of bytes, the latest used.
"""

from __future__ import annotations

import base64
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from howsure.models.contract import Message
from howsure.models.images import Picture

MOST_KEPT_BYTES = 64 * 2**20


class DataUrls:
    """Images as data URLs, each made once while it is kept; safe to share between threads."""

    def __init__(self, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self.most_bytes = most_bytes
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[DataUrls], tuple[int]]:
        return DataUrls, (self.most_bytes,)  # what is kept can be made again wherever this travels

    def of(self, picture: Picture) -> str:
        """Raises in one sentence where the file is not what it was."""
        with self._lock:
            if picture.sha256 not in self._kept:
                self._kept[picture.sha256] = data_url(picture)
                self._bytes += len(self._kept[picture.sha256])
            self._kept.move_to_end(picture.sha256)
            url = self._kept[picture.sha256]
            while self._bytes > self.most_bytes:
                self._bytes -= len(self._kept.popitem(last=False)[1])
            return url

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._bytes = 0


def data_url(picture: Picture) -> str:
    media_type, content = picture.to_send()
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def chat_messages(messages: Sequence[Message], urls: DataUrls) -> list[dict[str, Any]]:
    """The `messages` of a request."""
    return [{"role": message.role, "content": _content(message, urls)} for message in messages]


def _content(message: Message, urls: DataUrls) -> str | list[dict[str, Any]]:
    if not message.images:
        return message.content
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": urls.of(one)}} for one in message.images]
    return parts + ([{"type": "text", "text": message.content}] if message.content else [])
