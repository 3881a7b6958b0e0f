"""`score` against lm-evaluation-harness on the same network, for 100 generated questions of four choices, or 26.

lm-eval tokenises the context a second time by itself and cuts the tokens of the whole text after as many. It also
moves white space from the end of the context to the choice. Where that gives the same tokens and the same cut as
howsure's, the log-likelihoods must be equal; where it does not, the test says why, from the tokens alone.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple

import pytest

from howsure.models.contract import ScoreItem
from sizes import several

pytestmark = [pytest.mark.real_model, pytest.mark.long]

TOLERANCE_NATS = 1e-3
"""Three draws of 200 questions were tried, with largest gaps of 1.0e-4, 3.7e-4 and 1.3e-4 nats. In
the second both were off from a forward in double precision by up to 8e-4, so the room is needed for float32 alone."""
QUESTIONS, CHOICES = several(26, 100), 4

PLAIN = (
    "the old keeper of a lighthouse counted ships until fog came in from north and nobody knew how many remained "
    "because every captain believed another harbour was closer than this one"
)
LETTERS = "Österreich naïve Zürich Ελλάδα Москва 維也納 東京 🤖 café señor Łódź हिन्दी ½ “quoted” e\u0301tude"
OPENINGS = ("In 1989", "Question:", "He said that", "Die Antwort ist", "f(x) =", "Once", "Wien,", "17 and 25 is")


class Question(NamedTuple):
    kind: str
    prompt: str
    choices: tuple[str, ...]


class Pair(NamedTuple):
    """One choice in tokens and its log-likelihood, by one of the two."""

    context: tuple[int, ...]
    choice: tuple[int, ...]
    nats: float


def phrase(rng: random.Random, words: str, least: int, most: int) -> str:
    return " ".join(rng.choices(words.split(), k=rng.randint(least, most)))


def prompt_of(rng: random.Random) -> str:
    longest = 40 if rng.random() < 0.03 else 4
    return f"{rng.choice(OPENINGS)} {phrase(rng, PLAIN, 1, longest)}"


def ordinary(rng: random.Random, kind: str) -> Question:
    """The choice begins with a space or a line break, as in nearly every evaluation."""
    prompt, words = prompt_of(rng), PLAIN
    if kind == "digits":
        choices = [f" {rng.randint(0, 10 ** rng.randint(1, 7))}" for _ in range(CHOICES)]
    elif kind == "shared beginnings":
        start = phrase(rng, words, 1, 4)
        choices = [f" {start} {phrase(rng, words, 1, 3)}" for _ in range(CHOICES)]
    elif kind == "new line":
        prompt, choices = f"{prompt}?\nAnswer:", [f" {letter}" for letter in "ABCD"]
    elif kind == "other letters":
        prompt = f"{prompt} {rng.choice(LETTERS.split())}"
        choices = [f" {phrase(rng, LETTERS, 1, 2)}" for _ in range(CHOICES)]
    else:
        choices = [f" {phrase(rng, words, 1, 7)}" for _ in range(CHOICES)]
    return Question(kind, prompt, tuple(choices))


def awkward(rng: random.Random, kind: str) -> Question:
    """The boundary lies where tokens may straddle it, or before the first token."""
    prompt, words = prompt_of(rng), PLAIN
    endings = [phrase(rng, words, 1, 3) for _ in range(CHOICES - 1)]
    if kind == "no prompt":
        return Question(kind, "", tuple(phrase(rng, words, 2, 5) for _ in range(CHOICES)))
    if kind == "prompt ends in a space":
        return Question(kind, f"{prompt} ", (str(rng.randint(10, 99)), *endings))
    if kind == "prompt ends in a space, numbers":
        return Question(kind, f"{prompt} ", tuple(str(rng.randint(10, 9999)) for _ in range(CHOICES)))
    halves = ("lighth", "ouse"), ("rema", "ined"), ("harb", "our"), ("bel", "ieved")
    first, second = rng.choice(halves)
    return Question(kind, f"{prompt} {first}", (f"{second} the north", *(f"ing {ending} one" for ending in endings)))


def questions() -> list[Question]:
    rng = random.Random(3)
    kinds = {"words": 30, "digits": 15, "shared beginnings": 20, "new line": 10, "other letters": 13}
    made = [ordinary(rng, kind) for kind, count in kinds.items() for _ in range(round(count / several(4, 1)))]
    kinds = {"no prompt": 4, "prompt ends in a space": 3, "prompt ends in a space, numbers": 2, "within a word": 3}
    made += [awkward(rng, kind) for kind, count in kinds.items() for _ in range(several(1, count))]
    rng.shuffle(made)
    return made


def by_lm_eval(model: Any, asked: list[Question]) -> list[Pair]:
    """`HFLM.loglikelihood` on the network that howsure holds, with the tokens that it really ran."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    ran: list[Any] = []

    class Watched(HFLM):
        def _loglikelihood_tokens(self, requests: Any, **options: Any) -> Any:
            ran.extend(requests)
            return super()._loglikelihood_tokens(requests, **options)

    harness = Watched(
        pretrained=model.network,
        tokenizer=model.encoder.tokenizer,
        batch_size=16,
        device="cpu",
        prefix_token_id=model.encoder.start_token,
    )
    texts = [(question.prompt, choice) for question in asked for choice in question.choices]
    found = harness.loglikelihood([Instance("loglikelihood", {}, text, 0) for text in texts], disable_tqdm=True)
    assert [text for text, _, _ in ran] == texts
    rows = zip(ran, found, strict=True)
    return [Pair(tuple(context), tuple(choice), nats) for (_, context, choice), (nats, _) in rows]


