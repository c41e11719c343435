"""The quick test lets through all that its patterns match, so that flags stay the same."""

import random
import re

import pytest

from assizes.judge.injection.disguises import plain
from assizes.judge.injection.families import (
    ATTACKS,
    families,
    family_names,
    matching_families,
)
from assizes.judge.quick_test import QuickTest, without_surrogates
from benchmarks.hostile_texts import attacks
from benchmarks.varied_texts import varied_records

POOL = (*ATTACKS, *attacks("open"), *attacks("held_out"))


def spliced(count: int) -> list[str]:
    """Attacks cut and joined at random places, also with signs that take part in no word."""
    draw = random.Random(5)
    joints = ("", "\n", " ", "é", "中", "\u0301", "_", "5", "\x1c", "．")  # noqa: RUF001  # full width
    texts = []
    for _ in range(count):
        first, second = draw.choice(POOL), draw.choice(POOL)
        cut, start = draw.randrange(len(first) + 1), draw.randrange(len(second) + 1)
        texts.append(first[:cut] + draw.choice(joints) + second[start:])
    return texts


def test_whatever_a_family_matches_its_quick_test_lets_through():
    matched = 0
    for text in (*POOL, *spliced(1500)):
        bare = plain(text)
        for family in families():
            if family.has_match(bare):
                matched += 1
                assert family.quick_test.may_match(bare), (family.name, text)
    assert matched > 1500


def test_families_tested_together_are_found_as_each_alone():
    matched = 0
    for text in (*POOL, *spliced(300)):
        bare = plain(text)
        alone = {family.name for family in families() if family.has_match(bare)}
        matched += len(alone)
        assert {family.name for family in matching_families(bare)} == alone, text
    assert matched > 300


def test_little_else_gets_through():
    texts = [plain(str(record)) for record in varied_records(100)]
    through = sum(family.quick_test.may_match(text) for text in texts for family in families())
    assert through < len(texts)  # of 44 families each


@pytest.mark.parametrize(
    ("pattern", "text", "may_match"),
    [
        ("(?:to|note) (?:judge|grader)", "a grader", True),  # words of two letters: left out
        ("(?:not|note) (?:judge|grader)", "a grader", False),
        (" .new", "news", True),
        ("[5$]core", "score", False),
        ("[^.]core", "core", True),
        ("(?:to|at) [a-z]+", "by noon", False),  # nothing stronger follows
    ],
)
def test_a_test_begins_at_the_first_element_that_tells_something(
    pattern: str, text: str, may_match: bool
):
    assert QuickTest([pattern]).may_match(text) is may_match


def test_a_text_with_lone_surrogates_is_searched_all_the_same():
    attack = f"{ATTACKS[7]}\ud800"
    assert without_surrogates(attack) != attack
    assert set(family_names(attack)) == set(family_names(ATTACKS[7])) != set()


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^\W{0,4}new\b", "\n * new"),
        (r"a{0,300}b", "a" * 50 + "b"),
        (r"[^\w\s]{2}x", "¿¡x"),
        (r"[^\W\d]z", "éz"),
        (r"(?<![a-z])go(?= on|ne)", "go on"),
        (r"a(?:b|c)++d*?\.\x27$", "abcd.'"),
        (r"[\]}\-]{1,2}/", "}-/"),
        (r"\S\s+\d", "a \n٣"),
        (r"(?:^|[.;]\s)(?:to )?(?:the )?judge", "judge"),
        (r"(?:5|five)[^.]{0,40}marks", "5 marks"),
        (r"a{0,2}|b", "b"),
        (r"(?:a|b?c)+?(?<!x)[^y]{2}", "abzz"),
    ],
)
def test_it_lets_through_what_a_pattern_matches(pattern: str, text: str):
    assert re.search(pattern, text)
    assert QuickTest([pattern]).may_match(text)


def test_it_keeps_apart_what_no_pattern_can_match():
    test = QuickTest([r"\bscore\s+of\s+5\b", "full marks?"])
    assert not test.may_match("a score of 4, and half marks")
    assert not QuickTest([]).may_match("anything")


@pytest.mark.parametrize("pattern", [r"(?P<name>a)", r"(?i)a", r"(a)\1", r"\N{BULLET}"])
def test_syntax_that_it_does_not_know_is_refused(pattern: str):
    with pytest.raises(ValueError, match="the quick test"):
        QuickTest([pattern])
