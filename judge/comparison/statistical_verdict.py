"""The statistical verdict on two runs: regressed, improved, not worse, or inconclusive.

All figures are in points of 0..100. The verdict stands beside the three rules. Where
two judges judged the runs, a bridge takes their difference off the change: it is measured on
anchors, golden transcripts that both judges judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import hypot, isfinite
from typing import Final, get_args

import polars as pl
from pydantic import Field

from assizes.judge.comparison.cases import CASE_POINTS, NOISE_SPREADS, SIDES
from assizes.judge.comparison.contrasts import FILLINGS, Contrast, contrast
from assizes.judge.comparison.runs import SCORE, Mismatch
from assizes.judge.comparison.statistical import (
    Exploratory,
    StatisticalComparison,
    exploratory_changes,
)
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.statistics.effects import Method, Word, combined_word, decide, holm
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.intervals import MIN_CLUSTERS, minimum_detectable, t_of
from assizes.judge.summary.headlines import FrozenModel

LABELS: Final = {"pass_rate": "pass rate", "overall_score": "average score"}
"""The name of a measure in sentences; any other measure keeps its own name."""

SHOWN: Final[dict[str, str]] = {word: word.replace("_", " ") for word in get_args(Word)}
"""The text of each verdict in reports."""

INCONCLUSIVE_RUN: Final = "run is inconclusive by itself"
"""How the reason ends that names a run whose coverage is under its floor."""

ORDER: Final[tuple[Word, ...]] = ("regressed", "inconclusive", "improved", "not_worse")
"""The first of these that any gating measure has is the verdict on all of them."""


class MetricVerdict(FrozenModel):
    """The verdict on one gating measure, with its values in both runs and how it changed.

    `low` and `high` bound the change at the confidence 1 - alpha; both are `None` where there are
    too few clusters. `worst` and `best` are the change if every missing score had gone against the
    candidate, or in its favour.
    """

    measure: str
    verdict: Word
    baseline: float  # mean, in points of 0..100
    candidate: float
    delta: float
    low: float | None
    high: float | None
    worst: float
    best: float
    p_value: float = Field(description="two-sided, of this measure alone")
    p_adjusted: float = Field(
        description="one-sided, of a change this way; Holm over the gating measures"
    )
    method: Method
    paired: bool
    cases: int  # of an unpaired change: of the smaller run
    clusters: int
    baseline_coverage: float = Field(description="scored / due, 0..1")
    candidate_coverage: float
    mde: float | None = Field(
        description="smallest change that 4 of 5 such comparisons would see; null: not known"
    )
    severe: bool = Field(description="the whole interval lies under -margin")
    line: str  # one sentence with all of this


class Mix(FrozenModel):
    """The change of a measure between different cases, split by what it is owed to."""

    measure: str
    by: str  # the label whose values are the strata
    total: float  # points: quality + mix
    quality: float = Field(description="what the strata did, at the shares of both runs averaged")
    mix: float = Field(description="what the strata's shares did")
    strata: int


class Noise(FrozenModel):
    """How much a score moves by chance, measured on the repetitions of a case."""

    repeat_sd: float  # points: standard deviation of a case's score over its repetitions
    threshold: float = Field(description="max(5, 2 x repeat_sd): moves up to it are within noise")
    changed_within: tuple[str, ...] = Field(
        description="ids of the cases that count as changed, but within noise"
    )


class Bridge(FrozenModel):
    """The change of a measure between runs with different judges, without the judges' difference."""

    measure: str
    judge: float = Field(description="what that judge gives more, on anchors that both judged")
    delta: float = Field(description="the change without it")
    low: float  # bounds of `delta`, at the confidence 1 - alpha
    high: float
    anchors: int  # number of anchors that both judged
    line: str


