"""What is an address, what is shown of it, and what is taken for one by mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from howsure.errors import InputError
from howsure.storage import StoredFolder, checked, find_below, is_address, shown, without_secrets


@pytest.mark.parametrize("text", ["s3://b/x", "gs://b/x.jsonl", "memory://a", "https://h/x?y=1", "file:///x"])
def test_an_address_has_a_kind_and_two_slashes(text: str) -> None:
    assert is_address(text)


@pytest.mark.parametrize("text", ["runs/x", "/tmp/x", "C:/x", "s3:/b/x", "openai:gpt", "a b://c", "", "://x"])
def test_a_path_is_none(text: str) -> None:
    assert not is_address(text)


def test_a_path_object_never_is_one() -> None:
    assert not is_address(Path("s3://b/x"))


@pytest.mark.parametrize("kind", ["s3", "gs", "memory", "https"])
def test_an_address_that_was_made_a_path_is_told_so(kind: str) -> None:
    with pytest.raises(InputError, match=f"{kind}:/b/x was an address before it was made a path: pass '{kind}://b/x'"):
        checked(Path(f"{kind}://b/x"))


def test_a_folder_that_is_really_called_so_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s3:" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert checked(Path("s3:/b")) == Path("s3:/b")


def test_a_file_address_is_a_path() -> None:
    assert checked("file:///data/x.jsonl") == "/data/x.jsonl"


def test_a_key_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(InputError) as error:
        checked("s3://AKIA123:wonderful@bucket/x")
    assert "has a key in it" in str(error.value)
    assert "wonderful" not in str(error.value)
    assert "AKIA123" not in str(error.value)


@pytest.mark.parametrize("address", ["s3://AKIA123:wonder/ful@bucket/x", "gs://AKIA123:wonderful/x", "S3://wonder@b/x"])
def test_a_key_may_hold_a_slash_or_lack_its_bucket(address: str) -> None:
    with pytest.raises(InputError, match="has a key in it") as error:
        checked(address)
    assert "wonder" not in str(error.value) + shown(address)
    assert "AKIA" not in str(error.value) + shown(address)


def test_an_access_point_is_no_key() -> None:
    address = "s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/mine/x"
    assert checked(address) == shown(address) == address


@pytest.mark.parametrize("address", ["s3://b/a\nb", "s3://b/\udcff", "s3://b/a\0b", "s3://b/\x1b[31m"])
def test_an_address_is_text_on_one_line(address: str) -> None:
    with pytest.raises(InputError, match="line breaks or other control signs"):
        checked(address)


@pytest.mark.parametrize("address", ["s3://b/x/../y", "memory://b/./y", "gs://b/.."])
def test_an_address_has_no_way_up(address: str) -> None:
    with pytest.raises(InputError, match=r"has \. or \.\. in it"):
        checked(address)


def test_the_kind_is_the_same_in_capitals() -> None:
    assert checked("S3://Bucket/X y") == "s3://Bucket/X y"


def test_a_folder_has_no_query() -> None:
    with pytest.raises(InputError, match=r"memory://b/run is followed by \?"):
        StoredFolder("memory://b/run?versionId=1")


@pytest.mark.parametrize(
    "text",
    [
        "403, url='https://host/x?X-Amz-Signature=wonder%2Fful'",
        "GET https://me:wonder@host/x failed",
        "ValueError: https://me:won/der@host/x?a",
        "https://me:p#wonder@host/x",
    ],
)
def test_what_others_say_is_cleared_of_secrets(text: str) -> None:
    cleared = without_secrets(text)
    assert "won" not in cleared
    assert "https://host/x" in cleared


@pytest.mark.parametrize("address", ["s3://", "memory:///"])
def test_a_store_alone_is_no_place(address: str) -> None:
    with pytest.raises(InputError, match="names nothing"):
        checked(address)


def test_chained_addresses_are_refused() -> None:
    with pytest.raises(InputError, match="joins several addresses"):
        checked("zip://x.jsonl::s3://b/x.zip")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://u:pass@host/a/b.jsonl?X-Amz-Signature=abc#f", "https://host/a/b.jsonl"),
        ("s3://b/x?versionId=3", "s3://b/x"),
        ("s3://b/a#b", "s3://b/a#b"),
        ("sftp://me:pw@host/x", "sftp://host/x"),
        ("memory://", "memory://"),
    ],
)
def test_what_may_be_secret_is_not_shown(address: str, expected: str) -> None:
    assert shown(address) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [("a.png", "s3://b/d/a.png"), ("./x/../a.png", "s3://b/d/a.png"), ("s3://b/d/e/a.png", "s3://b/d/e/a.png")],
)
def test_a_path_out_of_data_is_found_below_its_root(written: str, expected: str) -> None:
    assert find_below(written, "s3://b/d/") == expected


@pytest.mark.parametrize(
    "written", ["../a.png", "x/../../a.png", "/etc/passwd", "..", ".", "s3://b/other/a.png", "http://h/a.png", "a\0b"]
)
def test_it_may_not_lead_out_of_it(written: str) -> None:
    with pytest.raises(InputError, match="leads out of s3://b/d"):
        find_below(written, "s3://b/d")
