"""What the tests of the agent-step judges share: judges, replies, and hearings driven by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from assizes.judge.case import Case, Expected
from assizes.judge.families.agent_steps.conversations import ENTRIES
from assizes.judge.families.agent_steps.step_scores import StepJudge
from assizes.judge.hearing import Hearing
from assizes.judge.protocol import Ask
from assizes.judge.score import Score

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "prompts"


def judge_named(name: str, **options: Any) -> StepJudge:
    """A judge of seed 002 as the catalogue makes it, from its options."""
    entry = ENTRIES[name]
    made = entry.create_judge(entry.options(**options), ())
    assert isinstance(made, StepJudge)
    return made


def opened(name: str, one: Case, **options: Any) -> Hearing:
    return Hearing(judge_named(name, **options), one)


def asked(name: str, one: Case, **options: Any) -> Ask[Any]:
    (found,) = opened(name, one, **options).asks
    assert isinstance(found, Ask)
    return found


def sub(score: Any, reasoning: str = "because") -> dict[str, Any]:
    return {"reasoning": reasoning, "score": score}


def answered(hearing: Hearing, **subs: Any) -> dict[str, Score]:
    """The scores by part, after the same reply to every pending ask."""
    text = json.dumps({name: sub(score) for name, score in subs.items()})
    hearing.answer([one.reply.model_validate_json(text) for one in hearing.asks])
    return parts(hearing)


def parts(hearing: Hearing) -> dict[str, Score]:
    assert hearing.is_closed
    return {score.part: score for score in hearing.scores}


def decided(name: str, one: Case, **options: Any) -> Score:
    """The one score of a hearing that asks nothing."""
    hearing = opened(name, one, **options)
    assert hearing.asks == ()
    (found,) = hearing.scores
    return found


def expecting(**fields: Any) -> Expected:
    return Expected(**fields)


def golden(name: str, ask: Ask[Any]) -> tuple[str, str]:
    """The prompt as one text, and what is on record for it."""
    text = f"=== system ===\n{ask.prompt.system}\n=== user ===\n{ask.prompt.user}\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text, "utf-8")
    return text, path.read_text("utf-8")