def by_howsure(model: Any, asked: list[Question]) -> list[Pair]:
    pairs = []
    found = model.score([ScoreItem(question.prompt, question.choices) for question in asked])
    for question, row in zip(asked, found, strict=True):
        encoded = model.encoder.encode(question.prompt, question.choices)
        for suffix, evidence in zip(encoded.suffixes, row, strict=True):
            pairs.append(Pair(encoded.context, suffix, float(evidence.logprobs.sum())))
    return pairs


def why(model: Any, question: Question, text: str, ours: Pair, theirs: Pair) -> str:
    """What about the tokens differs; a difference that nothing explains fails the test."""
    whole = tuple(model.encoder.tokenizer(text)["input_ids"])
    assert (*ours.context, *ours.choice) == whole, "ours are always the tokens of the whole text"
    if (*theirs.context, *theirs.choice) != whole:
        alone = tuple(model.encoder.tokenizer(question.prompt.rstrip())["input_ids"])
        assert theirs.context == alone != whole[: len(alone)]
        return "context tokenised by itself ends in other tokens than within the text"
    assert len(ours.context) != len(theirs.context)
    if question.prompt != question.prompt.rstrip() and len(theirs.context) < len(ours.context):
        return "space at the end of the prompt moved to the choice"
    assert len(theirs.context) > len(ours.context), "a token across the boundary is scored for all choices alike"
    return "token across the boundary in a sister choice"


@pytest.fixture(scope="module")
def both(smollm2) -> tuple[list[Question], list[Pair], list[Pair]]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
            patch.setenv(name, "1")
        pytest.importorskip("lm_eval.models.huggingface", reason="lm-eval is not installed", exc_type=ImportError)
        asked = questions()
        return asked, by_howsure(smollm2, asked), by_lm_eval(smollm2, asked)


def test_the_questions_are_varied(both) -> None:
    asked, ours, _ = both
    assert len(asked) == QUESTIONS
    assert len(ours) == QUESTIONS * CHOICES
    assert {len(pair.choice) for pair in ours} >= set(range(1, several(8, 13)))
    assert max(len(pair.context) for pair in ours) > several(5, 30)
    assert len({question.prompt for question in asked if question.prompt}) > 0.9 * QUESTIONS


def test_log_likelihoods_are_equal_wherever_the_tokens_are(both, record_property) -> None:
    _, ours, theirs = both
    same = [(a, b) for a, b in zip(ours, theirs, strict=True) if a[:2] == b[:2]]
    gaps = [abs(a.nats - b.nats) for a, b in same]
    record_property("pairs with the same tokens", len(same))
    record_property("largest gap, nats", max(gaps))
    print(f"{len(same)} of {len(ours)} pairs have the same tokens; largest gap {max(gaps):.1e} nats")
    assert len(same) > 0.8 * len(ours)
    assert max(gaps) < TOLERANCE_NATS


def test_every_other_pair_differs_in_tokens_for_a_known_reason(both, smollm2) -> None:
    asked, ours, theirs = both
    texts = [(question, choice) for question in asked for choice in question.choices]
    reasons: Counter[str] = Counter()
    for (question, choice), a, b in zip(texts, ours, theirs, strict=True):
        if a[:2] != b[:2]:
            reasons[why(smollm2, question, question.prompt + choice, a, b)] += 1
    print(dict(reasons))
    assert len(reasons) == 3, f"each kind of difference is met: {dict(reasons)}"
