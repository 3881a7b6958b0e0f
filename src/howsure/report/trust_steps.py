"""A step of trust: the three answers side by side, what T makes of them, its page, and the replay of all steps."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from itertools import chain
from typing import Literal, NamedTuple

import htpy as h
import msgspec
from htpy import Element, Node

from howsure.evidence import TokenLogprobs
from howsure.measures import LEAST_GAIN_BITS
from howsure.measures.trust import DENOMINATOR_FLOOR
from howsure.report.charts import px
from howsure.report.document import Block, Cell, Document, Facts, Head, Html, Marked, On, Prose, Quoted, Section, Table
from howsure.report.html import blocks, number, words
from howsure.report.pictures import mark_of
from howsure.report.run_data import LARGEST_PICTURE_BYTES, Embedded, RunData, StoredRun, picture_within
from howsure.report.text import counted, quoted, shortened
from howsure.report.tokens import legend, percent, shaded, shades_of
from howsure.report.views import as_written
from howsure.runs import Sample
from howsure.runs.reading import read_file
from howsure.studies.trust.ratio import SAME_WITHOUT_GROUNDING, SAME_WITHOUT_INSTRUCTION, why_no_share
from howsure.studies.trust.record import AnswerEvidence, ConditionRecord, TrustEvidence, TrustRecord

MOST_STEPS = 100
"""In one replay: so many different frames of 500 pixels are some three megabytes."""
BAR_PX = 60.0
SMALL_BITS = 0.001
"""Differences below this are written with their power of ten."""
SHOWN_TOKENS = 4
_PNG = b"\x89PNG\r\n\x1a\n"

MEANING = (
    "X is the action that the model will take. At every step it is asked three times: told neither (X); told S, what "
    "is known about the place (X|S); told L, the instruction, too (X|L,S). The entropy H says how open the action "
    "was: 0 bits is certain, 1 bit is a coin flip, 2 bits is a blind guess among four."
)
EVIDENCE = {
    "scored": "Probabilities are exact, among the allowed actions, and H is their entropy.",
    "logprobs": "The model wrote its action. H is the entropy at the action's first token; the probabilities are that "
    "token's alternatives, taken for the actions that they could become. What fits none, or was not listed, is "
    "“other”, so that 0 % means: not among those that were listed.",
    "verbalized": "The model wrote down how likely each direction is for its next three steps. Shown is the first of "
    "the three; H weighs the entropies of the three by 0.5, 0.3 and 0.2.",
}


class Given(NamedTuple):
    """One of the three ways to ask: its name, its column, the name of its entropy, and what the model is told."""

    name: str
    column: str
    entropy: str
    told: str
    series: int


GIVEN = (
    Given("X", "h_x", "H(X)", "told neither", 0),
    Given("X|S", "h_x_given_s", "H(X|S)", "told what is known", 1),
    Given("X|L,S", "h_x_given_ls", "H(X|L,S)", "told the instruction too", 2),
)


def answers(step: TrustRecord) -> list[tuple[Given, ConditionRecord]]:
    return list(zip(GIVEN, step.conditions.answers(), strict=True))


# -- in words ---------------------------------------------------------------------------------------------------------


def plain(reason: str | None) -> str:
    """A reason as words: `too_long` is too long."""
    return "not said why" if reason is None else words(reason.replace("_", " "))


def step_name(step: TrustRecord) -> str:
    return f"Episode {step.episode}, step {step.step}"


def place(step: TrustRecord) -> str:
    at = f"({number(step.agent_x, 0)}, {number(step.agent_y, 0)})"
    carrying = f", carrying {words(step.carrying, 60)}" if step.carrying else ""
    return f"the robot at {at}, facing {words(step.agent_dir, 20)}{carrying}"


def done(step: TrustRecord) -> str:
    """What was done, how sure the model was of it, and what came of it."""
    if step.action is None:
        acting = step.conditions.x_given_ls
        return f"none ({plain(acting.action_missing or acting.entropy_missing)}), so nothing happened"
    share = step.action_probability
    sure = "probability not known" if share is None else percent(share)
    return f"{words(step.action, 30)} ({sure}). {words(step.effect or '', 400)}"


def best(step: TrustRecord) -> str:
    """The actions that lie on a shortest path, or why they are not known."""
    if step.best_actions is None:
        return f"not known: {plain(step.path_missing)}"
    away = step.shortest_distance
    distance = "" if away is None else f"; the goal is {counted(away, 'action')} away"
    return f"{words(' or '.join(step.best_actions) or 'none leads there')}{distance}"


def verdict(step: TrustRecord) -> Marked:
    if step.on_shortest_path is None:
        return Marked("not judged")
    return Marked("yes", "good") if step.on_shortest_path else Marked("no", "bad")


def missing_words(step: TrustRecord) -> str | None:
    """`H(X|S): too long`, for all that is not there; None where nothing is missing."""
    lacking = [f"{given.entropy}: {plain(one.entropy_missing)}" for given, one in answers(step) if _lacks(one)]
    if not lacking and (why := why_no_share(step)) is not None:
        lacking.append(f"T: {why}")
    return "; ".join(lacking) or None


def _lacks(one: ConditionRecord) -> bool:
    return one.entropy_bits is None


def worked_out(step: TrustRecord) -> str:
    """T of the step with its numbers put in and what it means, or why there is none."""
    none, known, told = (one.entropy_bits for _, one in answers(step))
    if none is None or known is None or told is None:
        return f"T is missing, since it takes all three entropies. {missing_words(step)}."
    by_known, by_all = none - known, none - told
    put_in = f"T = (H(X) − H(X|S)) / (H(X) − H(X|L,S)) = ({none:.4f} − {known:.4f}) / ({none:.4f} − {told:.4f})"
    if abs(by_all) < DENOMINATOR_FLOOR:
        return f"{put_in}, which divides by zero: there is nothing that knowledge could be a part of."
    if (why := why_no_share(step)) in (SAME_WITHOUT_GROUNDING, SAME_WITHOUT_INSTRUCTION):
        return f"{put_in}: {why}, so T says nothing."
    put_in += f" = {_bits(by_known)} / {_bits(by_all)}"
    if by_all < 0:
        return f"{put_in}: told everything it was less sure, so there is no gain that T could be a share of."
    if by_all < LEAST_GAIN_BITS:
        return f"{put_in}: less than {LEAST_GAIN_BITS} bits, too little for T to be a share of it."
    put_in += f" = {number(by_known / by_all, 4).replace('-', '−')}"
    if by_known <= -DENOMINATOR_FLOOR:
        return f"{put_in}: below 0, since knowledge alone made it less sure."
    if by_known - by_all >= DENOMINATOR_FLOOR:
        return f"{put_in}: above 1, since knowledge alone made it surer than both together."
    return f"{put_in}, the share of all that was gained which came from knowledge alone."


def in_words(by_known: str, by_all: str) -> str:
    """What the two differences, `changed` into words, say to somebody who sees them for the first time."""
    return (
        f"Told what is known about the place, the model became {by_known}; told the instruction too, {by_all}, both "
        "against being told neither."
    )


def changed(bits: float, shown: str | None = None) -> str:
    """`surer by 0.250 bits`: a positive difference is uncertainty taken away; `shown` in place of four digits."""
    if abs(bits) < DENOMINATOR_FLOOR:
        return "neither surer nor less sure"
    return f"{'surer' if bits > 0 else 'less sure'} by {shown or f'{_bits(abs(bits))} bits'}"


def _bits(bits: float) -> str:
    """With a true minus sign, and enough digits that a small difference is not zero."""
    shown = f"{abs(bits):.4f}" if abs(bits) >= SMALL_BITS or bits == 0 else f"{abs(bits):.2g}"
    return f"−{shown}" if bits < 0 else shown


# -- how likely each action was ---------------------------------------------------------------------------------------


def spread(
    step: TrustRecord,
    on: On = "page",
    *,
    only: Sequence[Given] = GIVEN,
    head: str = "probability",
    more: Sequence[Sequence[Cell]] = (),
) -> Table:
    """Every action in each of the three conditions, or in one under the heading `head`, and last what is no allowed
    action, where the evidence leaves room for that; below them how open the choice was."""
    conditions = [step.conditions.answers()[one.series] for one in only]
    shares = [one.probabilities or {} for one in conditions]
    listed: dict[Cell, list[float | None]] = {
        _marked(action, step): [each.get(action) for each in shares] for action in dict.fromkeys(chain(*shares))
    }
    if any(one.other for one in conditions):
        listed["other"] = [one.other for one in conditions]
    shown = _bar if on == "page" else lambda share, series: percent(share)
    rows: list[Sequence[Cell]] = [
        [name, *(shown(share, given.series) for share, given in zip(values, only, strict=True))]
        for name, values in listed.items()
    ]
    entropies = [Marked(_entropy(one), "doubt" if _lacks(one) else "strong") for one in conditions]
    names = [head] if len(only) == 1 else [f"{one.name}: {one.told}" for one in only]
    heads = [Head(name, numeric=on == "terminal", short=one.name) for name, one in zip(names, only, strict=True)]
    return Table([Head("action"), *heads], [*rows, *more, ["entropy", *entropies]], on=on)


def _marked(action: str, step: TrustRecord) -> Marked | str:
    """What was done, and what would have been best; said in words, not in colours alone."""
    taken, is_best = action == step.action, action in (step.best_actions or ())
    told = ", ".join(word for word, holds in (("taken", taken), ("best", is_best)) if holds)
    kind: Literal["bad", "good", "strong"] = "good" if is_best else "strong"
    if taken and step.on_shortest_path is False:
        kind = "bad"
    return Marked(f"{action}: {told}", kind) if told else action


def _bar(share: float | None, series: int) -> Cell:
    """A probability as a short bar and in figures."""
    if share is None:
        return None
    width = px(min(max(share, 0.0), 1.0) * BAR_PX)
    return h.span(class_="num")[
        h.svg({"viewBox": f"0 0 {px(BAR_PX)} 10", "aria-hidden": "true"}, class_="share")[
            h.rect(class_="room", x="0", y="0", width=px(BAR_PX), height="10"),
            h.rect(class_=f"bar s{series}", x="0", y="0", width=width, height="10"),
        ],
        percent(share),
    ]


def _entropy(one: ConditionRecord) -> str:
    return f"missing: {plain(one.entropy_missing)}" if _lacks(one) else number(one.entropy_bits, 4, "bits")


def _tokens(answer: AnswerEvidence | None) -> str | None:
    """`«up» at 7`: the tokens that spell the action, and which the first of them is."""
    read = None if answer is None else answer.action
    if read is None or not read.tokens:
        return None
    shown = " ".join(quoted(token) for token in read.tokens[:SHOWN_TOKENS])
    return f"{shown}{' …' if len(read.tokens) > SHOWN_TOKENS else ''} at {read.first}"


# -- the page of a step, and a step in a terminal ---------------------------------------------------------------------


def about(sample: Sample[TrustRecord], run: StoredRun) -> list[Section]:
    step, options, evidence = sample.result, run.run.manifest.identity.options, evidence_of(sample)
    seen = _beside(sample, run, blocks([Facts(_happened(step))]))
    known_by = EVIDENCE.get(str(options.get("evidence")), "")
    return [
        Section("What happened", [Html(seen)], f"Step {step.step} of episode {step.episode}, before and after acting."),
        Section("How sure it was", _how_sure(sample, evidence), f"{MEANING} {known_by}"),
        _known(step),
        _asked(evidence, options.get("view")),
        _answered(step, evidence),
        as_written(sample),
    ]


def step_document(sample: Sample[TrustRecord]) -> Document:
    """A step as it is shown while a run is under way."""
    evidence = evidence_of(sample)
    wrote = [
        (f"{given.name} wrote", shortened(answer.text, 300))
        for (given, one), answer in zip(answers(sample.result), _given(evidence), strict=True)
        if answer is not None and answer.text and one.entropy_bits is None
    ]
    shown = [Facts(_happened(sample.result)), *_how_sure(sample, evidence), Facts(wrote)]
    return Document("", sections=[Section(step_name(sample.result), shown)])


def evidence_of(sample: Sample[TrustRecord]) -> TrustEvidence:
    return msgspec.convert(sample.evidence, TrustEvidence)


def _given(evidence: TrustEvidence) -> list[AnswerEvidence | None]:
    """By condition what the evidence has."""
    found = evidence.answers
    return [None] * 3 if found is None else [found.x, found.x_given_s, found.x_given_ls]


def _happened(step: TrustRecord) -> list[tuple[str, Cell]]:
    return [
        ("instruction", words(step.instruction or "none is given", 2_000)),
        ("place", place(step)),
        ("action", done(step)),
        ("on a shortest path", verdict(step)),
        ("best actions", best(step)),
        ("reward", step.reward),
        ("goal reached", step.reached),
        ("asked before", _asked_before(step)),
    ]


def _asked_before(step: TrustRecord) -> str | None:
    first, episode = step.first_asked, step.first_episode
    if first is None:
        return None
    if first != step.step:
        return f"yes, word for word at step {first}, so this step tells nothing new"
    if episode is not None and episode != step.episode:
        return f"yes, episode {episode} went the same way up to here, so this step tells nothing new"
    return "no, this question is new in its episode"


def _how_sure(sample: Sample[TrustRecord], evidence: TrustEvidence) -> list[Block]:
    step = sample.result
    incomplete = f"This step is incomplete: {sample.detail or plain(sample.reason)}"
    shown: list[Block] = [Prose(incomplete, "warning")] if sample.failed else []
    tokens = [_tokens(one) for one in _given(evidence)]
    actions = [one.action or f"none: {plain(one.action_missing)}" for one in step.conditions.answers()]
    more: list[list[Cell]] = [["its action", *actions]]
    more += [["its tokens", *tokens]] if any(tokens) else []
    shown += [spread(step), spread(step, on="terminal", more=more), Prose(worked_out(step))]
    none, known, told = (one.entropy_bits for _, one in answers(step))
    if none is not None and known is not None and told is not None:
        shown.append(Prose(in_words(changed(none - known), changed(none - told)), on="page"))
    return shown


def _known(step: TrustRecord) -> Section:
    count = step.knowledge_count
    lead = (
        "Nothing was known about the place, so X and X|S are the same question."
        if count == 0
        else f"Sentences that were known about the place: {count}; the prompts of X|S and X|L,S have them."
    )
    rows = [
        (one.sentence, one.source, "kept" if one.refused is None else f"not kept: {plain(one.refused)}")
        for one in step.learned
    ]
    said: list[tuple[str, Cell]] = [
        ("a person said", step.told.feedback),
        ("a new instruction", step.told.instruction),
        ("left out, since it holds the instruction", "; ".join(step.left_out) or None),
        ("the model noted for itself", step.notes),
    ]
    learned = [Table(["learned at this step", "from", ""], rows)] if rows else []
    return Section("What was known", [Facts(said), *learned], lead)


def _asked(evidence: TrustEvidence, view: object) -> Section:
    kept = evidence.prompts
    prompts = [None] * 3 if kept is None else [kept.x, kept.x_given_s, kept.x_given_ls]
    shown = [
        h.details(open=given is GIVEN[-1])[
            h.summary[f"{given.name}: {given.told}{_same(given, prompts)}"],
            h.div(class_="mono")[
                [[h.p(class_="quiet")[words(role, 40)], blocks([Quoted(text, fold=False)])] for role, text in prompt]
            ],
        ]
        for given, prompt in zip(GIVEN, prompts, strict=True)
        if prompt is not None
    ]
    picture = " The picture above went with it." if view in ("image", "both") else ""
    lead = f"The same question three times, but for knowledge and instruction.{picture}"
    return Section("What it was asked", [Html(shown) if shown else Prose("The prompts were not kept.", "quiet")], lead)


def _same(given: Given, prompts: Sequence[list[list[str]] | None]) -> str:
    own = prompts[given.series]
    same = next((one.name for one in GIVEN if one is not given and prompts[one.series] == own), None)
    return f", word for word the same as {same}" if same else ""


# -- what it answered -------------------------------------------------------------------------------------------------


def _answered(step: TrustRecord, evidence: TrustEvidence) -> Section:
    title, found = "What it answered", _given(evidence)
    likelihoods = [{} if one is None or one.log_likelihoods is None else one.log_likelihoods for one in found]
    if any(likelihoods):
        rows: list[Sequence[Cell]] = [
            (action, *(each.get(action) for each in likelihoods)) for action in dict.fromkeys(chain(*likelihoods))
        ]
        mass = [percent(one.allowed_mass) for one in step.conditions.answers()]
        rows.append(("all together, as probability", *mass))
        heads = [Head(given.name, numeric=True) for given in GIVEN]
        lead = (
            "Nothing was written: each action was read as the answer. The log-likelihoods, in nats; a difference of "
            "2.3 is ten times likelier."
        )
        return Section(title, [Table(["action", *heads], rows)], lead)
    shown = [
        _written(given, answer, one)
        for (given, one), answer in zip(answers(step), found, strict=True)
        if answer is not None
    ]
    if not shown:
        return Section(title, [Prose("There is no answer.", "quiet")])
    has_tokens = any(answer is not None and answer.logprobs is not None for answer in found)
    lead = "Darker tokens surprised the model more; point at one, or walk along with the arrow keys, for more."
    return Section(title, [Html([legend() if has_tokens else None, shown])], lead if has_tokens else "")


def _written(given: Given, answer: AnswerEvidence, condition: ConditionRecord) -> Element:
    """One answer that was generated: its tokens where they are known, and otherwise its text."""
    text: list[Block] = []
    if answer.failure is not None:
        text.append(Prose(f"There is no answer: {answer.failure}", "warning"))
    if answer.logprobs is not None:
        tokens = TokenLogprobs.from_dict(msgspec.to_builtins(answer.logprobs))
        text.append(Html(shaded(shades_of(tokens), f"The answer in {given.name}")))
    elif answer.text is not None:
        text.append(Quoted(answer.text))
    return h.section[
        h.h3[f"{given.name}: {given.told}"],
        blocks([*text, Facts(_reading(answer, condition)), *_three_steps(condition)]),
    ]


def _reading(answer: AnswerEvidence, one: ConditionRecord) -> list[tuple[str, Cell]]:
    """What was made of the answer."""
    read = answer.action
    bounds = None if one.low_bits is None else f"at least {number(one.low_bits, 4)}, "
    if bounds is not None:
        bounds += "no upper bound known" if one.high_bits is None else f"at most {number(one.high_bits, 4)} bits"
    return [
        ("action", f"none: {plain(one.action_missing)}" if one.action is None else words(one.action)),
        ("written as", None if read is None else read.said),
        ("its tokens", _tokens(answer)),
        ("entropy", _entropy(one)),
        ("entropy, bounds", bounds),
        ("entropy of the actions", _if_known(one.action_entropy_bits)),
        ("entropy at the token that decides", _if_known(one.decision_bits)),
        ("can be carried out", None if one.executability is None else percent(one.executability)),
        ("asked again", f"{counted(one.retries, 'time')}, for JSON" if one.retries else None),
        ("ended by", answer.finish_reason),
    ]


def _if_known(bits: float | None) -> str | None:
    return None if bits is None else number(bits, 4, "bits")


def _three_steps(one: ConditionRecord) -> list[Table]:
    """The probabilities that the model wrote down for its next three steps."""
    if one.retries is None:  # which answers of this kind alone count
        return []
    written = [
        (one.step1_probabilities or {}, one.step1_bits, one.step1_sum),
        (one.step2_probabilities or {}, one.step2_bits, one.step2_sum),
        (one.step3_probabilities or {}, one.step3_bits, one.step3_sum),
    ]
    labels = list(dict.fromkeys(chain(*(shares for shares, *_ in written))))
    rows: list[Sequence[Cell]] = [
        (f"step {place}", *(percent(shares.get(label)) for label in labels), *figures)
        for place, (shares, *figures) in enumerate(written, 1)
    ]
    heads = [Head(name, numeric=True) for name in (*map(words, labels), "entropy, bits", "sum as written")]
    return [Table(["", *heads], rows)]


# -- frames and replay ------------------------------------------------------------------------------------------------


def frame(name: str, alt: str, run: RunData) -> Node:
    """What was seen at a step, by its name, or why it cannot be shown. A robot in front of a wall sees the same again
    and again: a page that stands alone holds it once, and later ones lead to the first."""
    file = f"frames/{name}.png"
    if picture_within(run.folder, file) is None:
        off = isinstance(run, StoredRun) and run.run.manifest.identity.options.get("frames") is False
        gone = f"The frame {words(file)} is not in the run folder."
        return h.p(class_="quiet")["No frames were kept in this run (--no-frames)." if off else gone]
    links = run.links
    if not isinstance(links, Embedded):
        return h.img(src=links.picture(file), alt=words(alt), class_="frame", loading="lazy")
    content = read_file(run.folder, file, LARGEST_PICTURE_BYTES)
    own = f"frame-{mark_of(run)}-{hashlib.sha256(content).hexdigest()[:16]}"
    source = None if own in links.drawn else links.picture(file)
    if source is None and own not in links.drawn:
        why = f"There is no room for more pictures in this file; the run folder has it as {words(file)}."
        return h.p(class_="quiet")[why]
    size = _png_size(content)
    if size is None:
        return h.img(src=source, alt=words(alt), class_="frame", loading="lazy")
    width, height = map(str, size)
    inside = h.use(href=f"#{own}") if source is None else h.image(id=own, href=source, width=width, height=height)
    links.drawn.add(own)
    box = {"viewBox": f"0 0 {width} {height}", "aria-label": words(alt)}
    return h.svg(box, class_="picture frame", role="img", width=width, height=height)[inside]


def _png_size(content: bytes) -> tuple[int, int] | None:
    if not content.startswith(_PNG) or len(content) < 24:
        return None
    width, height = struct.unpack(">II", content[16:24])
    return (width, height) if 0 < width <= 20_000 and 0 < height <= 20_000 else None


def replay(run: StoredRun) -> Section:
    """The episodes step by step, what was seen beside what was likely."""
    table, order = run.table, run.table.in_order().tolist()
    pages: list[Node] = []
    for row, following in zip(order[:MOST_STEPS], [*order[1:], None], strict=False):
        sample = run.sample(row)
        pages.append(_replayed(sample, run, run.links.sample(table.keys[row])))
        last = following is None or table.values("episode")[following] != table.values("episode")[row]
        end = f"{sample.id.partition('-')[0]}-end"
        if last and picture_within(run.folder, f"frames/{end}.png") is not None:
            step = sample.result
            told = f"After step {step.step}: the goal was {'' if step.reached else 'not '}reached."
            seen = frame(end, f"The world at the end. {told}", run)
            pages.append(h.div[h.h3[f"Episode {step.episode}, the end"], h.div(class_="beside")[seen, h.p[told]]])
    if not pages:
        return Section("Replay", [Prose("No step was taken yet.", "quiet")], anchor="steps")
    evidence = EVIDENCE.get(str(run.run.manifest.identity.options.get("evidence")), "")
    lead = (
        "What the model saw before each step, and how likely each action was in the three conditions. The action is "
        f"taken as in X|L,S, told everything. {evidence} Buttons, the slider, or the arrow keys go from step to step."
    )
    if len(order) > MOST_STEPS:
        lead += f" The first {MOST_STEPS:,} of {len(order):,} steps are here; samples.jsonl has all."
    return Section("Replay", [Html(_stepper(f"replay-{mark_of(run)}", pages))], lead, "steps")


def _replayed(sample: Sample[TrustRecord], run: StoredRun, address: str | None) -> Element:
    step, name = sample.result, step_name(sample.result)
    shown = blocks([Facts(_happened(step)), spread(step), Prose(worked_out(step), "quiet")])
    return h.div[h.h3[h.a(href=address)[name] if address else name], _beside(sample, run, shown)]


def _beside(sample: Sample[TrustRecord], run: RunData, shown: Node, small: str = "") -> Element:
    seen = frame(sample.id, f"The world from above: {place(sample.result)}.", run)
    return h.div(class_=f"beside {small}".strip())[seen, h.div[shown]]


def card(sample: Sample[TrustRecord], run: RunData) -> Element:
    """What was seen at a step, and how likely each action was to the one that acted."""
    instruction, _, action, _, best_actions, *_ = _happened(sample.result)
    told = Facts([instruction, action, best_actions])
    return _beside(sample, run, blocks([told, spread(sample.result, only=GIVEN[-1:])]), "small")


_BUTTONS = (("first", "first"), ("previous", "◀ previous"), ("next", "next ▶"), ("last", "last"), ("play", "play"))


def _stepper(name: str, steps: Sequence[Node]) -> Element:
    """Steps of which one is seen at a time, with buttons, a slider and arrow keys; without its script
    (assets/howsure.js), and on paper, one below the other. `name` is their part of the address (`#name=3`)."""
    return h.div(class_="stepper", id=name, role="group", aria_label="Replay")[
        h.div(class_="controls", hidden=True)[
            [h.button({"type": "button", "data-do": what})[words] for what, words in _BUTTONS],
            h.input(type="range", min="0", max=str(max(len(steps) - 1, 0)), value="0", aria_label="Replay: step"),
            h.span(class_="place", aria_live="polite"),
        ],
        [h.div(class_="step")[step] for step in steps],
    ]
