"""Files at addresses: fetched whole or refused in a sentence."""

from __future__ import annotations

import errno
import importlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from howsure.errors import InputError, MissingExtra, StorageError
from howsure.storage import (
    Copy,
    Folder,
    StoredFolder,
    address_of,
    as_copy,
    copies,
    listing,
    local,
    local_folder,
    names_below,
    read_bytes,
    shown_path,
    walk,
)
from howsure.storage.stores import filesystem
from storage.s3_server import S3Server


def put(address: str, content: bytes) -> str:
    filesystem(address).pipe_file(address, content)
    return address


def test_a_file_is_read_whole(store: str) -> None:
    content = os.urandom(5_000_000)
    assert read_bytes(put(f"{store}/d/a.bin", content)) == content


def test_files_are_listed_in_order(store: str) -> None:
    for name in ("d/b.json", "d/a.json", "d/e/c.json", "d/x.txt"):
        put(f"{store}/{name}", b"x")
    assert listing(f"{store}/d") == [f"{store}/d/{name}" for name in ("a.json", "b.json", "e/c.json", "x.txt")]
    assert listing(f"{store}/d/*.json") == [f"{store}/d/a.json", f"{store}/d/b.json"]
    assert listing(f"{store}/**/*.json")[-1] == f"{store}/d/e/c.json"
    assert listing(f"{store}/d/x.txt") == [f"{store}/d/x.txt"]
    with pytest.raises(InputError, match="holds no file"):
        listing(f"{store}/nothing/*.json")


def test_a_listed_file_keeps_the_host_of_its_folder() -> None:
    import fsspec
    from fsspec.implementations.memory import MemoryFileSystem

    class Hosted(MemoryFileSystem):  # type: ignore[misc]
        """As of sftp:// and hdfs://, paths are told without their host."""

        protocol = "hosted"

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return ("/" + path.partition("://")[2].partition("/")[2] if "://" in path else path).rstrip("/")

    fsspec.register_implementation("hosted", Hosted, clobber=True)
    for name in ("a.json", "b/c.json"):
        put(f"hosted://example/d/{name}", b"x")
    files = ["hosted://example/d/a.json", "hosted://example/d/b/c.json"]
    assert listing("hosted://example/d") == listing("hosted://example/d/") == files
    assert listing("hosted://example/d/*.json") == listing(files[0]) == files[:1]


def test_a_store_is_walked_as_a_folder_is(store: str, tmp_path: Path) -> None:
    names = ["a.json", "b/c.json", "b/d/e.json", "b.json", ".hidden/f.json", "left-out/g.json"]
    for name in names:
        put(f"{store}/{name}", b"x")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")

    def told(tree: Iterable[Folder], root: str) -> list[tuple[str, list[str], list[str]]]:
        folders = []
        for here, inside, files in tree:
            inside[:] = sorted(name for name in inside if name != "left-out")
            folders.append((here.removeprefix(root), list(inside), sorted(files)))
        return folders

    assert told(walk(store, listing(store)), store) == told(os.walk(tmp_path), str(tmp_path))
    assert names_below(f"{store}/b") == names_below(tmp_path / "b") == ["c.json"]
    assert names_below(f"{store}/none") == names_below(tmp_path / "none") == []
    pattern = f"{store}/b/**/*.json"
    assert [here for here, _, _ in walk(pattern, listing(pattern))] == [f"{store}/b", f"{store}/b/d"]


def test_what_is_not_there_is_said(bucket: str) -> None:
    with pytest.raises(InputError, match="/none cannot be read: there is no such file"):
        read_bytes(f"{bucket}/none")
    with pytest.raises(InputError, match="there is no such bucket"):
        read_bytes("s3://no-such-bucket/none")


def test_a_file_too_large_is_refused(store: str) -> None:
    with pytest.raises(InputError, match="larger than 10 bytes"):
        read_bytes(put(f"{store}/a", b"x" * 11), most_bytes=10)


