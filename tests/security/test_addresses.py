"""Files at addresses: what a path in data, and a server of the web, may make of them."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from howsure.errors import HowsureError, InputError
from howsure.storage import find_below, local, read_bytes
from howsure.studies.mcq.data import read_questions

MOST_SENT_BYTES = 320 << 20
"""Where the endless body of these tests ends, so that a reader without a bound ends too."""
MIB = 1 << 20

Page = Callable[["_Handler"], None]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def do_GET(self) -> None:
        self.server.site.asked.append(self.path)
        self.close_connection = True
        page = self.server.site.pages.get(self.path.partition("?")[0], missing)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            page(self)

    do_HEAD = do_GET

    def head(self, status: int = 200, **headers: Any) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def body(self, content: bytes) -> None:
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    site: Site


class Site:
    """Pages by their paths, on a port of 127.0.0.1."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.asked: list[str] = []
        self.sent_bytes = 0
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.site = self
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Site:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as one:
        yield one


@pytest.fixture
def other() -> Iterator[Site]:
    with Site() as one:
        one.pages["/a.jsonl"] = file(b"of another server")
        yield one


def file(content: bytes, **headers: Any) -> Page:
    def answer(handler: _Handler) -> None:
        handler.head(content_length=len(content), **headers)
        handler.body(content)

    return answer


def missing(handler: _Handler) -> None:
    handler.head(404, content_length=0)


def redirect(target: str, status: int = 302) -> Page:
    return lambda handler: handler.head(status, location=target, content_length=0)


def endless(handler: _Handler) -> None:
    """A body whose length is not stated, and which goes on until nobody reads it."""
    handler.head(connection="close")
    while handler.command == "GET" and handler.server.site.sent_bytes < MOST_SENT_BYTES:
        handler.body(b"x" * MIB)
        handler.server.site.sent_bytes += MIB


# -- paths --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        "%2e%2e/secret.png",
        "%2E./secret.png",
        "x/%2e%2e/%2e%2e/secret.png",
        "..%2fsecret.png",
        "%2e%2e%2fsecret.png",
        "%252e%252e/secret.png",
        "%25252525252e%252e/secret.png",
        "..%5csecret.png",
        "..\\secret.png",
        "..;/secret.png",
        "%2e%2e;x=1/secret.png",
        "%2fsecret.png",
        "%c0%ae%c0%ae/secret.png",
        ".%0a./secret.png",
        "x/%00/secret.png",
        "./%2e%2e",
    ],
)
@pytest.mark.parametrize("root", ["https://host/d", "webdav://host/d"])
def test_a_path_that_some_server_takes_for_one_that_leads_up_is_refused(written: str, root: str) -> None:
    with pytest.raises(InputError, match="leads out of"):
        find_below(written, root)
    with pytest.raises(InputError, match="leads out of"):
        find_below(f"{root}/{written}", root)


@pytest.mark.parametrize(
    "path", ["a.png", "e/a%20b.png", "e%2Fa.png", "100%.png", "ü/100%25.png", "..a/b..png", "a;v=1.png", "…/a.png"]
)
def test_a_path_that_stays_is_left_as_it_is(path: str) -> None:
    for root in ("https://host/d", "s3://bucket/d"):
        assert find_below(path, root) == find_below(f"./x/../{path}", root) == f"{root}/{path}"


def test_a_signed_address_below_the_root_keeps_its_query() -> None:
    written = "https://host/d/a.png?X-Amz-Signature=a//b/../c"
    assert find_below(written, "https://host/d") == written
    with pytest.raises(InputError, match="leads out of"):
        find_below("../a.png?x=y/z", "https://host/d")


def test_a_bucket_takes_a_name_as_it_is_spelled() -> None:
    assert find_below("%2e%2e/a.png", "s3://bucket/d") == "s3://bucket/d/%2e%2e/a.png"


def test_questions_of_the_web_reach_nothing_above_their_folder(site: Site) -> None:
    question = {"question": "?", "choices": ["a", "b"], "answer_index": 0}
    rows = [{**question, "image_path": f"{up}/secret.png"} for up in ("%2e%2e", ".%2E", "%2e%2e/d/%2e%2e")]
    site.pages["/d/q.jsonl"] = file("\n".join(map(json.dumps, rows)).encode())
    site.pages["/secret.png"] = file(b"not for you")
    with pytest.raises(InputError, match="no usable question"):
        read_questions(f"{site.url}/d/q.jsonl", skip_bad=True)
    assert {path for path in site.asked if not path.startswith("/d/q.jsonl")} == set()


# -- redirects ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_server_is_refused_by_its_name(site: Site, other: Site, status: int) -> None:
    site.pages["/a.jsonl"] = redirect(f"{other.url}/a.jsonl?signature=wonderful", status)
    for read in (read_bytes, local):
        with pytest.raises(InputError) as error:
            read(f"{site.url}/a.jsonl")
        assert f"redirects to {other.url}, which is another server" in str(error.value)
        assert "wonderful" not in str(error.value)
    assert other.asked == []


def test_a_redirect_after_an_honest_one_is_refused_too(site: Site, other: Site) -> None:
    site.pages["/a.jsonl"] = redirect("/b.jsonl")
    site.pages["/b.jsonl"] = redirect(other.url.replace("http:", "") + "/a.jsonl")
    with pytest.raises(InputError, match="which is another server"):
        read_bytes(f"{site.url}/a.jsonl")
    assert other.asked == []


