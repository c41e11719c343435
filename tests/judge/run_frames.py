"""Rows of small runs for tests: a test states the values that matter, the others are plausible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from assizes.judge.comparison.compare import ComparisonVerdict, RunComparison, compare
from assizes.judge.comparison.runs import RunData
from assizes.judge.config.gates import ComparisonConfig, ThresholdsConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.rows import as_json, frame
from assizes.judge.score import LABELS
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.summary.summary import summarise

RUN = "run"


def case_row(case_id: str, passed: bool | None = True, **rest: Any) -> dict[str, Any]:
    """A judged case; with `passed` `None` and no other status the case is errored."""
    errored = passed is None and "status" not in rest
    return {
        "run_id": RUN,
        "case_id": case_id,
        "repetition": 0,
        "passed": False if errored else passed,
        "gate": "error" if errored else "overall_score",
        "status": "errored" if errored else "judged",
        "error": "timeout: every metric (no answer)" if errored else None,
        **rest,
    }


def skipped_row(case_id: str, **rest: Any) -> dict[str, Any]:
    """A case that was not judged because its conversation was not completed."""
    return case_row(case_id, None, status="skipped", gate=None, **rest)


def score_row(
    case_id: str, metric: str = "tool_routing", raw: float | None = 5, **rest: Any
) -> dict[str, Any]:
    """A headline score on the scale 0..5; with `raw` `None` it is a failed score."""
    scored = raw is not None
    return {
        "run_id": RUN,
        "case_id": case_id,
        "repetition": 0,
        "judge": "conversation",
        "metric": metric,
        "part": "",
        "raw": raw,
        "value": raw / 5 if raw is not None else None,
        "label": LABELS[int(raw)] if raw is not None else None,
        "status": "scored" if scored else "failed",
        "reason": None if scored else "no answer",
        "details": as_json({} if scored else {"error": "timeout"}),
        "weight": 1.0,
        "tier": "execution",
        **rest,
    }


def binary_row(case_id: str, passed: bool, metric: str = "task_completion") -> dict[str, Any]:
    """A headline of a binary metric: level 5 or 0 with the words pass or fail."""
    return score_row(case_id, metric, 5 if passed else 0, label="pass" if passed else "fail")


def fraction_row(case_id: str, metric: str, raw: float, **rest: Any) -> dict[str, Any]:
    """A headline of a fraction, without weight or tier."""
    return score_row(case_id, metric, **{"raw": None, "weight": None, "tier": None}) | {
        "status": "scored",
        "reason": None,
        "details": "{}",
        "raw": raw,
        "value": raw,
        **rest,
    }


def outcomes(passed: int, failed: int = 0, errored: int = 0, **rest: Any) -> list[dict[str, Any]]:
    """The given number of cases of each verdict, in this order."""
    verdicts = [True] * passed + [False] * failed + [None] * errored
    return [case_row(f"c{i:05}", verdict, **rest) for i, verdict in enumerate(verdicts)]


def scored(*scores: float | None) -> list[dict[str, Any]]:
    """Cases with these overall scores; `None` stands for an errored case."""
    return [
        case_row(f"c{i:05}", None if score is None else True, overall_score=score)
        for i, score in enumerate(scores)
    ]


def repeated(*verdicts_by_case: Iterable[bool | None]) -> list[dict[str, Any]]:
    """Cases with the verdicts of their repetitions."""
    return [
        case_row(f"c{i}", passed, repetition=j)
        for i, verdicts in enumerate(verdicts_by_case)
        for j, passed in enumerate(verdicts)
    ]


def only_case(
    passed: bool | None = True, score: float | None = 80.0, **rest: Any
) -> list[dict[str, Any]]:
    """The case `a` and no other."""
    return [case_row("a", passed, overall_score=score, **rest)]


def ask_row(case_id: str, **rest: Any) -> dict[str, Any]:
    """An answered question of known price."""
    return {
        "run_id": RUN,
        "case_id": case_id,
        "repetition": 0,
        "judge": "conversation",
        "round": 0,
        "index": 0,
        "cached": False,
        "attempts": 1,
        "input_tokens": 700,
        "output_tokens": 300,
        "cost_usd": 0.01,
        **rest,
    }


def config(**thresholds: float) -> RunConfig:
    """A configuration with these thresholds."""
    return RunConfig(
        transcripts=TranscriptsConfig(uri="transcripts/"),
        thresholds=ThresholdsConfig(**thresholds),
    )


def lazy(table: str, rows: Iterable[Mapping[str, Any]]) -> pl.LazyFrame:
    """Rows of a public table."""
    return frame(table, rows).lazy()


def summary_of(
    cases: list[dict[str, Any]],
    scores: Iterable[Mapping[str, Any]] = (),
    asks: Iterable[Mapping[str, Any]] = (),
    intake: Mapping[str, int] | None = None,
    **thresholds: float,
) -> RunSummary:
    """The summary of these rows; without `intake` every case was read and nothing else."""
    return summarise(
        lazy("cases", cases),
        lazy("scores", scores),
        lazy("asks", asks),
        config(**thresholds),
        intake if intake is not None else {"read": len(cases)},
    )


def run_of(
    cases: list[dict[str, Any]],
    scores: Iterable[Mapping[str, Any]] = (),
    run_id: str = RUN,
    **rest: Any,
) -> RunData:
    """A complete run of these rows."""
    scores = list(scores)
    fields: dict[str, Any] = {
        "run_id": run_id,
        "name": "nightly",
        "agent_version": None,
        "config": config().model_dump(mode="json"),
        "summary": summary_of(cases, scores),
        "cases": lazy("cases", cases),
        "scores": lazy("scores", scores),
        "status": "complete",
    }
    return RunData(**{**fields, **rest})


def compared(
    baseline: list[dict[str, Any]], candidate: list[dict[str, Any]], **limits: Any
) -> RunComparison:
    """Two runs of these cases side by side, under the default limits but for those given."""
    before, after = run_of(baseline, run_id="before"), run_of(candidate, run_id="after")
    return compare(before, after, ComparisonConfig(**limits))


def verdict(
    baseline: list[dict[str, Any]], candidate: list[dict[str, Any]], **limits: Any
) -> ComparisonVerdict:
    """The verdict of the comparison of both runs."""
    return compared(baseline, candidate, **limits).verdict
