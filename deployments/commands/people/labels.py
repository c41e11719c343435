"""What `assizes labels ...` does: queues, labels in and out, and what the labels are worth."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from assizes.deployments.commands import output
from assizes.deployments.commands.export import export_table
from assizes.deployments.commands.people.label_names import check_names
from assizes.deployments.commands.stores import opened_store, store_config
from assizes.deployments.settings import read_optional_config
from assizes.judge.config.gates import VERDICT, CalibrationConfig
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.labels.current import current_labels
from assizes.judge.labels.sampling import (
    QueuePlan,
    candidates,
    draw_queue,
    labels_needed,
    stratum_errors,
)
from assizes.judge.rows import as_json as as_canonical_json
from assizes.judge.score import ACCEPTABLE
from assizes.tasks.runs.corrected import (
    LabelledNumber,
    corrected_differences,
    corrected_numbers,
    errors_by_case,
    span,
)
from assizes.tasks.runs.labels.people_labels import (
    MAX_RATER_CHARS,
    exported_labels,
    graded_labels,
    labels_of_run,
    labels_to_import,
    new_labels,
)
from assizes.tasks.store import Store
from assizes.tasks.store.people import people_tables

_EXPORTED = (
    *("case_id", "repetition", "metric", "label", "rater", "role", "note", "at", "seconds"),
    *("probability", "queue_id"),
)


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """Which cases a queue draws."""

    run: str
    metric: str
    size: int
    random_share: float  # above 0 to 1
    other: str | None  # a run whose verdicts show flips
    seed: str
    drawn_by: str


@dataclass(frozen=True, slots=True)
class LabelImport:
    """The labels of a file, and what the file may leave out."""

    file: str
    run: str
    metric: str | None
    rater: str | None


def draw_and_print(
    file: Path | None, uri: str | None, wanted: QueueOptions, *, as_json: bool
) -> None:
    """Draw a queue, store it, and print how many cases of which stratum it holds.

    Raises:
        ConfigurationError: the run has no such metric or no case that has it, or a size or share
            is out of bounds.
        UnknownRun: the store has no such run.
    """
    config = store_config(file, uri)
    with opened_store(file, uri) as store:
        rows = _queue(store, wanted)
    people_tables(config).add("queues", rows)
    queue_id, run_id = rows[0]["queue_id"], rows[0]["run_id"]
    if as_json:
        output.print_json({"queue_id": queue_id, "run_id": run_id, "cases": _dated(rows)})
        return
    strata = Counter((row["stratum"], row["probability"]) for row in rows)
    table = [(name, count, f"{chance:.3f}") for (name, chance), count in sorted(strata.items())]
    output.print_table("", ("stratum", "#cases", "#chance of a case"), table)
    output.print_line(f"queue {queue_id}: {len(rows)} cases of run {run_id}, {wanted.metric}")
    query = f"run={run_id}&metric={wanted.metric}&queue={queue_id}"
    output.print_line(f"label them: assizes serve --labelling, then /view/label?{query}")


def _queue(store: Store, wanted: QueueOptions) -> list[dict[str, Any]]:
    record = store.run(wanted.run)
    run_id = record.run_id
    judge = JudgeConfig.model_validate(record.config["judge"])
    # Levels begin to pass at 3 of 5, whatever the threshold of the overall score is.
    threshold = judge.pass_threshold / 100 if wanted.metric == VERDICT else ACCEPTABLE / 5
    other = None if wanted.other is None else store.table(wanted.other, "cases")
    cases = candidates(
        store.table(run_id, "cases"),
        store.table(run_id, "scores"),
        wanted.metric,
        other,
        threshold,
    )
    if not cases:
        raise ConfigurationError(
            f"--metric {wanted.metric!r}: no judged case of run {run_id} has it; accepted: verdict, "
            f"or a metric that `assizes show {run_id}` lists"
        )
    key = [run_id, wanted.metric, wanted.size, wanted.random_share, wanted.other, wanted.seed]
    queue_id = hashlib.sha256(as_canonical_json(key).encode()).hexdigest()[:12]
    # The same words name the same queue, whatever people have answered since.
    drawn = store.people.rows("queues").filter(pl.col("queue_id") == queue_id)
    if not drawn.is_empty():
        return drawn.sort("position").to_dicts()
    strata = {(case.case_id, case.repetition): case.stratum for case in cases}
    errors = errors_by_case(store, run_id, wanted.metric)
    learnt = stratum_errors(
        (strata[case], erred) for case, erred in errors.items() if case in strata
    )
    plan = QueuePlan(
        queue_id=queue_id,
        run_id=run_id,
        metric=wanted.metric,
        size=wanted.size,
        seed=wanted.seed,
        drawn_by=wanted.drawn_by[:MAX_RATER_CHARS],
        at=datetime.now(UTC),
        share=wanted.random_share,
        errors=learnt,
    )
    return draw_queue(plan, cases)


def print_status(
    file: Path | None, uri: str | None, run_id: str, against: str | None, *, as_json: bool
) -> None:
    """Print what the labels of a run say and how many more would halve their intervals.

    With `against`, another run with labels of its own, the differences to that run follow.

    Raises:
        UnknownRun: the store has no such run.
    """
    with opened_store(file, uri) as store:
        run_id = store.run(run_id).run_id
        labels = labels_of_run(store, run_id)
        numbers = corrected_numbers(store, run_id)
        progress = _queue_progress(store, run_id)
        other = None if against is None else store.run(against).run_id
        changes = {} if other is None else corrected_differences(store, other, run_id)
    if as_json:
        known = {metric: change and asdict(change) for metric, change in changes.items()}
        output.print_json(
            {
                "run_id": run_id,
                "numbers": [_number_document(number) for number in numbers],
                "queues": progress,
                "against": other,
                "differences": known,
            }
        )
        return
    if labels.is_empty() and not progress:
        output.print_line(
            f"{run_id}: no labels yet; `assizes labels queue {run_id}` draws cases to label"
        )
        return
    rows = labels.group_by("metric", "rater").len().sort("metric", "rater").rows()
    output.print_table("", ("metric", "rater", "#labels"), rows)
    for number in numbers:
        _print_number(number)
    for metric, change in changes.items():
        known_span = "too few labels for a difference" if change is None else span(change)
        output.print_line(f"{metric}, minus {other}: {known_span}")
    for queue in progress:
        done = f"{queue['labelled']} of {queue['cases']} labelled"
        output.print_line(f"queue {queue['queue_id']} of {queue['metric']}: {done}")


def _print_number(labelled: LabelledNumber) -> None:
    output.print_line(labelled.line())
    metric = labelled.number.metric
    if labelled.disputed:
        output.print_line(f"{metric}: raters are divided on {labelled.disputed} cases")
    if labelled.number.estimate is not None:
        more = _halving(labelled)
        how = "no number of labels" if more is None else f"{more} more labels"
        output.print_line(f"{metric}: {how} would halve that interval")
    slices = labelled.number.slices
    rows = [(name, slices[name].labels, span(slices[name])) for name in sorted(slices)]
    if len(rows) > 1:  # a single slice is the whole run
        output.print_table("", (f"{metric} of cases with", "#labels", "corrected, 95 %"), rows)


def _halving(labelled: LabelledNumber) -> int | None:
    now = labelled.number.estimate
    return None if now is None else labels_needed(now, labelled.cases, (now.high - now.low) / 2)


def _number_document(labelled: LabelledNumber) -> dict[str, Any]:
    more = {"cases": labelled.cases, "by_hand": labelled.by_hand}
    return asdict(labelled.number) | more | {"labels_to_halve": _halving(labelled)}


def _queue_progress(store: Store, run_id: str) -> list[dict[str, Any]]:
    queues = store.people.rows("queues").filter(pl.col("run_id") == run_id)
    key = ["case_id", "repetition", "metric"]
    # Skips count as done: the person has seen the case.
    rows = store.people.rows("labels").filter(pl.col("run_id") == run_id)
    done = current_labels(rows).select(key).unique().with_columns(is_done=True)
    of_queue = queues.join(done, on=key, how="left").group_by("queue_id", "metric")
    progress = of_queue.agg(pl.len().alias("cases"), pl.col("is_done").sum().alias("labelled"))
    return progress.sort("queue_id").to_dicts()


def print_labels(
    file: Path | None,
    uri: str | None,
    run_id: str | None,  # None: of every run
    wanted: Mapping[str, str | None],  # column -> value; None: any value
    *,
    as_json: bool,
) -> None:
    """Print the labels that count, in order of time.

    Raises:
        ConfigurationError: `wanted` names what neither a label nor a run has.
        UnknownRun: the store has no such run.
    """
    with opened_store(file, uri) as store:
        known = store.people.rows("labels")["run_id"].unique().sort().to_list()
        stored = set(store.run_index()["run_id"])
        chosen = [name for name in known if name in stored]
        ids = chosen if run_id is None else [store.run(run_id).run_id]
        check_names(store, ids, wanted)
        tables = [graded_labels(store, name) for name in ids]
    rows = pl.concat(tables).sort("at", "label_id") if tables else pl.DataFrame()
    for column, value in wanted.items():
        if value is not None and not rows.is_empty():
            rows = rows.filter(pl.col(column) == value)
    if as_json:
        output.print_json(_dated(rows.to_dicts()))
        return
    shown = [
        (
            *((row["run_id"],) if run_id is None else ()),
            row["case_id"],
            *(row["metric"], f"{row['label']:g}", row["rater"], row["role"]),
            *(f"{row['at']:%Y-%m-%d %H:%M}", row["note"] or "-"),
        )
        for row in rows.iter_rows(named=True)
    ]
    columns = ("case", "metric", "#label", "rater", "role", "at", "note")
    output.print_table("", columns if run_id is not None else ("run", *columns), shown)
    output.print_line(f"{len(shown)} labels")


def import_and_print(
    file: Path | None, uri: str | None, wanted: LabelImport, *, as_json: bool
) -> None:
    """Store the labels of a file and print how many of them are new.

    Raises:
        ConfigurationError: the file cannot be read, or labels what the run does not have.
        UnknownRun: the store has no such run.
    """
    config = store_config(file, uri)
    settings = read_optional_config(file).calibration
    calibration = CalibrationConfig.model_validate(
        settings.model_dump(exclude_unset=True)
        | {"labels": wanted.file, "metric": wanted.metric or settings.metric or VERDICT}
    )
    with opened_store(file, uri) as store:
        record = store.run(wanted.run)
        rows = labels_to_import(store, record, calibration, wanted.rater)
        new = new_labels(store, record.run_id, rows)
    people_tables(config).add("labels", new)
    if as_json:
        output.print_json({"run_id": record.run_id, "labels": len(rows), "new": len(new)})
    else:
        output.print_line(f"{record.run_id}: {len(rows)} labels read, {len(new)} of them new")


def export_and_print(
    file: Path | None, uri: str | None, run_id: str, target: Path, *, as_json: bool
) -> None:
    """Write the labels of a run that count to a file, and print how many they are.

    Raises:
        ConfigurationError: the file cannot be written, or its ending names no format.
    """
    with opened_store(file, uri) as store:
        run_id = store.run(run_id).run_id
        rows = exported_labels(store, run_id).select(_EXPORTED)
    export_table(rows, target)
    if as_json:
        output.print_json({"run_id": run_id, "labels": rows.height, "file": str(target)})
    else:
        output.print_line(f"{run_id}: {rows.height} labels in {target}")


def _dated(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"at": row["at"].isoformat()} for row in rows]
