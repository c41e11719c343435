"""The interface of agent-step judges: a judge written for it can take part in a run.

A `BaseJudge` reads a question, an answer with its steps, and the expected values; it returns one
result or `None`. Its `evaluate` may do anything, also call a model: then neither the reply cache
nor the limits of the run see that call.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from assizes.judge.case import Case
from assizes.judge.evidence.steps import as_data
from assizes.judge.score import Metric, Scale, Score


class EvaluationStrategy(StrEnum):
    """Which part of a conversation a judge evaluates."""

    FINAL_RESPONSE = "final_response"
    """The final response only."""
    SINGLE_STEP = "single_step"
    """The calls of particular tools."""
    TRAJECTORY = "trajectory"
    """All steps in order."""


@dataclass(frozen=True, slots=True)
class JudgeResult:
    """The result of an agent-step judge."""

    score: float  # 0..1; outside it is clamped with a warning
    passed: bool  # by the judge's own threshold
    reasoning: str
    metadata: Mapping[str, Any] = field(default_factory=dict)  # sub-scores: {"score", "reasoning"}


class BaseJudge(ABC):
    """An agent-step judge: a subclass sets `name` and `strategy` and writes `evaluate`.

    It promises one metric of its name, with a part for each sub-score in the result's metadata, and
    takes part in a run when [judge] judges names it as `module:Class`.
    """

    name: str = "base_judge"
    strategy: EvaluationStrategy = EvaluationStrategy.FINAL_RESPONSE
    version: str = "1"

    @abstractmethod
    def evaluate(
        self,
        input_data: dict[str, Any],  # the last `question`, all `questions`, `context`: instructions
        output_data: dict[str, Any],  # `response`, `steps`: name, input, output, tool_calls
        expected: dict[str, Any] | None = None,  # a key for each expected value that is specified
    ) -> JudgeResult | None:
        """The result for one case; `None` where the judge does not apply."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """One metric 0..1 with the judge's name; a case passes only when this metric passes."""
        title = self.name.replace("_", " ").title()
        description = (type(self).__doc__ or "").strip().partition("\n")[0]
        return (Metric(self.name, Scale.FRACTION, title, description, gate="judges"),)

    def missing(self, case: Case) -> str | None:
        """No case is skipped here: `evaluate` returns `None` where the judge does not apply."""
        return None

    def judge(self, case: Case) -> list[Score]:
        """The result as a headline score with parts; one skipped score where there is no result."""
        result = self.evaluate(*as_data(case))
        if result is None:
            return [Score.skipped(self.name, "the judge does not apply to this case")]
        subs = {str(key): value for key, value in result.metadata.items() if _is_sub_score(value)}
        # JSON must be able to hold the details; what it cannot express becomes its text.
        others = {
            # `parse_constant`: NaN and Infinity, which `dumps` lets through.
            str(key): json.loads(json.dumps(value, default=str), parse_constant=str)
            for key, value in result.metadata.items()
            if key not in subs
        }
        details = {"reasoning": result.reasoning, "strategy": str(self.strategy), **others}
        headline = self._score(result.score, details)
        if headline.status == "scored":
            headline = replace(headline, passed=result.passed)  # its own threshold decides
        parts = [
            self._score(sub["score"], {"reasoning": str(sub.get("reasoning", ""))}, key)
            for key, sub in sorted(subs.items())
        ]
        return [headline, *parts]

    def _score(self, raw_score: float, details: Mapping[str, Any], part: str = "") -> Score:
        if not math.isfinite(raw_score):
            reason = f"the judge scored {raw_score!r}, wanted 0 to 1"
            return Score.failed(self.name, reason, "invalid_score", part)
        value, warnings = clamp_score(raw_score)
        warned = {"warnings": warnings} if warnings else {}
        return Score.of(self.metrics[0], value, part=part, details={**details, **warned})


def clamp_score(raw_score: float) -> tuple[float, list[str]]:
    """The score limited to 0..1 (9 decimals), with a warning if it was outside that range."""
    value = round(min(max(float(raw_score), 0.0), 1.0), 9)
    inside = 0 <= raw_score <= 1
    return value, [] if inside else [f"score {raw_score:g} is outside 0..1, taken as {value:g}"]


def _is_sub_score(value: Any) -> bool:
    score = value.get("score") if isinstance(value, Mapping) else None
    return isinstance(score, int | float) and not isinstance(score, bool)  # True is an int
