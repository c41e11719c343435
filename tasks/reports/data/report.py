"""Computes everything that the report of a run shows; HTML, Markdown and JSON only render it.

Text of transcripts and judges is cut and made visible here; it is escaped where it is rendered.
Ids of cases and values to filter by stay as they are, as links are made of them.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from datetime import UTC
from typing import Any, Final

import polars as pl

from assizes.judge.comparison.compare import RunComparison
from assizes.judge.config.judging import OFFLINE_MODEL
from assizes.judge.config.run import RunConfig
from assizes.judge.history.anchors import Attribution
from assizes.judge.rows import COMPLETE, SCHEMA_VERSION
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.executions import collect_rows
from assizes.judge.verdicts.run_outcome import (
    CONCLUSIONS,
    REGRESSION,
    TASK_UNJUDGED,
    WORDS,
    outcome_of,
)
from assizes.tasks.reports import formatting
from assizes.tasks.reports.data import metric_rows as figures
from assizes.tasks.reports.data.case_rows import case_rows
from assizes.tasks.reports.data.comparison import comparison_part
from assizes.tasks.reports.data.first_look import code_shifts, first_look
from assizes.tasks.reports.data.read_first import case_changes
from assizes.tasks.reports.formatting import filter_value, line_of, name_of, plural
from assizes.tasks.reports.schema import report as schema
from assizes.tasks.reports.schema.parts import Comparison, Counted, NameValue
from assizes.tasks.runs.stored_runs import named_baseline
from assizes.tasks.store import RunRecord

# The same rows give the same data: no clock is read, and every list has a defined order.
MAX_ASK_ERRORS: Final = 20  # different errors of asks that are listed, at most
MAX_AGENTS: Final = 10  # agents with their versions that are listed, at most
_UTC_TIME: Final = "%Y-%m-%d %H:%M:%S UTC"

_HEADLINES: Final = {  # outcome -> sentence
    "passed": "Every gate was reached.",
    "failed": "A gate was missed:",
    REGRESSION: "This run is worse than its baseline:",
    "inconclusive": "Too little could be judged to say anything:",
    "not_comparable": "This run and its baseline were not judged alike:",
    "undecided": "The data cannot tell whether this run is worse:",
    "incomplete": "The run has not ended; the figures cover what was judged so far.",
}
_JUDGE_MOVED: Final = "The judge itself changed, so no drop counts against the agent:"

COMPARISON_ENDINGS: Final = {  # of a comparison by itself -> (outcome, word)
    "fine": ("passed", "NOT WORSE"),
    "regressed": (REGRESSION, WORDS["Regression"]),
    "inconclusive": ("inconclusive", WORDS["Inconclusive"]),
    "not_comparable": ("inconclusive", WORDS["NotComparable"]),
}

_BARE_KEY: Final = re.compile(r"^[A-Za-z0-9_-]+$")  # keys that TOML takes without quotes


def report_data(
    run: RunRecord,
    summary: RunSummary,
    cases: pl.DataFrame | pl.LazyFrame,
    scores: pl.DataFrame | pl.LazyFrame,
    asks: pl.DataFrame | pl.LazyFrame,
    comparison: RunComparison | None = None,
) -> dict[str, Any]:
    """The report of a run as JSON-able data, in the shape of `assizes.tasks.reports.schema`.

    `comparison` is `None` without a baseline. `assizes.tasks.reports.stored` adds what is empty here.
    """
    cases, scores, asks = cases.lazy(), scores.lazy(), asks.lazy()  # only shown rows are loaded
    fingerprints = sorted(run.config.get("fingerprints", {}).items())
    compared = comparison_part(comparison)
    verdict = _run_verdict(run, summary, compared)
    codes = figures.failure_codes(summary, code_shifts(comparison))
    report = schema.Report(
        schema_version=SCHEMA_VERSION,
        judged_by=_judged_by(run, asks),
        run=_run_head(run, cases),
        verdict=verdict,
        first_look=first_look(verdict.reasons, compared, codes.shown),
        counts=_counts(summary),
        early_stop=summary.early_stop,
        coverage=_coverage(summary),
        families=figures.family_rows(summary.metrics),
        metrics=figures.metric_rows(summary, comparison, scores),
        published=figures.published_rows(summary),
        tiers=figures.tier_rows(summary),
        failure_codes=codes,
        root_causes=figures.root_causes(summary),
        scores=figures.score_distribution(cases),
        usage=figures.usage_facts(summary, asks),
        judges=figures.judge_rows(summary),
        skipped=figures.skip_rows(scores),
        cases=case_rows(cases, scores, case_changes(comparison)),
        ask_errors=_ask_errors(asks),
        attribution=None,
        calibration=[],
        warnings=_warnings(run, summary),
        comparison=compared,
        # The snapshot of a run holds more than settings: its number, its day, its fingerprints.
        config={name: run.config[name] for name in RunConfig.model_fields if name in run.config},
        fingerprints=[
            NameValue(name=name_of(name), value=name_of(str(value))) for name, value in fingerprints
        ],
        reproduce=reproduction(run.run_id, run.config),
    )
    return report.model_dump(by_alias=True)  # `from` of a bin is an alias


def _judged_by(run: RunRecord, asks: pl.LazyFrame) -> schema.JudgedBy:
    names = collect_rows(asks.select(pl.col("answered_by").drop_nulls().unique()))["answered_by"]
    answered = sorted({name_of(name) for name in names})
    model, offline = name_of(run.judge_model), run.judge_model == OFFLINE_MODEL
    by = f"answered by {', '.join(answered)}" if answered else "no answer came"
    line = f"Judged by {model} ({by})."
    if offline:
        line = f"Judged by the offline baseline ({model}): plain text rules, no language model."
    return schema.JudgedBy(line=line, model=model, answered_by=answered, offline=offline)


def _run_head(run: RunRecord, cases: pl.LazyFrame) -> schema.RunHead:
    pairs = collect_rows(cases.select("agent", "agent_version").unique()).rows()
    agents = sorted({" ".join(part for part in pair if part) for pair in pairs} - {""})
    more = [f"and {len(agents) - MAX_AGENTS} more"] if len(agents) > MAX_AGENTS else []
    begun, ended = (
        moment and moment.astimezone(UTC).strftime(_UTC_TIME)
        for moment in (run.started_at, run.finished_at)
    )
    names = ("run_id", "name", "trigger", "status", "config_hash")
    return schema.RunHead(
        **{name: getattr(run, name) for name in names},
        day=run.day.isoformat(),
        started_at=begun,
        finished_at=ended,
        agents=[name_of(agent) for agent in agents[:MAX_AGENTS]] + more,
        agent_versions=[
            schema.AgentVersion(
                agent=agent and name_of(agent), version=version and filter_value(version)
            )
            for agent, version in sorted(pairs, key=lambda pair: tuple(part or "" for part in pair))
            if agent or version
        ][:MAX_AGENTS],
    )


def failure_reasons(run: RunRecord, summary: RunSummary) -> list[str]:
    """Why the asks of a complete run failed, as lines; empty where enough scores could be had."""
    is_short = run.status == COMPLETE and summary.outcome == "inconclusive"
    return list(summary.ask_failures) if is_short else []


def rerun_hint(run: RunRecord, summary: RunSummary, resume: str | None = None) -> str | None:
    """What judges the cases with an error anew: `resume`, or without it a command.

    It is `None` where there is no such case.
    """
    if run.status != COMPLETE or not summary.error_count:
        return None
    go_on = resume or f"`assizes resume {shlex.quote(run.run_id)} --errors`"
    return f"{plural(summary.error_count, 'case')} with an error: {go_on} judges them anew"


def _run_verdict(
    run: RunRecord, summary: RunSummary, compared: Comparison | None
) -> schema.Verdict:
    dimensions = _dimensions(summary)
    missed = [
        f"{dimension.name.lower()} gate: {dimension.shown}, needs {dimension.needs}"
        for dimension in dimensions
        if dimension.passed is False  # `None`, a gate without a value, is not missed
    ]
    ending: str = "fine"
    why: list[str] = []
    if compared is not None:
        ending, why = compared.ending, compared.why
    # The configuration names a baseline, but no comparison was stored before the run ended.
    elif (baseline := named_baseline(run.config)) is not None:
        ending = "inconclusive"
        why = [f"no comparison with its baseline {name_of(baseline)} is stored"]
    outcome = outcome_of(run.status, summary.outcome, ending, surely_failed=summary.surely_failed)
    if outcome == "incomplete":
        left = summary.counts.get("not_attempted", 0)
        reasons = [f"{plural(left, 'case')} could not be judged"]
    elif outcome == "inconclusive":
        reasons = missed or ["No case has a verdict."]
    elif outcome == REGRESSION:
        reasons = [*why, *missed]
    else:  # a fall beside too few scores is no regression
        reasons = missed if ending in ("fine", "regressed") else [*missed, *why]
    word, headline = WORDS[CONCLUSIONS[outcome]], _HEADLINES[outcome]
    if outcome == "passed" and summary.task_unjudged is not None:
        word, headline = TASK_UNJUDGED, "Every gate was reached, but:"
        reasons = [summary.task_unjudged]
    cautions = filter(None, [*summary.warnings, rerun_hint(run, summary)])
    return schema.Verdict(
        outcome=outcome,
        word=word,
        headline=headline,
        reasons=[*reasons, *map(line_of, failure_reasons(run, summary))],
        cautions=[formatting.clean_line(caution, 500) for caution in cautions],
        dimensions=dimensions,
    )


def verdict_with_attribution(
    verdict: Mapping[str, Any], attribution: Attribution | None
) -> dict[str, Any]:
    """The verdict, in which a regression becomes undecided if the anchors show a moved judge."""
    if attribution is None or not attribution.judge_moved or verdict["outcome"] != REGRESSION:
        return dict(verdict)
    word = WORDS[CONCLUSIONS["undecided"]]
    return {**verdict, "outcome": "undecided", "word": word, "headline": _JUDGE_MOVED}


def _dimensions(summary: RunSummary) -> list[schema.Dimension]:
    """The two gates of a run and the coverage that both of them need, on a scale of 0..100."""
    # Below, `value and round(value, 9)` keeps `None` and 0; nine digits remove the noise of floats.
    score, rate = summary.weighted_metrics_score_pct, summary.cases_pass_rate_pct
    coverage = None if summary.coverage is None else summary.coverage * 100
    floor = summary.min_coverage * 100
    rate_share, coverage_share = (
        formatting.share(value and round(value / 100, 9)) for value in (rate, coverage)
    )
    return [
        schema.Dimension(
            name="Metrics",
            meaning="Mean overall score of the cases with a verdict.",
            value=score and round(score, 9),
            threshold=round(summary.metrics_pass_threshold, 9),
            passed=summary.metrics_passed,
            shown=formatting.number(score),
            needs=f"{summary.metrics_pass_threshold:g} of 100",
            interval=figures.interval_of(summary.intervals, "weighted_metrics_score_pct"),
        ),
        schema.Dimension(
            name="Cases",
            meaning=(
                f"{summary.passed_count:,} of {summary.total_executions:,} passed; "
                "an error is no pass."
            ),
            value=rate and round(rate, 9),
            threshold=round(summary.cases_pass_threshold, 9),
            passed=summary.cases_passed,
            shown=rate_share,
            needs=f"{summary.cases_pass_threshold:g} %",
            interval=figures.interval_of(summary.intervals, "cases_pass_rate_pct"),
        ),
        schema.Dimension(
            name="Coverage",
            meaning="The share of the expected scores that the judges gave.",
            value=coverage and round(coverage, 9),
            threshold=round(floor, 9),
            # 7 digits: 0.07 * 100 is not exactly 7.
            passed=None if coverage is None else round(coverage, 7) >= round(floor, 7),
            shown=coverage_share,
            needs=f"{round(floor, 7):g} %",
            interval=None,
        ),
    ]


def _counts(summary: RunSummary) -> schema.Counts:
    read = summary.counts.get("read", 0)
    parts = [
        Counted(name=name.replace("_", " "), count=count)
        for name, count in summary.counts.items()
        if name != "read"
    ]
    equation = " + ".join(f"{part.count:,} {part.name}" for part in parts)
    return schema.Counts(
        read=read,
        parts=parts,
        reconciles=sum(part.count for part in parts) == read,
        sentence=f"{read:,} read = {equation}.",
    )


def _coverage(summary: RunSummary) -> schema.Coverage:
    """The coverage over all metrics; the gates of the verdict show what each of them counts."""
    sums = {
        name: sum(getattr(metric, name) for metric in summary.metrics)
        for name in ("scored", "failed", "skipped")
    }
    return schema.Coverage(
        **sums,
        share=summary.coverage,
        floor=summary.min_coverage,
        failures=[
            schema.Failure(code=name_of(code), count=count)
            for code, count in figures.most_frequent(summary.failures)
        ],
        sentence=(
            f"{plural(sums['scored'], 'score')} found, {sums['failed']:,} could not be had, "
            f"{sums['skipped']:,} did not apply."
        ),
    )


def _ask_errors(asks: pl.LazyFrame) -> list[schema.AskError]:
    counted = asks.drop_nulls("error").group_by("error").agg(rows=pl.len())
    ranked = counted.sort("rows", "error", descending=[True, False]).head(MAX_ASK_ERRORS)
    return [
        schema.AskError(error=line_of(error), count=count)
        for error, count in collect_rows(ranked).rows()
    ]


def _warnings(run: RunRecord, summary: RunSummary) -> list[str]:
    unread, twice = (summary.counts.get(name, 0) for name in ("quarantined", "duplicate"))
    undecided, flagged = summary.undecided_count, summary.pass_flagged_count
    warnings = {
        f"{plural(unread, 'record')} could not be read; table rejects says why.": unread,
        f"{plural(twice, 'record')} had come before; each case was judged once.": twice,
        f"{plural(undecided, 'case')} had no gate to decide by: not counted as passed.": undecided,
        f"{plural(flagged, 'pass', 'passes')} flagged: the transcript speaks to its judges, or the "
        "agent says nothing; not counted as passed.": flagged,
        "The offline baseline is a floor to measure judges against, not a substitute for one.": (
            run.judge_model == OFFLINE_MODEL
        ),
    }
    return [text for text, applies in warnings.items() if applies]


def reproduction(run_id: str, config: Mapping[str, Any]) -> schema.Reproduce:
    """The configuration file and the commands that give the same rows again.

    Loading the file gives the same configuration as the snapshot it is made from.
    """
    settings = {name: config[name] for name in RunConfig.model_fields if name in config}
    tables = {name: item for name, item in settings.items() if isinstance(item, Mapping)}
    lines = _pairs({name: item for name, item in settings.items() if name not in tables})
    # Tables come last: in TOML, what follows a table's head belongs to that table.
    for name, table in tables.items():
        if pairs := _pairs(table):
            lines += ["", f"[{name}]", *pairs]
    run = shlex.quote(run_id)  # the command is copied into a shell
    return schema.Reproduce(
        toml="\n".join(lines) + "\n",
        commands=["assizes run -c assizes.toml", f"assizes show {run}", f"assizes report {run}"],
    )


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [
        f"{name if _BARE_KEY.match(name) else _value(name)} = {_value(item)}"
        for name, item in table.items()
        if item is not None  # TOML has no null; a setting left out has its default
    ]


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = _pairs(value)
        return "{ " + ", ".join(pairs) + " }" if pairs else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, str):
        # A JSON string is a TOML string but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value, allow_nan=False)
