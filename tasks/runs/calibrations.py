"""Calibrates the judges of stored runs, stores the calibrations, and cites them for reports."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Final

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.calibration.calibrate import CalibrationSubject, calibrate, judge_fingerprint
from assizes.judge.calibration.disagreements import MetricDisagreements, disagreements
from assizes.judge.calibration.labelled import (
    ItemKey,
    PeopleGrades,
    RatedItem,
    judgements,
    labels_by_metric,
)
from assizes.judge.calibration.measures import Estimate
from assizes.judge.calibration.record import Calibration, Canaries, former_of, shortfalls
from assizes.judge.config.gates import CASES_PREFIX, STORE_LABELS, VERDICT, CalibrationConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.labels.cell_text import case_reader
from assizes.judge.rows import as_json
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runs.item_facts import item_facts
from assizes.tasks.runs.labels import label_scales
from assizes.tasks.runs.labels.labels_and_grades import (
    JudgeGrades,
    carried_labels,
    case_ids,
    read_labels,
    stored_grades,
    with_repetitions,
)
from assizes.tasks.runs.labels.people_labels import stored_labels
from assizes.tasks.store import RunRecord, Store

Labels = Mapping[str, Mapping[ItemKey, PeopleGrades]]
"""By metric, the grades that people gave each case or repetition."""

_KEY_FIELDS: Final = {"fingerprint", "metric", "labels_hash", "run_id"}
"""Fields of a calibration that are columns of their own in the store."""

_MAX_EARLIER: Final = 20
"""The most earlier calibrations that a result lists."""

_LABELS: Final = "[calibration] labels"
_JUDGEMENTS: Final = "[calibration] judgements"


class EarlierCalibration(BaseModel):
    """What was stored of an earlier calibration on a metric, of this judge or of another."""

    model_config = ConfigDict(frozen=True)

    at: datetime
    metric: str
    judge: str
    fingerprint: str
    labels_hash: str
    items: int = Field(description="labels that the kappa rests on")
    kappa: Estimate = Field(description="the kappa that is cited: quadratic for ordered grades")


class CalibrationResult(BaseModel):
    """The calibrations of a judge, one for each metric, and the reasons why it falls short."""

    model_config = ConfigDict(frozen=True)

    calibrations: tuple[Calibration, ...]
    shortfalls: tuple[str, ...]
    disagreements: tuple[MetricDisagreements, ...] = Field(
        default=(), description="by metric, as `calibrations`; recorded judgements have no reasons"
    )
    earlier: tuple[EarlierCalibration, ...] = Field(
        default=(), description="stored calibrations of the same metrics, the newest first"
    )
    canaries: Canaries | None = Field(default=None, description="null: none were wanted")

    def with_canaries(self, canaries: Canaries | None) -> CalibrationResult:
        """The result with the outcome of the canaries; a takeover of the judge is a shortfall."""
        reason = canaries.shortfall() if canaries else None
        shortfalls = (*self.shortfalls, reason) if reason else self.shortfalls
        return self.model_copy(update={"canaries": canaries, "shortfalls": shortfalls})


@dataclass(frozen=True, slots=True)
class LabelSource:
    """The labels of people, and where they were read from."""

    where: str  # URI of the file, or `cases:NAME`
    digest: str  # 16 hex digits of the SHA-256 of the file or of the carried labels
    labels: Labels
    has_words: bool = True  # whether a label is a word, as `pass` is; False: numbers of a file

    def of_metric(self, metric: str | None) -> LabelSource:
        """The labels of one metric alone; `None` stands for every metric."""
        if metric is None:
            return self
        if metric not in self.labels:
            raise ConfigurationError.unknown("metric", metric, self.labels, self.where)
        return replace(self, labels={metric: self.labels[metric]})


def calibrate_run(store: Store, run_id: str, config: CalibrationConfig) -> CalibrationResult:
    """Compare the judges of a stored run with labels, and store the calibrations.

    Raises:
        ConfigurationError: the labels cannot be read, or no case or metric of the run has one.
        UnknownRun: the store has no such run.
    """
    record = store.run(run_id)
    source = labels_of(config, store, record).of_metric(config.metric)
    pairs = [
        _calibrate_metric(store, record, metric, labels, source, config)
        for metric, labels in sorted(source.labels.items())
    ]
    calibrations = [calibration for calibration, _ in pairs]
    if not any(calibration.labelled > calibration.missing for calibration in calibrations):
        raise ConfigurationError(
            f"{source.where}: not one labelled case was judged in run {record.run_id}"
        )
    result = _save_calibrations(store, calibrations, record.finished_at, config)
    return result.model_copy(update={"disagreements": tuple(apart for _, apart in pairs)})


def calibrate_judgements(store: Store | None, config: CalibrationConfig) -> CalibrationResult:
    """Compare the grades of a judge from a file with labels; the configuration names both files.

    Without a store, the calibration is not stored.

    Raises:
        ConfigurationError: a file cannot be read, or the files do not fit together.
    """
    _check_needs_no_run(config.labels or "")
    where = config.judgements or config.labels or ""
    file = read_labels(where, config.storage_options, config.columns, _JUDGEMENTS)
    grades = judgements(file.rows, config, where)
    source = labels_of(config, held={item.case_id for item in grades}).of_metric(config.metric)
    if len(source.labels) > 1:
        raise ConfigurationError(f"{source.where}: several metrics, and judgements name none")
    ((metric, labels),) = source.labels.items()
    items = rated_items(labels, grades, {})  # without a run no clusters are known
    if all(item.missing for item in items):
        raise ConfigurationError(f"{where}: not one labelled case was judged there")
    subject = CalibrationSubject(
        metric=metric,
        judge=PurePosixPath(where).name,
        fingerprint=file.digest,  # all that is known of this judge is its file
        labels=source.where,
        labels_hash=source.digest,
        outcomes=[(item.case_id, grade) for item, grade in grades.items() if grade is not None],
    )
    result = _save_calibrations(store, [calibrate(subject, items, config)], None, config)
    apart = disagreements(metric, items, {}, ordered=config.scale == "ordinal")
    return result.model_copy(update={"disagreements": (apart,)})


def labels_of(
    config: CalibrationConfig,
    store: Store | None = None,
    record: RunRecord | None = None,
    held: Collection[str] = (),
) -> LabelSource:
    """The labels that a configuration names: in a file, or with the cases of a run in a store.

    Without a run, `held` are the ids of the cases that a file of labels may name.

    Raises:
        ConfigurationError: the labels cannot be read.
    """
    if (uri := config.labels) is None:
        raise ConfigurationError(f"{_LABELS}: needs a file, {CASES_PREFIX}NAME, or {STORE_LABELS}")
    if store is None or record is None:
        _check_needs_no_run(uri)
    elif uri == STORE_LABELS:
        stored = stored_labels(store, record.run_id)
        return LabelSource(uri, _digest(stored), stored)
    elif uri.startswith(CASES_PREFIX):
        carried = carried_labels(store, record.run_id, uri.removeprefix(CASES_PREFIX))
        body = as_json([[*item, people.grades] for item, people in sorted(carried.items())])
        digest = hashlib.sha256(body.encode()).hexdigest()[:16]
        return LabelSource(uri, digest, {config.metric or VERDICT: carried})
    else:
        held = case_ids(store, record.run_id)
    file = read_labels(uri, config.storage_options, config.columns, _LABELS)
    labels = labels_by_metric(file.rows, config, uri, case_reader(held))
    return LabelSource(uri, file.digest, labels, label_scales.has_words(file.rows, config))


def _check_needs_no_run(uri: str) -> None:
    if uri == STORE_LABELS or uri.startswith(CASES_PREFIX):
        raise ConfigurationError(f"{_LABELS} {uri!r}: needs a run, not judgements")


def _digest(labels: Labels) -> str:
    body = as_json(
        [
            [metric, *item, people.grades, people.settled]
            for metric, items in sorted(labels.items())
            for item, people in sorted(items.items())
        ]
    )
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def _calibrate_metric(
    store: Store,
    record: RunRecord,
    metric: str,
    labels: Mapping[ItemKey, PeopleGrades],
    source: LabelSource,
    config: CalibrationConfig,
) -> tuple[Calibration, MetricDisagreements]:
    judge_grades, items = rated_items_of_run(store, record, metric, labels, config)
    grades, clusters = judge_grades.grades, judge_grades.clusters
    answered_by = judge_grades.answered_by
    models = f" answered by {', '.join(answered_by)}" if answered_by else ""
    subject = CalibrationSubject(
        metric=metric,
        judge=f"{record.judge_model}{models}",
        fingerprint=judge_fingerprint(record.config, judge_grades.judge, metric, answered_by),
        labels=source.where,
        labels_hash=source.digest,
        run_id=record.run_id,
        outcomes=[(clusters[item], grade) for item, grade in grades.items() if grade is not None],
    )
    facts = item_facts(store, record.run_id, judge_grades.judge, metric, items)
    ordered = config.scale == "ordinal"
    calibration = calibrate(subject, items, config)
    if not (source.has_words or config.levels):
        more = label_scales.ones_warnings(store, record.run_id, metric, labels)
        calibration = calibration.model_copy(update={"warnings": (*calibration.warnings, *more)})
    return calibration, disagreements(metric, items, facts, ordered=ordered)


def rated_items_of_run(
    store: Store,
    record: RunRecord,
    metric: str,
    labels: Mapping[ItemKey, PeopleGrades],
    config: CalibrationConfig,
) -> tuple[JudgeGrades, list[RatedItem]]:
    """The grades that a run gave for a metric, and the labelled items beside these grades.

    Raises:
        ConfigurationError: the run has no such metric, or a label does not say which repetition.
    """
    is_binary = label_scales.is_pass_or_fail(store, record.run_id, metric, labels, config)
    judge_grades = stored_grades(store, record.run_id, metric, config, binary=is_binary)
    grades, clusters = judge_grades.grades, judge_grades.clusters
    return judge_grades, rated_items(with_repetitions(labels, clusters), grades, clusters)


def run_disagreements(
    store: Store, record: RunRecord, metric: str, source: LabelSource, config: CalibrationConfig
) -> MetricDisagreements:
    """The disagreements of a run with labels on one metric; it stores nothing.

    Raises:
        ConfigurationError: the labels have no such metric, or the run does not.
    """
    labels = source.labels.get(metric)
    if labels is None:
        raise ConfigurationError(f"{source.where}: no label of {metric} for run {record.run_id}")
    judge_grades, items = rated_items_of_run(store, record, metric, labels, config)
    facts = item_facts(store, record.run_id, judge_grades.judge, metric, items)
    return disagreements(metric, items, facts, ordered=config.scale == "ordinal")


def rated_items(
    labels: Mapping[ItemKey, PeopleGrades],
    grades: Mapping[ItemKey, float | None],
    clusters: Mapping[ItemKey, str],
) -> list[RatedItem]:
    """The labelled items, each with the judge's grade; `missing` are those it was not asked about."""
    return [
        RatedItem(
            case_id=item.case_id,
            cluster=people.cluster or clusters.get(item) or item.case_id,
            people=people.grades,
            judged=grades.get(item),
            missing=item not in grades,  # never asked; `judged` is also `None` after an error
            repetition=item.repetition,
            notes=people.notes,
            settled=people.settled,
        )
        for item, people in labels.items()
    ]