class StatisticalVerdict(FrozenModel):
    """The verdict on the agent from two runs; the chance of a false alarm is at most alpha."""

    verdict: Word
    reasons: tuple[str, ...]
    margin: float  # points: a smaller drop is no regression
    alpha: float
    metrics: tuple[MetricVerdict, ...]  # the gating measures
    exploratory: tuple[Exploratory, ...] = ()
    mix: tuple[Mix, ...] = ()
    critical_flips: tuple[str, ...] = ()  # ids of critical cases that now fail
    bridge: tuple[Bridge, ...] = Field(
        default=(), description="where the judge differs, and both judged the same anchors"
    )
    noise: Noise | None = Field(default=None, description="null: no case was repeated")


def statistical_verdict(
    comparison: StatisticalComparison, differing: Sequence[Mismatch], changed: pl.DataFrame | None
) -> StatisticalVerdict:
    """Decide on two runs.

    `differing` is what the runs are not alike in. `changed` are the cases that got worse or better,
    if any case was repeated, of which some are noise.
    """
    limits = comparison.limits
    contrasts, notes = _contrasts(comparison)
    metrics = _metric_verdicts(contrasts, limits)
    # Doubts: why the runs say nothing about the agent, whatever the numbers are.
    names = ", ".join(mismatch.field for mismatch in differing if mismatch.of_judge)
    unlike = f"the runs were judged differently ({names}): a change need not be the agent's"
    doubts, sides = [unlike] if names else [], (comparison.before, comparison.after)
    doubts += [
        f"the {role} {INCONCLUSIVE_RUN}"
        for role, side in zip(SIDES, sides, strict=True)
        if side.inconclusive
    ]
    critical = () if doubts else critical_flips(*comparison.tables, limits.critical_cases)
    words: list[Word] = [] if doubts else [metric.verdict for metric in metrics]
    words += ["inconclusive"] if notes else []  # beside a regression it does not count: see ORDER
    # A critical case that turned is a regression, whatever the statistics of the rest say.
    word: Word = "regressed" if critical else min(words, key=ORDER.index, default="inconclusive")
    flips = (f"critical case {case_id} turned from pass to fail" for case_id in critical)
    deciding = (metric.line for metric in metrics if metric.verdict == word)
    return StatisticalVerdict(
        verdict=word,
        reasons=(*doubts, *notes, *flips, *deciding),
        margin=limits.margin,
        alpha=limits.alpha,
        metrics=metrics,
        exploratory=exploratory_changes(comparison),
        mix=tuple(
            Mix(
                measure=each.measure.name,
                by=limits.mix_by or "",
                total=rounded_value(split.quality + split.mix),
                quality=rounded_value(split.quality),
                mix=rounded_value(split.mix),
                strata=each.strata,
            )
            for each in contrasts
            if (split := each.mix) is not None
        ),
        critical_flips=critical,
        noise=None if changed is None else _noise(comparison.repeat_sd, changed),
    )


def _noise(spread: float | None, changed: pl.DataFrame) -> Noise | None:
    """The changes within noise: no verdict of most repetitions turned, no score moved by more."""
    if spread is None:
        return None
    threshold = max(CASE_POINTS, NOISE_SPREADS * spread)
    most = [pl.col(f"{side}_passes") * 2 > pl.col(f"{side}_runs") for side in SIDES]
    still = pl.col("score_delta").abs().fill_null(0.0) <= threshold
    return Noise(
        repeat_sd=rounded_value(spread),
        threshold=rounded_value(threshold),
        changed_within=tuple(changed.filter((most[0] == most[1]) & still)["case_id"]),
    )


