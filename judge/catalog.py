"""The table of judges and metrics, and what a configuration chooses from it.

Everything is listed here by hand; nothing registers itself on import.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from judge.config import OFFLINE_MODEL, JudgeConfig, MetricSelection
from judge.entry import JudgeEntry, JudgeOptions
from judge.errors import ConfigurationError
from judge.families.conversation import ConversationJudge
from judge.families.deterministic import RecordedJudge
from judge.protocol import Judge
from judge.rubric import BUILT_IN, built_in_rubrics, metric_of, rubrics
from judge.score import Metric

_HEAVIEST: Final = 1e9


CONVERSATION: Final = ConversationJudge.name

JUDGES: Final[Mapping[str, JudgeEntry]] = {
    CONVERSATION: JudgeEntry(
        description="Scores the conversation metrics and the expected outcomes with one ask.",
        needs=("transcript",),
        needs_ground_truth=False,
        made=lambda _, chosen: ConversationJudge(chosen),
    ),
    RecordedJudge.name: JudgeEntry(
        description="Repeats the verdicts recorded in the data; asks no model.",
        needs=("labels",),
        needs_ground_truth=True,
        made=lambda _options, _chosen: RecordedJudge(),
    ),
}


@dataclass(frozen=True)
class Court:
    """Who sits, and by which weights: a configuration resolved before any model is asked.

    `weights` holds the conversation metrics alone and sums to 1; `metrics` is everything that the
    judges promise; `pass_threshold` is an overall score 0..100.
    """

    judges: tuple[Judge, ...]
    weights: Mapping[str, float]
    metrics: tuple[Metric, ...]
    pass_threshold: float


def available_metrics(rubric_folders: Sequence[str] = ()) -> list[Metric]:
    """The conversation metrics one can choose: those of seed 000 in its order, then custom ones.

    Raises:
        ConfigurationError: for a rubric that cannot be used.
    """
    return [metric_of(rubric) for rubric in rubrics(rubric_folders)]


def metrics_listing(rubric_folders: Sequence[str] = ()) -> dict[str, Any]:
    """The document that seed 000 serves under `/config/available-metrics`."""
    data = [
        {
            "name": metric.name,
            "display_name": metric.display_name,
            "description": metric.description,
            "tier": metric.tier,
            "default_weight": metric.default_weight,
            "score_type": metric.scale.value,
            "rubric": metric.rubric,
            "include_in_defaults": metric.include_in_defaults,
        }
        for metric in available_metrics(rubric_folders)
    ]
    return {"data": data, "count": len(data)}


def judges_listing() -> list[dict[str, Any]]:
    """The judges one can choose, in the order of the table, with all built-in metrics."""
    return [
        {
            "name": name,
            "description": entry.description,
            "metrics": [metric.name for metric in _default(entry).metrics],
            "needs": list(entry.needs),
            "needs_ground_truth": entry.needs_ground_truth,
        }
        for name, entry in JUDGES.items()
    ]


def court(config: JudgeConfig) -> Court:
    """The judges and normalised weights that a configuration chooses.

    Raises:
        ConfigurationError: for unknown or doubled names, weights that cannot be normalised, a
            metric that lacks a weight, or a metric the offline judge has no rule for.
    """
    _check_judges(config)
    known = rubrics(config.rubrics)
    weights: dict[str, float] = {}
    if CONVERSATION in config.judges:
        weights = resolved_weights(config.metrics or (), [metric_of(rubric) for rubric in known])
        _check_offline(config, weights)
    chosen = [rubric for rubric in known if rubric.name in weights]
    judges = tuple(JUDGES[name].made(_options(config, name), chosen) for name in config.judges)
    promised = tuple(metric for judge in judges for metric in judge.metrics)
    return Court(judges, weights, promised, config.pass_threshold)


def resolved_weights(
    selection: Sequence[MetricSelection], known: Sequence[Metric]
) -> dict[str, float]:
    """The weights of the chosen metrics, normalised to sum 1, in the order of the catalogue.

    Nothing selected: the default metrics. A selection without a weight takes the metric's
    default; where that is 0, a weight must be given. An explicit 0 is kept: the metric is judged
    and contributes nothing (seed 000, weight resolution).

    Raises:
        ConfigurationError: for unknown or doubled metrics and weights that cannot be normalised.
    """
    defaults = {metric.name: metric.default_weight for metric in known}
    if not selection:
        given = {m.name: m.default_weight for m in known if m.include_in_defaults}
    else:
        given = {}
        for one in selection:
            if one.metric not in defaults:
                raise ConfigurationError.unknown("metric", one.metric, defaults, "[judge] metrics")
            if one.metric in given:
                raise ConfigurationError(f"[judge] metrics: {one.metric!r} is selected twice")
            given[one.metric] = _weight(one, defaults[one.metric])
    total = math.fsum(given.values())
    if total <= 0:
        raise ConfigurationError(
            f"[judge] metrics: the weights of {', '.join(sorted(given))} sum to 0; "
            "give at least one a weight above 0"
        )
    return {name: given[name] / total for name in defaults if name in given}


def _weight(selection: MetricSelection, default: float) -> float:
    weight = selection.weight
    if weight is None:
        if default == 0:
            raise ConfigurationError(
                f"[judge] metrics: {selection.metric!r} has no default weight; "
                f'give one, e.g. {{ metric = "{selection.metric}", weight = 0.5 }}'
            )
        return default
    if not 0 <= weight <= _HEAVIEST:
        raise ConfigurationError(
            f"[judge] metrics: weight {weight!r} of {selection.metric!r}; wanted 0 to {_HEAVIEST:g}"
        )
    return weight


def _default(entry: JudgeEntry) -> Judge:
    return entry.made(entry.options(), built_in_rubrics())


def _options(config: JudgeConfig, name: str) -> JudgeOptions:
    """The validated options of one judge.

    Raises:
        ConfigurationError: naming the option and what it takes.
    """
    try:
        return JUDGES[name].options.model_validate(config.options.get(name, {}))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        option = ".".join(str(part) for part in fault["loc"])
        known = ", ".join(JUDGES[name].options.model_fields)
        raise ConfigurationError(
            f"[judge.options.{name}] {option}: {fault['msg']} (given {fault['input']!r}); "
            f"options: {known}"
        ) from None


def _check_judges(config: JudgeConfig) -> None:
    if not config.judges:
        raise ConfigurationError(f"[judge] judges: none is chosen; known: {', '.join(JUDGES)}")
    for place, name in enumerate(config.judges):
        if name not in JUDGES:
            raise ConfigurationError.unknown("judge", name, JUDGES, "[judge] judges")
        if name in config.judges[:place]:
            raise ConfigurationError(f"[judge] judges: {name!r} is chosen twice")
    for name in config.options:
        if name not in config.judges:
            raise ConfigurationError(
                f"[judge.options.{name}]: {name!r} is not among judges {list(config.judges)!r}"
            )
    if config.metrics and CONVERSATION not in config.judges:
        raise ConfigurationError(
            f"[judge] metrics: chosen without the judge that scores them; "
            f"add {CONVERSATION!r} to judges {list(config.judges)!r}"
        )


def _check_offline(config: JudgeConfig, weights: Mapping[str, float]) -> None:
    custom = [name for name in weights if name not in BUILT_IN]
    if config.model_id == OFFLINE_MODEL and custom:
        raise ConfigurationError(
            f"[judge] metrics: the offline judge has no rule for {', '.join(map(repr, custom))}; "
            "set [judge] model to a language model, or choose built-in metrics only"
        )


def fingerprints(chosen: Court) -> dict[str, str]:
    """What the findings of a court depend on: `judge:<name>` to its version, `metric:<name>` to
    the hash of its rubric.
    """
    judges = {f"judge:{judge.name}": judge.version for judge in chosen.judges}
    hashes = {f"metric:{m.name}": m.rubric_hash for m in chosen.metrics if m.rubric_hash}
    return dict(sorted({**judges, **hashes}.items()))
