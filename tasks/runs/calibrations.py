"""Calibrate a judge over the store, keep what was found, and say it where runs are shown."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.calibration.calibrate import CalibrationSubject, calibrate
from assizes.judge.calibration.canaries import Canaries
from assizes.judge.calibration.fingerprint import judge_fingerprint
from assizes.judge.calibration.grades import RatedItem
from assizes.judge.calibration.labelled import ItemKey, PeopleGrades, judgements, labels_by_metric
from assizes.judge.calibration.record import Calibration, former_of, shortfalls
from assizes.judge.config.calibration import CASES, VERDICT, CalibrationConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.rows import as_json
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runs.label_files import read_labels
from assizes.tasks.runs.stored_grades import JudgeGrades, carried_labels, stored_grades
from assizes.tasks.store import RunRecord, Store

Labels = Mapping[str, Mapping[ItemKey, PeopleGrades]]
"""By metric, what people said of each thing."""

_LABELS: Final = "[calibration] labels"
_JUDGEMENTS: Final = "[calibration] judgements"


class CalibrationResult(BaseModel):
    """The calibrations of one judge, one a metric, and why it may not be used."""

    model_config = ConfigDict(frozen=True)

    calibrations: tuple[Calibration, ...]
    shortfalls: tuple[str, ...]
    canaries: Canaries | None = Field(default=None, description="null: none were wanted")

    def with_canaries(self, canaries: Canaries | None) -> CalibrationResult:
        """The same with what became of the canaries; a takeover is a shortfall."""
        reason = canaries.shortfall() if canaries else None
        shortfalls = (*self.shortfalls, reason) if reason else self.shortfalls
        return self.model_copy(update={"canaries": canaries, "shortfalls": shortfalls})


@dataclass(frozen=True, slots=True)
class LabelSource:
    """Labels, where they were read, and a digest of them."""

    where: str
    digest: str
    labels: Labels


def calibrate_run(store: Store, run_id: str, config: CalibrationConfig) -> CalibrationResult:
    """Hold the judges of a stored run against labels, and keep the records.

    Raises:
        ConfigurationError: for labels that cannot be read, or that are of no case or metric of the
            run.
        UnknownRun: the store has no such run.
    """
    record = store.run(run_id)
    source = labels_of(config, store, record)
    calibrations = [
        _calibrate_metric(store, record, metric, things, source, config)
        for metric, things in sorted(source.labels.items())
    ]
    if not any(calibration.labelled > calibration.missing for calibration in calibrations):
        raise ConfigurationError(
            f"{source.where}: not one labelled case was judged in run {record.run_id}"
        )
    return _save_calibrations(store, calibrations, record.finished_at, config)


def calibrate_judgements(store: Store | None, config: CalibrationConfig) -> CalibrationResult:
    """Hold recorded grades of a judge against labels; keep the record where there is a store.

    Raises:
        ConfigurationError: for files that cannot be read or do not fit together.
    """
    source = labels_of(config)
    where = config.judgements or config.labels or ""
    file = read_labels(where, config.storage_options, config.columns, _JUDGEMENTS)
    grades = judgements(file.rows, config, where)
    if len(source.labels) > 1:
        raise ConfigurationError(f"{source.where}: several metrics, and judgements name none")
    ((metric, things),) = source.labels.items()
    items = [_rated_item(thing, people, None, grades) for thing, people in things.items()]
    if all(item.missing for item in items):
        raise ConfigurationError(f"{where}: not one labelled case was judged there")
    subject = CalibrationSubject(
        metric=metric,
        judge=PurePosixPath(where).name,
        fingerprint=file.digest,
        labels=source.where,
        labels_hash=source.digest,
        outcomes=[(thing.case_id, grade) for thing, grade in grades.items() if grade is not None],
    )
    return _save_calibrations(store, [calibrate(subject, items, config)], None, config)


def labels_of(
    config: CalibrationConfig, store: Store | None = None, record: RunRecord | None = None
) -> LabelSource:
    """The labels that a configuration names; those that cases carry are read from their run.

    Raises:
        ConfigurationError: for labels that cannot be read.
    """
    uri = config.labels
    if uri is None:
        raise ConfigurationError(f"{_LABELS}: required; a file, or {CASES}NAME")
    if uri.startswith(CASES):
        if store is None or record is None:
            raise ConfigurationError(f"{_LABELS} {uri!r}: needs a run, not judgements")
        things = carried_labels(store, record.run_id, uri.removeprefix(CASES))
        body = as_json([[*thing, people.grades] for thing, people in sorted(things.items())])
        return LabelSource(uri, _digest(body), {config.metric or VERDICT: things})
    file = read_labels(uri, config.storage_options, config.columns, _LABELS)
    return LabelSource(uri, file.digest, labels_by_metric(file.rows, config, uri))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _calibrate_metric(
    store: Store,
    record: RunRecord,
    metric: str,
    things: Mapping[ItemKey, PeopleGrades],
    source: LabelSource,
    config: CalibrationConfig,
) -> Calibration:
    grades = {grade for people in things.values() for grade in people.grades.values()}
    judge_grades = stored_grades(store, record.run_id, metric, config, binary=grades <= {0.0, 1.0})
    items = [
        _rated_item(thing, people, judge_grades.clusters, judge_grades.grades)
        for thing, people in _with_repetitions(things, judge_grades).items()
    ]
    models = (
        f" answered by {', '.join(judge_grades.answered_by)}" if judge_grades.answered_by else ""
    )
    subject = CalibrationSubject(
        metric=metric,
        judge=f"{record.judge_model}{models}",
        fingerprint=judge_fingerprint(
            record.config, judge_grades.judge, metric, judge_grades.answered_by
        ),
        labels=source.where,
        labels_hash=source.digest,
        run_id=record.run_id,
        outcomes=[
            (judge_grades.clusters[thing], grade)
            for thing, grade in judge_grades.grades.items()
            if grade is not None
        ],
    )
    return calibrate(subject, items, config)


def _with_repetitions(
    things: Mapping[ItemKey, PeopleGrades], judge_grades: JudgeGrades
) -> dict[ItemKey, PeopleGrades]:
    """Labels without a repetition, as of the only one there is.

    Raises:
        ConfigurationError: where there are several.
    """
    labels = {}
    for thing, people in things.items():
        of_case = judge_grades.repetitions.get(thing.case_id, [0])
        if thing.repetition is None and len(of_case) > 1:
            raise ConfigurationError(
                f"{_LABELS}: case {thing.case_id!r} was judged in {len(of_case)} repetitions; a "
                "column `repetition` must say which one was labelled"
            )
        repetition = of_case[0] if thing.repetition is None else thing.repetition
        labels[ItemKey(thing.case_id, repetition)] = people
    return labels


def _rated_item(
    thing: ItemKey,
    people: PeopleGrades,
    clusters: Mapping[ItemKey, str] | None,
    grades: Mapping[ItemKey, float | None],
) -> RatedItem:
    run_cluster = clusters.get(thing) if clusters else None
    return RatedItem(
        case_id=thing.case_id,
        cluster=people.cluster or run_cluster or thing.case_id,
        people=people.grades,
        judged=grades.get(thing),
        missing=thing not in grades,
    )


def _save_calibrations(
    store: Store | None,
    calibrations: Sequence[Calibration],
    at: datetime | None,
    config: CalibrationConfig,
) -> CalibrationResult:
    """What was found, beside what was found before, and in the store."""
    before = [] if store is None else stored_calibrations(store)
    reasons = [
        line
        for calibration in calibrations
        for line in shortfalls(calibration, former_of(calibration, before), config)
    ]
    if store is not None:
        for calibration in calibrations:
            store.add_calibration(_row(calibration, at or datetime.now(UTC)))
    return CalibrationResult(calibrations=tuple(calibrations), shortfalls=tuple(reasons))


def _row(calibration: Calibration, at: datetime) -> dict[str, Any]:
    keys = {name: getattr(calibration, name) for name in ("fingerprint", "metric", "labels_hash")}
    record = as_json(calibration.model_dump(mode="json"))
    return {**keys, "run_id": calibration.run_id, "at": at, "record": record}


def stored_calibrations(store: Store) -> list[Calibration]:
    """Every calibration of a store, in order of time."""
    return [Calibration.model_validate_json(text) for text in store.calibrations()["record"]]


class MetricCitation(BaseModel):
    """A metric of a run with what is known of its judge; null: not calibrated."""

    model_config = ConfigDict(frozen=True)

    metric: str
    calibration: Calibration | None

    def sentence(self) -> str:
        """`kappa 0.71 [0.62, 0.79] on 240 labels`, or `not calibrated`."""
        return self.calibration.citation() if self.calibration else "not calibrated"


def citations(store: Store, record: RunRecord) -> list[MetricCitation]:
    """What is known of the judges that decide a run: the verdict first, then each metric a model
    was asked about. The last calibration of exactly this judge counts, whatever run it was of. Where
    nothing was ever calibrated only the verdict is named.
    """
    by_fingerprint = {
        (calibration.fingerprint, calibration.metric): calibration
        for calibration in stored_calibrations(store)
    }
    if not by_fingerprint:
        return [MetricCitation(metric=VERDICT, calibration=None)]
    models_by_judge = _answering(store, record.run_id)
    all_models = sorted({model for models in models_by_judge.values() for model in models})
    fingerprints = [(VERDICT, judge_fingerprint(record.config, "", VERDICT, all_models))]
    scores = store.scan(record.run_id, "scores").filter(pl.col("part") == "")
    for judge, metric in collect_rows(
        scores.select("judge", "metric").unique().sort("metric")
    ).rows():
        if judge in models_by_judge:
            models = models_by_judge[judge]
            fingerprints.append((metric, judge_fingerprint(record.config, judge, metric, models)))
    return [
        MetricCitation(metric=metric, calibration=by_fingerprint.get((fingerprint, metric)))
        for metric, fingerprint in fingerprints
    ]


def _answering(store: Store, run_id: str) -> dict[str, list[str]]:
    """The models that answered each judge that asked."""
    asks = store.scan(run_id, "asks").group_by("judge").agg(pl.col("answered_by").unique())
    return {
        judge: sorted(model for model in models if model is not None)
        for judge, models in collect_rows(asks).rows()
    }


def citation_lines(cited: Sequence[MetricCitation]) -> list[str]:
    """What reports say: a line a calibrated metric, then the names of the others; where none is
    calibrated, only that.
    """
    lines = [
        f"{citation.metric}: {citation.sentence()}" for citation in cited if citation.calibration
    ]
    bare = [citation.metric for citation in cited if not citation.calibration]
    if bare and not lines:
        return ["not calibrated"]
    return [*lines, f"not calibrated: {', '.join(bare)}"] if bare else lines
