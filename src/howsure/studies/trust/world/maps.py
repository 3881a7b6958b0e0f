"""Reading a map: a JSON file in which emoji are drawn in rows and defined one by one.

`{"map": {"emoji_render": rows, "emoji_objects": {char: definition}, "start_pos": [x, y], "goal_pos": [x, y]}}`

Rows are one text of lines, a list of texts, or a list of lists of cells. Blanks between cells are no cells, unless the
map defines the blank. A 🤖 cell is the start and a 🎯 cell the goal, before `start_pos` and `goal_pos`; the floor
under them is bare unless `emoji_objects` gives the mark itself the type `floor`. `can_pickup` and `can_overlap` speak
of emoji alone: bare cells and floors can always be entered, walls never. Keys that are not known are ignored.
Positions are counted from 0 in the file, and rows and columns from 1 in messages.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import unicodedata
from pathlib import Path
from typing import NamedTuple

import msgspec

from howsure.errors import InputError, MissingExtra
from howsure.storage import local, read_regular

RGB = tuple[int, int, int]
MINIGRID: dict[str, RGB] = {
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "purple": (112, 39, 195),
    "yellow": (255, 255, 0),
    "grey": (100, 100, 100),
}

ROBOT, GOAL = "🤖", "🎯"
TYPES = ("wall", "empty", "floor", "emoji", "door", "key", "ball", "box", "lava", "goal")
MOST_BYTES = 4 * 2**20
LONGEST_SIDE = 100
LONGEST_NAME = 40


Places = list[tuple[int, int]]


class _Object(msgspec.Struct, frozen=True):
    type: str
    color: str | None = None
    emoji_name: str | None = None
    can_pickup: bool | None = None
    can_overlap: bool | None = None
    use_emoji_color: bool | None = None
    is_open: bool | None = None
    is_locked: bool | None = None


class _Task(msgspec.Struct, frozen=True):
    fetch: str | None = None


class _Body(msgspec.Struct, frozen=True):
    emoji_render: str | list[str | list[str]]
    emoji_objects: dict[str, _Object]
    start_pos: tuple[int, int] | None = None
    goal_pos: tuple[int, int] | None = None
    instruction: str | None = None
    task: _Task | None = None


class _File(msgspec.Struct, frozen=True):
    map: _Body


class Kind(NamedTuple):
    """What stands in a cell, with nothing left open."""

    type: str
    name: str
    colour: str
    rgb: RGB
    char: str
    can_pickup: bool = False
    can_overlap: bool = False
    use_emoji_color: bool = True
    door_state: str = "closed"

    @property
    def can_enter(self) -> bool:
        return self.can_overlap or self.type in ("empty", "floor", "goal")


EMPTY = Kind("empty", "free", "black", (0, 0, 0), "", can_overlap=True)


class MapPlan(NamedTuple):
    """A map that passed every check."""

    name: str
    rows: tuple[tuple[Kind, ...], ...]
    start: tuple[int, int]
    goal: tuple[int, int] | None
    instruction: str | None
    fetch: str | None
    sha256: str

    @property
    def width(self) -> int:
        return len(self.rows[0])

    @property
    def height(self) -> int:
        return len(self.rows)


def read_map(path: str | os.PathLike[str], name: str | None = None) -> MapPlan:
    """Read and check a map's file; one sentence that names the file and the place where it cannot be used."""
    place = local(path)
    return _checked(_content(place), name or place.stem, str(place))


def parse_map(text: str, name: str) -> MapPlan:
    """A map from its text; messages call it by its name."""
    return _checked(text.encode("utf-8", "surrogatepass"), name, name)


def _checked(content: bytes, name: str, source: str) -> MapPlan:
    try:
        return _plan(_decode(content), name, hashlib.sha256(content).hexdigest())
    except InputError as error:
        raise InputError(f"map {source}: {error}") from None


# -- the file ------------------------------------------------------------------------------------------------


def _content(path: Path) -> bytes:
    try:
        return read_regular(path, MOST_BYTES, shell_pipes=True)
    except OSError as error:
        raise InputError(f"map {path} cannot be read: {error.strerror or error}") from error


