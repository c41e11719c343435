"""Numbers and foreign text as a reader sees them."""

from __future__ import annotations

import pytest

from tasks.reports import words


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (words.number(1234.567), "1,234.57"),
        (words.number(None), words.NONE),
        (words.count(12345), "12,345"),
        (words.count(None), "unknown"),
        (words.share(0.5), "50.0 %"),
        (words.share(0.99999), "99.9 %"),
        (words.share(1.0), "100.0 %"),
        (words.share(None), words.NONE),
        (words.signed(0.004), "0.00"),
        (words.signed(-0.004), "0.00"),
        (words.signed(-1.5), "\u22121.50"),
        (words.signed(1234.5), "+1,234.50"),
        (words.signed(None), words.NONE),
        (words.points(None), words.NONE),
        (words.points(-0.00005), "\u22120.0050 points"),
        (words.money(None), "unknown"),
        (words.money(0.0), "$0.00"),
        (words.money(0.0123), "$0.0123"),
        (words.money(1234.5), "$1,234.50"),
        (words.duration(None), "unknown"),
        (words.duration(999.4), "999 ms"),
        (words.duration(1500), "1.50 s"),
        (words.turns([]), words.NONE),
        (words.turns([1, 3]), "1, 3"),
        (words.plural(1, "case"), "1 case"),
        (words.plural(2000, "case"), "2,000 cases"),
        (words.plural(2, "half", "halves"), "2 halves"),
        (words.mark(True), "✓ passed"),
        (words.mark(False), "✗ failed"),
        (words.mark(None), f"{words.NONE} not decided"),
        (words.labels([]), words.NONE),
    ],
)
def test_a_number_is_shown_as(shown: str, expected: str):
    assert shown == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("1234567890", "1234567890"),
        ("12345678901", "1234567890…"),
        ("a\x00b\x1bc", "a\ufffdb\ufffdc"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\ud800", "\ufffd"),
    ],
)
def test_foreign_text_is_cut_and_cleaned(text: str, expected: str):
    assert words.clean(text, 10) == expected


def test_what_cannot_be_seen_is_made_visible():
    assert words.clean("\u202egnp\u200b", 40) == "⟨U+202E⟩gnp⟨U+200B⟩"
