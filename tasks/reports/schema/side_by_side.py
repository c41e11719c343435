"""One case of two runs, as its page and the API give it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from assizes.judge.comparison.turn_differences import CallPair, Spans
from assizes.judge.summary.headlines import FrozenModel
from assizes.tasks.reports.schema import parts

ScoreMove = Literal["worse", "better", "other", "same", "baseline_only", "candidate_only"]
RowKind = Literal["same", "changed", "baseline_only", "candidate_only"]


class CaseSide(FrozenModel):
    """A run and its verdict on the case."""

    run_id: str
    run_name: str
    is_there: bool = Field(description="whether the run has this repetition of the case")
    repetitions: tuple[int, ...] = Field(description="those that the run has")
    passes: int = Field(description="of its repetitions, those that passed")
    agent: str | None
    agent_version: str | None
    status: str | None = Field(description="judged, errored, skipped")
    passed: bool | None = Field(description="null: no verdict")
    overall_score: float | None = Field(description="0..100")
    summary: str | None = Field(description="the judge's summary, or why there is no verdict")
    root_cause: str | None
    fault: str | None = Field(description="why the conversation is not shown")
    more_turns: int = Field(description="turns that are not shown")


class ScoreChange(FrozenModel):
    """A score of the case in both runs; `null` where a run has none."""

    judge: str
    metric: str
    part: str = Field(description="empty: the metric itself")
    statement: str | None = Field(description="the expected outcome that the score is about")
    move: ScoreMove
    baseline: parts.Finding | None
    candidate: parts.Finding | None


class TurnMark(FrozenModel):
    """A score that names a turn."""

    metric: str
    part: str
    shown: str
    reason: str
    failure_code: str | None
    failing: bool = Field(description="below acceptable")


class TurnSide(FrozenModel):
    """A turn of one conversation."""

    number: int = Field(description="position in the conversation, from 0")
    role: str
    agent: str | None = Field(description="that spoke, where several work together")
    tool: str | None = Field(description="whose result it is")
    failed: bool = Field(description="whether the tool failed")
    text: Spans
    marks: tuple[TurnMark, ...]


class TurnRow(FrozenModel):
    """Two turns that belong together, or one that only one conversation has."""

    kind: RowKind
    baseline: TurnSide | None
    candidate: TurnSide | None
    calls: tuple[CallPair, ...]


class SystemPrompts(FrozenModel):
    """What differs in the system prompts of the agents."""

    note: str
    lines: tuple[str, ...] = Field(description="a unified diff: - baseline, + candidate")
    more: int = Field(description="how many lines are not shown")


class Flips(FrozenModel):
    """The cases around this one whose verdict turned, in the order of the comparison."""

    total: int
    place: int | None = Field(description="of this case, from 1; null: its verdict did not turn")
    previous: str | None = Field(description="the id of a case")
    next: str | None


class SideBySide(FrozenModel):
    """One case of two runs."""

    case_id: str
    repetition: int
    baseline: CaseSide
    candidate: CaseSide
    notes: tuple[str, ...] = Field(description="what to know before reading")
    scores: tuple[ScoreChange, ...] = Field(description="those that moved come first")
    more_scores: int
    turns: tuple[TurnRow, ...]
    system: SystemPrompts
    prompts: tuple[parts.PromptChange, ...] = Field(description="the prompts of the judges")
    prompts_note: str
    flips: Flips
