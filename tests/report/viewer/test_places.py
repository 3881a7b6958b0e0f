"""Nothing outside the folder is reached, by whatever way."""

from __future__ import annotations

from pathlib import Path

import pytest

from howsure.errors import InputError
from howsure.report.viewer.library import NotServed, run_within, served_root
from report.viewer.asking import Browser, write_run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    served = tmp_path / "served"
    served.mkdir()
    write_run(served / "one")
    write_run(served / "deep" / "two")
    write_run(tmp_path / "secret")
    return served_root(served)


def test_runs_are_found_by_their_names(root: Path) -> None:
    assert run_within(root, "one") == root / "one"
    assert run_within(root, "deep/two") == root / "deep" / "two"
    assert run_within(served_root(root / "one"), ".") == root / "one"


@pytest.mark.parametrize(
    "name",
    ["", "..", "../secret", "one/../../secret", "/etc", "{outside}", "//x", "one/", "./one", "one/.", "deep//two",
     "one\0", "\0", "deep", "nothing", ".hidden", "one/.lock", "..\\secret", "C:\\secret", "C:secret", "%2e%2e/secret",
     "one/run.json", "~", "a" * 5000, "\udcff", "CON", "one:stream"],
)  # fmt: skip
def test_other_names_lead_nowhere(name: str, root: Path) -> None:
    with pytest.raises(NotServed):
        run_within(root, name.replace("{outside}", str(root.parent / "secret")))


def test_links_lead_nowhere(root: Path) -> None:
    (root / "out").symlink_to(root.parent / "secret")
    (root / "in").symlink_to(root / "one")
    (root / "up").symlink_to(root.parent)
    (root / "self").symlink_to(root / "self")
    for name in ("out", "in", "up/secret", "self", "up/served/one"):
        with pytest.raises(NotServed):
            run_within(root, name)


@pytest.mark.parametrize("file", ["run.json", "samples.jsonl", "summary.json"])
def test_a_file_of_a_run_that_is_a_link_out_is_refused(file: str, root: Path) -> None:
    """Out of the run's folder, into that of another run."""
    (root / "one" / file).unlink(missing_ok=True)
    (root / "one" / file).symlink_to(root / "deep" / "two" / file)
    browser = Browser(root)
    shown, listed = browser.get("/run?path=one"), browser.get("/")
    assert listed.status == shown.status == 200
    assert f"{file} leads out of" in shown.text
    assert file == "samples.jsonl" or f"{file} leads out of" in listed.text


def test_a_folder_that_is_a_link_can_itself_be_served(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    assert Browser(link).get("/run?path=one").status == 200


def test_what_is_no_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        served_root(tmp_path / "nothing")


def test_pictures_come_from_the_run_folder_alone(root: Path) -> None:
    (root / "one" / "frames").mkdir()
    (root / "one" / "frames" / "x.png").write_bytes(b"\x89PNG picture")
    (root / "one" / "page.html").write_text("<script>alert(1)</script>")
    (root / "one" / "out.png").symlink_to(root.parent / "secret" / "run.json")
    (root.parent / "secret" / "y.png").write_bytes(b"secret")
    (root / "deep" / "two" / "z.png").write_bytes(b"another run's")
    browser = Browser(root)
    good = browser.get("/picture?path=one&name=frames/x.png")
    assert (good.status, good.headers["content-type"], good.body) == (200, "image/png", b"\x89PNG picture")
    assert good.headers["x-content-type-options"] == "nosniff"
    for name in ("../../secret/y.png", "page.html", "out.png", "../deep/two/z.png", "run.json", "frames", "",
                 "frames/x.png%00.html", f"{root.parent}/secret/y.png"):  # fmt: skip
        bad = browser.get(f"/picture?path=one&name={name}")
        assert bad.status == 404, name
        assert "no such picture" in bad.text
