"""Which names people can have: those of any script, and none that reads like another one."""

from __future__ import annotations

import pytest

from assizes.deployments.web.sessions import person_name

NAMES = {
    "devanagari": "सीता",
    "conjunct": "श्रीमती",
    "tamil": "முருகன்",
    "arabic with vowels": "محمّد",
    "hebrew with points": "שָׂרָה",
    "thai": "สมชาย ปู่",
    "burmese": "ကျွန်ုပ်",
    "khmer": "ស្រីមុំ",
    "tibetan": "བསྟན་འཛིན".replace("\u0f0b", " "),
    "typographic apostrophe": "O\u2019Brien",
    "apostrophe": "O'Brien",
    "others": "Nguyễn 李雷 Müller-Lüdenscheidt (QA), jr.",
    "mail": "ada+judge@x.org",
    "persian with a non-joiner": "علی\u200cپور",
    "non-joiner after a vowel": "علیِ\u200cپور",
    "malayalam with a joiner at its end": "രാജന\u0d4d\u200d",
    "sinhala with a joiner": "ශ\u0dca\u200dරී",
    "bengali with a joiner": "র\u200d\u09cdযান্ডি",
}

NO_NAMES = {
    "mark without a letter": "\u0301Ada",
    "mark after a blank": "Ada \u0301b",
    "mark after a digit": "Ada 7\u0301",
    "joiner at the beginning": "\u200cعلی",
    "joiner between latin letters": "Ad\u200da",
    "non-joiner between latin letters": "Ad\u200ca",
    "non-joiner at the end": "علی\u200c",
    "two non-joiners": "علی\u200c\u200cپور",
    "zero-width space": "Ad\u200ba",
    "word joiner": "Ad\u2060a",
    "direction override": "Ad\u202ea",
    "isolate": "Ad\u2066a",
    "right-to-left mark": "Ad\u200fa",
    "soft hyphen": "Ad\u00ada",
    "control": "Ad\x07a",
    "grapheme joiner": "Ad\u034fa",
    "variation selector": "Ad\ufe0fa",
    "variation selector of a supplement": "葛\U000e0100",
    "hangul filler": "\u3164",
    "halfwidth filler": "Ad\uffa0a",
    "enclosing mark": "A\u20dd",
    "a stack of marks": "q" + "\u0323\u0325\u0330\u0331\u0332",
    "markup": "<b>",
    "path": "Ada/Bob",
    "too long": "a" * 65,
    "blank": "  ",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_name_of_any_script_is_taken_as_it_is(name: str) -> None:
    assert person_name(name) == name


@pytest.mark.parametrize("text", NO_NAMES.values(), ids=NO_NAMES)
def test_a_text_that_misleads_or_is_no_name_is_refused(text: str) -> None:
    assert person_name(text) == ""


def test_a_name_has_one_form_however_it_was_typed() -> None:
    assert person_name("  Jose\u0301   Lo\u0301pez ") == "Jos\u00e9 L\u00f3pez"
    assert person_name("e\u0301" * 64) == "\u00e9" * 64
