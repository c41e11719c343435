"""Sets the thresholds of cascades from a stored run that asked both sides about every case."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from assizes.judge.calibration.calibrate import check_pass_from
from assizes.judge.calibration.cascade import (
    CascadeCalibration,
    CascadeLabels,
    LabelledDecision,
    set_threshold,
)
from assizes.judge.calibration.cascade_result import (
    CascadeResult,
    JudgeCascade,
    threshold_setting,
)
from assizes.judge.calibration.labelled import ItemKey, RatedItem, pass_mark
from assizes.judge.catalog import JudgePanel, fingerprints, resolve_judges
from assizes.judge.config.cascade import CascadeConfig
from assizes.judge.config.gates import VERDICT, CalibrationConfig
from assizes.judge.config.run import FINGERPRINTS, RunConfig
from assizes.judge.engine.cascade import basis
from assizes.judge.engine.ensemble_hearing import EnsembleModels
from assizes.judge.errors import ConfigurationError
from assizes.judge.model_assignment import ModelAssignment, assign_models
from assizes.judge.models.model import Model
from assizes.judge.score import ACCEPTABLE
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runs.calibrations import labels_of, rated_items_of_run
from assizes.tasks.runs.stored_cases import run_config
from assizes.tasks.store import RunRecord, Store

_COLUMNS: Final = (
    *("case_id", "repetition", "metric"),
    *("status", "raw", "value", "passed", "details"),
)


def collecting_config(
    config: RunConfig, agreement: float | None, delta: float | None, *, needs_model: bool = True
) -> RunConfig:
    """The configuration of a run that asks both sides about every case, for `set_thresholds`.

    Without `needs_model`, a stored run has asked both sides, and no stronger model need be set.

    Raises:
        ConfigurationError: no stronger model, or no agreement is set.
    """
    known = config.judge.cascade
    if needs_model and config.judge.escalate_to is None:
        raise ConfigurationError("[judge] escalate_to: names no stronger model to escalate to")
    wanted, least = agreement, delta
    if known is not None:
        wanted = known.agreement if wanted is None else wanted
        least = known.delta if least is None else least
    if wanted is None:
        raise ConfigurationError(
            "--agreement: say how often decisions must agree with people, e.g. 0.9, or set it in "
            "[judge.cascade]"
        )
    for name, value, most in (("--agreement", wanted, 1.0), ("--delta", least, 0.5)):
        if value is not None and not 0 < value < most:
            raise ConfigurationError(
                f"{name} {value:g}: wanted a number above 0 and below {most:g}"
            )
    both = {"agreement": wanted, "collect": True} | ({} if least is None else {"delta": least})
    judge = config.judge.model_copy(update={"cascade": CascadeConfig.model_validate(both)})
    return config.model_copy(update={"judge": judge})


def stored_promise(config: RunConfig) -> CascadeConfig:
    """The cascade that a configuration of `collecting_config` asks for."""
    assert config.judge.cascade is not None
    return config.judge.cascade


def set_thresholds(store: Store, run_id: str, config: RunConfig) -> CascadeResult:
    """The thresholds of the judges of a run, by the labels of `config`.

    `config` is one of `collecting_config`: its agreement and delta count, and its prices.

    Raises:
        ConfigurationError: the run did not ask both sides, its rubrics have changed since, labels
            cannot be read or are too few, or no threshold keeps the promise.
        UnknownRun: the store has no such run.
    """
    record = store.run(run_id)
    asked = run_config(record)
    cascade = asked.judge.cascade
    if cascade is None or not cascade.collect:
        raise ConfigurationError(
            f"run {record.run_id} did not ask both models about every case; leave --run out, and "
            "`assizes cascade` makes such a run"
        )
    panel = resolve_judges(asked.judge)
    if fingerprints(panel) != record.config.get(FINGERPRINTS):
        raise ConfigurationError(
            f"run {record.run_id}: judges or rubrics have changed since; leave --run out, and the "
            "cases are judged by those of today"
        )
    assignment = assign_models(asked.model_copy(update={"limits": config.limits}), panel)
    return _Thresholds(store, record, config, panel, assignment).result()


class _Thresholds:
    def __init__(
        self,
        store: Store,
        record: RunRecord,
        config: RunConfig,
        panel: JudgePanel,
        assignment: ModelAssignment,
    ) -> None:
        self._store, self._record, self._config = store, record, config
        self._panel, self._assignment = panel, assignment
        self._promise = stored_promise(config)

    def result(self) -> CascadeResult:
        source = labels_of(self._config.calibration, self._store, self._record)
        items_by_judge: defaultdict[str, dict[str, list[RatedItem]]] = defaultdict(dict)
        clusters: Mapping[ItemKey, str] = {}
        for metric, labels in sorted(source.labels.items()):
            if metric == VERDICT:
                continue
            grades, items = rated_items_of_run(
                self._store, self._record, metric, labels, self._config.calibration
            )
            clusters = grades.clusters
            items_by_judge[grades.judge][metric.rpartition("/")[2]] = items
        ruled = {
            name: each for name, each in self._panel.ensembles.items() if each.senior is not None
        }
        labelled = [name for name in ruled if name in items_by_judge]
        if not labelled:
            raise ConfigurationError(
                f"{source.where}: no label of a metric that a stronger model could judge; name the "
                "labelled metric with --metric"
            )
        judges = []
        for name in labelled:
            calibration = self._judge(name, items_by_judge[name], clusters)
            (judge,) = (each for each in self._panel.judges if each.name == name)
            setting = threshold_setting(calibration, basis(judge, ruled[name]))
            judges.append(JudgeCascade(calibration=calibration, setting=setting))
        first = ruled[labelled[0]]
        return CascadeResult(
            run_id=self._record.run_id,
            labels=source.where,
            labels_hash=source.digest,
            agreement=self._promise.agreement,
            delta=self._promise.delta,
            first=tuple(model.model_id for model in first.models),
            senior=first.senior.model_id if first.senior else "",
            judges=tuple(judges),
            notes=tuple(self._notes(judges, [name for name in ruled if name not in labelled])),
        )

    def _notes(self, judges: list[JudgeCascade], bare: list[str]) -> list[str]:
        notes = [
            f"{name}: no labels, so no threshold; a run with [judge.cascade] refuses it until it has "
            f"labels, or a model of its own in [judge.options.{name}]"
            for name in bare
        ]
        for cascade in judges:
            promised = set(cascade.setting.metrics)
            (judge,) = (j for j in self._panel.judges if j.name == cascade.calibration.judge)
            if others := [m.name for m in judge.metrics if m.name not in promised]:
                notes.append(
                    f"{judge.name}: nothing is promised of {', '.join(others)}, which have no labels"
                )
        return notes

    def _judge(
        self, name: str, items: Mapping[str, list[RatedItem]], clusters: Mapping[ItemKey, str]
    ) -> CascadeCalibration:
        heads = self._headlines(name, list(items))
        least: dict[ItemKey, float] = {}  # the confidence in the case
        for of_metric in heads.values():
            for key, score in of_metric.items():
                own = float(score["details"].get("confidence", 0.0))
                least[key] = min(own, least.get(key, 1.0))
        decisions: dict[str, list[LabelledDecision]] = {}
        undecided = Counter[str]()
        for metric, rated in items.items():
            decided = list(self._decisions(metric, rated, heads[metric], least))
            decisions[metric] = [decision for decision in decided if decision is not None]
            undecided[metric] = len(decided) - len(decisions[metric])
        judged = [(clusters.get(key, key.case_id), value) for key, value in least.items()]
        labels = CascadeLabels(name, decisions, judged, undecided)
        calibration = set_threshold(labels, self._promise.agreement, self._promise.delta)
        costs = self._costs(name, len(least), calibration.escalated)
        return calibration.model_copy(update=costs)

    def _headlines(
        self, judge: str, metrics: list[str]
    ) -> dict[str, dict[ItemKey, Mapping[str, Any]]]:
        """The stored headlines of a judge by metric and case, with their details as objects."""
        scores = self._store.scan(self._record.run_id, "scores")
        rows = collect_rows(
            scores.filter((pl.col("judge") == judge) & (pl.col("part") == ""))
            .filter(pl.col("metric").is_in(metrics))
            .select(*_COLUMNS)
        )
        heads: dict[str, dict[ItemKey, Mapping[str, Any]]] = {metric: {} for metric in metrics}
        for row in rows.iter_rows(named=True):
            key = ItemKey(row["case_id"], row["repetition"])
            heads[row["metric"]][key] = row | {"details": json.loads(row["details"] or "{}")}
        return heads

    def _decisions(
        self,
        metric: str,
        items: list[RatedItem],
        scores: Mapping[ItemKey, Mapping[str, Any]],
        least: Mapping[ItemKey, float],
    ) -> Iterator[LabelledDecision | None]:
        """What both sides decided on each labelled case; `None` where one did not decide."""
        binary = all(item.given <= {0.0, 1.0} for item in items)
        mark = self._mark(metric, items)
        how = _GradeReader(binary, mark, self._config.calibration)
        for item in items:
            key = ItemKey(item.case_id, item.repetition)
            grade, score = item.settled_grade(ordered=True), scores.get(key)
            if grade is None or score is None:  # divided, or not judged
                continue
            first, senior = how.good(score["details"].get("first") or {}), how.good(score)
            if first is None or senior is None:
                yield None
                continue
            good = grade >= mark
            yield LabelledDecision(item.cluster, least[key], first == good, senior == good)

    def _mark(self, metric: str, items: list[RatedItem]) -> float:
        """The lowest grade of people that passes."""
        calibration = self._config.calibration
        given = {grade for item in items for grade in item.given}
        judged = {item.judged for item in items if item.judged is not None}
        check_pass_from(sorted(calibration.levels or given | judged), calibration)
        mark = pass_mark(sorted(calibration.levels or given), calibration)
        if mark is None:
            raise ConfigurationError(
                f"labels of {metric}: a cascade decides pass or fail; set [calibration] pass_from to "
                "the lowest grade that passes"
            )
        return mark

    def _costs(self, name: str, cases: int, escalated: float) -> dict[str, float | None]:
        """US dollars of one case by the tokens of the run, cached replies included."""
        own = self._assignment.own[name]
        assert isinstance(own, EnsembleModels)
        assert own.senior is not None
        asks = self._store.scan(self._record.run_id, "asks").filter(pl.col("judge") == name)
        tokens = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
        sums = {
            row["model"]: row
            for row in collect_rows(
                asks.group_by("model").agg(
                    *(pl.col(column).sum() for column in tokens),
                    pl.col("input_tokens").is_null().any().alias("unknown"),
                )
            ).iter_rows(named=True)
        }

        def usd(model: Model) -> float | None:
            row = sums.get(model.name)
            if row is None or row["unknown"] or model.price is None:
                return None
            return model.price.cost_usd(*(row[column] or 0 for column in tokens)) / max(1, cases)

        each = [usd(model) for model in own.models]
        known = [cost for cost in each if cost is not None]
        first, senior = sum(known) if len(known) == len(each) else None, usd(own.senior)
        both = None if first is None or senior is None else first + escalated * senior
        figures = {"first_usd": first, "senior_usd": senior, "expected_usd": both}
        return {name: None if each is None else round(each, 9) for name, each in figures.items()}


@dataclass(frozen=True, slots=True)
class _GradeReader:
    """How a stored score is read as good or bad, as people's grades are."""

    binary: bool  # people said pass or fail
    mark: float  # the lowest grade of people that passes
    config: CalibrationConfig

    def good(self, score: Mapping[str, Any]) -> bool | None:
        """Whether a score is good; `None` where there is no decision."""
        if score.get("status") != "scored":
            return None
        raw, passed, value = score.get("raw"), score.get("passed"), score.get("value")
        if not self.binary and raw is not None:
            return bool(raw >= self.mark)
        if passed is not None:
            return bool(passed)
        if self.config.pass_from is not None and raw is not None:
            return bool(raw >= self.config.pass_from)
        return None if value is None else bool(value >= ACCEPTABLE / 5)