def _decode(content: bytes) -> _Body:
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None
    try:
        return msgspec.json.decode(content, type=_File).map
    except msgspec.ValidationError as error:
        raise InputError(
            _bad_definition(content) or f'{_said(str(error))}; a map is {{"map": {{…}}}} as the docs show'
        ) from None
    except msgspec.DecodeError as error:
        raise InputError(f"{_json_place(text, str(error))}; mend the JSON") from None
    except RecursionError:
        raise InputError("its JSON is nested too deeply to be a map") from None


class _Definitions(msgspec.Struct, frozen=True):
    emoji_objects: dict[str, msgspec.Raw]


class _Loose(msgspec.Struct, frozen=True):
    map: _Definitions


def _bad_definition(content: bytes) -> str | None:
    """Which character is defined wrongly, and how: the decoder of the whole file does not say which it was."""
    try:
        definitions = msgspec.json.decode(content, type=_Loose).map.emoji_objects
    except (msgspec.DecodeError, RecursionError):
        return None
    for char, raw in definitions.items():
        try:
            msgspec.json.decode(raw, type=_Object)
        except msgspec.ValidationError as error:
            return f"the definition of {_shown(char)} in emoji_objects: {_said(str(error))}"
    return None


def _said(message: str) -> str:
    """The decoder's words, with a cell's place as all other messages name it."""
    what, _, place = message.partition(" - at ")
    where = place.strip("`").removeprefix("$").removeprefix(".")
    cell = re.fullmatch(r"map\.emoji_render\[(\d+)\](?:\[(\d+)\])?", where)
    if cell is not None and cell[2] is not None:
        where = f"{_at((int(cell[2]), int(cell[1])))} of emoji_render"
    elif cell is not None:
        where = f"row {int(cell[1]) + 1} (counted from 1) of emoji_render"
    return what.replace("`", "") + (f" at {where}" if where else "")


def _json_place(text: str, message: str) -> str:
    match = re.search(r"\(byte (\d+)\)", message)
    if match is None:
        return f"line {text.count(chr(10)) + 1}: {message}"
    before = text.encode()[: int(match[1])].decode(errors="ignore")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return f"line {line}, column {column}: {message.replace(match[0], '').strip()}"


# -- its content ---------------------------------------------------------------------------------------------


def _plan(body: _Body, name: str, sha256: str) -> MapPlan:
    kinds = {char: _kind(char, defined) for char, defined in body.emoji_objects.items()}
    drawn = _drawn(body.emoji_render, blank_is_cell=" " in kinds)
    rows, robots, goals = _rows(drawn, kinds)
    start = _mark(robots, ROBOT) or body.start_pos
    goal = _mark(goals, GOAL) or body.goal_pos
    if start is None:
        raise InputError(f"it says nowhere where the agent starts: draw one {ROBOT}, or give start_pos")
    _check_place("start", start, rows)
    if goal is not None:
        _check_place("goal", goal, rows)
    fetch = _fetch(body.task, goal, rows)
    if fetch is None and goal == start:
        raise InputError(f"start and goal are the same cell, {_at(start)}; move one of them")
    instruction = (body.instruction or "").strip() or None
    return MapPlan(name, tuple(map(tuple, rows)), start, goal, instruction, fetch, sha256)


def _kind(char: str, defined: _Object) -> Kind:
    kind = defined.type.strip().lower()
    if kind not in TYPES:
        raise InputError(f"{_shown(char)} has the type {defined.type[:40]!r}; known are {', '.join(TYPES)}")
    try:
        colour_name, rgb = colour(defined.color)
    except InputError as error:
        raise InputError(f"the color of {_shown(char)}: {error}") from None
    return Kind(
        kind,
        _name(char, defined.emoji_name, kind),
        colour_name,
        rgb,
        char,
        can_pickup=defined.can_pickup is True if kind == "emoji" else kind in ("key", "ball", "box"),
        can_overlap=defined.can_overlap is True if kind == "emoji" else kind in ("empty", "floor", "goal", "lava"),
        use_emoji_color=defined.use_emoji_color is not False,
        door_state="locked" if defined.is_locked else "open" if defined.is_open else "closed",
    )