def _save_calibrations(
    store: Store | None,
    calibrations: Sequence[Calibration],
    at: datetime | None,
    config: CalibrationConfig,
) -> CalibrationResult:
    """Store the calibrations, and list where they fall short of the floors and of earlier ones."""
    # Read first: without the new ones.
    times, before = ([], []) if store is None else dated_calibrations(store)
    reasons: list[str] = []
    for calibration in calibrations:
        reasons += shortfalls(calibration, former_of(calibration, before), config)
        if store is not None:
            row = {
                **calibration.model_dump(include=_KEY_FIELDS),
                # The time of the run, not of now, so that calibrating again changes nothing.
                "at": at or datetime.now(UTC),
                "record": as_json(calibration.model_dump(mode="json")),
            }
            store.add_calibration(row)
    metrics = {calibration.metric for calibration in calibrations}
    earlier = [
        _earlier(at, former)
        for at, former in zip(times, before, strict=True)
        if former.metric in metrics and former not in calibrations
    ]
    return CalibrationResult(
        calibrations=tuple(calibrations),
        shortfalls=tuple(reasons),
        earlier=tuple(earlier[: -_MAX_EARLIER - 1 : -1]),
    )


def _earlier(at: datetime, former: Calibration) -> EarlierCalibration:
    return EarlierCalibration(
        at=at,
        metric=former.metric,
        judge=former.judge,
        fingerprint=former.fingerprint,
        labels_hash=former.labels_hash,
        items=former.agreement.items,
        kappa=former.cited_kappa,
    )