def _contrasts(comparison: StatisticalComparison) -> tuple[list[Contrast], list[str]]:
    """The contrasts of the gating measures, and sentences about what could not be compared."""
    contrasts, notes = [], []
    for name in dict.fromkeys(comparison.limits.gating):
        before, after = (side.measure(name) for side in (comparison.before, comparison.after))
        sides = (before, after)
        if name == SCORE and all(side is not None and side.cases.is_empty() for side in sides):
            continue  # judges that only say yes or no give no score
        measure_contrast = contrast(before, after, comparison.pairing, comparison.limits.alpha)
        if measure_contrast is None:
            notes.append(f"{LABELS.get(name, name)}: no case has it in both runs")
        else:
            contrasts.append(measure_contrast)
    fewest = min(
        table.height if comparison.is_unclustered else table["cluster"].n_unique()
        for table in comparison.tables
    )
    if fewest < MIN_CLUSTERS:
        notes.append(f"too few independent cases: {fewest}, and a verdict takes {MIN_CLUSTERS}")
    return contrasts, notes


def _metric_verdicts(
    contrasts: Sequence[Contrast], limits: ComparisonConfig
) -> tuple[MetricVerdict, ...]:
    """The verdict on each measure: decided for each filling by itself, then combined into one.

    One-sided p-values are corrected after Holm: those of drops among drops, of rises among rises.
    The chance of any false regression is at most alpha, and so is that of any false improvement.
    """
    words: list[list[Word]] = [[] for _ in contrasts]
    adjusted: dict[str, list[float]] = {}
    for filling in FILLINGS:
        effects = [measure_contrast.effects[filling] for measure_contrast in contrasts]
        fell = [effect.delta < 0 for effect in effects]
        # One-sided tests (docs/decisions.md, decision 48): half the two-sided p-value on the side
        # to which the estimate fell, one minus that half on the other.
        halves = [effect.p_value / 2 for effect in effects]
        drops = holm([p if down else 1 - p for p, down in zip(halves, fell, strict=True)])
        rises = holm([1 - p if down else p for p, down in zip(halves, fell, strict=True)])
        adjusted[filling] = [
            drop if down else rise for drop, rise, down in zip(drops, rises, fell, strict=True)
        ]
        for three, effect, p_value in zip(words, effects, adjusted[filling], strict=True):
            three.append(decide(effect, p_value, limits.margin, limits.alpha))
    return tuple(
        _metric_verdict(measure_contrast, combined_word(*three), p_value, limits)
        for measure_contrast, three, p_value in zip(
            contrasts, words, adjusted["point"], strict=True
        )
    )


def _metric_verdict(
    measure_contrast: Contrast, word: Word, p_adjusted: float, limits: ComparisonConfig
) -> MetricVerdict:
    """The verdict on one measure, with its line: values, change, interval, cases and verdict."""
    effects, measure = measure_contrast.effects, measure_contrast.measure.name
    effect = effects["point"]
    numbers = (*effect.span, minimum_detectable(effect.error, limits.alpha))
    # With fewer than two clusters the interval and the error are infinite, which JSON cannot hold.
    low, high, mde = (rounded_value(n) if isfinite(n) else None for n in numbers)
    verdict = MetricVerdict(
        measure=measure,
        verdict=word,
        baseline=rounded_value(measure_contrast.means[0]),
        candidate=rounded_value(measure_contrast.means[1]),
        delta=rounded_value(effect.delta),
        low=low,
        high=high,
        worst=rounded_value(effects["worst"].delta),
        best=rounded_value(effects["best"].delta),
        p_value=rounded_value(effect.p_value),
        p_adjusted=rounded_value(p_adjusted),
        method=effect.method,
        paired=effect.method != "welch",  # only unpaired effects are by Welch
        cases=effect.cases,
        clusters=effect.clusters,
        baseline_coverage=rounded_value(measure_contrast.coverage[0]),
        candidate_coverage=rounded_value(measure_contrast.coverage[1]),
        mde=mde,
        severe=word == "regressed" and effect.span.high < -limits.margin,
        line="",
    )
    span = "no interval"
    if low is not None and high is not None:
        span = f"{100 * (1 - limits.alpha):g} % CI {low:+.1f}..{high:+.1f}"
    unit, how = " %" if measure == "pass_rate" else "", "paired" if verdict.paired else "unpaired"
    coverage = f"{100 * verdict.baseline_coverage:.1f}/{100 * verdict.candidate_coverage:.1f} %"
    line = (
        f"{LABELS.get(measure, measure)} {verdict.baseline:.1f}{unit} -> "
        f"{verdict.candidate:.1f}{unit} ({verdict.delta:+.1f}; {span}; {how} {effect.cases} cases "
        f"/ {effect.clusters} clusters; coverage {coverage}; "
        f"MDE {'unknown' if mde is None else f'{mde:.1f}'}) -> {SHOWN[word]}"
    )
    return verdict.model_copy(update={"line": line})


