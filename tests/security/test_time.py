"""Images and chat templates from outside are worked on in processes with limits: none takes minutes or all memory, none
keeps Ctrl-C waiting, and no process outlives whoever asked it."""

from __future__ import annotations

import io
import json
import os
import signal
import struct
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
from PIL import Image

import howsure
from howsure.errors import InputError, ModelError
from howsure.isolated import python
from howsure.limited import Ended, LimitedFunction, Raised
from howsure.models import chat_templates, images
from howsure.models.contract import Message, Rolling
from howsure.models.images import inspect_picture
from howsure.studies.trust.steps import CONDITIONS
from models.test_conversations import ALTERNATING, CHATML, TALK, TRIMMED
from tiny_vision import build_vision, picture

MIB = 2**20
PROMPT_SECONDS = 6
"""What Ctrl-C may take on a busy machine; the images here would take minutes."""


def scans(side_px: int, times: int) -> bytes:
    """A progressive JPEG of one grey whose last refinement stands in it so many times: 31 bytes, and a pass each."""
    out = io.BytesIO()
    Image.new("L", (side_px, side_px), 128).save(out, "JPEG", progressive=True)
    jpeg = out.getvalue()
    start = jpeg.rindex(b"\xff\xda")
    return jpeg[:-2] + jpeg[start:-2] * times + jpeg[-2:]


