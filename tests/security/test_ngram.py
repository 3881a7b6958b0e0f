"""`ngram train` where somebody else got to the folder first: what it is led to stays as it is."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from howsure.errors import HowsureError, InputError
from howsure.studies.ngram import train_ngram

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")

MINE = "export PATH=/usr/bin\n"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file elsewhere that the user would miss."""
    path = tmp_path / "home" / ".bashrc"
    path.parent.mkdir()
    path.write_text(MINE)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    (path / "book.txt").write_text("a b a\nb b a\n" * 20)
    return path


def train(folder: Path, name: str = "x.arpa") -> None:
    """In a thread, since some of what is planted here would be waited for without end."""
    faults: list[BaseException] = []

    def work() -> None:
        try:
            train_ngram(folder / "book.txt", folder / name, order=2, smoothing="add-k")
        except HowsureError as error:
            faults.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "it waits"
    if faults:
        raise faults[0]


NAMES = ["x.arpa", "x.arpa.gz"]


def pipe(place: Path, _: Path) -> None:
    os.mkfifo(place)


def bound_socket(place: Path, _: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(place))


PLANTED: list[Callable[[Path, Path], None]] = [Path.symlink_to, Path.hardlink_to, pipe, bound_socket]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("plant", PLANTED, ids=["link", "hard link", "pipe", "socket"])
def test_a_model_takes_the_place_of_what_was_planted_there(
    folder: Path, mine: Path, name: str, plant: Callable[[Path, Path], None]
) -> None:
    plant(folder / name, mine)
    train(folder, name)
    assert mine.read_text() == MINE
    assert stat.S_ISREG((folder / name).lstat().st_mode)
    assert (folder / name).stat().st_nlink == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("plant", PLANTED, ids=["link", "hard link", "pipe", "socket"])
def test_what_was_planted_where_it_is_written_meanwhile_is_refused(
    folder: Path, mine: Path, name: str, plant: Callable[[Path, Path], None]
) -> None:
    plant(folder / f".{name}.part", mine)
    with pytest.raises(InputError, match=rf"\.{name}\.part is a link or a pipe, where howsure writes .*: remove it"):
        train(folder, name)
    assert mine.read_text() == MINE
    assert not (folder / name).exists()


def test_a_link_to_nowhere_is_replaced_and_makes_nothing(folder: Path, tmp_path: Path) -> None:
    (folder / "x.arpa").symlink_to(tmp_path / "gone" / "made")
    train(folder)
    assert not (tmp_path / "gone").exists()
    (folder / ".x.arpa.part").symlink_to(tmp_path / "made")
    with pytest.raises(InputError, match="is a link or a pipe"):
        train(folder)
    assert not (tmp_path / "made").exists()


def test_what_a_killed_training_left_is_in_nobodys_way(folder: Path) -> None:
    (folder / ".x.arpa.part").write_text("half a model")
    train(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["book.txt", "x.arpa"]