def critical_flips(
    before: pl.DataFrame, after: pl.DataFrame, listed: Sequence[str]
) -> tuple[str, ...]:
    """Ids of listed cases that most repetitions passed in the baseline and most now fail.

    `before` and `after` are case tables. An execution with an error did not fail.
    """
    if not listed:
        return ()
    # Case tables hold hashed ids; the listed ones are hashed to find them.
    ids = dict(zip(pl.Series(listed).hash(), listed, strict=True))
    passed = pl.col("passes") * 2 > pl.col("runs")  # a tie is neither passed nor failed
    failed = (pl.col("runs") - pl.col("passes") - pl.col("errors")) * 2 > pl.col("runs")
    old = before.filter(pl.col("case_id").is_in(list(ids)) & passed)
    turned = old.join(after.filter(failed), on="case_id", how="semi")["case_id"]
    return tuple(sorted(ids[case_hash] for case_hash in turned))


def verdict_with_bridges(
    verdict: StatisticalVerdict, runs: StatisticalComparison, anchors: StatisticalComparison
) -> StatisticalVerdict:
    """Add a bridge for every gating measure that has one to the verdict on runs judged differently.

    `anchors` are the same golden transcripts, judged once by the judge of each run. The verdict
    itself stays as it is: anchors stand for the traffic only as far as they resemble it.
    """
    bridges = tuple(_bridges(verdict, runs, anchors))
    lines = [bridge.line for bridge in bridges]
    return verdict.model_copy(update={"bridge": bridges, "reasons": (*verdict.reasons, *lines)})


def _bridges(
    verdict: StatisticalVerdict, runs: StatisticalComparison, anchors: StatisticalComparison
) -> Iterator[Bridge]:
    for measure in verdict.metrics:
        name = measure.measure
        contrasts = [
            contrast(
                both.before.measure(name), both.after.measure(name), both.pairing, both.limits.alpha
            )
            for both in (runs, anchors)
        ]
        moved, judge = (each.effects["point"] if each else None for each in contrasts)
        # The shift of the judge must be measured on the same anchors, not on two samples of them.
        if moved is None or judge is None or judge.method == "welch":
            continue
        clusters = min(moved.clusters, judge.clusters)  # the smaller number is the careful one
        if clusters < MIN_CLUSTERS:
            continue
        # The two changes are independent, so their squared errors add up.
        half = t_of(1 - verdict.alpha, clusters - 1) * hypot(moved.error, judge.error)
        span = moved.delta - judge.delta - half, moved.delta - judge.delta + half
        left = measure.delta - judge.delta  # what the change is without that of the judge
        line = (
            f"bridge, {LABELS.get(name, name)}: on {judge.cases} anchors of both judges the later "
            f"judge gives {judge.delta:+.1f}; without that {measure.delta:+.1f} is {left:+.1f} "
            f"({100 * (1 - verdict.alpha):g} % CI {span[0]:+.1f}..{span[1]:+.1f})"
        )
        yield Bridge(
            measure=name,
            judge=rounded_value(judge.delta),
            delta=rounded_value(left),
            low=rounded_value(span[0]),
            high=rounded_value(span[1]),
            anchors=judge.cases,
            line=line,
        )
