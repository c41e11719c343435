"""`assizes runs`, `show`, `compare`, `metrics`, `judges`: stored runs, and the judges there are."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from assizes.deployments.commands import output
from assizes.deployments.commands.reading.run_list import RUN_FIELDS
from assizes.deployments.commands.stores import opened_store, store_config
from assizes.deployments.setting_faults import fault_of
from assizes.deployments.settings import read_optional_config
from assizes.judge.comparison.compare import Ending, RunComparison
from assizes.judge.comparison.corrected_change import CorrectedVerdict
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.intake.first_rejects import place_text
from assizes.tasks.reports.schema.corrected import Corrected
from assizes.tasks.reports.stored import corrected_detail
from assizes.tasks.runs.corrected import trust_lines
from assizes.tasks.runs.run_progress import RUNNING, run_progress
from assizes.tasks.runs.stored_comparison import compare_stored
from assizes.tasks.runs.stored_runs import INTERRUPTED
from assizes.tasks.store import existing_store


def show_run(run_id: str, file: Path | None, uri: str | None, *, as_json: bool) -> None:
    """Print one run: its status, metrics, gates, counts and costs.

    Raises:
        UnknownRun: the store has no such run.
    """
    from assizes.judge.summary.run_summary import RunSummary

    with opened_store(file, uri) as store:
        record = store.run(run_id)
        progress = run_progress(store, record)
        record = replace(record, status=progress.status)
        calibration = trust_lines(store, record)
        corrected = corrected_detail(store, record)
    if as_json:
        fields = {name: getattr(record, name) for name in (*RUN_FIELDS, "config", "summary")}
        fields["calibration"] = calibration
        fields["corrected"] = corrected and corrected.model_dump()
        fields["progress"] = progress.as_dict()
        output.print_json(fields)
        return
    if corrected is not None and corrected.first is not None:
        output.print_line(corrected.first)
    output.print_line(output.judge_line(record.judge_model))
    times = f"about {record.day}, started {record.started_at:%Y-%m-%d %H:%M} UTC"
    output.print_line(f"status: {record.status}, {times}")
    if record.status in (RUNNING, INTERRUPTED):
        output.print_line(f"progress: {progress.line()}")
    if record.status == INTERRUPTED:
        output.print_line(f"no process works on it: `assizes resume {record.run_id}` goes on")
    if record.summary is not None:
        summary = RunSummary.model_validate(record.summary)
        output.print_warnings(summary.warnings)
        output.print_metrics(record.run_id, summary)
        output.print_published(summary)
        output.print_votes(summary)
        output.print_gates(summary)
    output.print_lines(f"judge compared with people: {line}" for line in calibration)
    _print_slices(corrected)


def _print_slices(corrected: Corrected | None) -> None:
    rows = [
        (f"{item.name} of cases with {part.name}", part.labels, part.shown)
        for item in (() if corrected is None else corrected.numbers)
        for part in item.slices
    ]
    if rows:
        output.print_table("", ("corrected by labels", "#labels", "95 %"), rows)


def show_rejects(run_id: str, file: Path | None, uri: str | None, *, as_json: bool) -> None:
    """Print the rejected records of a run: where they stand, and why.

    Raises:
        UnknownRun: the store has no such run.
    """
    with opened_store(file, uri) as store:
        record = store.run(run_id)
        run_id = record.run_id
        rows = store.table(run_id, "rejects").sort("uri", "position").to_dicts()
    if as_json:
        output.print_json(rows)
        return
    if not rows:
        output.print_line(f"run {run_id} rejected no record")
        return
    places = [  # without a hash of its bytes it is a whole object
        place_text(row["uri"], None if row["sha256"] is None else row["position"]) for row in rows
    ]
    output.print_table(
        "",
        ("record", "reason", "why", "begins"),
        [
            (place, row["reason"], row["detail"], row["excerpt"])
            for place, row in zip(places, rows, strict=True)
        ],
    )
    unlisted = Counter[str](record.plan.get("reasons", {}))
    unlisted.subtract(Counter(row["reason"] for row in rows))
    if more := ", ".join(f"{code} {count}" for code, count in unlisted.items() if count > 0):
        output.print_line(f"more are counted and not listed: {more}")
    output.print_line(f"once they are mended: assizes retry-rejected {run_id}")


def show_metrics(folders: Sequence[str], *, as_json: bool) -> None:
    """Print every conversation metric, opt-in metrics included."""
    from assizes.judge.catalog import metrics_listing

    listing = metrics_listing(folders)
    if as_json:
        output.print_json(listing)
        return
    rows = [
        (
            *(metric[field] for field in ("name", "tier", "score_type")),
            f"{metric['default_weight']:g}",
            "yes" if metric["include_in_defaults"] else "opt-in",
            metric["description"],
        )
        for metric in listing["data"]
    ]
    columns = ("metric", "tier", "scale", "#weight", "default", "measures")
    output.print_table("", columns, rows)


def show_judges(folders: Sequence[str], file: Path | None, *, as_json: bool) -> None:
    """Print every judge, the user's own in `folders` and in the configuration `file` included.

    Raises:
        ConfigurationError: the configuration, a rubric folder or a judge cannot be used.
    """
    from assizes.deployments.settings import read_config
    from assizes.judge.catalog import judges_listing
    from assizes.judge.config.judging import JudgeConfig

    config = read_config(file).judge if file else JudgeConfig()
    all_folders = (*config.rubrics, *(folder for folder in folders if folder not in config.rubrics))
    listing = judges_listing(config.model_copy(update={"rubrics": all_folders}))
    if as_json:
        output.print_json(listing)
        return
    for judge in listing:
        _print_judge(judge)


def _print_judge(judge: dict[str, Any]) -> None:
    """Print a judge: name, scale and gate; description; needs; the options that only it has."""
    from assizes.judge.families.entry import JudgeOptions

    facts = [
        ", ".join(judge["scale"]),
        f"gate {judge['gate']}" if judge["gate"] else "no gate",
        "also offline" if judge["offline"] else "needs a language model",
    ]
    output.print_line(f"{judge['name']:<22} {'; '.join(facts)}")
    lines = [judge["description"], f"needs {', '.join(judge['needs']) or 'nothing'}"]
    if own := [name for name in judge["options"] if name not in JudgeOptions.model_fields]:
        lines.append(f"options {', '.join(own)}")
    for line in lines:
        output.print_text(textwrap.fill(line, 100, initial_indent="    ", subsequent_indent="    "))


EXIT_CODES: Final[dict[Ending, int]] = {
    "fine": 0,
    "regressed": 1,  # by what decides: rules or statistics
    "not_comparable": 3,  # the runs were judged differently
    "inconclusive": 4,  # the statistics decide, and the data cannot tell
}
"""Exit code of `assizes compare` for each ending of a comparison."""


def compare_and_print(
    sides: tuple[str, str],
    limits: Mapping[str, Any],  # of the command line, by field of `ComparisonConfig`
    file: Path | None,
    store: str | None,
    *,
    as_json: bool,
) -> int:
    """Compare two stored runs, store and print the verdict; returns a code of `EXIT_CODES`.

    Raises:
        StoreError: there is no such store.
        ConfigurationError: a threshold cannot be used.
    """
    comparison, code = comparison_and_code(sides, limits, file, store)
    if as_json:
        output.print_json(comparison.model_dump(mode="json"))
    else:
        print_corrections(comparison.corrected)
        output.print_comparison(comparison, comparison.verdict.why)
        output.print_comparison_ending(comparison.verdict)
    return code


def comparison_and_code(
    sides: tuple[str, str], limits: Mapping[str, Any], file: Path | None, store: str | None
) -> tuple[RunComparison, int]:
    """Compare two stored runs and store the verdict; the comparison, and its exit code.

    Raises:
        StoreError: there is no such store.
        ConfigurationError: a threshold cannot be used.
    """
    thresholds = _thresholds(limits, file)
    with existing_store(store_config(file, store)) as opened:
        comparison = compare_stored(opened, *sides, thresholds)
    return comparison, EXIT_CODES[comparison.verdict.ending]


def print_corrections(corrected: CorrectedVerdict | None) -> None:
    """Print what labels of people say of two runs; what they say against the judge comes first."""
    if corrected is None:
        return
    if corrected.sentence is not None:
        output.print_line(corrected.sentence)
    lines = [change.line for change in corrected.changes]
    output.print_lines(f"by labels of people: {line}" for line in lines)
    if corrected.fell_back is not None:
        output.print_line(f"the judge's numbers decide: {corrected.fell_back}")
    output.print_lines(f"  {line}" for line in corrected.labels)


def _thresholds(limits: Mapping[str, Any], file: Path | None) -> ComparisonConfig:
    """The configured thresholds, replaced by the thresholds of the command line where given."""
    configured = read_optional_config(file).comparison
    try:
        return ComparisonConfig.model_validate({**configured.model_dump(), **limits})
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        field = str(fault["loc"][0])
        why = fault_of(("comparison", field), fault)
        raise ConfigurationError(f"--{field.replace('_', '-')}: {why}") from None
