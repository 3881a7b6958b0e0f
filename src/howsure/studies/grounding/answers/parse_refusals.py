"""Answers in plain words that what was asked for is not on the screen.

Only a short statement without coordinates and without second thoughts counts: whoever writes `not visible, but
probably in the menu` has not refused. Numbers within quotation marks, as in `"Page 2" is not visible`, are names.
"""

from __future__ import annotations

import re

MOST_CHARACTERS = 600
"""A refusal is a sentence or two; what is longer is a tale that may end anywhere."""

_ELEMENT = r"(?:element|button|icon|item|option|link|object|control|widget|field|menu|tab|target|text|thing|match)s?"
_SCREEN = r"(?:screen|screenshot|image|picture|page|window|interface|gui|ui|view)"
_STATEMENTS = re.compile(
    r"\b(?:is|are|was)(?:n['’]t| not) (?:\w+ )?(?:visible|present|found|shown|displayed|available|there)\b"
    rf"|\b(?:is|are)(?:n['’]t| not) (?:\w+ )?(?:on|in) (?:the|this) (?:\w+ )?{_SCREEN}\b"
    r"|\bdo(?:es)?(?:n['’]t| not) (?:\w+ )?(?:exist|appear)\b"
    rf"|\b{_SCREEN} (?:shown )?does(?:n['’]t| not) (?:\w+ )?(?:contain|show|include|have)\b"
    r"|\b(?:can ?not|can['’]t|could not|couldn['’]t|unable to|not able to) (?:\w+ )?"
    r"(?:find|locate|identify|see|detect)\b"
    rf"|\b(?:there (?:is|are) )?no (?:such |matching |corresponding |visible )(?:\w+ ){{0,2}}{_ELEMENT}\b"
    rf"|\bthere (?:is|are) no (?:[\w\"'’-]+ ){{0,4}}{_ELEMENT}\b"
    rf"|\A\W*(?:(?:the )?{_ELEMENT} )?not (?:found|visible|present|on (?:the|this) {_SCREEN})\W*\Z"
    r"|찾을 수(?:가)? 없|찾지 못|보이지 않|존재하지 않|화면에(?:는)? [^.]{0,30}없"
    r"|(?:요소|버튼|아이콘|항목|메뉴)(?:이|가|은|는)? 없"
    r"|找不到|未找到|没有找到|無法找到|无法找到|无法定位|不存在|看不到|没有(?:这个|该|此|相应|对应|匹配)"
    r"|(?:屏幕|图|界面|画面|截图)(?:上|中|里)?(?:没有|未)"
    r"|見つかりません|見つけられません|存在しません|表示されていません|画面[^。]{0,20}ありません",
    re.IGNORECASE,
)
_SECOND_THOUGHTS = re.compile(
    r"\?|？|\b(?:but|however|instead|although|though|closest|nearest|assum\w+|likely|probably|might|may|maybe|perhaps"
    r"|if|unless|until|scroll\w*|except)\b|하지만|그러나|대신|다만|아마|但|不过|然而|也许|可能|しかし|ただし|代わり|かもしれ",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r"\"[^\"\n]{0,200}\"|“[^”\n]{0,200}”|「[^」\n]{0,200}」|‘[^’\n]{0,200}’|`[^`\n]{0,200}`|(?<!\w)'[^'\n]{0,200}'(?!\w)"
)
_DIGIT = re.compile(r"\d")


def refuses(text: str) -> bool:
    """Whether the text says that there is nothing to click, beyond doubt."""
    if len(text) > MOST_CHARACTERS:
        return False
    said = _QUOTED.sub('"…"', text)
    if _DIGIT.search(said) or _SECOND_THOUGHTS.search(said):
        return False
    return _STATEMENTS.search(said) is not None