def _name(char: str, given: str | None, kind: str) -> str:
    """The name that was given, or Unicode's own for the character."""
    words = " ".join("".join(c if c.isprintable() else " " for c in given or "").split())
    if not words and kind == "emoji":
        words = unicodedata.name(plain(char)[:1] or "?", "thing").lower()
    return words[:LONGEST_NAME] or kind


def _drawn(render: str | list[str | list[str]], blank_is_cell: bool) -> list[list[str]]:
    rows: list[str | list[str]] = render.splitlines() if isinstance(render, str) else render  # type: ignore[assignment]
    if len(rows) > 2 * LONGEST_SIDE or any(len(row) > 50 * LONGEST_SIDE for row in rows):
        raise InputError(f"it is absurdly large; {LONGEST_SIDE} × {LONGEST_SIDE} cells are the most")
    drawn = [row if isinstance(row, list) else _cells(row, n, blank_is_cell) for n, row in enumerate(rows, 1)]
    if isinstance(render, str):  # a text's first and last line may be left blank
        while drawn and not drawn[0]:
            drawn.pop(0)
        while drawn and not drawn[-1]:
            drawn.pop()
    _check_shape(drawn)
    return drawn


def _cells(row: str, number: int, blank_is_cell: bool) -> list[str]:
    drawn = row.rstrip("\r\n")
    if len(drawn.splitlines()) > 1:
        raise InputError(f"row {number} (counted from 1) holds a line break; give one text of lines, or a text a row")
    in_row = cells(drawn)
    return in_row if blank_is_cell else [cell for cell in in_row if not cell.isspace()]


def _check_shape(drawn: list[list[str]]) -> None:
    if not drawn or not drawn[0]:
        raise InputError("emoji_render draws no cell" + ("" if not drawn else " in row 1"))
    width = len(drawn[0])
    for number, row in enumerate(drawn, 1):
        if len(row) != width:
            raise InputError(f"row {number} has {len(row)} cells where row 1 has {width} (counted from 1)")
    if width > LONGEST_SIDE or len(drawn) > LONGEST_SIDE:
        raise InputError(f"it has {width} × {len(drawn)} cells; {LONGEST_SIDE} × {LONGEST_SIDE} are the most")


def _rows(drawn: list[list[str]], kinds: dict[str, Kind]) -> tuple[list[list[Kind]], Places, Places]:
    alike = {plain(char): kind for char, kind in reversed(kinds.items())}
    marks: dict[str, Places] = {ROBOT: [], GOAL: []}
    rows: list[list[Kind]] = []
    for y, row in enumerate(drawn):
        rows.append([])
        for x, cell in enumerate(row):
            bare = plain(cell.strip() or cell)
            kind = kinds.get(cell) or alike.get(bare)
            if bare in marks:
                marks[bare].append((x, y))
                kind = _under_mark(kind, cell, (x, y))
            if kind is None:
                raise InputError(f"the cell {_shown(cell)} at {_at((x, y))} is not defined in emoji_objects")
            rows[-1].append(kind)
    return rows, marks[ROBOT], marks[GOAL]


def _under_mark(kind: Kind | None, cell: str, place: tuple[int, int]) -> Kind:
    """What lies under 🤖 or 🎯: a definition as emoji says how the mark looks, not what lies under it."""
    if kind is not None and kind.type in ("wall", "lava", "door"):
        raise InputError(f"{_shown(cell)} at {_at(place)} is defined as {kind.type}, where nothing can stand")
    return kind if kind is not None and kind.type == "floor" else EMPTY


def _mark(places: Places, mark: str) -> tuple[int, int] | None:
    if len(places) > 1:
        raise InputError(f"{mark} is drawn twice, at {_at(places[0])} and at {_at(places[1])}; keep one")
    return places[0] if places else None


def _check_place(what: str, place: tuple[int, int], rows: list[list[Kind]]) -> None:
    x, y = place
    if not (0 <= x < len(rows[0]) and 0 <= y < len(rows)):
        raise InputError(f"{what}_pos [{x}, {y}] lies outside the map of {len(rows[0])} × {len(rows)} cells")
    kind = rows[y][x]
    solid = kind.type in ("wall", "lava", "door") or (what == "start" and not kind.can_enter)
    if solid:
        raise InputError(f"the {what} at {_at(place)} lies on {_shown(kind.char)} ({kind.name}), where nothing can "
                         f"stand; move {what}_pos")  # fmt: skip


