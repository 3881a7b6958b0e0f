"""ARPA files: there and back, KenLM's reading of ours and ours of KenLM's and SRILM's, and all kinds of broken file."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import HowsureError, InputError
from howsure.models.ngram.arpa import arpa_lines, read_arpa, write_arpa
from howsure.models.ngram.table import BEGIN_ID, UNKNOWN_ID, NgramTable, begins_of
from howsure.models.ngram.training import Piece, Smoothing, train

TRAINING = (
    "the cat sat on the mat\nthe dog sat on the cat\na dog ran\nthe ж 数字 ran on a mat\n" * 3 + "so a cat ran\n\n"
)
TEST = ["the cat sat on a mat", "", "the bird ran", "数字 数字 ж on", "a dog sat on the cat and ran", "mat " * 30]

# As lmplz writes it, down to the tabs: every back-off given, `<unk>` first, `<s>` with log10 p = 0.
FROM_KENLM = """\\data\\
ngram 1=5
ngram 2=4

\\1-grams:
-1.0413927\t<unk>\t0
0\t<s>\t-0.30103
-0.69897\t</s>\t0
-0.4\ta\t-0.2
-0.5\tb\t-0.1

\\2-grams:
-0.1\t<s> a
-0.3\ta b
-0.2\tb </s>
-0.6\ta a

\\end\\
"""

# As SRILM writes it: a line before the data, no `<unk>`, `<s>` at -99, back-offs left out where there are none.
FROM_SRILM = """
\\data\\
ngram 1=4
ngram 2=3

\\1-grams:
-0.69897\t</s>
-99\t<s>\t-0.30103
-0.4\ta\t-0.2
-0.5\tb

\\2-grams:
-0.1\t<s> a
-0.3\ta b
-0.2\tb </s>

