"""Computes everything that the report of a run shows; HTML, Markdown and JSON only render it.

The same rows give the same data: no clock is read, and every list has a defined order. Text of
transcripts and judges is cut and made visible here; it is escaped where it is rendered.
"""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from assizes.judge.comparison.compare import RunComparison
from assizes.judge.config.judging import OFFLINE_MODEL
from assizes.judge.config.run import RunConfig
from assizes.judge.rows import SCHEMA_VERSION
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.reports.data.case_rows import case_rows
from assizes.tasks.reports.data.comparison import case_changes, comparison_part
from assizes.tasks.reports.data.families import family_rows, judge_rows, published_rows, skip_rows
from assizes.tasks.reports.data.metric_rows import (
    failure_codes,
    metric_rows,
    most_frequent,
    root_causes,
    score_distribution,
    tier_rows,
)
from assizes.tasks.reports.data.reproduce import reproduction
from assizes.tasks.reports.data.usage import usage_facts
from assizes.tasks.reports.data.verdict import run_verdict
from assizes.tasks.reports.formatting import line_of, name_of, plural, utc_time
from assizes.tasks.reports.schema.parts import Counted, NameValue
from assizes.tasks.reports.schema.report import (
    AskError,
    Counts,
    Coverage,
    Failure,
    JudgedBy,
    Report,
    RunHead,
)
from assizes.tasks.store import RunRecord

MAX_ASK_ERRORS: Final = 20
"""Different errors of asks that are listed, at most."""

MAX_AGENTS: Final = 10
"""Agents with their versions that are listed, at most."""


def report_data(
    run: RunRecord,
    summary: RunSummary,
    cases: pl.DataFrame | pl.LazyFrame,
    scores: pl.DataFrame | pl.LazyFrame,
    asks: pl.DataFrame | pl.LazyFrame,
    comparison: RunComparison | None = None,
) -> dict[str, Any]:
    """The report of a run as JSON-able data, in the shape of `assizes.tasks.reports.schema`.

    Of lazy tables, only the rows that are shown come into memory. Calibrations and the attribution
    of a change need the store: `assizes.tasks.reports.stored` adds them.

    Args:
        run: the run.
        summary: the summary of the run.
        cases: table `cases` of the run.
        scores: table `scores` of the run.
        asks: table `asks` of the run.
        comparison: the comparison of this run with its baseline; `None` without a baseline.
    """
    cases, scores, asks = cases.lazy(), scores.lazy(), asks.lazy()
    report = Report(
        schema_version=SCHEMA_VERSION,
        judged_by=_judged_by(run, asks),
        run=_run_head(run, cases),
        verdict=run_verdict(run, summary, compared := comparison_part(comparison)),
        counts=_counts(summary),
        coverage=_coverage(summary),
        families=family_rows(summary.metrics),
        metrics=metric_rows(summary.metrics, comparison, summary.intervals),
        published=published_rows(summary),
        tiers=tier_rows(summary),
        failure_codes=failure_codes(summary),
        root_causes=root_causes(summary),
        scores=score_distribution(cases),
        usage=usage_facts(summary, asks),
        judges=judge_rows(summary),
        skipped=skip_rows(scores),
        cases=case_rows(cases, scores, case_changes(comparison)),
        ask_errors=_ask_errors(asks),
        attribution=None,
        calibration=[],
        warnings=_warnings(run, summary),
        comparison=compared,
        config={name: run.config[name] for name in RunConfig.model_fields if name in run.config},
        fingerprints=_fingerprints(run),
        reproduce=reproduction(run.run_id, run.config),
    )
    return report.model_dump(by_alias=True)


def _judged_by(run: RunRecord, asks: pl.LazyFrame) -> JudgedBy:
    names = collect_rows(asks.select(pl.col("answered_by").drop_nulls().unique()))["answered_by"]
    answered = sorted({name_of(name) for name in names})
    model = name_of(run.judge_model)
    offline = run.judge_model == OFFLINE_MODEL
    if offline:
        line = f"Judged by the offline baseline ({model}): plain text rules, no language model."
    else:
        by = f"answered by {', '.join(answered)}" if answered else "no answer came"
        line = f"Judged by {model} ({by})."
    return JudgedBy(line=line, model=model, answered_by=answered, offline=offline)


def _run_head(run: RunRecord, cases: pl.LazyFrame) -> RunHead:
    pairs = collect_rows(cases.select("agent", "agent_version").unique()).rows()
    agents = sorted({" ".join(part for part in pair if part) for pair in pairs} - {""})
    more = [f"and {len(agents) - MAX_AGENTS} more"] if len(agents) > MAX_AGENTS else []
    return RunHead(
        run_id=run.run_id,
        name=run.name,
        trigger=run.trigger,
        status=run.status,
        config_hash=run.config_hash,
        started_at=utc_time(run.started_at),
        finished_at=utc_time(run.finished_at),
        agents=[name_of(agent) for agent in agents[:MAX_AGENTS]] + more,
    )


def _counts(summary: RunSummary) -> Counts:
    parts = [
        Counted(name=name.replace("_", " "), count=count)
        for name, count in summary.counts.items()
        if name != "read"
    ]
    read = summary.counts.get("read", 0)
    equation = " + ".join(f"{part.count:,} {part.name}" for part in parts)
    return Counts(
        read=read,
        parts=parts,
        reconciles=sum(summary.counts.values()) == 2 * read,
        sentence=f"{read:,} read = {equation}.",
    )


def _coverage(summary: RunSummary) -> Coverage:
    """The coverage over all metrics; the gates of the verdict show what each of them counts."""
    scored, failed, skipped = (
        sum(getattr(metric, name) for metric in summary.metrics)
        for name in ("scored", "failed", "skipped")
    )
    return Coverage(
        scored=scored,
        failed=failed,
        skipped=skipped,
        share=summary.coverage,
        floor=summary.min_coverage,
        failures=[
            Failure(code=name_of(code), count=count)
            for code, count in most_frequent(summary.failures)
        ],
        sentence=(
            f"{plural(scored, 'score')} found, {failed:,} could not be had, "
            f"{skipped:,} did not apply."
        ),
    )


def _ask_errors(asks: pl.LazyFrame) -> list[AskError]:
    counted = asks.drop_nulls("error").group_by("error").agg(rows=pl.len())
    ranked = counted.sort("rows", "error", descending=[True, False]).head(MAX_ASK_ERRORS)
    return [
        AskError(error=line_of(error), count=count) for error, count in collect_rows(ranked).rows()
    ]


def _warnings(run: RunRecord, summary: RunSummary) -> list[str]:
    unread, twice = (summary.counts.get(name, 0) for name in ("quarantined", "duplicate"))
    warnings = {
        f"{plural(unread, 'record')} could not be read; table rejects says why.": unread,
        f"{plural(twice, 'record')} had come before; each case was judged once.": twice,
        f"{plural(summary.undecided_count, 'case')} had no gate to decide by: not counted as "
        "passed.": summary.undecided_count,
        f"{plural(summary.pass_flagged_count, 'pass', 'passes')} flagged: the transcript speaks "
        "to its judges, or the agent says nothing; not counted as passed.": (
            summary.pass_flagged_count
        ),
        "The offline baseline is a floor to measure judges against, not a substitute for one.": (
            run.judge_model == OFFLINE_MODEL
        ),
    }
    return [text for text, applies in warnings.items() if applies]


def _fingerprints(run: RunRecord) -> list[NameValue]:
    return [
        NameValue(name=name_of(name), value=name_of(str(value)))
        for name, value in sorted(run.config.get("fingerprints", {}).items())
    ]
