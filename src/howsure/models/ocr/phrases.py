"""What an instruction asks for: the thing to click, what it is called, and what is said about where it is.

An instruction is a few clauses ("Look at the top of the screen and find the word …; click it"), each a verb and its
object. The object begins with the thing itself and goes on with where it is: `"+" button / next to "Above" / in the
"Spacing" tab / of the window`. Quoted words in the first part are the thing's name, quoted words in the others are
anchors: things that stand near it. What the click is for ("… to underline text") is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from howsure.models.ocr import grammar, vocabulary
from howsure.models.ocr.grammar import Segment, segments_of
from howsure.models.ocr.wishes import Anchor, Name, Place, Wish

LONGEST_INSTRUCTION = 4000
MOST_QUOTES = 64
_FIRST_QUOTE = 0xE000


class Reader:
    """Reads one instruction; quoted words stand in it as single characters, so that no rule looks into them."""

    def __init__(self, instruction: str) -> None:
        self.quotes: list[str] = []
        self.plain = grammar.QUOTED.sub(self._keep, _cleaned(instruction))

    def _keep(self, match: re.Match[str]) -> str:
        words = next((group for group in match.groups() if group is not None), "").strip()
        if not words or len(self.quotes) >= MOST_QUOTES:
            return f" {words} "
        self.quotes.append(words.rstrip(",") if len(words) > 1 else words)
        return chr(_FIRST_QUOTE + len(self.quotes) - 1)

    def wishes(self) -> list[Wish]:
        """What is asked for, the likeliest reading first; an aside in brackets may say it better than the sentence."""
        asides = [grammar.WHICH_IS.sub("", match[1]) for match in grammar.ASIDE.finditer(self.plain)]
        main = self._wish(grammar.ASIDE.sub(" ", self.plain))
        wishes = [main] if main is not None else []
        for wish in filter(None, map(self._wish, asides)):
            if main is None or not (main.names or main.sign):
                wishes.append(wish._replace(weight=0.95))
            elif wish.names and wish.anchors:
                wishes.append(wish._replace(weight=0.95, place=wish.place.over(main.place)))
            else:
                wishes[0] = _refined(wishes[0], wish)
        return wishes

    def _wish(self, text: str) -> Wish | None:
        """The object of the last clause that names one; clauses before it say where to look."""
        clauses = [self._clause(clause) for clause in grammar.CLAUSE_END.split(text) if clause and clause.strip(" .,")]
        target: Wish | None = None
        around: list[Wish] = []
        for wish, acts in clauses:
            if (acts and (wish.names or wish.kind or wish.anchors)) or (target is None and wish.names):
                if target is not None:
                    if not (wish.names or wish.sign) and target.names:  # "find the word …, click this word"
                        continue
                    around.append(target)
                target = wish
            else:
                around.append(wish)
        if target is None:
            return around[-1] if around else None
        for other in around:
            extra = tuple(Anchor("inside", other.names) for _ in other.names[:1])
            target = target._replace(
                place=target.place.over(other.place), anchors=target.anchors + other.anchors + extra
            )
        return target

    def _clause(self, clause: str) -> tuple[Wish, bool]:
        opening = grammar.OPENING.match(clause)
        said = clause[opening.end() :] if opening else clause
        verb = opening.group("verb").lower() if opening else None
        kept = grammar.PURPOSE.sub("", said)
        said = kept if kept.strip() else said
        if verb in grammar.TYPING and (
            into := grammar.INTO.search(said)
        ):  # what is typed stands before, what is clicked after it
            return self._object(said[into.end() :], None), True
        if verb in grammar.STEPS or verb in grammar.FRAME_VERBS:
            meant = self._by_verb(verb, self._object(said, None), said)
            if meant is not None:
                return meant, True
        if opening and verb in ("look", "see"):
            return self._object("at " + said, None)._replace(kind=None), False
        return self._object(said, clause if verb in vocabulary.LABEL_VERBS else None), opening is not None

    def _by_verb(self, verb: str, wish: Wish, said: str) -> Wish | None:
        """What a verb alone says of the thing to click: closing a window means its cross, increasing a value a plus."""
        named = wish.names if _has_quote(wish.names) or not wish.anchors else ()
        around = (Anchor("for", named), *wish.anchors) if named else wish.anchors
        if verb in grammar.STEPS:
            return (
                Wish(sign=grammar.STEPS[verb], anchors=tuple(a._replace(relation="for") for a in around))
                if around
                else None
            )
        if not _mentions(said, (*vocabulary.WIDE, *vocabulary.POPUPS, "tab", "panel", "sidebar")):
            return None
        button = grammar.FRAME_VERBS[verb]
        if _mentions(said, ("tab",)):
            return (
                Wish(kind="icon", sign="cross", anchors=(Anchor("right_of", named), *wish.anchors)) if named else None
            )
        relation = "right_end"
        anchors = (Anchor(relation, named), *wish.anchors) if named else wish.anchors
        return Wish(
            sign="cross" if button == "close" else None, anchors=anchors, place=wish.place, window_button=button
        )

    # -- an object and what is said about it --------------------------------------------------------------------

    def _object(self, text: str, whole: str | None) -> Wish:
        segments = list(segments_of(text))
        head = segments[0]
        names = self._names(head.text)
        wish = Wish(
            names=names,
            kind=_kind(head.text),
            sign=self._sign(head.text),
            colour=_colour(head.text),
            place=_place(head.text, strips=False),
            edge=_edge(head.text),
        )
        for group in _grouped(segments[1:]):
            wish = self._extended(wish, group)
        if not names and not wish.names and whole is not None and not wish.anchors:
            wish = wish._replace(names=self._names(whole, loose=True))
        elif whole is not None and wish.kind not in vocabulary.TEXTLESS and not any(map(_is_quote, head.text)):
            spoken = _bare(self._spelled(grammar.PURPOSE.sub("", whole)))
            wish = wish._replace(names=(*wish.names, Name(spoken, 0.9)) if spoken else wish.names)
        button = _window_button(self._spelled(head.text), wish)
        if button is not None:  # it stands at the right end of the line that holds a dialog's title
            anchors = tuple(
                a._replace(relation="right_end") if a.popup and a.relation == "inside" else a for a in wish.anchors
            )
            wish = wish._replace(anchors=anchors)
        return wish._replace(window_button=button)

    def _extended(self, wish: Wish, group: list[Segment]) -> Wish:
        """A wish with one more thing said about it; what is said about that thing in turn belongs to it."""
        first, rest = group[0], group[1:]
        names = self._names(first.text, loose=first.marker not in ("inside", "with", "located"))
        labels = [name for more in rest for name in self._names(more.text, loose=False)]
        wide = _mentions(first.text, vocabulary.WIDE)
        if first.marker == "label":
            own = self._names(first.text)
            return wish._replace(names=own + wish.names) if own and not _has_quote(wish.names) else wish
        if first.marker == "located":
            return wish._replace(place=_place(first.text).over(wish.place))
        if first.marker == "with":
            return self._described(wish, first)
        anchor_names = tuple(labels) or names
        popup = _mentions(first.text, vocabulary.POPUPS)
        if first.marker == "inside":
            if wish.edge is not None and anchor_names:
                return wish._replace(names=anchor_names)
            place = _place(first.lead + " " + first.text)
            anchors = (Anchor("inside", anchor_names, popup),) if anchor_names else ()
            return wish._replace(place=wish.place.over(place), anchors=wish.anchors + anchors)
        if not anchor_names or (wide and not labels and first.marker in ("left_of", "right_of", "corner")):
            place = _place(first.lead)
            anchors = (Anchor("inside", anchor_names, False),) if anchor_names else ()
            return wish._replace(place=place.over(wish.place), anchors=wish.anchors + anchors)
        if first.marker == "for" and not wish.names and wish.kind in (None, "button", "text"):
            return wish._replace(names=anchor_names)  # the button for something is called so
        relation = _corner_relation(first.lead) if first.marker == "corner" else first.marker
        if first.marker == "corner" and popup:
            relation = "inside"
        return wish._replace(anchors=(*wish.anchors, Anchor(relation, anchor_names, popup)))

    def _described(self, wish: Wish, said: Segment) -> Wish:
        """What is drawn on the thing; words in quotes there may be written on it."""
        quoted = tuple(name._replace(weight=0.7) for name in self._names(said.text) if name.weight == 1.0)
        sign = wish.sign or (self._sign(said.text) if not wish.names else None)
        return wish._replace(names=wish.names or quoted, sign=sign)

    def _names(self, text: str, loose: bool = True) -> tuple[Name, ...]:
        """What a stretch calls its thing: quoted words, else words with capitals, else what words are left."""
        quoted = tuple(Name(self.quotes[ord(c) - _FIRST_QUOTE]) for c in text if _is_quote(c))
        if quoted:
            return quoted
        runs = _capital_runs(text)
        rest = _bare(text)
        names = [Name(run, 0.9) for run in runs]
        if rest and loose and rest not in runs:
            names.append(Name(rest, 0.9 if runs and rest.startswith(runs[0]) else 0.75))
        return tuple(names)

    def _sign(self, text: str) -> str | None:
        """The drawn sign that a stretch speaks of: by itself in quotes, or in words."""
        quoted = [self.quotes[ord(c) - _FIRST_QUOTE].strip().lower() for c in text if _is_quote(c)]
        for sign, ways in vocabulary.SIGNS.items():
            if any(word in ways for word in quoted):
                return sign
        lowered = text.lower()
        for sign, ways in vocabulary.SIGNS.items():
            if any(
                re.search(rf"(?<!\w){re.escape(way)}(?!\w)", lowered) for way in ways if len(way) > 3 or way in "+×x"
            ):
                return sign
        return None

    def _spelled(self, text: str) -> str:
        return "".join(self.quotes[ord(c) - _FIRST_QUOTE] if _is_quote(c) else c for c in text)


def understand(instruction: str) -> list[Wish]:
    """What an instruction asks for; an empty list where it says nothing."""
    return Reader(instruction).wishes()


def _cleaned(instruction: str) -> str:
    kept = "".join(c for c in instruction[:LONGEST_INSTRUCTION] if not 0xD800 <= ord(c) <= 0xF8FF)
    return re.sub(r"[^\S\n]+", " ", kept).strip()


def _is_quote(character: str) -> bool:
    return _FIRST_QUOTE <= ord(character) < _FIRST_QUOTE + MOST_QUOTES


def _has_quote(names: tuple[Name, ...]) -> bool:
    return any(name.weight == 1.0 for name in names)


def _grouped(segments: list[Segment]) -> Iterator[list[Segment]]:
    """Labels go with the stretch that they label; descriptions swallow the places of what they describe."""
    group: list[Segment] = []
    for segment in segments:
        names_it = segment.marker == "label" or (segment.marker == "with" and any(_is_quote(c) for c in segment.text))
        own_label = names_it and group and group[0].marker not in ("label", "with")
        inner = group and group[0].marker == "with" and segment.marker in ("with", "inside", "corner", "label")
        if own_label or (inner and not _speaks_of_screen(segment.text)):
            group.append(segment)
            continue
        if group:
            yield group
        group = [segment]
    if group:
        yield group


def _speaks_of_screen(text: str) -> bool:
    words = (
        *vocabulary.WIDE,
        *vocabulary.STRIPS,
        *vocabulary.POPUPS,
        "sidebar",
        "panel",
        "section",
        "menu",
        "tab",
        "side",
    )
    return _mentions(text, words) or any(_is_quote(c) for c in text)


def _mentions(text: str, words: tuple[str, ...]) -> bool:
    lowered = text.lower()
    return any(re.search(rf"\b{re.escape(word)}s?\b", lowered) for word in words)


def _kind(text: str) -> str | None:
    """The sort of thing, by the last word for one: "the dropdown arrow of …" is an arrow."""
    lowered, best, at = text.lower(), None, (-1, 0)
    for kind, words in vocabulary.KINDS.items():
        for word in words:
            for match in re.finditer(rf"\b{re.escape(word)}s?\b", lowered):
                if (match.end(), len(word)) > at:
                    best, at = kind, (match.end(), len(word))
    return best


def _colour(text: str) -> str | None:
    words = re.findall(r"[a-z]+", text.lower())
    return next((word for word in words if word in vocabulary.COLOURS[:8]), None)


def _edge(text: str) -> str | None:
    lowered = text.lower()
    if re.search(r"\b(?:start|beginning|starting point)\b", lowered):
        return "start"
    return "end" if re.search(r"\b(?:end|ending point)\b", lowered) else None


def _refined(wish: Wish, aside: Wish) -> Wish:
    """A wish with what an aside adds: a sign, a colour, the words of a line one end of which is meant."""
    if wish.edge is not None and aside.names and not _has_quote(wish.names):
        wish = wish._replace(names=aside.names)
    return wish._replace(sign=wish.sign or aside.sign, colour=wish.colour or aside.colour)


def _place(text: str, strips: bool = True) -> Place:
    words = re.findall(r"[a-z]+", text.lower())
    across = next((grammar.ACROSS[word] for word in words if word in grammar.ACROSS), None)
    down = next((grammar.DOWN[word] for word in words if word in grammar.DOWN), None)
    if any(word in grammar.MIDDLE for word in words):
        across = 0.5 if across is None else across
        down = 0.5 if down is None else down
    place = Place(across, down)
    for strip, spoken_of in vocabulary.STRIPS.items() if strips else ():
        if re.search(rf"\b{strip}\b", text.lower()) and (place.across is None or place.down is not None):
            place = place.over(Place(*spoken_of))
    return place


def _corner_relation(lead: str) -> str:
    words = set(re.findall(r"[a-z]+", lead.lower()))
    return "left_end" if "left" in words else "right_end" if "right" in words else "inside"


def _window_button(spelled: str, wish: Wish) -> str | None:
    words = set(re.findall(r"[a-z×✕]+", spelled.lower()))
    for button, ways in (
        ("close", {"close", "x", "×", "✕"}),
        ("maximise", {"maximise", "maximize", "restore"}),
        ("minimise", {"minimise", "minimize"}),
    ):
        if words & ways and wish.kind in (None, "button", "icon"):
            return button
    return None


def _capital_runs(text: str) -> list[str]:
    """Runs of words with capitals, as names are written."""
    runs = []
    for run in grammar.NAMED_RUN.findall(text):
        words = run.split()
        while words and (words[-1].lower() in vocabulary.FILLERS or words[-1].islower()):
            words.pop()
        while words and words[0].lower() in vocabulary.FILLERS:
            words.pop(0)
        if words and len("".join(words)) > 1:
            runs.append(" ".join(words))
    return runs


def _bare(text: str) -> str:
    """The words that are left when those are gone that only say what sort of thing it is."""
    words = [word for word in grammar.WORD.findall(text) if word.isalnum() or any(c.isalnum() for c in word)]
    kept = [word for word in words if word.lower() not in vocabulary.FILLERS]
    return " ".join(kept)
