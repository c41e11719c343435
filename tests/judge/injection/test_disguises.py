"""Quick ways to read a text beside slow ones that are plainly right, over texts of every kind."""

import random
import re
import unicodedata

import pytest

from assizes.judge.injection.disguises import (
    TextShape,
    backwards_test,
    plain,
    readings,
    without_hidden,
)
from assizes.judge.injection.families import families, matching_families
from benchmarks.hostile_texts import DISGUISES, attacks
from benchmarks.varied_texts import varied_records

SIGNS = (
    "\u0301",
    "\u0130",
    "\u03a3",
    "\uff21",
    "\ufb01",
    "\u1100\u1161",
    "\u200b",
    "\x1c",
    "é",
    "中",
)


def texts() -> list[str]:
    """Attacks, disguised and as they are, alone and with odd signs, and honest conversations."""
    draw = random.Random(8)
    plain_ones = attacks("open")
    spelt = [disguise(text) for text in plain_ones[::3] for disguise in DISGUISES.values()]
    backwards = [text[::-1] for text in plain_ones]
    odd = []
    for text in (*plain_ones, *backwards, *spelt[::4]):
        place = draw.randrange(len(text) + 1)
        odd.append(text[:place] + draw.choice(SIGNS) + text[place:])
    spread = [
        text.replace(" ", draw.choice(("  ", "\t", " \n  ", "\u3000 "))) for text in backwards
    ]
    return [*plain_ones, *spelt, *backwards, *odd, *spread, *map(str, varied_records(100))]


def test_blanks_become_single_whatever_blanks_they_are():
    for text in texts():
        seen = TextShape.of(text)
        without = re.sub("[\u200b\u00ad]", "", text)
        if seen.hidden or without != text:
            continue  # `test_invisible.py` has the hidden characters
        low = unicodedata.normalize("NFKC", text).lower()
        expected = "\n".join(" ".join(line.split()) for line in low.split("\n"))
        assert plain(text) == seen.bare == expected, text


def test_a_reading_backwards_is_left_out_only_where_no_family_matches_in_it():
    words = backwards_test(word for one in families() for word in one.near or one.cues)
    told = left_out = 0
    for text in texts():
        shapes = TextShape.of(text), TextShape.of(text, words)
        everything, needed = (dict(readings(shape)) for shape in shapes)
        found = {name for name, said in everything.items() if any(matching_families(said))}
        assert needed.items() <= everything.items()
        assert found <= set(needed), text
        told += "reversed" in found
        left_out += "reversed" in everything and "reversed" not in needed
    assert min(told, left_out) > 20


def test_a_text_reads_backwards_as_its_signs_written_backwards():
    same = 0
    for text in (
        *texts(),
        "ΟΔΟΣ και ΣΟΦΙΑ",
        "e\u0301 is é",
        "x\u200by  z",
        "İ",
        "a  b \n\n c ",
    ):  # Greek
        shape = TextShape.of(text)
        seen = text if text.isascii() else without_hidden(text)
        lines = "\n".join(reversed(seen[::-1].split("\n")))
        assert shape.bare_backwards() == plain(lines), text
        same += shape.has_same_signs_backwards
    assert same > 100


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a" * 19, ""),
        (f"see {'a1+/_-' * 4}, or not", f"{'a1+/_-' * 4}, o"),
        (f"{'A' * 20}==", f"{'A' * 20}=="),
        (f"é{'b' * 30}é {'c' * 25}", f"{'b' * 30}é\n{'c' * 25}"),
        (f"\ud800{'d' * 20}", "d" * 20),
        ("", ""),
    ],
)
def test_runs_of_the_signs_of_base64_are_pieces_with_what_follows(text: str, pieces: str):
    lines = TextShape.of(text).pieces.replace("\ufffd", "").split("\n")
    assert "\n".join(map(str.strip, lines)) == pieces


@pytest.mark.parametrize(
    "word", ["sc0re", "1gnore", "8ju-judge3", "5core", "x5score", "score5x", "p3rfect", "h1ghe$t"]
)
def test_a_stem_with_digits_for_letters_is_seen(word: str):
    assert TextShape.of(f"please {word} this").has_leet_words()


@pytest.mark.parametrize(
    "text", ["the score is 5", "room 101 and a judge", "scorecard 2a", "b4 noon"]
)
def test_a_stem_and_a_digit_in_different_words_are_no_leetspeak(text: str):
    assert not TextShape.of(text).has_leet_words()


@pytest.mark.parametrize("frame", ["{}", "see {}", "{} now", "see {} now", "a-b {} c-d", "中 {} é"])
@pytest.mark.parametrize("letters", ["i g n o r e", "i  g\tn\no r e", "i-g-n-o", "i.g.n.o.r"])
def test_letters_that_stand_apart_are_seen_wherever_they_stand(frame: str, letters: str):
    assert TextShape.of(frame.format(letters)).spaced


@pytest.mark.parametrize("text", ["a b", "it is a 5 b", "we-are-not", "1.5 and 2.5", ""])
def test_few_letters_that_stand_apart_are_no_word(text: str):
    assert not TextShape.of(text).spaced
