"""Cascades: the first models decide where they are confident, and a stronger model decides the rest.

The confidence of a metric, 0..1, is how far the votes lie from the line between good and bad, on
the side of their result: the mean over the votes of their margins, where a vote for the other side
counts negative and a vote without a score counts 0. So one formula holds for repeats of one model,
for panels and for a single answer on a scale. A threshold on it is set by labels of people, see
`assizes.judge.calibration.cascade`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Any, Final

from assizes.judge.config.cascade import CascadeConfig
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.engine.ensemble import CascadeRule, Ensemble, Vote, is_good, is_no_doubt
from assizes.judge.errors import ConfigurationError
from assizes.judge.prompts.reply import PARSER_VERSION
from assizes.judge.protocol import Judge
from assizes.judge.rows import as_json
from assizes.judge.score import ACCEPTABLE, Metric, Scale, Score

_LEVELS_MIDDLE: Final = (ACCEPTABLE - 0.5) / 5
"""The value halfway between the worst acceptable level and the level below it."""

_HOW_ASKED: Final = ("api_base", "temperature", "reply_format", "max_output_tokens")
"""Settings of a model, besides its name, that a threshold depends on."""


def confidences(
    scores: Sequence[Score], votes: Sequence[Vote], metrics: Sequence[Metric]
) -> dict[str, float]:
    """The confidence, 0..1, of each headline among `scores`, which the votes were reduced to.

    A failed score has the confidence 0, an amount or a skipped score without other votes has 1.
    """
    scales = {metric.name: metric.scale for metric in metrics}
    return {
        score.metric: _confidence(score, votes, scales.get(score.metric, Scale.FRACTION))
        for score in scores
        if not score.part
    }


def _confidence(result: Score, votes: Sequence[Vote], scale: Scale) -> float:
    ballots = [
        score
        for vote in votes
        for score in vote.scores
        if score.metric == result.metric and not score.part
    ]
    if result.status != "scored":
        agreeing = result.status == "skipped" and all(
            ballot.status == "skipped" for ballot in ballots
        )
        return 1.0 if agreeing else 0.0
    if (verdict := is_good(result)) is None:
        return 1.0  # an amount has no verdict that could be wrong
    margins = [
        _margin(score, scale) * (1 if is_good(score) == verdict else -1)
        for score in ballots
        if score.status == "scored"
    ]
    return round(max(0.0, fsum(margins) / len(votes)), 6)


def _margin(score: Score, scale: Scale) -> float:
    """How far a score lies from the line between good and bad, 0..1; 1 where it has two values."""
    value = score.value
    if value is None or scale in (Scale.BINARY, Scale.YES_NO):
        return 1.0
    if scale is Scale.SCORED:
        return abs(value - _LEVELS_MIDDLE) / _LEVELS_MIDDLE
    if score.passed is not None:  # by a threshold of the judge, which is not known here
        return 1.0
    bound = ACCEPTABLE / 5
    return (value - bound) / (1 - bound) if value >= bound else (bound - value) / bound


def cascade_reason(
    rule: CascadeRule, scores: Sequence[Score], confidence_by_metric: Mapping[str, float]
) -> str | None:
    """The reason to ask the stronger model; `None` where the first scores stand.

    A metric of the rule without a score is a reason, too, unless the first models could not be
    reached at all: an outage is no doubt, and the failure stands.
    """
    heads = [score for score in scores if not score.part]
    if heads and all(is_no_doubt(score) for score in heads):
        return None
    if rule.confidence is None:
        return "cascade: every case is asked about, to set a threshold"
    for metric in rule.metrics:
        confidence = confidence_by_metric.get(metric, 0.0)
        if confidence < rule.confidence:
            return f"{metric}: confidence {confidence:.2f} is under {rule.confidence:g}"
    return None


def with_confidence(
    scores: Sequence[Score],
    confidence_by_metric: Mapping[str, float],
    decided_by: str,
    first: Sequence[Score] = (),
) -> list[Score]:
    """The scores with `confidence` and `decided_by`, the deciding models, in headline details.

    `first` is what the first models decided where the case was escalated; the details keep its
    number and verdict as `first`.
    """
    before = {score.metric: score for score in first if not score.part}

    def with_entries(score: Score) -> Score:
        known: dict[str, Any] = {"decided_by": decided_by}
        if score.metric in confidence_by_metric:
            known["confidence"] = confidence_by_metric[score.metric]
        if (earlier := before.get(score.metric)) is not None:
            names = ("status", "raw", "value", "label", "passed")
            known["first"] = {name: getattr(earlier, name) for name in names}
        return score.with_details(**known)

    return [score if score.part else with_entries(score) for score in scores]


def basis(judge: Judge, ensemble: Ensemble) -> str:
    """16 hex digits that change with all that a threshold depends on.

    These are the models and how they are asked, the number of repeats, the version of the judge
    with its rubrics, and the parser of the replies.
    """
    models = [_model_facts(member) for member in ensemble.models]
    senior = None if ensemble.senior is None else _model_facts(ensemble.senior)
    rubrics = [[metric.name, metric.rubric_hash] for metric in judge.metrics]
    parts = [models, ensemble.repeats, senior, judge.version, rubrics, PARSER_VERSION]
    return hashlib.sha256(as_json(parts).encode()).hexdigest()[:16]


def _model_facts(model: JudgeConfig) -> list[Any]:
    return [model.model_id, *(getattr(model, name) for name in _HOW_ASKED)]


def with_cascade(
    config: CascadeConfig | None, ensembles: Mapping[str, Ensemble], judges: Sequence[Judge]
) -> dict[str, Ensemble]:
    """The ensembles by judge, those with a stronger model with the rule that decides when to ask it.

    Raises:
        ConfigurationError: no judge has a stronger model, a judge has no threshold, or a threshold
            was set for another judge, other models or another promise.
    """
    if config is None:
        return dict(ensembles)
    by_name = {judge.name: judge for judge in judges}
    ruled = {
        name: replace(ensemble, cascade=_rule(config, by_name[name], ensemble))
        for name, ensemble in ensembles.items()
        if ensemble.senior is not None
    }
    if not ruled:
        raise ConfigurationError(
            "[judge.cascade]: no judge has a stronger model; set [judge] escalate_to"
        )
    for name in config.thresholds:
        if name not in ruled:
            raise ConfigurationError.unknown(
                "judge", name, ruled, "[judge.cascade.thresholds], among judges with escalate_to"
            )
    return {**ensembles, **ruled}


def _rule(config: CascadeConfig, judge: Judge, ensemble: Ensemble) -> CascadeRule:
    if config.collect:
        return CascadeRule(None, tuple(metric.name for metric in judge.metrics))
    where = f"[judge.cascade.thresholds.{judge.name}]"
    threshold = config.thresholds.get(judge.name)
    if threshold is None:
        raise ConfigurationError(
            f"{where}: no threshold is set; `assizes cascade` sets it from labels of people"
        )
    if threshold.basis != basis(judge, ensemble):
        raise ConfigurationError(
            f"{where}: was set for other models, prompts or rubrics than those of this run; run "
            "`assizes cascade` again, or leave [judge.cascade] out"
        )
    if threshold.agreement < config.agreement or threshold.delta > config.delta:
        raise ConfigurationError(
            f"{where}: was set for agreement {threshold.agreement:g} and delta {threshold.delta:g}; "
            f"[judge.cascade] asks for {config.agreement:g} and {config.delta:g}: run "
            "`assizes cascade` again"
        )
    promised = {metric.name for metric in judge.metrics}
    for metric in threshold.metrics:
        if metric not in promised:
            raise ConfigurationError.unknown("metric", metric, promised, where)
    return CascadeRule(threshold.confidence, threshold.metrics)
