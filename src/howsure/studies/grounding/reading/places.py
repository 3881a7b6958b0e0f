"""Where the images of a file lie. A path from a dataset is hostile input: it may not lead out of the image root.

The root is what the user names. Else it is one for each data file: of the file's own folder and the folders that the
published sets keep their screens in, the one that holds most of the file's images (of its first 200), the first of
them where several do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from unicodedata import normalize

from howsure.errors import InputError
from howsure.storage import address_of, checked, files_among, find_below, is_address, is_folder, shown_path

IMAGE_FOLDERS = ("images", "imgs", "screenspot_imgs", "screenspotv2_image")
ANNOTATIONS = "annotations"
"""ScreenSpot-Pro keeps its files in a folder of this name, and `images` beside it."""

ASKED_FOR = 200
LONGEST_PATH, LONGEST_SHOWN = 4096, 300
_WINDOWS_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
REMEDY = "name the folder that image paths begin at with --image-root"


class LostImage(InputError):
    """A path that leads to no image, or out of the root; REMEDY may be what it needs."""


def possible_roots(data_file: Path, image_root: str | os.PathLike[str] | None) -> list[str]:
    """Folders that image paths may begin at, without links, or their addresses; the likeliest first."""
    if image_root is not None:
        root = checked(image_root)
        if is_address(root):
            return [str(root)]
        if not os.path.isdir(root):
            raise InputError(f"--image-root {os.fspath(root)} is not a folder")
        return [os.path.realpath(root)]
    if (address := address_of(data_file.parent)) is not None:
        return _roots_in_store(address)
    home = Path(os.path.realpath(data_file.parent))
    folders = [home, *(home / name for name in IMAGE_FOLDERS)]
    if home.name == ANNOTATIONS:
        folders += [home.parent / name for name in IMAGE_FOLDERS]
    return [os.path.realpath(folder) for folder in folders if folder.is_dir()]


def _roots_in_store(home: str) -> list[str]:
    """The same for data that lies in a store, where a folder is there if anything lies below it."""
    above, _, name = home.rpartition("/")
    folders = [f"{home}/{name}" for name in IMAGE_FOLDERS]
    if name == ANNOTATIONS:
        folders += [f"{above}/{name}" for name in IMAGE_FOLDERS]
    return [home, *(folder for folder in folders if is_folder(folder))]


def choose_root(written: Iterable[str], roots: list[str]) -> str:
    """The root that holds most of these paths; the first where several do, or none."""
    if len(roots) == 1:
        return roots[0]
    asked = list(islice((path for path in dict.fromkeys(written) if len(path) <= LONGEST_PATH), ASKED_FOR))
    if is_address(roots[0]):
        return max(roots, key=lambda root: len(files_among(_addresses(asked, root))))
    return max(roots, key=lambda root: sum(_holds(root, path) for path in asked))


def _addresses(written: Iterable[str], root: str) -> Iterator[str]:
    for path in written:
        with suppress(InputError):  # one that leads out of this root has no address in it
            yield find_below(path.replace("\\", "/"), root)


def common_root(roots: list[str]) -> str:
    """The folder or address that all roots lie in."""
    if not is_address(roots[0]):
        return os.path.commonpath(roots)
    kind, _, rest = roots[0].partition("://")
    common = os.path.commonpath([rest, *(root.partition("://")[2] for root in roots)])
    return shown_path(f"{kind}://{common}")


def _holds(root: str, written: str) -> bool:
    return any(os.path.isfile(os.path.join(root, spelled)) for spelled in _spellings(written))


def find_image(written: str, root: str) -> str:
    """The file that a path from a dataset means, without links; refused where it does not lie within the root."""
    shown = repr(written[:LONGEST_SHOWN])
    if not written.strip() or "\0" in written or len(written) > LONGEST_PATH:
        raise InputError(f"the image path {shown} is none")
    if is_address(root):
        return _find_in_store(written, root)
    for spelled in _spellings(written):
        full = _resolved(os.path.join(root, spelled), shown)
        if not _is_within(full, root) or _WINDOWS_DRIVE.match(written):
            raise LostImage(f"the image path {shown} leads out of {root}, which it may not")
        if os.path.isfile(full):
            return full
    raise LostImage(f"the image {shown} is no file in {root}")


def _find_in_store(written: str, root: str) -> str:
    """The address; whether anything is there is found out when it is fetched, unless it can be spelled in two ways."""
    if _WINDOWS_DRIVE.match(written):
        raise LostImage(f"the image path {written[:LONGEST_SHOWN]!r} leads out of {shown_path(root)}, which it may not")
    try:
        spelled = [find_below(one, root) for one in _spellings(written)]
    except InputError as error:
        raise LostImage(str(error)) from error
    there = files_among(spelled) if len(spelled) > 1 else set(spelled)
    return next((one for one in spelled if one in there), spelled[0])


def _spellings(written: str) -> list[str]:
    """As written, then with the separators of Windows turned round, without the `file://` of a chat message; then with
    accents and Hangul joined, and taken apart, as Apple's systems write the names of files."""
    path = written.removeprefix("file://")
    found = [path, path.replace("\\", "/")] if "\\" in path else [path]
    if not path.isascii():
        found += [normalize(form, spelled) for form in ("NFC", "NFD") for spelled in found]
    return list(dict.fromkeys(found))


def _resolved(path: str, shown: str) -> str:
    try:
        full = os.path.realpath(path)
        full.encode("utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"the image path {shown} is no path that this system has") from error
    return full


def _is_within(full: str, root: str) -> bool:
    return full.startswith(root if root.endswith(os.sep) else root + os.sep)


def relative(full: str, root: str) -> str:
    """A path as it is written into data: from the root on, with forward slashes."""
    if is_address(root):
        return full.removeprefix(root.rstrip("/") + "/")
    return Path(os.path.relpath(full, root)).as_posix()