def dated_calibrations(store: Store) -> tuple[list[datetime], list[Calibration]]:
    """Every calibration in a store and its time, in order of time."""
    rows = store.calibrations()
    return rows["at"].to_list(), list(map(Calibration.model_validate_json, rows["record"]))


def stored_calibrations(store: Store) -> list[Calibration]:
    """Every calibration in a store, in order of time."""
    return dated_calibrations(store)[1]


class MetricCitation(BaseModel):
    """A metric of a run with the last calibration of its judge; `None` for no calibration."""

    model_config = ConfigDict(frozen=True)

    metric: str
    calibration: Calibration | None

    def sentence(self) -> str:
        """The citation, such as `kappa 0.71 [0.62, 0.79] on 240 labels`, or `not calibrated`."""
        return self.calibration.citation() if self.calibration else "not calibrated"


def citations(store: Store, record: RunRecord) -> list[MetricCitation]:
    """The calibrations of the judges that decide a run: of the verdict, then of each asked metric.

    In a store without any calibration only the verdict is listed.
    """
    # Later calibrations replace earlier ones of the same judge, whatever run they were of.
    last = {(former.fingerprint, former.metric): former for former in stored_calibrations(store)}
    if not last:
        return [MetricCitation(metric=VERDICT, calibration=None)]
    asks = store.scan(record.run_id, "asks").group_by("judge").agg(pl.col("answered_by").unique())
    models_by_judge = {
        judge: sorted(model for model in models if model is not None)
        for judge, models in collect_rows(asks).rows()
    }
    all_models = sorted({model for models in models_by_judge.values() for model in models})
    scores = store.scan(record.run_id, "scores").filter(pl.col("part") == "")
    headlines = collect_rows(scores.select("judge", "metric").unique().sort("metric"))
    cited = []
    for judge, metric in [("", VERDICT), *headlines.rows()]:
        models = models_by_judge.get(judge) if judge else all_models
        if models is not None:  # a judge that asks nothing needs no calibration
            fingerprint = judge_fingerprint(record.config, judge, metric, models)
            calibration = last.get((fingerprint, metric))
            cited.append(MetricCitation(metric=metric, calibration=calibration))
    return cited


def citation_lines(cited: Sequence[MetricCitation]) -> list[str]:
    """The citations as lines of a report: one for each calibrated metric, one for all others."""
    lines = [f"{item.metric}: {item.sentence()}" for item in cited if item.calibration]
    bare = ", ".join(item.metric for item in cited if not item.calibration)
    rest = [f"not calibrated: {bare}" if lines else "not calibrated"] if bare else []
    return [*lines, *rest]
