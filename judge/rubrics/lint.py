"""Words of a rubric that let the length or the style of an answer decide, found by few rules.

Judges prefer long and well-dressed answers without being told to; a rubric that praises length or
dress makes it worse. A rule looks at the words of the levels, the question, the notes and the
guidelines. It does not fire where the sentence says that length or style must not count, nor, for style,
where style is what the rubric is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

Rule = Literal["length", "style", "same_levels"]

MAX_CHARS: Final = 100_000
"""Characters of one text of a rubric that are looked at."""

ALIKE: Final = 0.9
"""The share of common words, 0..1, from which two levels say the same."""

_SENTENCE: Final = re.compile(r"[^.!?;\n]+[.!?;]?")
_EXEMPT: Final = re.compile(
    r"\b(?:regardless|irrespective|whatever|independent(?:ly)?|not|never|no|nor|n't|without|ignore"
    r"|neither|alone|bias(?:ed)?|avoid\w*|rather than|instead of|do(?:es)? not)\b|n't\b",
    re.IGNORECASE,
)
"""What a sentence says that forbids what its words would otherwise ask for."""

_LENGTH: Final = re.compile(
    r"\b(?:longer|lengthier|lengthy|more (?:words|sentences|paragraphs|detailed|elaborate|extensive)"
    r"|(?:very|highly|richly) detailed|in[- ]depth|elaborate|extensive|exhaustive"
    r"|(?:at least|no fewer than|minimum of) \w+ (?:words|sentences|paragraphs)"
    r"|level of detail|amount of detail|as (?:long|detailed) as possible)\b",
    re.IGNORECASE,
)
_STYLE: Final = re.compile(
    r"\b(?:well[- ](?:written|structured|formatted|organi[sz]ed|presented)|eloquent\w*|elegant\w*"
    r"|beautiful\w*|engaging|articulate|fluent\w*|flowery|stylish|impressive\w*"
    r"|professional (?:tone|language|sounding)|confident (?:tone|language)|sounds? (?:confident|good"
    r"|professional|convincing)|bullet(?:ed)? (?:points?|lists?)|emojis?"
    r"|nicely (?:written|formatted))\b",
    re.IGNORECASE,
)
_ABOUT_STYLE: Final = re.compile(
    r"\b(?:tone|style|format\w*|deliver\w*|spoken|writing|written|readab\w*|fluency|voice|clarity"
    r"|coheren\w*|presentation|length|concise\w*|verbos\w*|brevity)\b",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"\w+")

EXPLAINED: Final[Mapping[Rule, str]] = {
    "length": "asks for length or detail: longer answers win, right or wrong; say what must be in it",
    "style": "asks for style, which the rubric is not about: dressed-up answers win",
    "same_levels": "two levels say the same: a judge can only guess between them",
}
"""What each rule is about, for people."""


class LintFinding(BaseModel):
    """A place in a rubric where a rule fires."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: Rule
    where: str = Field(description="part of the rubric, e.g. `levels.5` or `question`")
    words: str = Field(description="the words that made the rule fire")
    why: str


@dataclass(frozen=True, slots=True)
class RubricParts:
    """The texts of a rubric that a judge reads, and what it is about."""

    about: str  # name, title and description
    texts: Mapping[str, str]  # place in the file -> text
    levels: Mapping[str, str]  # key -> criteria; they stand in `texts` too


def lint(parts: RubricParts) -> list[LintFinding]:
    """The findings of all rules, in the order of the texts."""
    rules: list[tuple[Rule, re.Pattern[str]]] = [("length", _LENGTH)]
    about = parts.about.replace("_", " ")
    if not _ABOUT_STYLE.search(about):
        rules.append(("style", _STYLE))
    findings = [
        LintFinding(rule=rule, where=where, words=words, why=EXPLAINED[rule])
        for where, text in parts.texts.items()
        for rule, pattern in rules
        for words in dict.fromkeys(_fires(text[:MAX_CHARS], pattern))
    ]
    return [*findings, *_same_levels(parts.levels)]


def _fires(text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    for sentence in _SENTENCE.finditer(text):
        if not _EXEMPT.search(sentence[0]):
            yield from (match[0].casefold() for match in pattern.finditer(sentence[0]))


def _same_levels(levels: Mapping[str, str]) -> Iterator[LintFinding]:
    words = {key: set(_WORD.findall(text.casefold())) for key, text in levels.items()}
    keys = list(levels)
    for place, first in enumerate(keys):
        for second in keys[place + 1 :]:
            union = words[first] | words[second]
            if union and len(words[first] & words[second]) >= ALIKE * len(union):
                yield LintFinding(
                    rule="same_levels",
                    where=f"levels.{first}",
                    words=f"levels {first} and {second}",
                    why=EXPLAINED["same_levels"],
                )
