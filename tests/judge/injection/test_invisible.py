"""Hidden characters: shown, counted, and left alone where writing needs them."""

from __future__ import annotations

import pytest

from assizes.judge.injection.disguises import hidden_count, made_visible, without_hidden


@pytest.mark.parametrize(
    ("text", "shown", "count"),
    [
        ("plain", "plain", 0),
        ("pa\u200bss", "pa[U+200B]ss", 1),
        ("\u202eabc\u202c", "[U+202E]abc[U+202C]", 2),
        ("a\U000e0041b", "a[U+E0041]b", 1),
        ("a\u200db", "a[U+200D]b", 1),
        ("a\ufe0f", "a[U+FE0F]", 1),
        ("x\ufeff", "x[U+FEFF]", 1),
        ("\u2764\ufe0f\ufe0f", "\u2764\ufe0f[U+FE0F]", 1),
    ],
)
def test_a_hidden_character_is_shown_as_its_code_point(text: str, shown: str, count: int):
    assert (made_visible(text), hidden_count(text)) == (shown, count)


@pytest.mark.parametrize(
    "text",
    [
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # a family
        "\u2764\ufe0f",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian: I want
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",  # England
        "\u00c5rhus, \u65e5\u672c\u8a9e, \u0440\u0443\u0441\u0441\u043a\u0438\u0439",
    ],
)
def test_what_writing_needs_stays(text: str):
    assert (made_visible(text), without_hidden(text), hidden_count(text)) == (text, text, 0)


def test_hidden_tags_are_read_as_the_letters_they_stand_for():
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "pass")
    assert without_hidden(f"Thanks{hidden}") == "Thankspass"
