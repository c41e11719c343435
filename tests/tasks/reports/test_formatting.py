"""Numbers and foreign text as a reader sees them."""

from __future__ import annotations

import pytest

from assizes.tasks.reports import formatting


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (formatting.number(1234.567), "1,234.57"),
        (formatting.number(None), formatting.DASH),
        (formatting.count(12345), "12,345"),
        (formatting.count(None), "unknown"),
        (formatting.share(0.5), "50.0 %"),
        (formatting.share(0.99999), "99.9 %"),
        (formatting.share(1.0), "100.0 %"),
        (formatting.share(None), formatting.DASH),
        (formatting.signed_number(0.004), "0.00"),
        (formatting.signed_number(-0.004), "0.00"),
        (formatting.signed_number(-1.5), "\u22121.50"),
        (formatting.signed_number(1234.5), "+1,234.50"),
        (formatting.signed_number(None), formatting.DASH),
        (formatting.points(None), formatting.DASH),
        (formatting.points(-0.00005), "\u22120.0050 points"),
        (formatting.money(None), "unknown"),
        (formatting.money(0.0), "$0.00"),
        (formatting.money(0.0123), "$0.0123"),
        (formatting.money(1234.5), "$1,234.50"),
        (formatting.duration(None), "unknown"),
        (formatting.duration(999.4), "999 ms"),
        (formatting.duration(1500), "1.50 s"),
        (formatting.plural(1, "case"), "1 case"),
        (formatting.plural(2000, "case"), "2,000 cases"),
        (formatting.plural(2, "half", "halves"), "2 halves"),
        (formatting.mark(True), "✓ passed"),
        (formatting.mark(False), "✗ failed"),
        (formatting.mark(None), f"{formatting.DASH} not decided"),
        (formatting.labels([]), formatting.DASH),
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
    assert formatting.clean(text, 10) == expected


def test_what_cannot_be_seen_is_made_visible():
    assert formatting.clean("\u202egnp\u200b", 40) == "⟨U+202E⟩gnp⟨U+200B⟩"
