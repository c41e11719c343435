"""The tools about runs: the list, one run, two runs, the series over runs, the metrics there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from assizes.deployments.agents import parameters
from assizes.deployments.agents.answers import ToolAnswer, page_of, shortened
from assizes.deployments.agents.workspace import Workspace
from assizes.deployments.web import schemas
from assizes.judge.catalog import metrics_listing
from assizes.judge.comparison.cases import CaseComparison
from assizes.judge.comparison.compare import RunComparison
from assizes.judge.errors import ConfigurationError
from assizes.judge.history.trends import Trend, Trends
from assizes.judge.summary.run_summary import RunSummary
from assizes.tasks.reports.formatting import plural
from assizes.tasks.runs.corrected_rows import trends_with_corrections
from assizes.tasks.runs.history import RunRange, stored_trends
from assizes.tasks.runs.stored_comparison import stored_comparison
from assizes.tasks.store import Store

_SEARCHED: Final = 1000  # newest runs among which a verdict is looked for
_TOP: Final = 8  # metrics, failure codes and root causes that are named, at most
_METRICS_OF_CASE: Final = 3  # metrics that are named of a changed case, at most


def list_runs(workspace: Workspace, wanted: parameters.ListRuns) -> ToolAnswer:
    """The runs of the store, the newest first."""
    query = {name: getattr(wanted, name) for name in ("name", "trigger", "status")}
    start = int(wanted.cursor or 0)
    if wanted.verdict is None:
        page = workspace.reader.runs(schemas.RunQuery(**query, limit=wanted.limit, offset=start))
        part, total = page.data, page.count
    else:
        page = workspace.reader.runs(schemas.RunQuery(**query, limit=_SEARCHED))
        matches = [run for run in page.data if run.verdict == wanted.verdict]
        part, total = matches[start : start + wanted.limit], len(matches)
    head = [f"{plural(total, 'run')}, those about the newest day first; scores and rates 0..100"]
    if wanted.verdict is not None and page.count > _SEARCHED:
        head.append(f"only the {_SEARCHED:,} newest of {page.count:,} runs were looked through")
    items = [_run_line(run) for run in part]
    links = workspace.page("runs/RUN_ID")
    return ToolAnswer(head, items, "runs", start=start, total=total, links=links)


def _run_line(run: schemas.Run) -> dict[str, Any]:
    names = ("run_id", "name", "day", "trigger", "status", "verdict", "coverage", "cases")
    fields: dict[str, Any] = {name: getattr(run, name) for name in names}
    fields |= {
        "score": run.weighted_metrics_score_pct,
        "pass_rate_pct": run.cases_pass_rate_pct,
        "judge_model": run.judge_model,
        "cost_usd": run.cost_usd,
        "compared_with": run.baseline,
    }
    return fields if run.progress is None else fields | {"progress": run.progress.line}


def read_run(workspace: Workspace, wanted: parameters.ReadRun) -> ToolAnswer:
    """One run: its conclusion, gates, metrics, warnings."""
    run = workspace.reader.run(wanted.run)
    head = [f"run {run.run_id}: {run.status}" + (f", verdict {run.verdict}" if run.verdict else "")]
    if run.status == "running":
        head.append(f"progress: {run.progress.line}")
    if run.verdict == "regression":
        head.append("compare_runs says why, list_causes what the failed cases have in common")
    start, items = page_of(list(_run_items(run)), wanted.cursor)
    reports = run.config.get("report", {}).get("uri", workspace.config.report.uri)
    links = workspace.run_links(run.run_id, reports)
    return ToolAnswer(head, items, "run", start=start, links=links)


def _run_items(run: schemas.RunDetail) -> Iterator[dict[str, Any]]:
    yield _run_line(run) | {"ending_of_comparison": run.ending, "counts": run.counts}
    yield from ({"trust": line} for line in run.calibration)
    if run.corrected is not None:
        yield {"labels_of_people_say": run.corrected.first}
    if run.summary is None:
        return
    summary = RunSummary.model_validate(run.summary)
    yield {
        "gates": {
            "score": [summary.weighted_metrics_score_pct, summary.metrics_pass_threshold],
            "pass_rate_pct": [summary.cases_pass_rate_pct, summary.cases_pass_threshold],
            "coverage": [summary.coverage, summary.min_coverage],
        },
        "read_as": "[value, threshold]",
        "outcome": summary.outcome,
    }
    yield {
        "scores": summary.score_counts,
        "failed_scores_by_code": summary.failures,
        "flagged_cases": summary.flags,
        "spent_usd": summary.spent_usd,
        "latency_p95_ms": summary.latency_p95_ms,
    }
    yield from ({"warning": shortened(line)} for line in summary.warnings)
    codes = sorted(summary.failure_codes, key=lambda code: -code.count)[:_TOP]
    yield {
        "root_causes": dict(sorted(summary.root_causes.items(), key=lambda row: -row[1])[:_TOP]),
        "failure_codes": [[code.metric, code.failure_code, code.count] for code in codes],
    }
    for metric in summary.metrics:
        names = ("name", "tier", "gate", "weight", "mean_value", "pass_rate")
        counts = ("scored", "skipped", "failed")
        yield {"metric": metric.model_dump(include={*names, *counts})}


def compare_runs(workspace: Workspace, wanted: parameters.CompareRuns) -> ToolAnswer:
    """Two runs: whether the later one is worse, why, and which cases changed."""
    compared = _comparison(workspace, wanted)
    sides = {"baseline": compared.baseline_run_id, "candidate": compared.candidate_run_id}
    aggregate, verdict = compared.aggregate, compared.verdict
    head = [
        f"{sides['candidate']} against {sides['baseline']}: {verdict.ending}, decided by "
        f"{verdict.mode}",
        f"{plural(aggregate.total_regressions, 'case')} worse, {aggregate.total_improvements} "
        f"better, {aggregate.total_unchanged} unchanged, {aggregate.total_errors} with errors",
    ]
    rows = [*_comparison_items(compared), *_changed_cases(compared, wanted.cases)]
    start, items = page_of(rows, wanted.cursor)
    links = workspace.page("compare", sides)
    return ToolAnswer(head, items, "comparison", start=start, links=links)


def _comparison(workspace: Workspace, wanted: parameters.CompareRuns) -> RunComparison:
    thresholds = workspace.config.comparison.model_copy(update={"baseline": None})
    if wanted.baseline is not None:
        return workspace.reader.comparison(wanted.baseline, wanted.candidate, thresholds)

    def read(store: Store) -> RunComparison:
        record = store.run(wanted.candidate)
        stored = stored_comparison(store, record)
        if stored is None:
            raise ConfigurationError(
                f"run {record.run_id} was compared with no run; give baseline, a complete run of "
                "list_runs"
            )
        return stored

    return workspace.reader.read_store(read)


def _comparison_items(compared: RunComparison) -> Iterator[dict[str, Any]]:
    aggregate, verdict = compared.aggregate, compared.verdict
    before, after = aggregate.baseline_metrics, aggregate.candidate_metrics
    yield {"why": list(verdict.why)}
    yield {
        "pass_rate_pct": [before.cases_pass_rate_pct, after.cases_pass_rate_pct],
        "score": [before.weighted_metrics_score_pct, after.weighted_metrics_score_pct],
        "latency_avg_ms": [before.latency_avg_ms, after.latency_avg_ms],
        "agent_version": [compared.baseline_agent_version, compared.candidate_agent_version],
        "read_as": "[baseline, candidate]",
    }
    if compared.corrected is not None:
        yield {"labels_of_people_say": compared.corrected.sentence}
    yield from ({"warning": shortened(line)} for line in compared.warnings)
    if verdict.ending != "not_comparable":
        lines = [mismatch.line for mismatch in verdict.mismatches]
        yield from ({"judged_differently": shortened(line)} for line in lines)
    if verdict.statistics is not None:
        yield {
            "statistics": verdict.statistics.verdict,
            "measures": [measure.line for measure in verdict.statistics.metrics],
        }
    moved = [metric for metric in aggregate.per_metric_aggregate_deltas if metric.delta]
    moved.sort(key=lambda metric: metric.delta or 0.0)
    yield {
        "metrics": {
            metric.metric: [metric.baseline_avg, metric.candidate_avg] for metric in moved[:_TOP]
        },
        "metrics_left_out": max(0, len(moved) - _TOP),
    }


def _changed_cases(compared: RunComparison, wanted: str) -> list[dict[str, Any]]:
    words = {"worse": ("regression",), "better": ("improvement",)}
    statuses = words.get(wanted, ("regression", "improvement", "error"))
    chosen = [case for case in compared.test_case_comparisons if case.status in statuses]
    chosen.sort(key=lambda case: -abs(case.score_delta or 0.0))
    return [_changed_case(case) for case in chosen]


def _changed_case(case: CaseComparison) -> dict[str, Any]:
    moved = [metric for metric in case.metric_deltas if metric.status not in ("unchanged", "error")]
    moved.sort(key=lambda metric: metric.delta or 0.0)
    return {
        "case": case.test_case_id,
        "change": case.status,
        "score": [case.baseline_score, case.candidate_score],
        "passed": [case.baseline_passed, case.candidate_passed],
        "metrics": {
            metric.metric: [metric.baseline_score, metric.candidate_score]
            for metric in moved[:_METRICS_OF_CASE]
        },
    }


def read_trends(workspace: Workspace, wanted: parameters.ReadTrends) -> ToolAnswer:
    """The series over the runs of one name, and the incidents."""
    span = RunRange(name=wanted.name, last=wanted.last)

    def read(store: Store) -> Trends:
        return trends_with_corrections(store, stored_trends(store, span, workspace.config.series))

    history = workspace.reader.read_store(read)
    head = [f"{plural(history.runs, 'complete run')}; {plural(len(history.incidents), 'incident')}"]
    if wanted.series is None:
        rows = [
            *({"incident": incident.line()} for incident in history.incidents),
            *({"note": shortened(note)} for note in history.notes),
            *map(_trend_line, history.series),
        ]
    else:
        labels = {_label(trend): trend for trend in history.series}
        if wanted.series not in labels:
            raise ConfigurationError.unknown("series", wanted.series, labels, "read_trends series")
        rows = _points(labels[wanted.series])
    start, items = page_of(rows, wanted.cursor)
    links = workspace.page("trends", {"name": history.name})
    return ToolAnswer(head, items, "trends", start=start, links=links)


def _label(trend: Trend) -> str:
    return f"{trend.series} [{trend.slice_of}]" if trend.slice_of else trend.series


def _trend_line(trend: Trend) -> dict[str, Any]:
    last = trend.points[-1]
    return {
        "series": _label(trend),
        "state": trend.state,
        "usual": trend.reference,
        "last": last.bridged,
        "interval_95": [last.low, last.high],
        "runs": len(trend.points),
        "z_towards_worse": last.z,
    }


def _points(trend: Trend) -> list[dict[str, Any]]:
    """The runs of a series, the newest first."""
    names = {"run_id", "value", "bridged", "low", "high", "items", "usable", "z", "signals"}
    newest_first = reversed(trend.points)
    return [point.model_dump(include=names) | {"day": point.at.date()} for point in newest_first]


def list_metrics(workspace: Workspace, wanted: parameters.ListMetrics) -> ToolAnswer:
    """The conversation metrics, and what each measures."""
    listing = metrics_listing(workspace.config.judge.rubrics)
    names = ("name", "description", "tier", "score_type", "default_weight", "include_in_defaults")
    rows = [{name: row[name] for name in names} for row in listing["data"]]
    start, items = page_of(rows, wanted.cursor)
    head = [f"{plural(len(rows), 'conversation metric')}; levels are 0..5, 3 is acceptable"]
    return ToolAnswer(head, items, "metrics", start=start)