def tiff(tags: list[tuple[int, int]], rest: bytes = b"") -> bytes:
    """Tags of one number each; that of -1 has all the numbers that follow."""
    start = 8 + 2 + 12 * len(tags) + 4
    rows = [(tag, 4, 1, value) if value >= 0 else (tag, 4, len(rest) // 4, start) for tag, value in tags]
    entries = b"".join(struct.pack("<HHII", *row) for row in rows)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4) + rest


STRIPS = 600_000
SLOW: dict[str, Callable[[], bytes]] = {
    "scans.jpg": lambda: scans(1000, 40_000),
    "comments.ppm": lambda: b"P3\n4 4\n255\n" + b"#\n" * 500_000 + b"1 " * 48,
    "strips.tiff": lambda: tiff(
        [(256, 1), (257, STRIPS), (258, 8), (259, 1), (262, 1), (273, -1), (278, 1), (279, -1)],
        struct.pack("<I", 1) * STRIPS,
    ),
}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A quarter of a second for an image, so that a quick machine takes too long as well."""
    looking = LimitedFunction("howsure.models.decoding:shown_size", cpu_seconds=0.25, memory_bytes=200 * MIB)
    monkeypatch.setattr(images, "_shown_size", looking)
    yield
    looking.stop()


def test_an_image_of_repeated_scans_is_refused_in_time(tmp_path: Path) -> None:
    (tmp_path / "scans.jpg").write_bytes(SLOW["scans.jpg"]())
    with pytest.raises(InputError, match="cannot be decoded: it takes too long; write it anew"):
        inspect_picture(tmp_path / "scans.jpg")


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("name", SLOW)
def test_an_image_that_takes_too_long_is_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(SLOW[name]())
    good = picture(tmp_path / "good.png", 8, 8)
    with pytest.raises(InputError, match="cannot be decoded: it takes too long; write it anew") as caught:
        inspect_picture(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
    assert inspect_picture(good).width == 8


def test_an_image_that_takes_too_much_memory_is_refused(tmp_path: Path) -> None:
    """Four bytes a pixel, and eight while it is converted: 90 million are within all other limits."""
    Image.new("RGBA", (10_000, 9_000)).save(tmp_path / "wide.png", compress_level=1)
    with pytest.raises(InputError, match="it takes more than 600 MiB of memory; write it anew, or scale it down"):
        inspect_picture(tmp_path / "wide.png")


def test_frames_of_a_film_are_not_counted_to_send_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL.GifImagePlugin import GifImageFile

    frames = [Image.new("P", (8, 8), i) for i in range(3)]
    frames[0].save(tmp_path / "film.gif", save_all=True, append_images=frames[1:])
    monkeypatch.setattr(GifImageFile, "is_animated", property(lambda _: pytest.fail("all frames are read")))
    assert inspect_picture(tmp_path / "film.gif").to_send()[0] == "image/png"


@pytest.mark.usefixtures("hasty")
def test_frames_of_a_run_are_looked_at_before_they_are_drawn(tmp_path: Path) -> None:
    """A run folder may be a stranger's."""
    from howsure.studies.trust.artefacts import Frame, write_replay
    from howsure.studies.trust.record import ConditionRecord, Conditions, TrustRecord

    (tmp_path / "0.png").write_bytes(SLOW["comments.ppm"]())
    answers = Conditions(*(ConditionRecord(entropy_bits=1.0) for _ in CONDITIONS))
    record = TrustRecord(episode=1, step=1, conditions=answers)
    with pytest.raises(InputError, match="0.png cannot be decoded: it takes too long"):
        write_replay(tmp_path / "replay.gif", [Frame(record, tmp_path / "0.png")])


# -- Ctrl-C, and whose process it is ------------------------------------------------------------------------------


@contextmanager
def looking_at(*paths: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that inspects images, and has begun to."""
    code = "import sys; from howsure.models.images import inspect_pictures; inspect_pictures(sys.argv[1:])"
    process = subprocess.Popen(**python("-c", code, *map(str, paths)), stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: bool(busy_children(process.pid)))
        yield process
    finally:
        process.kill()
        process.wait()


def busy_children(pid: int) -> set[int]:
    """Children that have worked for some time, by the clock of the kernel."""
    return {child for child in children(pid) if cpu_ticks(child) >= 20}


def children(pid: int) -> set[int]:
    tasks = Path(f"/proc/{pid}/task")
    return {int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()}


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(come_true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not come_true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


@pytest.fixture
def endless(tmp_path: Path) -> list[Path]:
    """As large as an image may be: the limit is 22 s of CPU time."""
    content = scans(9_900, 2_000)
    paths = [tmp_path / f"{i}.jpg" for i in range(6)]
    for path in paths:
        path.write_bytes(content)
    return paths


@pytest.mark.parametrize("count", [1, 6])
def test_ctrl_c_ends_the_looking_and_its_processes_at_once(endless: list[Path], count: int) -> None:
    with looking_at(*endless[:count]) as process:
        helpers = children(process.pid)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(30)
        assert time.monotonic() - start < PROMPT_SECONDS
        wait_until(lambda: not any(map(is_there, helpers)), PROMPT_SECONDS)


def test_ctrl_c_of_a_terminal_is_for_the_one_who_asks(tmp_path: Path) -> None:
    """It reaches all processes of the terminal."""
    compress = LimitedFunction("zlib:compress", cpu_seconds=1, memory_bytes=200 * MIB)
    compress(b"begin")
    (helper,) = compress._idle
    os.kill(helper._process.pid, signal.SIGINT)
    assert zlib.decompress(compress(b"a" * 100)) == b"a" * 100
    assert compress._idle == [helper]
    compress.stop()


def test_idle_processes_end_with_whoever_started_them(tmp_path: Path) -> None:
    code = (
        "import sys, time; from howsure.models.images import inspect_picture; inspect_picture(sys.argv[1]);"
        "print(flush=True); time.sleep(60)"
    )
    given = python("-c", code, str(picture(tmp_path / "a.png", 8, 8)))
    with subprocess.Popen(**given, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (helper,) = children(process.pid)
        process.kill()
    wait_until(lambda: not is_there(helper), 10)


def test_a_forked_process_has_its_own(tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png", 8, 8)
    inspect_picture(path)
    before = set(images._shown_size._all)
    child = os.fork()
    if child == 0:
        ok = not images._shown_size._all and inspect_picture(path).width == 8 and len(images._shown_size._all) == 1
        images._shown_size.stop()
        os._exit(0 if ok else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert inspect_picture(path).width == 8
    assert set(images._shown_size._all) == before


# -- functions under limits ---------------------------------------------------------------------------------------


def test_what_ends_a_process_is_said_and_the_next_call_has_another() -> None:
    abort = LimitedFunction("os:abort", cpu_seconds=5, memory_bytes=200 * MIB)
    for _ in range(2):
        with pytest.raises(Ended, match=r"ends the process that works on it \(SIGABRT\)"):
            abort()
    killed = LimitedFunction("zlib:compress", cpu_seconds=5, memory_bytes=200 * MIB)
    killed(b"begin")
    killed._idle[0].kill()  # as the system does for want of memory
    wait_until(lambda: not killed._idle[0].is_alive)
    assert zlib.decompress(killed(b"again")) == b"again"
    killed.stop()


def test_memory_is_limited_and_given_back() -> None:
    unpack = LimitedFunction("zlib:decompress", cpu_seconds=5, memory_bytes=200 * MIB)
    with pytest.raises(Ended, match="takes more than 200 MiB of memory"):
        unpack(zlib.compress(bytes(300 * MIB)))
    (process,) = unpack._idle
    assert len(unpack(zlib.compress(bytes(50 * MIB)))) == 50 * MIB
    assert unpack._idle == [process]
    unpack.stop()


def test_what_the_function_raises_is_told_in_its_words() -> None:
    unpack = LimitedFunction("zlib:decompress", cpu_seconds=5, memory_bytes=200 * MIB)
    with pytest.raises(Raised, match="incorrect header check"):
        unpack(b"no zlib")
    with pytest.raises(Raised, match="No module named 'nowhere_at_all'"):
        LimitedFunction("nowhere_at_all:f", cpu_seconds=5, memory_bytes=200 * MIB)()
    unpack.stop()


def test_no_more_processes_than_cores(tmp_path: Path) -> None:
    compress = LimitedFunction("zlib:compress", cpu_seconds=5, memory_bytes=200 * MIB)
    with ThreadPoolExecutor(16) as pool:
        assert [zlib.decompress(one) for one in pool.map(compress, [bytes([i]) * 1000 for i in range(64)])] == [
            bytes([i]) * 1000 for i in range(64)
        ]
    assert 1 <= len(compress._all) <= len(os.sched_getaffinity(0))
    compress.stop()
    assert not compress._all


def test_whoever_waits_for_a_process_is_freed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howsure.limited._cores", lambda: 1)
    decode = LimitedFunction("howsure.models.decoding:shown_size", cpu_seconds=60, memory_bytes=600 * MIB)
    given_up, content = Event(), scans(9_900, 500)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(decode, content, b"x.jpg", unless=given_up) for _ in range(4)]
        wait_until(lambda: bool(decode._all))
        given_up.set()
        decode.stop()
        for one in waiting:
            with pytest.raises(Ended):
                one.result(PROMPT_SECONDS)
    assert not decode._all


def test_nothing_heavy_is_loaded_to_look_at_an_image() -> None:
    """Each process starts anew: with NumPy or the stores among its imports it would take ten times as long."""
    code = "import sys, howsure.models.decoding; print({'numpy', 'fsspec', 'msgspec', 'PIL'} & set(sys.modules))"
    done = subprocess.run(**python("-c", code), capture_output=True, check=True)
    assert done.stdout.decode().strip() == "set()", done.stderr


# -- chat templates ---------------------------------------------------------------------------------------------------

ROUNDS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
ENDLESS = {
    "nested-loops": ROUNDS,
    "one-long-call": "{% set n = 9 %}{{ n ** (n ** n) > 1 }}",
    "texts": "{% set s = namespace(t='x') %}{% for i in range(60) %}{% set s.t = s.t ~ s.t %}{% endfor %}{{ s.t }}",
    "one-long-text": "{{ 'x' * 10 ** 10 }}",
    "lists": "{% set s = namespace(t=[1]) %}{% for i in range(60) %}{% set s.t = s.t + s.t %}{% endfor %}{{ s.t }}",
    "while-it-is-compiled": "{{ 9 ** (9 ** 9) > 1 }}",
}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[LimitedFunction]:
    """A tenth of the time that a template has."""
    begun = LimitedFunction("howsure.models.chat_templates:render", cpu_seconds=0.5, memory_bytes=512 * MIB)
    monkeypatch.setattr(chat_templates, "_render", begun)
    yield begun
    begun.stop()


def applied(template: str, content: str = "hello") -> str:
    return chat_templates.apply("hf:it", template, [{"role": "user", "content": content}], special_tokens={})


@pytest.mark.parametrize("name", ENDLESS)
def test_a_template_that_does_not_end_is_refused_and_the_next_one_is_run(impatient: object, name: str) -> None:
    too_much = r"cannot be used: its chat template takes (too long|more than 512 MiB of memory); take another"
    with pytest.raises(ModelError, match=too_much):
        applied(ENDLESS[name])
    assert applied("{{ messages[0].content }}!") == "hello!"


def test_a_macro_within_itself_and_a_text_without_measure_are_refused() -> None:
    with pytest.raises(InputError, match="refuses these messages: maximum recursion depth exceeded"):
        applied("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")
    with pytest.raises(InputError, match="hf:it's chat template refuses these messages: it writes more than 64 MiB"):
        applied("{{ 'x' * 70000000 }}")


def with_template(folder: Path, template: str, place: str = "chat_template.jinja") -> str:
    """A tiny model with this template, and its name."""
    from models.test_conversations import build_chat

    build_chat(folder)
    (folder / "chat_template.jinja").unlink()
    if place == "tokenizer_config.json":
        config = json.loads((folder / place).read_text())
        (folder / place).write_text(json.dumps(config | {"chat_template": template}))
    else:
        (folder / place).write_text(template)
    return f"hf:{folder}"


@pytest.mark.parametrize("place", ["chat_template.jinja", "tokenizer_config.json"])
def test_a_model_whose_template_does_not_end_is_refused_wherever_it_is_asked(
    tmp_path: Path, impatient: LimitedFunction, place: str
) -> None:
    model = howsure.load(with_template(tmp_path, ROUNDS, place))
    asked = [Message("user", "hello"), Message("tool", "it is four")]
    for ask in (
        lambda: model.generate([asked]),
        lambda: model.score([(asked, ["a", "b"])]),
        lambda: model.read_conversations([asked], Rolling()),
    ):
        start = time.monotonic()
        with pytest.raises(ModelError, match="its chat template takes too long"):
            ask()
        assert time.monotonic() - start < 30, "other ways to give the messages were tried"


def test_a_template_of_a_processor_is_limited_too(tmp_path: Path, impatient: object) -> None:
    folder = build_vision("llava", tmp_path)
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": ROUNDS}))
    with pytest.raises(ModelError, match="its chat template takes too long"):
        howsure.load(f"hf:{folder}").generate(["hello"])


def test_what_a_template_says_itself_is_told_as_it_was(tmp_path: Path) -> None:
    name = with_template(tmp_path, "{{ raise_exception('No tools, please') }}")
    with pytest.raises(InputError, match=r"^hf:.*'s chat template refuses these messages: No tools, please$"):
        howsure.load(name).generate(["hello"])


EVERYTHING = (
    "{{ bos_token }}{% generation %}{{ messages | tojson(indent=1) }}{% endgeneration %}{{ strftime_now('%Y') }}"
    "{% for m in messages %}{% if loop.last %}{% break %}{% endif %}{{ m }}{{ m['content'][::-1] }}{% endfor %}\n"
    "{% if add_generation_prompt %}{{ eos_token }}>{% endif %}  {{ tools }}{{ nothing_of_the_kind }}"
)


@pytest.mark.parametrize("template", [CHATML, TRIMMED, ALTERNATING, EVERYTHING])
@pytest.mark.parametrize("begin_answer", [True, False])
def test_a_text_is_transformers_own_byte_for_byte(template: str, begin_answer: bool) -> None:
    from tiny import byte_level_tokenizer

    tokenizer = byte_level_tokenizer()
    tokenizer.add_special_tokens({"bos_token": "<s>", "eos_token": "</é>"})
    strange = "a\ud800b \x00\u2028 𝄞 <s>\r\n"
    messages = [{"role": m.role, "content": m.content} for m in (*TALK[2:4], Message("user", strange))]
    expected = tokenizer.apply_chat_template(
        messages, chat_template=template, tokenize=False, add_generation_prompt=begin_answer
    )
    given = {"begin_answer": begin_answer, "special_tokens": tokenizer.special_tokens_map}
    assert chat_templates.apply("it", template, messages, **given) == expected


def test_little_of_transformers_is_loaded_to_run_a_template() -> None:
    """Its whole package takes half a second of CPU time; a change in it that needs more shows here."""
    code = (
        "import sys; from howsure.models.chat_templates import _renderer; _renderer();"
        "print({'transformers.utils.hub', 'torch', 'tokenizers'} & set(sys.modules))"
    )
    done = subprocess.run(**python("-c", code), capture_output=True, check=True)
    assert done.stdout.decode().strip() == "set()", done.stderr
