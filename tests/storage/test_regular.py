"""Files from outside: opened without waiting, within their folder, no larger than asked for."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from howsure.errors import InputError
from howsure.storage import open_regular, read_regular


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert read_regular(path, 3) == b"abc"
    assert read_regular(path, 3, within=tmp_path) == b"abc"


def test_a_pipe_a_device_and_a_socket_are_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(tmp_path)  # the names of sockets are short
        listener.bind("socket")
        for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path / "socket"):
            with pytest.raises(InputError, match="pipe or a device"):
                open_regular(path)


def test_a_pipe_of_the_shell_is_read_where_it_is_wanted() -> None:
    out, into = os.pipe()
    os.write(into, b"abc")
    os.close(into)
    with open_regular(f"/dev/fd/{out}", shell_pipes=True) as file:
        assert file.read() == b"abc"
    os.close(out)


def test_links_lead_nowhere_outside(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    inside = tmp_path / "run"
    (inside / "sub").mkdir(parents=True)
    (inside / "real").write_bytes(b"y")
    (inside / "link").symlink_to("../secret")
    (inside / "sub" / "near").symlink_to("../real")
    (inside / "up").symlink_to("..")
    assert read_regular(inside / "sub" / "near", 9, within=inside) == b"y"
    for name in ("link", "../secret", "up/secret"):
        with pytest.raises(InputError, match="leads out of"):
            open_regular(inside / name, within=inside)


def test_a_sparse_giant_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError, match=r"larger than 1 MiB"):
        read_regular(path, 1 << 20)


def test_what_the_system_says_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "nowhere")
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(InputError, match="not a file name"):
        open_regular("a\0b")


def test_a_link_in_the_folder_itself_and_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "secret").write_bytes(b"xyz")
    (tmp_path / "run" / "real").write_bytes(b"xyz")
    (tmp_path / "run" / "near").symlink_to("real")
    (tmp_path / "run" / "far").symlink_to("../secret")
    assert read_regular(tmp_path / "run" / "near", 3, within=tmp_path / "run") == b"xyz"
    with pytest.raises(InputError, match="leads out of"):
        open_regular(tmp_path / "run" / "far", within=tmp_path / "run")
    with pytest.raises(InputError, match=r"larger than 2 bytes.*; restore it$"):
        open_regular(tmp_path / "run" / "real", within=tmp_path / "run", most_bytes=2, remedy="restore it")
