"""The token of the viewer stays with whoever it was given to."""

from __future__ import annotations

import os
import signal
import time
import webbrowser
from pathlib import Path

import pytest

from howsure.errors import InputError
from howsure.report.viewer import server
from security.viewing import get, port_of, viewing

TOKEN = "a-token-of-thirty-characters-x"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(f"{TOKEN}\n")
    return path


def test_a_token_on_the_command_line_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"^--token takes `auto` alone, .* --token-file, or in HOWSURE_VIEW_TOKEN$"
    ) as no:
        server.checked_token("127.0.0.1", TOKEN)
    assert TOKEN not in str(no.value)


def test_an_open_address_needs_one(monkeypatch: pytest.MonkeyPatch, token_file: Path) -> None:
    monkeypatch.delenv(server.TOKEN_VARIABLE, raising=False)
    assert server.checked_token("127.0.0.1", None) is None
    with pytest.raises(InputError, match="lets other machines in, and needs a token: --token auto makes one"):
        server.checked_token("0.0.0.0", None)
    assert server.checked_token("0.0.0.0", None, token_file) == TOKEN
    monkeypatch.setenv(server.TOKEN_VARIABLE, TOKEN[::-1])
    assert server.checked_token("127.0.0.1", None) == TOKEN[::-1]
    assert server.checked_token("127.0.0.1", None, token_file) == TOKEN
    made = server.checked_token("127.0.0.1", "auto")
    assert made is not None
    assert made not in (TOKEN, TOKEN[::-1])


def test_a_poor_token_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch, token_file: Path) -> None:
    for poor in ("", "secret", "sixteen letters and spaces", f"{TOKEN}é"):
        monkeypatch.setenv(server.TOKEN_VARIABLE, poor)
        with pytest.raises(InputError, match="HOWSURE_VIEW_TOKEN must hold 16 characters or more") as no:
            server.checked_token("0.0.0.0", None)
        assert not poor or poor not in str(no.value)
        token_file.write_text(poor)
        with pytest.raises(InputError, match="token must hold 16 characters or more") as no:
            server.checked_token("0.0.0.0", None, token_file)
        assert not poor or poor not in str(no.value)


def test_a_token_file_is_a_file_of_ones_own(tmp_path: Path, token_file: Path) -> None:
    for mode in (0o604, 0o640, 0o602):
        token_file.chmod(mode)
        with pytest.raises(InputError, match=rf"its mode is {mode:04o}.*: chmod 600 "):
            server.checked_token("0.0.0.0", None, token_file)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is not a file but a pipe or a device"):
        server.checked_token("0.0.0.0", None, tmp_path / "pipe")
    for path, why in ((tmp_path / "nothing", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(InputError, match=f"cannot be read: {why}"):
            server.checked_token("0.0.0.0", None, path)
    token_file.chmod(0o600)
    token_file.write_text("x" * 5000)
    with pytest.raises(InputError, match="is larger than 4,096 bytes"):
        server.checked_token("0.0.0.0", None, token_file)


def test_the_token_stands_on_no_command_line(tmp_path: Path, token_file: Path) -> None:
    """Neither on ours nor on that of the browser that --open starts."""
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {seen}.part\nmv {seen}.part {seen}\n')
    browser.chmod(0o755)
    (tmp_path / "runs").mkdir()
    with viewing(tmp_path / "runs", "--token-file", str(token_file), "--open", BROWSER=str(browser)) as (url, process):
        assert TOKEN in url
        assert TOKEN.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        began = time.monotonic()
        while not seen.exists() and time.monotonic() - began < 20:
            time.sleep(0.05)
        opened = Path(seen.read_text().strip().removeprefix("file://"))
        assert TOKEN not in str(opened)
        assert url in opened.read_text()
        assert opened.parent.stat().st_mode & 0o077 == 0
        assert get(port_of(url)) == 401
        assert get(port_of(url), f"/?token={TOKEN}") == 303
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        assert TOKEN not in err
        assert not opened.exists()


def test_without_a_token_the_address_itself_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    with server.opened_in_browser(server.Address("127.0.0.1", 8765, None)):
        assert opened == ["http://127.0.0.1:8765/"]