\\end\\
"""


def sentence_scores(table: NgramTable, sentences: list[str]) -> list[float]:
    laid, _ = table.lay("".join(f"{sentence}\n" for sentence in sentences).encode())
    scores = np.where(laid.ids == BEGIN_ID, 0.0, table.log10_probs(laid.ids, begins_of(laid)))
    return np.add.reduceat(scores, begins_of(laid)).tolist()


def model(order: int = 3, smoothing: Smoothing = Smoothing.MODIFIED_KNESER_NEY) -> NgramTable:
    return train([Piece(TRAINING.encode())], order, smoothing, discount_fallback=True).table


def from_text(tmp_path: Path, text: str | bytes) -> NgramTable:
    path = tmp_path / "model.arpa"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_arpa(path)


# -- there and back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", list(Smoothing))
@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["model.arpa", "model.arpa.gz"])
def test_what_is_written_is_read_back(tmp_path: Path, order: int, smoothing: Smoothing, name: str) -> None:
    table = model(order, smoothing)
    write_arpa(table, tmp_path / name)
    again = read_arpa(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert again.vocabulary.words == table.vocabulary.words
    assert again.counts == table.counts
    for one, other in zip(again.levels, table.levels, strict=True):
        assert np.array_equal(one.keys, other.keys)
        assert one.log10_probs == pytest.approx(other.log10_probs, abs=1e-7)
        assert one.log10_backoffs == pytest.approx(other.log10_backoffs, abs=1e-7)
    assert sentence_scores(again, TEST) == pytest.approx(sentence_scores(table, TEST), abs=1e-5)


def test_the_order_of_lines_does_not_matter(tmp_path: Path) -> None:
    lines = FROM_KENLM.splitlines()
    turned = [*lines[:5], *reversed(lines[5:10]), *lines[10:12], *reversed(lines[12:16]), *lines[16:]]
    a, b = from_text(tmp_path, FROM_KENLM), from_text(tmp_path, "\n".join(turned))
    sentences = ["a b", "b a a", "c", ""]
    assert sentence_scores(b, sentences) == sentence_scores(a, sentences)


@pytest.mark.parametrize(
    "change",
    [
        str,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\t", " "),
        lambda text: text.replace("a b\n", "a b\t\n"),
        lambda text: f"made by hand\n\n  {text}",
    ],
)
def test_what_other_tools_write_is_read(tmp_path: Path, change) -> None:
    table = from_text(tmp_path, change(FROM_KENLM))
    assert sentence_scores(table, ["a b"]) == pytest.approx([-0.1 - 0.3 - 0.2])


# -- KenLM and SRILM ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [s for s in Smoothing if s is not Smoothing.MLE])
@pytest.mark.parametrize("order", [2, 3, 5])
def test_kenlm_reads_our_files_and_gives_our_scores(tmp_path: Path, order: int, smoothing: Smoothing) -> None:
    kenlm = pytest.importorskip("kenlm", reason="kenlm could not be built here (it needs a C++ compiler)")
    table = model(order, smoothing)
    write_arpa(table, tmp_path / "ours.arpa")
    theirs = kenlm.Model(str(tmp_path / "ours.arpa"))
    assert theirs.order == order
    assert sentence_scores(table, TEST) == pytest.approx([theirs.score(sentence) for sentence in TEST], abs=1e-4)
    for sentence in TEST:
        laid, _ = table.lay(f"{sentence}\n".encode())
        mine = table.log10_probs(laid.ids, begins_of(laid))[1:]
        wanted = list(theirs.full_scores(sentence))
        assert mine == pytest.approx([log10 for log10, _, _ in wanted], abs=1e-5)
        assert (laid.ids[1:] == UNKNOWN_ID).tolist() == [unknown for _, _, unknown in wanted]


@pytest.mark.parametrize("text", [FROM_KENLM, FROM_KENLM.replace("<unk>", "<UNK>")])
def test_a_file_of_kenlm_gives_the_scores_of_kenlm(tmp_path: Path, text: str) -> None:
    sentences = ["a b", "b a a", "c a", "", "b"]
    by_hand = [
        -0.1 - 0.3 - 0.2,
        (-0.30103 - 0.5) + (-0.1 - 0.4) - 0.6 + (-0.2 - 0.69897),
        (-0.30103 - 1.0413927) - 0.4 + (-0.2 - 0.69897),
        -0.30103 - 0.69897,
        (-0.30103 - 0.5) - 0.2,
    ]
    assert sentence_scores(from_text(tmp_path, text), sentences) == pytest.approx(by_hand, abs=1e-9)
    kenlm = pytest.importorskip("kenlm", reason="kenlm could not be built here (it needs a C++ compiler)")
    theirs = kenlm.Model(str(tmp_path / "model.arpa"))
    assert [theirs.score(sentence) for sentence in sentences] == pytest.approx(by_hand, abs=1e-5)


def test_without_an_unknown_word_in_the_file_what_is_unknown_is_impossible(tmp_path: Path) -> None:
    scores = sentence_scores(from_text(tmp_path, FROM_SRILM), ["a b", "a c"])
    assert scores == [pytest.approx(-0.6), -math.inf]


def test_a_suffix_that_pruning_took_out_is_backed_off_over(tmp_path: Path) -> None:
    """The 3-gram is there, and the 2-gram that ends it is not, as in a pruned model of SRILM."""
    text = FROM_KENLM.replace("ngram 2=4\n", "ngram 2=4\nngram 3=1\n")
    text = text.replace("-0.6\ta a\n", "-0.6\ta a\n\n\\3-grams:\n-0.05\t<s> a a\n".replace("a a\n\n", "a a\t-0.7\n\n"))
    table = from_text(tmp_path, text)
    assert sentence_scores(table, ["a a"]) == pytest.approx([-0.1 - 0.05 + (-0.7 - 0.2 - 0.69897)])


def test_an_interrupted_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.arpa"
    path.write_text("the old one")

    def breaks_off(table: NgramTable):
        yield b"half"
        raise KeyboardInterrupt

    monkeypatch.setattr("howsure.models.ngram.arpa.arpa_lines", breaks_off)
    with pytest.raises(KeyboardInterrupt):
        write_arpa(model(), path)
    assert path.read_text() == "the old one"
    assert [p.name for p in tmp_path.iterdir()] == ["model.arpa"]


# -- broken files ---------------------------------------------------------------------------------------------------


def changed(old: str, new: str, text: str = FROM_KENLM) -> str:
    assert old in text
    return text.replace(old, new, 1)


BROKEN = {
    "empty": ("", r"no line \\data\\, so it is no ARPA file"),
    "a million line ends": ("\n" * 1_000_000, r"no line \\data\\"),
    "a text": ("just some words\nand more\n", r"no line \\data\\"),
    "no header": (changed("ngram 1=5\nngram 2=4\n", ""), r"line 3: the header promises no n-grams"),
    "header without number": (changed("ngram 1=5", "ngram 1=five"), r"line 2: «ngram 1=five» is not «ngram 1=<count>»"),
    "header out of order": (changed("ngram 1=5\nngram 2=4", "ngram 2=4\nngram 1=5"), r"line 2: .* «ngram 1=<count>»"),
    "header beyond reason": (changed("ngram 2=4", f"ngram 2={'9' * 40}"), r"line 3: .* «ngram 2=<count>»"),
    "header of many digits": (changed("ngram 2=4", f"ngram {'2' * 60_000}=4"), r"line 3: .* «ngram 2=<count>»"),
    "section of many digits": (
        changed("\\2-grams:", f"\\{'2' * 60_000}-grams:"),
        r"line 12: .* «\\2-grams:» must",
    ),
    "header cut off": ("\\data\\\nngram 1=5\n", r"line 2: the file ends within its header"),
    "only data": ("\\data\\", r"line 1: the file ends within its header"),
    "too few": (changed("ngram 2=4", "ngram 2=5"), r"line 3: promises 5 2-grams, and from line 12 on there are 4"),
    "too many": (changed("ngram 1=5", "ngram 1=4"), r"line 2: promises 4 1-grams, and from line 5 on there are 5"),
    "huge promise": (changed("ngram 2=4", "ngram 2=999999999999"), r"line 3: promises 999,999,999,999 2-grams"),
    "section missing": (FROM_KENLM[: FROM_KENLM.index("\\2-grams")] + "\\end\\\n", r"stands where «\\2-grams:» must"),
    "section twice": (changed("\\2-grams:", "\\1-grams:"), r"line 12: «\\1-grams:» stands where «\\2-grams:» must"),
    "section too many": (changed("\\end\\", "\\3-grams:\n-1\ta a a\n\\end\\"), r"promises no more n-grams"),
    "cut off": (FROM_KENLM[: FROM_KENLM.index("\\end")], r"ends without «\\end\\»: it is cut off"),
    "cut in a line": (FROM_KENLM[: FROM_KENLM.index("b </s>")], r"line 3: promises 4 2-grams, .* there are 3"),
    "tab in a word": (changed("-0.4\ta\t-0.2", "-0.4\ta\ta\t-0.2"), r"line 9: .* no word may hold a tab"),
    "tab in a word, no back-off": (
        changed("-0.6\ta a", "-0.6\ta\ta"),
        r"line 16: .* is no 2-gram.*no word may hold a tab",
    ),
    "tab and a number": (changed("-0.3\ta b", "-0.3\ta\tb b"), r"line 14: «b» is no log10 of a back-off"),
    "space in a word": (changed("-0.4\ta\t-0.2", "-0.4\ta a\t-0.2"), r"line 9: .* is no 1-gram"),
    "a word missing": (changed("-0.3\ta b", "-0.3\ta"), r"line 14: «-0.3\ta» is no 2-gram"),
    "no number": (changed("-0.3\ta b", "x\ta b"), r"line 14: «x» is no log10 of a probability"),
    "nan": (changed("-0.3\ta b", "nan\ta b"), r"line 14: «nan» is no log10 of a probability"),
    "a number of many digits": (
        changed("-0.3\ta b", f"-0.{'3' * 60_000}\ta b"),
        r"line 14: «-0.33+…» is no log10",
    ),
    "above one": (changed("-0.3\ta b", "0.3\ta b"), r"line 14: 0.3 is above 0"),
    "back-off no number": (changed("-0.4\ta\t-0.2", "-0.4\ta\t-"), r"line 9: «-» is no log10 of a back-off"),
    "back-off infinite": (changed("-0.4\ta\t-0.2", "-0.4\ta\tinf"), r"line 9: «inf» is no log10 of a back-off"),
    "word not listed": (changed("-0.3\ta b", "-0.3\ta z"), r"line 14: .*its word 2 is not among the 1-grams"),
    "first word not listed": (changed("-0.3\ta b", "-0.3\tz b"), r"line 14: .*its word 1 is not among the 1-grams"),
    "word twice": (changed("-0.5\tb", "-0.5\ta"), r"line 10: .* is there a second time"),
    "2-gram twice": (changed("-0.6\ta a", "-0.6\ta b"), r"line 16: .* is there a second time"),
    "no </s>": (changed("</s>\t0", "end\t0"), r"</s> is not among its words"),
    "no <s>": (changed("<s>\t-0.30103", "begin\t-0.30103"), r"<s> is not among its words"),
    "NUL": (changed("-0.5\tb", "-0.5\tb\0b"), r"line 10: holds a NUL byte"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    text, words = BROKEN[name]
    with pytest.raises(InputError, match=words) as caught:
        from_text(tmp_path, text)
    assert "model.arpa" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_context_that_is_missing_is_named(tmp_path: Path) -> None:
    text = changed("ngram 2=4\n", "ngram 2=4\nngram 3=1\n").replace("\\end\\", "\\3-grams:\n-0.1\tb a b\n\n\\end\\")
    with pytest.raises(InputError, match=r"line 20: .*its first 2 words are not among the 2-grams"):
        from_text(tmp_path, text)


def test_bytes_that_are_no_text_are_named_by_their_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 10: these bytes are not UTF-8"):
        from_text(tmp_path, FROM_KENLM.encode().replace(b"\tb\t", b"\t\xff\t"))


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"mmap lm http://kheafield.com/code format version 5\n\0", "a KenLM binary; give the ARPA file"),
        (b"GGUF\x03\0\0\0", "a GGUF file"),
        (b"PK\x03\x04", "a zip archive; unpack it"),
        (b"\x28\xb5\x2f\xfd", "compressed with zstd"),
    ],
)
def test_files_of_another_kind_are_recognised(tmp_path: Path, start: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        from_text(tmp_path, start)


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing.arpa cannot be read: No such file"):
        read_arpa(tmp_path / "missing.arpa")
    with pytest.raises(InputError, match="Is a directory"):
        read_arpa(tmp_path)
    with pytest.raises(InputError, match="model.arpa cannot be read"):
        from_text(tmp_path, gzip.compress(FROM_KENLM.encode())[:-20])


@settings(max_examples=300)
@given(data=st.data())
def test_no_damage_ends_in_anything_but_a_model_or_a_sentence(tmp_path_factory, data: st.DataObject) -> None:
    """Bytes taken out, put in, doubled or changed, anywhere."""
    content = bytearray(data.draw(st.sampled_from([FROM_KENLM, FROM_SRILM])).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 12))
        piece = data.draw(
            st.sampled_from([b"", b"\n", b"\t", b"\\", b"-", b"9", b" ", b"\xff", b"a", b"ngram 1=", b"\0"])
        )
        content[place : place + length] = piece
    path = tmp_path_factory.getbasetemp() / "damaged.arpa"
    path.write_bytes(bytes(content))
    try:
        table = read_arpa(path)
    except HowsureError as error:
        assert "\n" not in str(error)
    else:
        scores = sentence_scores(table, ["a b", "c", "b a a"])
        assert not any(math.isnan(score) for score in scores)
        path.write_bytes(b"".join(arpa_lines(table)))
        assert sentence_scores(read_arpa(path), ["a b", "c", "b a a"]) == pytest.approx(scores, rel=1e-6, abs=1e-6)
