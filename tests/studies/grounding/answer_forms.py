"""Answers as models write them, with what the strict parser is to make of each.

A row is (name, text, expected). Expected is a point `at(x, y)`, `refused(form)` or `unread(why_not)`.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Expected(NamedTuple):
    says: str
    x: float | None = None
    y: float | None = None
    content: str | None = None
    form: str | None = None
    why_not: str | None = None


class Row(NamedTuple):
    name: str
    text: str
    expected: Expected


def at(x: float, y: float, form: str, content: str | None = None) -> Expected:
    return Expected("point", x, y, content, form)


def refused(form: str, content: str | None = None) -> Expected:
    return Expected("refusal", content=content, form=form)


def unread(why_not: str, content: str | None = None) -> Expected:
    return Expected("wrong_format", content=content, why_not=why_not)


def referring(name: str, grounding: str) -> str:
    return f"```referring\n{name}\n```\n```grounding\n{grounding}\n```"


_ROWS: list[tuple[str, str, Expected]] = [
    # -- the published form, and what becomes of it
    ("document", referring('"left arrow"', "(100, 200)"), at(100, 200, "block/pair", "left arrow")),
    ("document_korean", referring("더하기 버튼", "[311, 541]"), at(311, 541, "block/pair", "더하기 버튼")),
    ("block_bare", referring("ok", "100, 200"), at(100, 200, "block/numbers", "ok")),
    ("block_spaces_for_comma", referring("ok", "100 200"), at(100, 200, "block/numbers", "ok")),
    ("block_decimals", referring("ok", "(0.125, .5)"), at(0.125, 0.5, "block/pair", "ok")),
    ("block_negative", referring("ok", "(-5, 20)"), at(-5, 20, "block/pair", "ok")),
    ("block_box", referring("ok", "(10, 20, 110, 60)"), at(60, 40, "block/box", "ok")),
    ("block_to", referring("ok", "(10, 20) to (110, 60)"), at(60, 40, "block/two_corners", "ok")),
    ("block_top_left", referring("ok", "Top-left: (10, 20)"), at(10, 20, "block/top_left", "ok")),
    ("block_json", referring("ok", '{"point_2d": [100, 200]}'), at(100, 200, "block/pair", "ok")),
    ("block_axes", referring("ok", "x: 100, y: 200"), at(100, 200, "block/axes", "ok")),
    ("block_words", referring("ok", "The point is (100, 200)."), at(100, 200, "block/pair", "ok")),
    ("block_after_prose", "The third icon, near (5, 5).\n" + referring("ok", "(1, 2)"), at(1, 2, "block/pair", "ok")),
    ("block_before_prose", referring("ok", "(1, 2)") + "\nNot (5, 5), that is.", at(1, 2, "block/pair", "ok")),
    ("block_beats_json", '{"point_2d": [9, 9]}\n```grounding\n(1, 2)\n```', at(1, 2, "block/pair")),
    ("block_tildes", "~~~referring\nok\n~~~\n~~~grounding\n(1, 2)\n~~~", at(1, 2, "block/pair", "ok")),
    ("block_capitals", "```Referring\nok\n```\n```GROUNDING\n(1, 2)\n```", at(1, 2, "block/pair", "ok")),
    ("block_spaced_name", "``` referring\nok\n```\n``` grounding \n(1, 2)\n ```", at(1, 2, "block/pair", "ok")),
    ("block_one_line", "```referring ok``` ```grounding (1, 2)```", at(1, 2, "block/pair", "ok")),
    ("block_unclosed_referring", "```referring\nok\n```grounding\n(1, 2)\n```", at(1, 2, "block/pair", "ok")),
    ("block_without_referring", "```grounding\n(1, 2)\n```", at(1, 2, "block/pair")),
    ("block_unclosed", "```referring\nok\n```\n```grounding\n(1, 2)", at(1, 2, "block/pair", "ok")),
    ("block_unclosed_bare", "```grounding\n100, 200", unread("cut_off")),
    ("block_cut_in_number", "```referring\nok\n```\n```grounding\n(100, 2", unread("cut_off", "ok")),
    ("block_cut_before_number", "```grounding\n(", unread("cut_off")),
    ("block_cut_at_once", "```referring\nok\n```\n```grounding\n", unread("empty", "ok")),
    ("block_empty", referring("ok", ""), unread("empty", "ok")),
    ("block_no_number", referring("ok", "N/A"), unread("no_numbers", "ok")),
    ("block_one_number", referring("ok", "(100)"), unread("one_number", "ok")),
    ("block_three", referring("ok", "(1, 2, 3)"), unread("three_numbers", "ok")),
    ("block_five", referring("ok", "(1, 2, 3, 4, 5)"), unread("too_many_numbers", "ok")),
    ("block_nine", referring("ok", "[1, 2, 3, 4, 5, 6, 7, 8, 9]"), unread("too_many_numbers", "ok")),
    ("block_three_bare", referring("ok", "1, 2, 3"), unread("three_numbers", "ok")),
    ("block_two_points", referring("ok", "(1, 2)\n(3, 4)"), unread("several_points", "ok")),
    ("block_not_found", referring("the tray", "not found"), refused("words", "the tray")),
    ("block_only_referring", "```referring\nok\n```", unread("no_numbers", "ok")),
    ("blocks_equal", referring("ok", "(1, 2)") + "\n" + referring("ok", "[1, 2]"), at(1, 2, "block/pair", "ok")),
    ("blocks_differ", referring("a", "(1, 2)") + "\n" + referring("b", "(3, 4)"), unread("several_points", "a")),
    ("blocks_loop_cut", referring("a", "(11, 22)") + "\n```grounding\n(11, 2", at(11, 22, "block/pair", "a")),
    ("blocks_loop_cut_early", referring("a", "(11, 22)") + "\n```grounding\n", at(11, 22, "block/pair", "a")),
    ("blocks_cut_differs", referring("a", "(11, 22)") + "\n```grounding\n(33, 2", unread("several_points", "a")),
    ("blocks_unclosed_differs", referring("a", "(11, 22)") + "\n```grounding\n(33, 44)", unread("several_points", "a")),
    # -- refusals by coordinates
    ("refusal_block", referring("none", "(-1, -1)"), refused("block/pair", "none")),
    ("refusal_pair", "(-1, -1)", refused("bracketed/pair")),
    ("refusal_brackets", "[-1,-1]", refused("bracketed/pair")),
    ("refusal_box", "[-1, -1, -1, -1]", refused("bracketed/box")),
    ("refusal_json", '{"point_2d": [-1, -1]}', refused("structured/pair")),
    ("refusal_decimals", "(-1.0, -1.0)", refused("bracketed/pair")),
    ("refusal_or_point", "(-1, -1) or (5, 6)", unread("several_points")),
    ("half_a_refusal", "(-1, 5)", at(-1, 5, "bracketed/pair")),
    # -- refusals in words
    ("words_not_visible", "The element is not visible on the screen.", refused("words")),
    ("words_isnt", "The bell icon isn't present in this screenshot.", refused("words")),
    ("words_exist", "Such a button does not exist on the screen.", refused("words")),
    ("words_cannot", "I cannot find the requested element.", refused("words")),
    ("words_unable", "Sorry, I was unable to locate this option in the image.", refused("words")),
    ("words_no_such", "There is no such element.", refused("words")),
    ("words_no_button", "There is no print button in the window.", refused("words")),
    ("words_contain", "The screenshot does not contain a search bar.", refused("words")),
    ("words_bare", "Element not found", refused("words")),
    ("words_quoted_digits", 'The "Page 2" button is not visible.', refused("words")),
    ("words_korean", "화면에서 해당 요소를 찾을 수 없습니다.", refused("words")),
    ("words_korean_seen", "저장 버튼이 보이지 않습니다.", refused("words")),
    ("words_chinese", "屏幕上没有这个按钮。", refused("words")),
    ("words_chinese_found", "未找到该元素。", refused("words")),
    ("words_japanese", "その要素は見つかりません。", refused("words")),
    ("words_but", "It is not visible, but it may be in the menu.", unread("no_numbers")),
    ("words_question", "Is it not visible?", unread("no_numbers")),
    ("words_with_place", "I cannot find it, so I click (5, 6).", at(5, 6, "action_words/pair")),
    ("words_with_numbers", "I cannot find it among the 12 icons.", unread("one_number")),
    ("words_no_problem", "There is no doubt: it is the left one.", unread("no_numbers")),
    ("words_not_blue", "The button is not blue.", unread("no_numbers")),
    ("words_none", "None", unread("no_numbers")),
    ("words_null", '{"point_2d": null}', unread("no_numbers")),
    # -- brackets
    ("pair", "(100, 200)", at(100, 200, "bracketed/pair")),
    ("pair_square", "[100, 200]", at(100, 200, "bracketed/pair")),
    ("pair_curly", "{100, 200}", at(100, 200, "bracketed/pair")),
    ("pair_double", "[[100, 200]]", at(100, 200, "bracketed/pair")),
    ("pair_tight", "(100,200)", at(100, 200, "bracketed/pair")),
    ("pair_wide", "(  100 ,\n 200 )", at(100, 200, "bracketed/pair")),
    ("pair_space", "(100 200)", at(100, 200, "bracketed/pair")),
    ("pair_semicolon", "(100; 200)", at(100, 200, "bracketed/pair")),
    ("pair_plus", "(+100, 200)", at(100, 200, "bracketed/pair")),
    ("pair_leading_zeros", "(073, 009)", at(73, 9, "bracketed/pair")),
    ("pair_wrong_closing", "[100, 200)", at(100, 200, "bracketed/pair")),
    ("pair_bold", "**(100, 200)**", at(100, 200, "bracketed/pair")),
    ("pair_code", "`(100, 200)`", at(100, 200, "bracketed/pair")),
    ("pair_unnamed_fence", "```\n(100, 200)\n```", at(100, 200, "bracketed/pair")),
    ("pair_tex", "$(100, 200)$", at(100, 200, "bracketed/pair")),
    ("pair_tex_brackets", "\\(100, 200\\)", at(100, 200, "bracketed/pair")),
    ("pair_tex_left", "$\\left(100, 200\\right)$", at(100, 200, "bracketed/pair")),
    ("pair_wide_characters", "（１００，２００）", at(100, 200, "bracketed/pair")),
    ("pair_wide_brackets", "【100，200】", at(100, 200, "bracketed/pair")),
    ("pair_minus_sign", "(−5, 20)", at(-5, 20, "bracketed/pair")),
    ("pair_in_prose", "It would be (100, 200), the arrow.", at(100, 200, "bracketed/pair")),
    ("pair_twice", "(100, 200). Yes, (100, 200).", at(100, 200, "bracketed/pair")),
    ("pair_and_colour", "The red one (255, 0, 0) here: (100, 200).", at(100, 200, "bracketed/pair")),
    ("box", "[10, 20, 110, 60]", at(60, 40, "bracketed/box")),
    ("box_double", "[[10, 20, 110, 60]]", at(60, 40, "bracketed/box")),
    ("box_backwards", "(110, 60, 10, 20)", at(60, 40, "bracketed/box")),
    ("corners_to", "from (10, 20) to (110, 60)", at(60, 40, "bracketed/two_corners")),
    ("corners_comma", "(10,20),(110,60)", at(60, 40, "bracketed/two_corners")),
    ("corners_lists", "[[10, 20], [110, 60]]", at(60, 40, "bracketed/two_corners")),
    ("box_with_point_inside", "The box (10, 20, 110, 60) has its middle: (61, 41).", at(61, 41, "bracketed/pair")),
    ("box_named_bare", "Bounding box: 10, 20, 110, 60", at(60, 40, "bracketed/unbracketed_box")),
    ("box_and_point_alike", "[10, 20, 110, 60], [61, 41]", at(61, 41, "bracketed/pair")),
    ("box_and_point_outside", "[10, 20, 110, 60], [500, 41]", unread("several_points")),
    ("boxes_differ", "[10, 20, 110, 60]\n[10, 20, 110, 80]", unread("several_points")),
    ("three_pairs", "(1, 2), (3, 4), (5, 6)", unread("several_points")),
    ("two_pairs", "(1, 2) or (3, 4)", unread("several_points")),
    ("two_lines", "(1, 2)\n(3, 4)", unread("several_points")),
    ("three_numbers", "(1, 2, 3)", unread("three_numbers")),
    ("thousands", "(1,234, 567)", unread("three_numbers")),
    ("decimal_commas", "(0,45, 0,32)", unread("mixed_separators")),
    ("decimal_commas_semicolon", "(0,45; 0,32)", unread("mixed_separators")),
    ("exponent", "(1e2, 5)", unread("no_point")),
    ("infinity", "(inf, nan)", unread("no_numbers")),
    ("too_large", "(1000000000, 5)", unread("absurd_number")),
    ("endless", "(" + "9" * 400 + ", 5)", unread("absurd_number")),
    ("endless_decimals", "(0." + "3" * 400 + ", 5)", unread("absurd_number")),
    ("percent_pair", "(50%, 30%)", unread("other_unit")),
    ("pixels_pair", "(50px, 30px)", unread("other_unit")),
    ("arabic_digits", "(١٠٠, ٢٠٠)", unread("no_numbers")),
    ("function", "rgb(255, 0)", unread("no_point")),
    ("resolution", "The screen resolution is (1920, 1080).", unread("no_point")),
    ("resolution_and_pair", "The image size is (1920, 1080); take (30, 40).", at(30, 40, "bracketed/pair")),
    # -- cut off
    ("cut_number", "(123, 4", unread("cut_off")),
    ("cut_comma", "(123,", unread("cut_off")),
    ("cut_after_point", "It is at (5, 6). Coordinates: (12", unread("cut_off")),
    ("cut_json", '{"point_2d": [100, 2', unread("cut_off")),
    ("cut_json_key", '{"x": 100, "y": 20', unread("cut_off")),
    ("cut_json_axis", '{"x": 100, "y":', unread("cut_off")),
    ("cut_call", "click(x=100, y=20", unread("cut_off")),
    ("cut_tag", "<point>12 34", unread("cut_off")),
    ("cut_attribute", '<point x="12.3" y="45', unread("cut_off")),
    ("cut_brace_only", '{"point_2d": [100, 200]', at(100, 200, "structured/pair")),
    # -- bare numbers
    ("bare", "100, 200", at(100, 200, "whole/numbers")),
    ("bare_space", " 100 200\n", at(100, 200, "whole/numbers")),
    ("bare_lines", "100\n200", at(100, 200, "whole/numbers")),
    ("bare_stop", "100, 200.", at(100, 200, "whole/numbers")),
    ("bare_quotes", '"100, 200"', at(100, 200, "whole/numbers")),
    ("bare_fence", "```text\n100, 200\n```", at(100, 200, "whole/numbers")),
    ("bare_box", "10, 20, 110, 60", at(60, 40, "whole/numbers")),
    ("bare_three", "100, 200, 300", unread("three_numbers")),
    ("bare_thousands", "1,234, 567", unread("three_numbers")),
    ("bare_one", "100", unread("one_number")),
    ("bare_in_prose", "The screen is 1920, 1080 wide", unread("no_point")),
    ("bare_resolution", "1920x1080", unread("no_point")),
    ("bare_resolution_sign", "1920 × 1080", unread("no_point")),
    ("bare_percent", "50%, 30%", unread("other_unit")),
    ("bare_date", "2025-12-03", unread("no_point")),
    ("bare_date_words", "December 3, 2025", unread("no_point")),
    ("bare_time", "12:30", unread("no_point")),
    ("bare_version", "Version 1.2.3, 4", unread("no_point")),
    ("bare_steps", "1. Open the menu\n2. Choose Save", unread("no_point")),
    # -- JSON and Python
    ("json_point", '{"point_2d": [100, 200], "label": "save"}', at(100, 200, "structured/pair", "save")),
    ("json_box", '{"bbox_2d": [10, 20, 110, 60], "label": "save"}', at(60, 40, "structured/box", "save")),
    ("json_list", '[{"point_2d": [100, 200]}]', at(100, 200, "structured/pair")),
    ("fenced_json", '```json\n[\n {"bbox_2d": [10, 20, 110, 60], "label": "a"}]```', at(60, 40, "structured/box", "a")),
    ("json_two", '[{"point_2d": [1, 2]}, {"point_2d": [3, 4]}]', unread("several_points")),
    ("json_both", '{"bbox_2d": [10, 20, 110, 60], "point_2d": [61, 41]}', at(61, 41, "structured/pair")),
    ("json_axes", '{"x": 100, "y": 200}', at(100, 200, "structured/axes")),
    ("json_axes_backwards", '{"y": 200, "x": 100}', at(100, 200, "structured/axes")),
    ("json_axes_texts", '{"x": "100", "y": "200"}', at(100, 200, "structured/axes")),
    ("json_axes_size", '{"x": 10, "y": 20, "width": 100, "height": 40}', at(60, 40, "structured/axes_and_size")),
    ("json_edges", '{"x1": 10, "y1": 20, "x2": 110, "y2": 60}', at(60, 40, "structured/edges")),
    ("json_edges_words", '{"left": 10, "top": 20, "right": 110, "bottom": 60}', at(60, 40, "structured/edges")),
    ("json_texts", '{"coordinate": ["100", "200"]}', at(100, 200, "structured/pair")),
    ("json_one_text", '{"coordinate": "100, 200"}', at(100, 200, "structured/unbracketed_pair")),
    ("json_three", '{"point_2d": [1, 2, 3]}', unread("three_numbers")),
    ("json_with_size", '{"size": [1920, 1080], "point": [100, 200]}', at(100, 200, "structured/pair")),
    ("json_before_prose", 'The bar (5, 6) is above.\n{"point_2d": [100, 200]}', at(100, 200, "structured/pair")),
    ("python_dict", "{'point_2d': [100, 200], 'label': 'save'}", at(100, 200, "structured/pair", "save")),
    ("python_tuple", "point = (100, 200)", at(100, 200, "structured/pair")),
    ("json_corners", '{"top_left": [10, 20], "bottom_right": [110, 60]}', at(60, 40, "structured/named_corners")),
    # -- tool calls and code
    (
        "tool_call",
        '<tool_call>\n{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [100, 200]}}\n'
        "</tool_call>",
        at(100, 200, "structured/pair"),
    ),
    ("tool_call_bare", '{"action": "left_click", "coordinate": [100, 200]}', at(100, 200, "structured/pair")),
    ("tool_call_escaped", '{"arguments": "{\\"coordinate\\": [100, 200]}"}', at(100, 200, "structured/pair")),
    ("call_start_box", "Thought: save\nAction: click(start_box='(100,200)')", at(100, 200, "structured/pair")),
    ("call_special", "click(start_box='<|box_start|>(100,200)<|box_end|>')", at(100, 200, "structured/pair")),
    ("call_point", "click(point='<point>100 200</point>')", at(100, 200, "structured/unbracketed_pair")),
    ("call_drag", "drag(start_box='(1,2)', end_box='(3,4)')", unread("several_points")),
    ("call_axes", "click(x=100, y=200)", at(100, 200, "structured/axes")),
    ("call_pyautogui", "pyautogui.click(x=0.125, y=0.5)", at(0.125, 0.5, "structured/axes")),
    ("call_positional", "pyautogui.click(100, 200)", at(100, 200, "structured/pair")),
    ("call_keyword", "click(100, 200, button='left')", at(100, 200, "structured/pair")),
    ("call_twice", "click(1, 2)\nclick(3, 4)", unread("several_points")),
    (
        "call_box_element",
        "CLICK(box=[[387,248,727,318]], element_type='Text', element_info='Add Title')",
        at(557, 283, "structured/box", "Add Title"),
    ),
    # -- tags
    ("tag_point", "<point>100 200</point>", at(100, 200, "structured/unbracketed_pair")),
    ("tag_point_comma", "<point>100, 200</point>", at(100, 200, "structured/unbracketed_pair")),
    ("tag_point_brackets", "<point>(100, 200)</point>", at(100, 200, "structured/pair")),
    ("tag_point_double", "CLICK <point>[[100, 200]]</point>", at(100, 200, "structured/pair")),
    ("tag_molmo", '<point x="12.5" y="45.5" alt="bell">bell</point>', at(12.5, 45.5, "structured/axes", "bell")),
    ("tag_molmo_points", '<points x1="1" y1="2" x2="3" y2="4" alt="a">a</points>', unread("several_points")),
    ("tag_box", "<box>10 20 110 60</box>", at(60, 40, "structured/unbracketed_box")),
    ("tag_box_lists", "<ref>save</ref><box>[[10, 20, 110, 60]]</box>", at(60, 40, "structured/box", "save")),
    ("tag_box_pairs", "<box>(10,20),(110,60)</box>", at(60, 40, "structured/two_corners")),
    ("tag_special_box", "<|box_start|>(10,20),(110,60)<|box_end|>", at(60, 40, "structured/two_corners")),
    ("tag_special_point", "<|point_start|>(100,200)<|point_end|>", at(100, 200, "structured/pair")),
    (
        "tag_special_named",
        "<|object_ref_start|>save<|object_ref_end|><|box_start|>(10,20),(110,60)<|box_end|>",
        at(60, 40, "structured/two_corners", "save"),
    ),
    ("tag_answer", "It is (5, 6)? No. <answer>(100, 200)</answer>", at(100, 200, "answer_tag/pair")),
    ("tag_answer_bare", "<answer>100, 200</answer>", at(100, 200, "answer_tag/numbers")),
    ("tag_answer_json", '<answer>{"point_2d": [100, 200]}</answer>', at(100, 200, "answer_tag/pair")),
    # -- words
    ("axes_colon", "x: 123, y: 456", at(123, 456, "structured/axes")),
    ("axes_equals", "x=123 y=456", at(123, 456, "structured/axes")),
    ("axes_capitals", "X: 123\nY: 456", at(123, 456, "structured/axes")),
    ("axes_words", "The x-coordinate is 123 and the y-coordinate is 456.", at(123, 456, "structured/axes")),
    ("axes_percent", "x: 50%, y: 30%", unread("other_unit")),
    ("word_answer", "First (5, 6).\nFinal answer: (100, 200)", at(100, 200, "answer_words/pair")),
    ("word_answer_bold", "(5, 6)\n**Answer:** (100, 200)", at(100, 200, "answer_words/pair")),
    ("word_answer_bare", "Answer: 100, 200.", at(100, 200, "answer_words/unbracketed_pair")),
    ("word_boxed", "(5, 6), so \\boxed{(100, 200)}", at(100, 200, "answer_words/pair")),
    ("word_boxed_bare", "(5, 6), so $\\boxed{100, 200}$", at(100, 200, "answer_words/pair")),
    ("word_grounding", "Referring: left arrow\nGrounding: (100, 200)", at(100, 200, "answer_words/pair", "left arrow")),
    ("word_click", "The bar is at (5, 6). Click at (100, 200).", at(100, 200, "action_words/pair")),
    ("word_click_bare", "You should click at 100, 200", at(100, 200, "action_words/unbracketed_pair")),
    ("word_tap", "Tap on (100, 200)", at(100, 200, "action_words/pair")),
    ("word_coordinates", "Coordinates: 123, 456", at(123, 456, "place_words/unbracketed_pair")),
    ("word_coordinates_are", "The coordinates are (123, 456).", at(123, 456, "place_words/pair")),
    ("word_coordinates_three", "Coordinates: 123, 456, 789", unread("three_numbers")),
    ("word_coordinates_four", "Coordinates: 10, 20, 110, 60", at(60, 40, "place_words/unbracketed_box")),
    ("word_at", "The button is at (123, 456), next to the other (5, 6).", at(123, 456, "place_words/pair")),
    ("word_at_bare", "The meeting at 12, 30 people came", unread("no_point")),
    ("word_at_two", "A is at (1, 2), B is at (3, 4).", unread("several_points")),
    ("word_time", "Answer: 12:30, 14:45", unread("no_point")),
    ("word_korean", "좌표: (100, 200)", at(100, 200, "place_words/pair")),
    ("word_chinese", "点击坐标（100，200）", at(100, 200, "place_words/pair")),
    ("word_chinese_bare", "坐标为：100, 200", at(100, 200, "place_words/unbracketed_pair")),
    ("top_left", "Top-left: (10, 20)", at(10, 20, "place_words/top_left")),
    ("top_left_corner", "The top left corner is (10, 20)", at(10, 20, "place_words/top_left")),
    ("both_corners", "Top-left: (10, 20), Bottom-right: (110, 60)", at(60, 40, "place_words/named_corners")),
    ("both_corners_lines", "Top-left: (10, 20)\nBottom-right: (110, 60)", at(60, 40, "place_words/named_corners")),
    # -- thinking
    ("think", "<think>maybe (1, 2)</think>\n(3, 4)", at(3, 4, "bracketed/pair")),
    ("think_end_only", "maybe (1, 2)</think>\n(3, 4)", at(3, 4, "bracketed/pair")),
    ("think_twice", "<think>a</think>(1, 2)<think>b</think>(3, 4)", at(3, 4, "bracketed/pair")),
    ("think_after", "(3, 4)<think>was it (1, 2)?</think>", at(3, 4, "bracketed/pair")),
    ("think_block", "<think>```grounding\n(1, 2)\n```</think>" + referring("a", "(3, 4)"), at(3, 4, "block/pair", "a")),
    ("think_unended", "<think>maybe (1, 2)", unread("only_thinking")),
    ("think_only", "<think>maybe (1, 2)</think>", unread("empty")),
    ("thinking_word", "Let me think: (3, 4)", at(3, 4, "bracketed/pair")),
    ("think_kimi", "◁think▷(1, 2)◁/think▷(3, 4)", at(3, 4, "bracketed/pair")),
    # -- nothing
    ("empty", "", unread("empty")),
    ("blank", " \n\t", unread("empty")),
    ("prose", "I would open the menu first.", unread("no_numbers")),
    ("nul", "\x00\x00", unread("no_numbers")),
    ("surrogate", "\ud800 (1, 2) \udfff", at(1, 2, "bracketed/pair")),
    ("too_long", "(1, 2)" + " " * 20_000 + "x", unread("too_long")),
]  # fmt: skip

ROWS = [Row(*row) for row in _ROWS]


def fields(reading: Any) -> Expected:
    """The fields of a reading that a row speaks of."""
    return Expected(reading.says, reading.x, reading.y, reading.content, reading.form, reading.why_not)
