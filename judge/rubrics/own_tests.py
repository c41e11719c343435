"""The tests of a rubric: invented exchanges in its own file, each with the level that it must get.

The tables `[[tests]]` are for `assizes rubric test`. No judge reads them, so they change neither a
prompt nor the hash of a rubric.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Final

from pydantic import Field

from assizes.judge.rubrics.guidance import TEXT_CHARS, RubricTable

MAX_TESTS: Final = 200
"""The most tests of one rubric file."""

MAX_TEXT_CHARS: Final = 20_000
"""The most characters of one text of a test."""

_Text = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]


class RubricTest(RubricTable):
    """An exchange and the level that the rubric must give it."""

    response: _Text = Field(min_length=1, description="the agent's answer")
    expected: str = Field(min_length=1, max_length=100, description="the key of a level")
    request: _Text = Field(default="", description="what the user asked; empty: nothing")
    passages: list[_Text] = Field(default_factory=list, max_length=50)  # that were retrieved
    expected_response: _Text = ""
    why: str = Field(default="", max_length=TEXT_CHARS, description="for people who read the test")


Tests = Annotated[list[RubricTest], Field(max_length=MAX_TESTS)]


def check_levels(tests: Sequence[RubricTest], levels: Collection[str]) -> None:
    """Check that each test expects a level that the rubric has.

    Raises:
        ValueError: when one does not; the message names the test and the levels.
    """
    for number, test in enumerate(tests, 1):
        if test.expected not in levels:
            wanted = ", ".join(levels)
            raise ValueError(f"test {number} expects {test.expected!r}, which is none of {wanted}")