def _fetch(task: _Task | None, goal: tuple[int, int] | None, rows: list[list[Kind]]) -> str | None:
    if task is None or task.fetch is None:
        return None
    wanted = " ".join(task.fetch.split())
    there = sorted({kind.name for row in rows for kind in row if kind.can_pickup})
    if wanted not in there:
        known = f"what can be picked up there is {', '.join(there)}" if there else "nothing there can be picked up"
        raise InputError(f"its task is to fetch {wanted[:LONGEST_NAME]!r}, but {known}")
    if goal is None:
        raise InputError(f"its task is to fetch {wanted!r}, but it has no goal to bring it to: draw one {GOAL}, or "
                         "give goal_pos")  # fmt: skip
    return wanted


def _at(place: tuple[int, int]) -> str:
    return f"row {place[1] + 1}, column {place[0] + 1} (counted from 1)"


def _shown(cell: str) -> str:
    """A character as it looks and by its code points, since many look alike or like nothing."""
    codes = " ".join(f"U+{ord(char):04X}" for char in cell[:6]) + (" …" if len(cell) > 6 else "")
    seen = "".join(char for char in cell[:12] if char.isprintable() or char == "\u200d")
    return f"'{seen}' ({codes})" if codes else "'' (an empty text)"


# -- colours: MiniGrid's six as it draws them, the names of the web, and #rrggbb --------------------------------------


def colour(name: str | None) -> tuple[str, RGB]:
    """A colour's name as we write it and its value; none given means grey."""
    if name is None:
        return "grey", MINIGRID["grey"]
    said = re.sub(r"[\s_-]", "", name.lower()).replace("gray", "grey")
    if re.fullmatch(r"#[0-9a-f]{6}", said):
        return said, (int(said[1:3], 16), int(said[3:5], 16), int(said[5:7], 16))
    known = _known()
    if said in known:
        return said, known[said]
    close = difflib.get_close_matches(said, known, n=3)
    like = f"; did you mean {' or '.join(close)}?" if close else ""
    raise InputError(
        f"no colour is called {name[:40]!r}: use {', '.join(MINIGRID)}, another name of the web's such as orange or "
        f"pink, or #rrggbb{like}"
    )


def _known() -> dict[str, RGB]:
    try:
        from PIL import ImageColor
    except ImportError as error:
        raise MissingExtra("a map", "grid", "PIL") from error
    web = {name.replace("gray", "grey"): ImageColor.getrgb(name)[:3] for name in ImageColor.colormap}
    return {**web, **MINIGRID}


# -- cells: rows of a drawn map, cut into what a reader sees ----------------------------------------------------------


# An emoji may be several code points: a variation selector, a skin tone, a keycap, a joined family, a flag. They are
# one cell. `⬜` and `⬜️` differ by an invisible variation selector alone, and count as the same cell.

JOINER = "\u200d"
_SELECTORS = {0xFE0E: None, 0xFE0F: None}


def cells(row: str) -> list[str]:
    """The cells of a row; what modifies a character stays with it.

    >>> cells("⬜️🤖⬜")
    ['⬜️', '🤖', '⬜']
    """
    in_row: list[str] = []
    for char in row:
        if in_row and _belongs(in_row[-1], char):
            in_row[-1] += char
        else:
            in_row.append(char)
    return in_row


def plain(cell: str) -> str:
    """The cell without its variation selectors, by which two ways of writing one emoji are told to be the same."""
    return cell.translate(_SELECTORS)


def _belongs(cell: str, char: str) -> bool:
    code = ord(char)
    if cell[-1] == JOINER or char == JOINER:
        return True
    if 0x1F3FB <= code <= 0x1F3FF or 0xE0020 <= code <= 0xE007F:  # skin tones, tags
        return not cell.isspace()
    if _is_regional(char):
        return len(cell) == 1 and _is_regional(cell)
    return unicodedata.category(char) in ("Mn", "Me", "Mc")


def _is_regional(char: str) -> bool:
    return 0x1F1E6 <= ord(char) <= 0x1F1FF
