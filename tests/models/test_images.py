"""Image files from outside: a picture, or one sentence that names the file."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest

from howsure.errors import InputError
from howsure.models import images
from howsure.models.images import inspect_picture, inspect_pictures
from tiny_vision import picture


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims a size and holds nothing."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("ending", ["png", "jpg", "webp", "bmp", "gif", "tiff", "ppm"])
def test_common_formats_become_rgb(tmp_path: Path, ending: str) -> None:
    found = inspect_picture(picture(tmp_path / f"x.{ending}", 30, 20))
    assert (found.width, found.height, len(found.sha256)) == (30, 20, 64)
    image = found.load()
    assert (image.size, image.mode) == ((30, 20), "RGB")


def test_bad_files_are_named(tmp_path: Path) -> None:
    whole = picture(tmp_path / "x.png", 200, 200).read_bytes()
    photo = picture(tmp_path / "x.jpg", 200, 200).read_bytes()
    cases = {
        "torn.png": (whole[: len(whole) // 2], "cannot be decoded"),
        "torn.jpg": (photo[: len(photo) // 2], "cannot be decoded"),
        "text.png": (b"this is no image", "none of PNG, JPEG"),
        "empty.png": (b"", "is empty, 0 bytes"),
        "huge.png": (png_header(20_000, 20_000), "absurdly large, more than 100 million pixels"),
        "vast.png": (png_header(10**6, 10**6), "absurdly large"),
        "wide.png": (png_header(2**31 - 1, 1), "absurdly large"),
        "hollow.png": (png_header(30, 30), "cannot be decoded"),
        "script.eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "none of PNG, JPEG"),
    }
    for name, (content, words) in cases.items():
        (tmp_path / name).write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(InputError, match=words) as caught:
                inspect_picture(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path / "gone.png", tmp_path, Path("nul\0byte.png")):
        with pytest.raises(InputError, match="cannot be read"):
            inspect_picture(path)


def test_a_file_too_large_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MOST_BYTES", 1 << 20)
    (tmp_path / "x.png").write_bytes(b"\0" * (1 << 21))
    with pytest.raises(InputError, match="larger than 1 MiB"):
        inspect_picture(tmp_path / "x.png")


def test_many_are_inspected_at_once_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = str(picture(tmp_path / "a.png", 8, 8))
    seen: list[str] = []
    right = images.inspect_picture
    monkeypatch.setattr(images, "inspect_picture", lambda path, *rest: (seen.append(str(path)), right(path, *rest))[1])
    found = inspect_pictures([good, str(tmp_path / "gone.png"), good])
    assert list(found) == [good, str(tmp_path / "gone.png")]
    assert found[good] == inspect_picture(good)
    assert isinstance(found[str(tmp_path / "gone.png")], InputError)
    assert sorted(seen[:2]) == sorted(found)


def test_a_changed_file_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    found = inspect_picture(picture(tmp_path / "x.png", 8, 8))
    picture(tmp_path / "x.png", 8, 8, seed=1)
    with pytest.raises(InputError, match="has changed since it was checked"):
        found.load()


def test_a_camera_held_sideways_is_turned(tmp_path: Path) -> None:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (30, 20)).save(tmp_path / "x.jpg", exif=exif)
    found = inspect_picture(tmp_path / "x.jpg")
    assert (found.width, found.height) == (20, 30)
    assert found.load().size == (20, 30)


def test_sixteen_bits_are_scaled_not_cut_off(tmp_path: Path) -> None:
    from PIL import Image

    grey = np.array([[0, 128 * 256, 65535]], dtype=np.uint16)
    out = io.BytesIO()
    Image.fromarray(grey).save(out, format="PNG")
    (tmp_path / "x.png").write_bytes(out.getvalue())
    assert np.asarray(inspect_picture(tmp_path / "x.png").load())[0, :, 0].tolist() == [0, 128, 255]