def test_a_redirect_within_a_server_is_followed(site: Site) -> None:
    site.pages["/a.jsonl"] = redirect("/b/a.jsonl")
    site.pages["/b/a.jsonl"] = file(b"here")
    assert read_bytes(f"{site.url}/a.jsonl") == local(f"{site.url}/a.jsonl").read_bytes() == b"here"


# -- bodies -------------------------------------------------------------------------------------------------------

_READ = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from howsure.errors import InputError
from howsure.storage import read_bytes
try:
    read_bytes(sys.argv[1])
except InputError as error:
    print(error)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) >> 10)  # ru_maxrss would be that of the process that started this one
"""


def test_a_compressed_answer_is_not_unpacked(site: Site) -> None:
    """A megabyte of gzip that is 256."""
    packer = zlib.compressobj(1, wbits=31)
    packed = b"".join([packer.compress(bytes(MIB)) for _ in range(256)]) + packer.flush()
    site.pages["/bomb.json"] = file(packed, content_encoding="gzip")
    done = subprocess.run(
        [sys.executable, "-c", _READ, f"{site.url}/bomb.json"], capture_output=True, text=True, timeout=60, check=False
    )
    assert "bomb.json comes compressed, though it was asked for as it is" in done.stdout, done.stdout + done.stderr
    assert int(done.stdout.splitlines()[-1]) < 300


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, identity", "unheard-of"])
def test_no_encoding_is_decoded(site: Site, encoding: str) -> None:
    site.pages["/a.json"] = file(gzip.compress(b"[]"), content_encoding=encoding)
    with pytest.raises(InputError, match="comes compressed"):
        local(f"{site.url}/a.json")


def test_an_endless_file_is_given_up(site: Site) -> None:
    site.pages["/a.jsonl"] = endless
    with pytest.raises(InputError, match=r"a.jsonl is larger than [\d,]+ bytes; download it, and name the file"):
        local(f"{site.url}/a.jsonl")
    assert site.sent_bytes < MOST_SENT_BYTES


def test_an_image_without_end_is_read_no_further_than_an_image_goes(site: Site) -> None:
    question = {"question": "?", "choices": ["a", "b"], "answer_index": 0, "image_path": "a.png"}
    site.pages["/q.jsonl"] = file(json.dumps(question).encode())
    site.pages["/a.png"] = endless
    with pytest.raises(InputError, match=r"a.png is larger than 134,217,728 bytes"):
        read_questions(f"{site.url}/q.jsonl")
    assert site.sent_bytes < 160 * MIB


def test_a_file_that_is_said_to_be_too_large_is_not_begun(site: Site) -> None:
    question = {"question": "?", "choices": ["a", "b"], "answer_index": 0, "image_path": "a.png"}
    site.pages["/q.jsonl"] = file(json.dumps(question).encode())

    def large(handler: _Handler) -> None:
        handler.head(content_length=1 << 40)
        while handler.command == "GET" and site.sent_bytes < MOST_SENT_BYTES:
            handler.body(b"x" * MIB)
            site.sent_bytes += MIB

    site.pages["/a.png"] = large
    with pytest.raises(InputError, match=r"a.png is larger than 134,217,728 bytes"):
        read_questions(f"{site.url}/q.jsonl")
    assert site.sent_bytes <= 16 * MIB, "what the sockets hold"


def test_parts_of_files_are_not_asked_for(site: Site) -> None:
    """A server may answer a request for a part with all of it, and more."""
    ranges = []

    def page(handler: _Handler) -> None:
        ranges.append(handler.headers.get("Range"))
        file(os.urandom(16) * MIB)(handler)

    site.pages["/a.bin"] = page
    assert len(read_bytes(f"{site.url}/a.bin")) == 16 * MIB
    assert set(ranges) == {None}


def test_a_part_is_not_taken_for_the_file(site: Site) -> None:
    def part(handler: _Handler) -> None:
        handler.head(206, content_length=3, content_range="bytes 0-2/6")
        handler.body(b"abc")

    site.pages["/a.bin"] = part
    with pytest.raises(InputError, match=r"a.bin was answered with status 206, not with a file"):
        read_bytes(f"{site.url}/a.bin")


@pytest.mark.parametrize("head", [True, False], ids=["its head", "its body"])
def test_a_file_that_drips_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch, head: bool) -> None:
    for limit in ("web.CONNECT_SECONDS", "web.SILENT_SECONDS", "stores.PATIENCE_SECONDS"):
        with contextlib.suppress(ImportError):  # where there was no such limit, the file comes to its end
            monkeypatch.setattr(f"howsure.storage.{limit}", 0.5, raising=False)

    def drip(handler: _Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + (b"A: " if head else b"Content-Length: 1000000\r\n\r\n"))
        while handler.command == "GET" and time.monotonic() < end:
            handler.wfile.write(b"x")
            time.sleep(0.05)

    end = time.monotonic() + 8
    site.pages["/a.bin"] = drip
    with pytest.raises(HowsureError, match="too slowly|in time"):
        read_bytes(f"{site.url}/a.bin")
    assert time.monotonic() < end - 2


def test_honest_files_come_whole(site: Site) -> None:
    content = os.urandom(9 * MIB)

    def unstated(handler: _Handler) -> None:
        handler.head(connection="close")
        handler.body(content)

    def chunked(handler: _Handler) -> None:
        handler.head(transfer_encoding="chunked")
        handler.body(b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in (content[: 5 * MIB], content[5 * MIB :], b"")))

    site.pages = {"/stated": file(content), "/unstated": unstated, "/chunked": chunked}
    for name in site.pages:
        assert read_bytes(site.url + name) == content
        assert local(f"{site.url}{name}?a=b").read_bytes() == content
