"""Who is answered, and the rules on every answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from report.viewer.asking import Browser, write_run

TOKEN = "a-token-of-some-length"
ADDRESSES = ("/", "/run?path=one", "/table?path=one", "/parts?path=one", "/live?path=one", "/sample?path=one&key=q-0",
             "/compare?a=one&b=one", "/assets/howsure.css", "/assets/viewer.js", "/nowhere", "/run?path=../x",
             "/picture?path=one&name=x.png")  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "one")
    return root


def test_every_answer_carries_the_rules(folder: Path) -> None:
    browser = Browser(folder)
    for address in ADDRESSES:
        headers = browser.get(address).headers
        assert headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        ), address
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert "set-cookie" not in headers
        assert "access-control-allow-origin" not in headers


def test_pages_hold_nothing_that_the_rules_forbid(folder: Path) -> None:
    browser = Browser(folder)
    for address in ADDRESSES[:7]:
        text = browser.get(address).text
        assert " style=" not in text
        assert "<style" not in text
        assert " onclick=" not in text
        assert text.count("<script") == text.count('<script src="/assets/')


def test_the_report_may_do_what_its_own_digests_say(folder: Path) -> None:
    answer = Browser(folder).get("/report?path=one")
    policy = answer.headers["content-security-policy"]
    assert answer.status == 200
    assert policy.count("sha256-") == 2
    assert "'unsafe" not in policy
    assert "'self'" not in policy
    assert policy.endswith("frame-ancestors 'none'")
    assert policy.removesuffix("; frame-ancestors 'none'").replace("'", "&#39;") in answer.text
    assert "/assets/" not in answer.text, "it stands alone"
    assert "/sample?" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "[::1]:8765", "LOCALHOST", "localhost:9000"])
def test_this_machine_is_answered(host: str, folder: Path) -> None:
    assert Browser(folder).get("/", host=host).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example:8765", "", "127.0.0.2",
     "localhost:x", "localhost:8765@evil.example", "[::1", "[::2]:8765", "0.0.0.0:8765", "192.168.1.5:8765"],
)  # fmt: skip
def test_a_foreign_name_is_not_answered(host: str, folder: Path) -> None:
    answer = Browser(folder).get("/run?path=one", host=host)
    assert answer.status == 421
    assert answer.text == "This viewer answers only under the address that `howsure view` printed.\n"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_nothing_but_reading_is_answered(method: str, folder: Path) -> None:
    answer = Browser(folder).get("/", method=method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert "changes nothing" in answer.text
    assert Browser(folder).get("/", method="HEAD").status == 200


def test_a_token_is_asked_for_everywhere(folder: Path) -> None:
    browser = Browser(folder, token=TOKEN)
    for address in (*ADDRESSES, "/?token=wrong", f"/?token={TOKEN}x", "/?token="):
        answer = browser.get(address)
        assert answer.status == 401, address
        assert "asks for its token" in answer.text
        assert "content-security-policy" in answer.headers


def test_a_token_given_once_becomes_a_cookie(folder: Path) -> None:
    browser = Browser(folder, token=TOKEN)
    first = browser.get(f"/run?path=one&token={TOKEN}&q=x")
    assert (first.status, first.headers["location"]) == (303, "/run?path=one&q=x")
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie, "a strict one is not sent where a shared address is opened from another page"
    assert TOKEN not in cookie
    given = cookie.partition(";")[0]
    assert browser.get("/run?path=one", cookie=given).status == 200
    assert browser.get("/run?path=one", cookie=given[:-1]).status == 401
    assert Browser(folder, token=TOKEN + "2").get("/", cookie=given).status == 401


@pytest.mark.parametrize("others", ['ui={"dark":1}', "a b=c", "flag", "caf\u00e9=1"])
def test_cookies_of_other_programs_on_this_machine_do_no_harm(others: str, folder: Path) -> None:
    browser = Browser(folder, token=TOKEN)
    given = browser.get(f"/?token={TOKEN}").headers["set-cookie"].partition(";")[0]
    assert browser.get("/", cookie=f"{others}; {given}").status == 200


def test_the_way_from_the_token_leads_to_no_other_server(folder: Path) -> None:
    answer = Browser(folder, token=TOKEN).get(f"//evil.example/x?token={TOKEN}")
    assert answer.headers["location"] == "/evil.example/x"


def test_where_other_machines_are_let_in_numbers_are_answered_and_foreign_names_are_not(folder: Path) -> None:
    everywhere = Browser(folder, host="0.0.0.0", token=TOKEN)
    assert everywhere.get("/", host="192.168.1.5:8765").status == 401, "answered, and asked for the token"
    assert everywhere.get("/", host="evil.example:8765").status == 421
    named = Browser(folder, host="box.example", token=TOKEN)
    assert named.get("/", host="box.example:8765").status == 401
    assert named.get("/", host="192.168.1.5").status == 421
