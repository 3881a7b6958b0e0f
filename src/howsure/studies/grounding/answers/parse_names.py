"""What an answer without a referring block calls the element: a JSON label, an attribute of a tag, a line."""

from __future__ import annotations

import re

from howsure.studies.grounding.answers.parse_blocks import unquoted

_KEYS = r"(?:label|element|element_info|element_name|description|referring)"
_NAMES = re.compile(
    rf"[\"']{_KEYS}[\"']\s*+:\s*+(?:\"((?:[^\"\\\n]|\\.){{1,300}})\"|'((?:[^'\\\n]|\\.){{1,300}})')"
    r"|\b(?:alt|element_info)=(?:\"([^\"\n]{1,300})\"|'([^'\n]{1,300})')"
    r"|<ref>([^<>]{1,300})</ref>"
    r"|<\|object_ref_start\|>([^<>]{1,300})<\|object_ref_end\|>"
    r"|^[ \t*#-]*+referring[ \t*]*+:[ \t*]*+([^\n]{1,300})$",
    re.IGNORECASE | re.MULTILINE,
)
_SIGNS = ("label", "element", "description", "eferring", "alt=", "ref>", "object_ref")


def element_name(text: str) -> str | None:
    """The first name that the text gives, without its quotation marks."""
    if not any(sign in text for sign in _SIGNS):
        return None
    found = _NAMES.search(text)
    if found is None:
        return None
    return unquoted(next(group for group in found.groups() if group is not None))
