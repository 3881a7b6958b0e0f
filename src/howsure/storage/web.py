"""Files of the web: fsspec's way to them, kept to what was asked for.

A server may send the reader to another host, send a small compressed body that unpacks to all memory, or never say
anything. Every request goes through `_kept_to_what_was_asked`, whichever of fsspec's functions makes it; how much of a
body is read is for `reading` to say. A file is one answer, read in order: parts of files are never asked for, since
servers answer such requests with whatever they like.
"""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from fsspec.asyn import sync
from fsspec.implementations.http import HTTPFileSystem, HTTPStreamFile
from yarl import URL

from howsure.errors import InputError
from howsure.storage.addresses import shown

CONNECT_SECONDS, SILENT_SECONDS = 10, 60
"""How long a server may take to be reached, and how long to say something."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PLAIN = frozenset({"", "identity"})


class Web(HTTPFileSystem):  # type: ignore[misc]
    """`http://` and `https://`; the user's own settings of fsspec hold here too."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "get_client": _session})

    def _open(self, path: str, mode: str = "rb", **_: Any) -> HTTPStreamFile:
        """A file to be read from its beginning to its end; its `size` is None where the server does not state it."""
        session = sync(self.loop, self.set_session)
        file = HTTPStreamFile(self, path, mode=mode, loop=self.loop, session=session, **self.kwargs)
        if file.r.status != 200:
            file.close()
            raise InputError(f"{shown(path)} was answered with status {file.r.status}, not with a file")
        file.size = file.r.content_length
        return file


async def _session(**settings: Any) -> aiohttp.ClientSession:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS)
    ours = {"auto_decompress": False, "middlewares": (_kept_to_what_was_asked,)}
    return aiohttp.ClientSession(**{"timeout": timeout, **settings, **ours})


async def _kept_to_what_was_asked(request: aiohttp.ClientRequest, send: Any) -> aiohttp.ClientResponse:
    """One request and the head of its answer; aiohttp makes a new one for each redirect."""
    request.headers["Accept-Encoding"] = "identity"
    async with asyncio.timeout(CONNECT_SECONDS + SILENT_SECONDS):  # a head may be drip-fed as well
        answer: aiohttp.ClientResponse = await send(request)
    wrong = _wrong(request.url, answer)
    if wrong:
        answer.close()
        raise InputError(f"{shown(str(request.url))} {wrong}")
    return answer


def _wrong(asked: URL, answer: aiohttp.ClientResponse) -> str | None:
    """What is wrong with an answer by its head."""
    encoding = answer.headers.get("Content-Encoding", "").strip().lower()
    target = answer.headers.get("Location") or answer.headers.get("URI")
    if answer.status in _REDIRECTS and target:
        return _wrong_target(asked, target)
    if encoding not in _PLAIN and answer.status < 400:
        return "comes compressed, though it was asked for as it is: download it, and name the file"
    return None


def _wrong_target(asked: URL, target: str) -> str | None:
    """A redirect may lead to the same server, or from http to https there."""
    try:
        origin = asked.join(URL(target)).origin()
    except ValueError:
        return "redirects to what is no address of the web: download it, and name the file"
    allowed = [(asked.scheme, asked.host, asked.port)]
    if (asked.scheme, asked.port) == ("http", 80):
        allowed.append(("https", asked.host, 443))
    if (origin.scheme, origin.host, origin.port) in allowed:
        return None
    return f"redirects to {origin}, which is another server: name the address there, or download it and name the file"