@pytest.mark.parametrize(("status", "words"), [(403, "access is denied"), (500, "InternalError|Internal")])
def test_a_store_that_refuses(bucket: str, s3: S3Server, status: int, words: str) -> None:
    put(f"{bucket}/a", b"x")
    s3.fault = lambda method, path: status
    with pytest.raises(InputError, match=words):
        read_bytes(f"{bucket}/a")


def test_a_store_that_is_not_there(bucket: str, s3: S3Server) -> None:
    s3.stop()
    try:
        with pytest.raises(InputError, match="cannot be reached"):
            read_bytes(f"{bucket}/a")
    finally:
        s3.start()


@pytest.mark.parametrize(
    ("address", "package", "extra"),
    [("s3://b/x", "s3fs", "s3"), ("gs://b/x", "gcsfs", "gcs"), ("memory://x", "fsspec", "store")],
)
def test_a_missing_package_is_named_with_its_extra(
    address: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    importlib.import_module("fsspec.registry")
    registered = sys.modules["fsspec.registry"]._registry  # type: ignore[attr-defined]
    monkeypatch.delitem(registered, "s3", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"needs the package '{package}'.*howsure\[{extra}\]"):
        filesystem(address)


# -- copies ---------------------------------------------------------------------------------------------------------


def test_a_copy_opens_here_and_is_called_by_its_address(store: str) -> None:
    path = local(put(f"{store}/d/a.txt", b"hello"))
    assert path.read_bytes() == b"hello"
    assert str(path) == f"{path}" == f"{store}/d/a.txt"
    assert str(path.parent / "b.txt") == f"{store}/d/b.txt"
    assert os.path.isfile(path)
    assert shown_path(os.fspath(path)) == address_of(path) == str(path)
    plain = Path(os.fspath(path))
    assert str(plain).startswith("/")
    assert str(as_copy(plain)) == str(path)


def test_a_copy_is_fetched_again_when_the_file_has_changed(store: str, s3: S3Server) -> None:
    address = put(f"{store}/a.txt", b"one")
    assert local(address).read_bytes() == local(address).read_bytes() == b"one"
    put(address, b"two!")
    assert local(address, fresh=False).read_bytes() == b"one"
    assert local(address).read_bytes() == b"two!"
    gets = len([one for one in s3.log if one[0] == "GET"])
    assert local(address).read_bytes() == b"two!"
    assert len([one for one in s3.log if one[0] == "GET"]) == gets


def test_a_folder_has_copies_of_what_is_wanted(store: str) -> None:
    for name in ("a.txt", "e/b.txt", "c.bin"):
        put(f"{store}/d/{name}", name.encode())
    folder = local_folder(f"{store}/d", lambda name: name.endswith(".txt"))
    assert isinstance(folder, Copy)
    assert sorted(str(path) for path in folder.rglob("*.*")) == [f"{store}/d/a.txt", f"{store}/d/e/b.txt"]


@pytest.mark.parametrize("end", ["killed", "ended"])
def test_copies_go_away_with_their_process(tmp_path: Path, end: str) -> None:
    code = (
        "import os, sys; from howsure.storage import local; from howsure.storage.stores import filesystem\n"
        "filesystem('memory://x').pipe_file('memory://x/a', b'1'); local('memory://x/a')\n"
        "os.kill(os.getpid(), 9) if sys.argv[1] == 'killed' else None"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code, end], env=environment, check=False)
    assert len(list(tmp_path.iterdir())) == (1 if end == "killed" else 0)
    last = subprocess.run([sys.executable, "-c", code, "ended"], env=environment, check=True, capture_output=True)
    assert not list(tmp_path.iterdir())
    assert last.stderr == b""


