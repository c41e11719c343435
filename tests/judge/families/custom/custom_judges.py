"""Custom judges from TOML texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assizes.judge.case import Case, Chunk
from assizes.judge.catalog import JudgePanel, resolve_judges
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.families.custom.toml_judges import CustomRubric
from assizes.judge.hearing import Hearing
from assizes.judge.protocol import Ask, Judge, NoReply
from assizes.judge.rubrics.rubric import toml_table, validate_table
from assizes.judge.score import Score
from tests.builders import agent, case, user
from tests.judge.prompts.replied import replied

POLITE = """
kind = "ANSWER"
name = "polite"
description = "Is the answer polite?"
question = "Is the response polite from its first to its last word?"
levels.yes.criteria = "It is."
levels.no.criteria = "A word of it is not."
levels.no.example = "'As I said already.'"
notes = "Bluntness is not impolite."
"""
FRESH = """
kind = "RETRIEVAL"
name = "fresh"
description = "Are the chunks up to date?"
question = "Does the retrieved chunk speak of this year?"
"""
EFFORT = """
kind = "ANSWER"
name = "effort"
description = "How little effort does the answer ask of the user?"
question = "How much must the user still do?"
scale = "labelled"
threshold = 0.5
levels.nothing = { value = 1.0, criteria = "Nothing is left to do." }
levels."one step" = { value = 0.5, criteria = "One step is." }
levels.much = { value = 0.0, criteria = "More than that." }
"""
CASE = case(
    user("Where is my order?"),
    agent("On its way."),
    chunks=(Chunk(content="Orders ship in 2 days.", doc_uri="a"), Chunk(content="We sell tea.")),
)


def parsed_judge(text: str, where: str) -> CustomRubric:
    """A judge from TOML text; `where` is the file named in errors."""
    return validate_table(CustomRubric, toml_table(text, where), where)


def written(folder: Path, *texts: str) -> str:
    for place, text in enumerate(texts):
        (folder / f"judge_{place}.toml").write_text(text, "utf-8")
    return str(folder)


def sitting(folder: Path, *texts: str, **rest: Any) -> JudgePanel:
    names = tuple(parsed_judge(text, "it.toml").name for text in texts)
    given = {"model": "openai/gpt-4.1", "judges": names} | rest
    return resolve_judges(JudgeConfig(rubrics=(written(folder, *texts),), **given))


def judge_of(folder: Path, text: str, **options: Any) -> Judge:
    name = parsed_judge(text, "it.toml").name
    return sitting(folder, text, options={name: options}).judges[0]


def asked(judge: Judge, one: Case = CASE) -> Ask[Any]:
    (question,) = Hearing(judge, one).asks
    assert isinstance(question, Ask)
    return question


def heard(judge: Judge, *replies: Any, one: Case = CASE) -> list[Score]:
    hearing = Hearing(judge, one)
    questions = [question for question in hearing.asks if isinstance(question, Ask)]
    hearing.answer(
        [
            reply if isinstance(reply, NoReply) else replied(question, reply)
            for question, reply in zip(questions, replies, strict=True)
        ]
    )
    return hearing.scores


def rating(word: Any, rationale: str = "why") -> dict[str, Any]:
    return {"rationale": rationale, "rating": word}


def refused(text: str) -> str:
    with pytest.raises(ConfigurationError) as error:
        parsed_judge(text, "it.toml")
    assert "\n" not in str(error.value)
    return str(error.value)
