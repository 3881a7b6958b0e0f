"""The words of which instructions for graphical screens are made, by the part that they play."""

from __future__ import annotations


def words_of(text: str) -> list[str]:
    """The words of a text, in order."""
    return text.split()


ACTIONS = (
    "left-click right-click double-click double click right click left click click tap press select choose pick hit "
    "hover move navigate go point drag drop type enter input write fill check uncheck tick untick toggle switch "
    "enable disable turn activate deactivate expand collapse open close highlight place put set position scroll find "
    "locate identify look see use focus access change adjust increase decrease show view hide increment decrement "
    "minimise minimize maximise maximize restore dismiss"
)
"""Verbs of what is to be done, the longer form before the shorter one."""

LABEL_VERBS = frozenset(
    words_of(
        "open close set use show view hide change adjust increase decrease enable disable turn activate deactivate "
        "access toggle switch check uncheck expand collapse type enter input write fill find"
    )
)
"""Verbs that may as well belong to the name on the screen ("Open Folder"), where no quotes tell."""

KINDS: dict[str, tuple[str, ...]] = {
    "checkbox": ("checkbox", "check box", "tick box", "tickbox", "radio button", "radio"),
    "toggle": ("toggle", "toggle button", "toggle switch", "switch", "slider switch"),
    "arrow": ("down arrow", "dropdown arrow", "drop-down arrow", "arrow", "triangle", "chevron", "caret", "expander"),
    "field": (
        "text field", "input field", "text box", "textbox", "input box", "search bar", "search box", "search field",
        "address bar", "field", "input", "spin box", "spinbox", "combo box", "combobox",
    ),
    "dropdown": ("dropdown menu", "drop-down menu", "dropdown list", "dropdown", "drop-down", "combo"),
    "icon": ("icon", "symbol", "logo", "image", "picture", "thumbnail", "sign", "mark", "avatar"),
    "slider": ("slider", "scroll bar", "scrollbar", "handle", "thumb"),
    "button": ("button", "btn"),
    "area": ("window", "panel", "pane", "canvas", "area", "dialog", "video", "map"),
    "text": (
        "option", "item", "menu item", "entry", "label", "link", "tab", "menu", "word", "text", "line", "row",
        "heading", "title", "paragraph", "letter", "number", "character", "value", "hyperlink", "folder", "file",
    ),
}  # fmt: skip
"""Sorts of things on a screen, and the words for them."""

FRAMED = frozenset({"field", "dropdown"})
"""Sorts of things with a rim around what is written in them."""

CAPTIONED = frozenset({"button"})
"""Sorts of things whose name is all that is written on them."""

TEXTLESS = frozenset({"checkbox", "toggle", "arrow", "icon", "slider"})
"""Sorts of things that mostly carry no text of their own."""

SIGNS: dict[str, tuple[str, ...]] = {
    "plus": ("+", "plus", "increase", "increment"),
    "minus": ("-", "−", "–", "minus", "decrease", "decrement"),
    "cross": ("x", "×", "✕", "✖", "close", "cross"),
    "down": ("down arrow", "downward", "dropdown arrow", "down-pointing", "▼", "v"),
}
"""Signs that a reader of texts mostly misses, and how people write them."""

WIDE = (
    "screen", "window", "application", "app", "page", "desktop", "interface", "display", "monitor", "editor",
    "browser", "website", "sheet", "spreadsheet", "document", "program", "view", "viewer", "workspace",
)  # fmt: skip
"""What is so wide that a place in it is a place on the screen."""

POPUPS = ("dialog", "dialogue", "popup", "pop-up", "modal", "notification", "message", "prompt", "tooltip", "banner")

PARTS = ("sidebar", "panel", "section", "menu", "tab", "side")
"""What a screen is divided into."""

STRIPS: dict[str, tuple[float | None, float | None]] = {
    "menu bar": (None, 0.05), "menubar": (None, 0.05), "title bar": (None, 0.03), "toolbar": (None, 0.1),
    "tool bar": (None, 0.1), "ribbon": (None, 0.1), "header": (None, 0.1), "status bar": (None, 1.0),
    "footer": (None, 1.0), "taskbar": (None, 1.0),
}  # fmt: skip
"""Strips of a screen, and where they lie on almost every screen: across and down, from 0 to 1."""

COLOURS = (
    "red", "orange", "yellow", "green", "blue", "purple", "pink", "violet", "brown", "black", "white", "gray", "grey",
    "cyan", "teal", "magenta", "dark", "light", "bright", "colored", "coloured",
)  # fmt: skip

FILLERS = frozenset(
    words_of(
        """
        a an the this that these those your my its their it them one some any of to in on at by for from with within
        inside into onto over and or as is are be being was were which who whose where when then please now next
        once twice just only also specifically exactly located found situated placed positioned displayed shown
        named called labeled labelled titled reading saying containing marked small large big little tiny long short
        round circular square rectangular rectangle circle capital first last current empty blank selected
        highlighted active button icon option item entry link label text word area section part side corner region
        panel pane sidebar bar toolbar menu submenu dropdown drop-down list table tab window dialog dialogue popup
        pop-up modal screen page application app website interface box field input cell row column header heading
        title checkbox check radio toggle switch slider stepper arrow triangle symbol sign mark image picture logo
        thumbnail mouse pointer cursor left right top bottom upper lower center centre middle far near letter number
        character context main file's file folder element component control object window's
        left-hand right-hand top-left top-right bottom-left bottom-right approximately about slightly toward towards
        there here you i can will so that's
        """
    )
) | frozenset(COLOURS)
"""Words that say nothing about what is written on the thing."""
