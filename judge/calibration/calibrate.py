"""Computes a calibration from the labels of people and the grades of a judge."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean
from typing import Any, Final

from assizes.judge.calibration import measures, record
from assizes.judge.calibration.labelled import RatedItem, pass_mark
from assizes.judge.calibration.measures import Estimate, JudgeErrors, ObservedPasses, estimate
from assizes.judge.calibration.record import Agreement, Calibration, Ceiling, FailingClass, Pair
from assizes.judge.config.gates import VERDICT, CalibrationConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.prompts.reply import PARSER_VERSION
from assizes.judge.rows import as_json
from assizes.judge.statistics.exact import rounded_value

PairOf = tuple[str, float, float]
"""A cluster, the grade of people, and the grade of the judge (or of a second person)."""


@dataclass(frozen=True, slots=True)
class CalibrationSubject:
    """The metric and the judge that are calibrated, and where the labels come from."""

    metric: str
    judge: str  # who judges, in words
    fingerprint: str  # `judge_fingerprint`
    labels: str  # where they lie
    labels_hash: str
    run_id: str | None = None  # None: the grades are from a file
    outcomes: Sequence[tuple[str, float]] = field(default=())  # (cluster, grade), labelled or not


def calibrate(
    subject: CalibrationSubject, items: Sequence[RatedItem], config: CalibrationConfig
) -> Calibration:
    """Compare a judge with people on all items that they graded.

    Raises:
        ConfigurationError: a grade is none of the configured levels.
    """
    ordered = config.scale == "ordinal"
    asked = [item for item in items if not item.missing]  # the others are no fault of the judge
    settled = [(item, item.settled_grade(ordered=ordered)) for item in asked]
    pairs = [
        (item.cluster, grade, item.judged)
        for item, grade in settled
        if grade is not None and item.judged is not None
    ]
    due = sum(grade is not None for _, grade in settled)  # items on which people agree
    people_grades = {grade for item in items for grade in item.given}
    judged = {item.judged for item in items if item.judged is not None}
    levels = _levels(people_grades | judged, config, subject.labels)
    check_pass_from(levels, config)
    table = measures.confusions(pairs, levels)
    agreement = _agreement(pairs, levels, ordered=ordered)
    failing = _failing_class(pairs, pass_mark(levels, config))
    return Calibration(
        metric=subject.metric,
        judge=subject.judge,
        fingerprint=subject.fingerprint,
        labels=subject.labels,
        labels_hash=subject.labels_hash,
        run_id=subject.run_id,
        labelled=len(items),
        disputed=sum(grade is None for _, grade in settled),
        missing=len(items) - len(asked),
        judge_errors=due - len(pairs),
        judge_error_rate=rounded_value((due - len(pairs)) / due) if due else None,
        clusters=table.clusters,
        raters=tuple(_raters(items)),
        levels=tuple(levels),
        ordered=ordered,
        confusion=tuple(tuple(row) for row in measures.as_counts(table.whole)),
        agreement=agreement,
        failing=failing,
        ceiling=_ceiling(items, levels, ordered=ordered),
        warnings=tuple(record.cautions(len(pairs), failing, agreement.cited(len(levels)))),
        **_pass_rates(subject, failing),
    )


def _raters(items: Sequence[RatedItem]) -> list[str]:
    return sorted({rater for item in items for rater in item.people})


def _levels(grades: set[float], config: CalibrationConfig, where: str) -> list[float]:
    if not config.levels:
        return sorted(grades)
    if strange := sorted(grades.difference(config.levels)):
        accepted = ", ".join(f"{level:g}" for level in sorted(config.levels))
        raise ConfigurationError(
            f"[calibration] levels: {where} and the judge have grades that are none of them, such "
            f"as {strange[0]:g}; accepted: {accepted}"
        )
    return sorted(set(config.levels))


def check_pass_from(levels: Sequence[float], config: CalibrationConfig) -> None:
    """Check that the lowest passing grade is on the scale of the grades, `levels` in their order.

    Raises:
        ConfigurationError: it is above or below all grades, so that all of them fail or pass.
    """
    mark = config.pass_from
    if mark is None or not levels:
        return
    is_binary = set(levels) <= {0.0, 1.0}
    scale = (0.0, 1.0) if is_binary else levels
    # Of a longer scale that is not configured the lower grades may be among those nobody gave.
    is_below = mark < scale[0] and (is_binary or config.levels is not None)
    if mark > scale[-1] or is_below:
        given = ", ".join(f"{level:g}" for level in scale)
        raise ConfigurationError(
            f"--pass-from (pass_from) {mark:g} is outside the grades, which are {given}; where there "
            "are more grades than were given, [calibration] levels names them all"
        )


def _agreement(pairs: Sequence[PairOf], levels: Sequence[float], *, ordered: bool) -> Agreement:
    tables = measures.confusions(pairs, levels)
    both = measures.coincidences(((cluster, grades) for cluster, *grades in pairs), levels)
    return Agreement(
        items=len(pairs),
        accuracy=estimate(tables, measures.accuracy),
        kappa=estimate(tables, measures.kappa),
        quadratic_kappa=estimate(tables, measures.quadratic_kappa(levels)) if ordered else None,
        alpha=estimate(both, measures.alpha("ordinal" if ordered else "nominal")),
    )


def _failing_class(pairs: Sequence[PairOf], mark: float | None) -> FailingClass | None:
    if mark is None:
        return None
    sides = [
        (cluster, float(people >= mark), float(judge >= mark)) for cluster, people, judge in pairs
    ]
    tables = measures.confusions(sides, (0.0, 1.0))
    # Level 0 is a fail, so the first row holds the fails of people, and `f1` is that of the fails.
    (fails_right, passed_wrongly), (failed_wrongly, passes_right) = measures.as_counts(tables.whole)
    return FailingClass(
        pass_from=mark,
        f1=estimate(tables, measures.f1),
        false_positive_rate=estimate(tables, measures.false_positive_rate),
        false_negative_rate=estimate(tables, measures.false_negative_rate),
        kappa=estimate(tables, measures.kappa),
        errors=JudgeErrors(
            passes=passes_right + failed_wrongly,
            passes_right=passes_right,
            fails=fails_right + passed_wrongly,
            fails_right=fails_right,
        ),
    )


def _ceiling(
    items: Sequence[RatedItem], levels: Sequence[float], *, ordered: bool
) -> Ceiling | None:
    raters = _raters(items)
    if len(raters) < 2:
        return None
    rater_pairs = []
    for first, second in combinations(raters, 2):
        pairs = [
            (item.cluster, item.people[first], item.people[second])
            for item in items
            if first in item.people and second in item.people
        ]
        if pairs:
            agreement = _agreement(pairs, levels, ordered=ordered)
            rater_pairs.append(Pair(raters=(first, second), agreement=agreement))
    # Alpha takes all raters and gaps at once; kappa needs pairs of raters.
    everyone = measures.coincidences(((i.cluster, tuple(i.people.values())) for i in items), levels)
    cited = (pair.agreement.cited(len(levels)).value for pair in rater_pairs)
    known = [value for value in cited if value is not None]
    return Ceiling(
        mean_kappa=rounded_value(fmean(known)) if known else None,
        alpha=estimate(everyone, measures.alpha("ordinal" if ordered else "nominal")),
        pairs=tuple(rater_pairs),
    )


def _pass_rates(
    subject: CalibrationSubject, failing: FailingClass | None
) -> dict[str, float | Estimate | None]:
    if failing is None or not subject.outcomes:
        return {"observed_pass_rate": None, "corrected_pass_rate": None}
    outcomes = [(cluster, grade >= failing.pass_from) for cluster, grade in subject.outcomes]
    passed = sum(good for _, good in outcomes)
    observed = ObservedPasses(passed, len(outcomes), measures.design_effect(outcomes))
    return {
        "observed_pass_rate": rounded_value(passed / len(outcomes)),
        "corrected_pass_rate": measures.corrected_rate(observed, failing.errors),
    }


_ASKED: Final = (
    *("model", "provider", "api_base", "panel", "repeats", "escalate_to"),
    *("temperature", "max_output_tokens"),
)
"""Settings of [judge] that every judge depends on when it asks."""

_REPEATING: Final = ("judge:recorded", "metric:recorded_reward")
"""Fingerprints that do not count, because this judge only repeats labels: a run with labels has the
same judge as a run without them."""


def judge_fingerprint(
    config: Mapping[str, Any], judge: str, metric: str, answered_by: Iterable[str]
) -> str:
    """The first 16 hex digits of a SHA-256 over everything that the scores of a metric depend on.

    These are the models as requested and as answered, how the models are asked, the version of the
    judge, the rubric and the parser. A judge with another fingerprint needs another calibration.

    Args:
        config: the configuration of a run as stored in its record, with `fingerprints`.
        judge: the name of the judge of the metric; empty for the verdict.
        metric: the metric, or `verdict`.
        answered_by: the models that answered this judge.
    """
    settings, prints = dict(config.get("judge", {})), config.get("fingerprints", {})
    # A later setting counts only where it is set, so that calibrations of older versions hold.
    later = filter(None, [settings.pop(name, None) for name in ("reply_format", "cascade")])
    # Weights and threshold pass other cases, so a verdict depends on the whole of [judge]
    # (docs/decisions.md, decision 52).
    if metric == VERDICT:
        prints = {name: digest for name, digest in prints.items() if name not in _REPEATING}
        judges = [name for name in settings["judges"] if name != "recorded"]
        relevant_settings: Any = {**settings, "judges": judges}
    else:
        names = (f"judge:{judge}", f"metric:{metric}")
        prints = {name: prints[name] for name in names if name in prints}
        relevant_settings = {name: settings.get(name) for name in _ASKED}
        relevant_settings["options"] = (settings.get("options") or {}).get(judge)
        if judge == "conversation":  # all its metrics stand in one prompt
            relevant_settings["metrics"] = sorted(
                selection["metric"] for selection in settings.get("metrics") or []
            )
    body = as_json([relevant_settings, prints, sorted(answered_by), PARSER_VERSION, *later])
    return hashlib.sha256(body.encode()).hexdigest()[:16]
