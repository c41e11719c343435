"""Everything a report of a run shows, as plain data; HTML, Markdown and JSON only render it.

The same rows give the same data: nothing here reads a clock, and every list has an order of its
own. Text of transcripts and judges is cut and made visible here, and escaped where it is rendered.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import polars as pl

from assizes.judge.comparison.compare import RunComparison
from assizes.judge.config.run import OFFLINE_MODEL, RunConfig
from assizes.judge.history.anchors import Attribution
from assizes.judge.rows import SCHEMA_VERSION
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.reports import formatting
from assizes.tasks.reports.data.case_rows import case_rows
from assizes.tasks.reports.data.families import family_rows, judge_rows, published_rows, skip_rows
from assizes.tasks.reports.data.intervals import interval_of
from assizes.tasks.reports.data.metric_rows import (
    failure_codes,
    metric_rows,
    most_frequent,
    root_causes,
    score_distribution,
    tier_rows,
)
from assizes.tasks.reports.data.outcomes import REGRESSION, outcome_of
from assizes.tasks.reports.data.reproduce import reproduction
from assizes.tasks.reports.data.versus import case_changes, comparison_data
from assizes.tasks.runs.baselines import named_baseline
from assizes.tasks.store import RunRecord

MAX_ASK_ERRORS: Final = 20
MAX_AGENTS: Final = 10

_STORED_DEFAULTS: Final[Mapping[str, Any]] = {"attribution": None, "calibration": []}
"""What only the store can tell: `assizes.tasks.reports.stored` puts it in."""

_HEADLINES: Final = {
    "passed": ("PASSED", "Every gate was reached."),
    "failed": ("FAILED", "A gate was missed:"),
    REGRESSION: ("REGRESSION", "This run is worse than its baseline:"),
    "inconclusive": ("INCONCLUSIVE", "Too little could be judged to say anything:"),
    "not_comparable": ("NOT COMPARABLE", "This run and its baseline were not judged alike:"),
    "undecided": ("INCONCLUSIVE", "The data cannot tell whether this run is worse:"),
    "judge_moved": ("INCONCLUSIVE", "The judge moved, so no fall is held against the agent:"),
    "incomplete": (
        "INCOMPLETE",
        "The run has not ended; the figures cover what was judged so far.",
    ),
}


def report_data(
    run: RunRecord,
    summary: RunSummary,
    cases: pl.DataFrame | pl.LazyFrame,
    scores: pl.DataFrame | pl.LazyFrame,
    asks: pl.DataFrame | pl.LazyFrame,
    comparison: RunComparison | None = None,
) -> dict[str, Any]:
    """The report of a run as JSON-able data.

    Args:
        run: its row.
        summary: its aggregate.
        cases: table `cases` of the run; of lazy tables only what is shown comes into memory.
        scores: table `scores` of the run.
        asks: table `asks` of the run.
        comparison: with a baseline, this run being the candidate; null without one.
    """
    cases, scores, asks = cases.lazy(), scores.lazy(), asks.lazy()
    compared = comparison_data(comparison)
    deltas = {
        metric_delta.metric: metric_delta.model_dump() for metric_delta in _deltas(comparison)
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "judged_by": _judged_by(run, asks),
        "run": _run(run, cases),
        "verdict": _verdict(run, summary, compared),
        "counts": _counts(summary),
        "coverage": _coverage(summary),
        "families": family_rows(summary.metrics),
        "metrics": metric_rows(summary.metrics, deltas, summary.intervals),
        "published": published_rows(summary),
        "tiers": tier_rows(summary),
        "failure_codes": failure_codes(summary),
        "root_causes": root_causes(summary),
        "scores": score_distribution(cases),
        "usage": _usage(summary, asks),
        "judges": judge_rows(summary),
        "skipped": skip_rows(scores),
        "cases": case_rows(cases, scores, case_changes(comparison)),
        "ask_errors": _ask_errors(asks),
        **_STORED_DEFAULTS,
        "warnings": _warnings(run, summary),
        "comparison": compared,
        "config": {name: run.config[name] for name in RunConfig.model_fields if name in run.config},
        "fingerprints": [
            {"name": formatting.name_of(name), "value": formatting.name_of(str(value))}
            for name, value in sorted(run.config.get("fingerprints", {}).items())
        ],
        "reproduce": reproduction(run.run_id, run.config),
    }


def _deltas(comparison: RunComparison | None) -> Any:
    return () if comparison is None else comparison.aggregate.per_metric_aggregate_deltas


def _judged_by(run: RunRecord, asks: pl.LazyFrame) -> dict[str, Any]:
    names = collect_rows(asks.select(pl.col("answered_by").drop_nulls().unique()))["answered_by"]
    answered = sorted({formatting.name_of(name) for name in names})
    model = formatting.name_of(run.judge_model)
    offline = run.judge_model == OFFLINE_MODEL
    if offline:
        line = f"Judged by the offline baseline ({model}): plain text rules, no language model."
    else:
        by = f"answered by {', '.join(answered)}" if answered else "no answer came"
        line = f"Judged by {model} ({by})."
    return {"line": line, "model": model, "answered_by": answered, "offline": offline}


def _run(run: RunRecord, cases: pl.LazyFrame) -> dict[str, Any]:
    pairs = collect_rows(cases.select("agent", "agent_version").unique()).rows()
    agents = sorted({" ".join(part for part in pair if part) for pair in pairs} - {""})
    more = [f"and {len(agents) - MAX_AGENTS} more"] if len(agents) > MAX_AGENTS else []
    return {
        "run_id": run.run_id,
        "name": run.name,
        "trigger": run.trigger,
        "status": run.status,
        "config_hash": run.config_hash,
        "started_at": _time(run.started_at),
        "finished_at": _time(run.finished_at),
        "agents": [formatting.name_of(agent) for agent in agents[:MAX_AGENTS]] + more,
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _verdict(
    run: RunRecord, summary: RunSummary, compared: Mapping[str, Any] | None
) -> dict[str, Any]:
    outcome, reasons = _outcome(run, summary, compared)
    word, headline = _HEADLINES[outcome]
    return {
        "outcome": outcome,
        "word": word,
        "headline": headline,
        "reasons": reasons,
        "cautions": [formatting.clean_line(one, 500) for one in summary.warnings],
        "dimensions": _dimensions(summary),
    }


def _outcome(
    run: RunRecord, summary: RunSummary, compared: Mapping[str, Any] | None
) -> tuple[str, list[str]]:
    """The most severe finding names the run; missing scores never pass for good news."""
    missed = [
        f"{dimension['name'].lower()} gate: {dimension['shown']}, needs {dimension['needs']}"
        for dimension in _dimensions(summary)
        if dimension["passed"] is False
    ]
    ending, why = _baseline_ending(run, compared)
    outcome = outcome_of(run.status, summary.outcome, ending)
    if outcome == "incomplete":
        left = summary.counts.get("not_attempted", 0)
        return outcome, [f"{formatting.plural(left, 'case')} could not be judged"]
    if outcome == "inconclusive":
        return outcome, missed or ["No case has a verdict."]
    if outcome == REGRESSION:
        return outcome, [*why, *missed]
    return outcome, missed if outcome == summary.outcome else why


def _baseline_ending(run: RunRecord, compared: Mapping[str, Any] | None) -> tuple[str, list[str]]:
    """What the baseline says; of one that was named and could not be compared with, nothing."""
    if compared is not None:
        return compared["ending"], compared["why"]
    if (baseline_name := named_baseline(run.config)) is None:
        return "fine", []
    return "inconclusive", [
        f"no comparison with its baseline {formatting.name_of(baseline_name)} is stored"
    ]


def verdict_with_attribution(
    verdict: Mapping[str, Any], attribution: Attribution | None
) -> dict[str, Any]:
    """The verdict with what the anchors say: while the judge moves a regression is inconclusive."""
    if attribution is None or not attribution.judge_moved or verdict["outcome"] != REGRESSION:
        return dict(verdict)
    word, headline = _HEADLINES["judge_moved"]
    return {**verdict, "outcome": "undecided", "word": word, "headline": headline}


def _dimensions(summary: RunSummary) -> list[dict[str, Any]]:
    """The two gates of seed 001 and the floor under both, on 0..100."""
    coverage = None if summary.coverage is None else summary.coverage * 100
    floor = summary.min_coverage * 100
    score, rate = summary.weighted_metrics_score_pct, summary.cases_pass_rate_pct
    return [
        _dimension(
            "Metrics",
            "Mean overall score of the cases with a verdict.",
            (score, summary.metrics_pass_threshold, summary.metrics_passed),
            (formatting.number(score), f"{summary.metrics_pass_threshold:g} of 100"),
            interval_of(summary.intervals, "weighted_metrics_score_pct"),
        ),
        _dimension(
            "Cases",
            f"{summary.passed_count:,} of {summary.total_executions:,} passed; an error is no pass.",
            (rate, summary.cases_pass_threshold, summary.cases_passed),
            (_percent(rate), f"{summary.cases_pass_threshold:g} %"),
            interval_of(summary.intervals, "cases_pass_rate_pct"),
        ),
        _dimension(
            "Coverage",
            "Scores that could be had, of those that were due.",
            (coverage, floor, None if coverage is None else round(coverage, 7) >= round(floor, 7)),
            (_percent(coverage), f"{round(floor, 7):g} %"),
        ),
    ]


def _percent(value: float | None) -> str:
    return formatting.share(None if value is None else round(value / 100, 9))


def _dimension(
    name: str,
    meaning: str,
    figures: tuple[float | None, float, bool | None],
    shown: tuple[str, str],
    interval: dict[str, Any] | None = None,
) -> dict[str, Any]:
    value, threshold, passed = figures
    return {
        "name": name,
        "meaning": meaning,
        "value": None if value is None else round(value, 9),
        "threshold": round(threshold, 9),
        "passed": passed,
        "shown": shown[0],
        "needs": shown[1],
        "interval": interval,
    }


def _counts(summary: RunSummary) -> dict[str, Any]:
    parts = [
        {"name": name.replace("_", " "), "count": count}
        for name, count in summary.counts.items()
        if name != "read"
    ]
    read = summary.counts.get("read", 0)
    equation = " + ".join(f"{part['count']:,} {part['name']}" for part in parts)
    return {
        "read": read,
        "parts": parts,
        "reconciles": sum(summary.counts.values()) == 2 * read,
        "sentence": f"{read:,} read = {equation}.",
    }


def _coverage(summary: RunSummary) -> dict[str, Any]:
    """Over all headline scores; what each gate counts is beside the gate."""
    scored, failed, skipped = (
        sum(getattr(metric, name) for metric in summary.metrics)
        for name in ("scored", "failed", "skipped")
    )
    return {
        "scored": scored,
        "failed": failed,
        "skipped": skipped,
        "share": summary.coverage,
        "floor": summary.min_coverage,
        "failures": [
            {"code": formatting.name_of(code), "count": count}
            for code, count in most_frequent(summary.failures)
        ],
        "sentence": (
            f"{formatting.plural(scored, 'score')} found, {failed:,} could not be had, "
            f"{skipped:,} did not apply."
        ),
    }


def _usage(summary: RunSummary, asks: pl.LazyFrame) -> list[dict[str, Any]]:
    calls = summary.model_calls
    answered = asks.filter(~pl.col("cached") & pl.col("error").is_null()).select("latency_ms")
    latency = collect_rows(answered)["latency_ms"]
    half, most = (latency.quantile(share, interpolation="linear") for share in (0.5, 0.95))
    return [
        _facts(
            "Agent",
            {
                "Latency, median of cases": _latency(summary, "latency_p50_ms"),
                "Latency, 95th percentile": _latency(summary, "latency_p95_ms"),
                "Latency, longest": formatting.duration(summary.latency_max_ms),
                "Latency, mean": _latency(summary, "latency_avg_ms"),
                **_tokens(summary.total_agent_token_usage),
                "Cost": formatting.money(summary.total_agent_cost_usd),
            },
        ),
        _facts(
            "Judge",
            {
                "Questions asked": formatting.count(calls.asks),
                "Answered from kept replies": formatting.count(calls.cached),
                "Never answered": formatting.count(calls.unanswered),
                "Calls made": formatting.count(calls.attempts),
                "Latency of an answer, median": formatting.duration(half),
                "Latency of an answer, 95th percentile": formatting.duration(most),
                **_tokens(summary.total_platform_token_usage),
                "Cost": formatting.money(summary.total_platform_cost_usd),
                **_ledger(summary),
                "Cost with the agent's": formatting.money(summary.total_estimated_cost_usd),
            },
        ),
        *([_facts("Votes", _votes(summary))] if summary.stability else []),
    ]


def _latency(summary: RunSummary, name: str) -> str:
    shown, span = formatting.duration(getattr(summary, name)), summary.intervals.get(name)
    if span is None or span.low is None or span.high is None:
        return shown
    low, high = formatting.duration(span.low), formatting.duration(span.high)
    return f"{shown} ({span.confidence:.0%} CI {low} to {high})"


def _votes(summary: RunSummary) -> dict[str, str]:
    """How steady each metric is where more than one opinion was asked for."""
    return {
        f"{metric.metric} ({metric.judge})": f"flips {formatting.share(metric.flip_rate)}, models agree "
        f"{formatting.share(metric.agreement)}, escalated {formatting.count(metric.escalated)}"
        for metric in summary.stability
    }


def _ledger(summary: RunSummary) -> dict[str, str]:
    """What the ledger adds to the cost in the rows; nothing where there is no ledger."""
    lines = {
        "Spent over all sittings, by the ledger": summary.spent_usd,
        "Of that, in no row": summary.spent_outside_rows_usd,
    }
    known = {name: formatting.money(usd) for name, usd in lines.items() if usd is not None}
    if summary.cost_estimated is not None:
        known["Cost of estimated tokens"] = formatting.share(summary.cost_estimated)
    return known


def _tokens(usage: Mapping[str, int] | None) -> dict[str, str]:
    """A line for tokens in and out; a side that was not counted is unknown, not 0."""
    known = usage or {}
    return {
        "Tokens in": formatting.count(known.get("input")),
        "Tokens out": formatting.count(known.get("output")),
        "Tokens in all": formatting.count(known.get("total")),
    }


def _facts(title: str, facts: Mapping[str, str]) -> dict[str, Any]:
    pairs = [{"name": name, "value": value} for name, value in facts.items()]
    return {"title": title, "facts": pairs}


def _ask_errors(asks: pl.LazyFrame) -> list[dict[str, Any]]:
    counted = asks.drop_nulls("error").group_by("error").agg(rows=pl.len())
    ranked = counted.sort("rows", "error", descending=[True, False]).head(MAX_ASK_ERRORS)
    return [
        {"error": formatting.line_of(error), "count": count}
        for error, count in collect_rows(ranked).rows()
    ]


def _warnings(run: RunRecord, summary: RunSummary) -> list[str]:
    unread, twice = (summary.counts.get(name, 0) for name in ("quarantined", "duplicate"))
    warnings = {
        f"{formatting.plural(unread, 'record')} could not be read; table rejects says why.": unread,
        f"{formatting.plural(twice, 'record')} had come before; each case was judged once.": twice,
        f"{formatting.plural(summary.undecided_count, 'case')} had no gate to decide by: not counted as "
        "passed.": summary.undecided_count,
        f"{formatting.plural(summary.pass_flagged_count, 'pass', 'passes')} flagged: the transcript speaks "
        "to its judges, or the agent says nothing; not counted as passed.": (
            summary.pass_flagged_count
        ),
        "The offline baseline is a floor to measure judges against, not a substitute for one.": (
            run.judge_model == OFFLINE_MODEL
        ),
    }
    return [text for text, applies in warnings.items() if applies]