def test_a_link_is_not_taken_for_copies_that_were_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody can make names in a folder for all; none may lead this user to remove or lock what lies elsewhere."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / ".alive").write_text("x")
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / f"{copies.PREFIX}x").symlink_to(tmp_path / "precious")
    (tmp_path / "tmp" / f"{copies.PREFIX}file").write_text("x")
    (tmp_path / "tmp" / f"{copies.PREFIX}left").mkdir()
    (tmp_path / "tmp" / f"{copies.PREFIX}left" / ".alive").write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    copies._clear_left_behind()
    assert (tmp_path / "precious" / ".alive").read_text() == "x"
    assert sorted(os.listdir(tmp_path / "tmp")) == [f"{copies.PREFIX}file", f"{copies.PREFIX}x"]


def test_copies_are_for_this_user_only_and_have_their_name_when_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root, alive = copies._new_root()
    assert os.path.basename(root).startswith(copies.PREFIX)
    assert os.stat(root).st_mode & 0o777 == 0o700
    copies._clear_left_behind()
    assert os.listdir(tmp_path) == [os.path.basename(root)]
    monkeypatch.setattr(copies, "_state", {"alive": alive})
    copies._clear(root, os.getpid())
    assert (os.listdir(tmp_path), copies._state, alive.is_locked) == ([], {}, False)


def test_no_place_for_copies_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(StorageError, match="no place for copies .* set TMPDIR"):
        copies._new_root()


@pytest.mark.parametrize("call", ["makedirs", "replace"])
def test_a_disk_that_is_full_is_told(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put("memory://full/d/a.bin", b"x")
    folder = local_folder("memory://full/d", lambda name: False)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(StorageError, match="cannot hold a copy of memory://full/d/a.bin: No space left"):
        StoredFolder("memory://full/d").fetch(["a.bin"], folder)


def test_a_store_may_have_a_file_and_a_folder_of_one_name(bucket: str) -> None:
    put(f"{bucket}/d/a", b"x")
    put(f"{bucket}/d/a/b", b"x")
    with pytest.raises(InputError, match="has a file and a folder of the same name"):
        local_folder(f"{bucket}/d", lambda name: True)


def test_keys_that_lead_elsewhere_are_no_files(bucket: str) -> None:
    for key in ("d/../../etc/passwd", "d/./x", "d//y", "d/z/"):
        filesystem(bucket).call_s3("put_object", Bucket=bucket.removeprefix("s3://"), Key=key, Body=b"x")
    put(f"{bucket}/d/good", b"x")
    assert list(StoredFolder(f"{bucket}/d").files()) == ["good"]


# -- the web --------------------------------------------------------------------------------------------------------


class Website(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(False)

    def do_GET(self) -> None:
        self._answer(True)

    def _answer(self, body: bool) -> None:
        if self.path.startswith("/secret"):
            self.send_error(403)
            return
        self.send_response(200)
        self.send_header("Content-Length", "10")
        self.end_headers()
        if body:
            self.wfile.write(b"0123456789" if self.path.startswith("/whole") else b"01234")
            if not self.path.startswith("/whole"):
                self.close_connection = True

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def website() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Website)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_file_of_the_web_is_fetched(website: str) -> None:
    path = local(f"{website}/whole.txt?signature=wonderful")
    assert path.read_bytes() == b"0123456789"
    assert str(path) == f"{website}/whole.txt"


def test_one_that_breaks_off_is_not_used(website: str) -> None:
    with pytest.raises(InputError) as error:
        local(f"{website}/torn.txt?signature=wonderful")
    assert "wonderful" not in str(error.value)
    assert str(error.value).startswith(f"{website}/torn.txt ")


def test_one_that_may_not_be_read(website: str) -> None:
    with pytest.raises(InputError) as error:
        read_bytes(f"{website}/secret?signature=wonderful")
    assert "access is denied (status 403)" in str(error.value)
    assert "wonderful" not in str(error.value)


def test_the_web_has_no_folders(website: str) -> None:
    with pytest.raises(InputError, match="no single file"):
        listing(f"{website}/d/")
