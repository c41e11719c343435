"""A look at a run that is judged in part: whether the rest could change what it will say.

The cases were put in a random order beforehand, whole clusters at a time and each stratum in
proportion, so the judged part is a random part of the run. The formulas and their sources are in
`assizes.judge.statistics.sequential`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot
from typing import Final

import polars as pl

from assizes.judge.comparison import contrasts
from assizes.judge.comparison.contrasts import FILLINGS, Pairing
from assizes.judge.comparison.metrics import metric_names, paired_metrics
from assizes.judge.comparison.runs import SCORE, CaseMeasure, CaseTable, RunData, case_table, whole
from assizes.judge.comparison.statistical import StatisticalComparison
from assizes.judge.comparison.statistical_verdict import critical_flips
from assizes.judge.config.gates import ComparisonConfig, ThresholdsConfig
from assizes.judge.statistics.intervals import MIN_CLUSTERS, Sample
from assizes.judge.statistics.sequential import (
    PartialEffect,
    StopRules,
    StopWord,
    decided_word,
    final_alpha,
    look_bounds,
    partial_effect,
    rate_chance,
    reaching_chance,
)
from assizes.judge.summary.early_stop import Gates, NumberBounds, bounds

LEAST_MOVE: Final = 10.0
"""Points by which a case of each sign is assumed to move, at least, where scores hardly moved yet."""


@dataclass(frozen=True, slots=True)
class LookPlan:
    """Where in a run a look is: the shares, 0..1, of the cases judged at each look before the end."""

    shares: tuple[float, ...]
    number: int  # of this look, from 1
    certainty: float  # 0..1, see `SamplingConfig.certainty`

    @property
    def share(self) -> float:
        """The share of the cases that is judged now."""
        return self.shares[self.number - 1]


@dataclass(frozen=True, slots=True)
class InterimLook:
    """What the judged part of a run has decided; `None` stands for what is still open."""

    comparison: StopWord | None  # also `None` without a baseline
    gates: Gates | None
    is_compared: bool  # whether the run has a baseline

    @property
    def stops(self) -> bool:
        """Whether nothing that is still open could change the end of the run."""
        if self.comparison == "regressed":  # whatever the gates say
            return True
        return self.gates is not None and (self.comparison is not None or not self.is_compared)


def look(
    judged: RunData,
    baseline: RunData | None,
    plan: LookPlan,
    comparison: ComparisonConfig,
    thresholds: ThresholdsConfig,
) -> InterimLook:
    """What a part of a run has decided; `judged` holds the rows of that part."""
    part = _drawn_part(judged, comparison.critical_cases)
    gates = _decided_gates(case_table(part.cases).cases, plan, thresholds)
    if baseline is None:
        return InterimLook(None, gates, is_compared=False)
    word: StopWord | None = None
    # The rules look at every case: nothing less decides them.
    if comparison.mode == "statistics" and not comparison.allow:
        old, new = (case_table(run.cases).cases for run in (baseline, judged))
        if critical_flips(old, new, comparison.critical_cases):
            word = "regressed"  # whatever the others do
        else:
            word = _decided_comparison(part, baseline, plan, comparison)
    return InterimLook(word, gates, is_compared=True)


def _drawn_part(judged: RunData, critical: Sequence[str]) -> RunData:
    """A judged part without the critical cases, which are judged first and so are no random ones."""
    if not critical:
        return judged
    others = ~pl.col("case_id").is_in(list(critical))
    return replace(judged, cases=judged.cases.filter(others), scores=judged.scores.filter(others))


def _decided_gates(
    table: pl.DataFrame, plan: LookPlan, thresholds: ThresholdsConfig
) -> Gates | None:
    """The end of the gates, if the chance of another end is small enough."""
    runs = int(table["runs"].sum())
    if not runs or table["cluster"].n_unique() < MIN_CLUSTERS:
        return None
    if 1 - int(table["errors"].sum()) / runs < thresholds.min_coverage:
        return None  # the run may end inconclusive: all that can be judged is judged
    passes = Sample.of((table["passes"] / table["runs"]).to_list(), table["cluster"].to_list())
    whole_run = max(table.height, round(table.height / plan.share))
    scored = table.filter(pl.col("scored") > 0)
    score: Sample | None = None
    if not scored.is_empty():
        means = (scored["total"] / scored["scored"]).to_list()
        score = Sample.of(means, scored["cluster"].to_list())
        if score.clusters < MIN_CLUSTERS:
            return None
    return gates_so_far(passes, score, whole_run, plan, thresholds)


def gates_so_far(
    passes: Sample,
    score: Sample | None,
    whole_run: int,
    plan: LookPlan,
    thresholds: ThresholdsConfig,
) -> Gates | None:
    """The end of the gates, if the chance of another end is small enough; `None` where it is not.

    `passes` (0..1) and `score` (0..100; `None` where no case has one) are of the judged cases, and
    `whole_run` is the number of all cases.
    """
    least = thresholds.cases_pass_threshold / 100
    reached = [rate_chance(passes, whole_run, least)]
    missed = [passes.mean < least]  # as the numbers stand now
    if score is not None:
        error = score.with_cases(0.0, 100.0).error  # above 0 where all scores are alike
        so_far = PartialEffect(score.mean, error, score.clusters, plan.share)
        reached.append(reaching_chance(so_far, thresholds.metrics_pass_threshold))
        missed.append(score.mean < thresholds.metrics_pass_threshold)
    doubt = 1 - plan.certainty
    # The end must be that of the judged part as well, whose numbers the run will show.
    if any(now and chance <= doubt for now, chance in zip(missed, reached, strict=True)):
        return "failed"
    is_sure = sum(1 - chance for chance in reached) <= doubt
    return "passed" if is_sure and not any(missed) else None


def _decided_comparison(
    judged: RunData, baseline: RunData, plan: LookPlan, config: ComparisonConfig
) -> StopWord | None:
    """The end of the comparison with the baseline, if it is decided."""
    runs = StatisticalComparison.of(baseline, judged, config)
    if min(table["cluster"].n_unique() for table in runs.tables) < MIN_CLUSTERS:
        return None
    known = baseline.summary
    names = {} if known is None else metric_names((known,))
    wanted = {key: name for key, name in names.items() if name in config.gating}
    repeated = any((table["runs"] > 1).any() for table in runs.tables)
    for pair in paired_metrics((baseline.scores, judged.scores), wanted, repeated=repeated):
        runs.add(pair)
    measures: list[list[PartialEffect]] = []
    for name in dict.fromkeys(config.gating):
        before, after = runs.before.measure(name), runs.after.measure(name)
        if name == SCORE and all(m is not None and m.cases.is_empty() for m in (before, after)):
            continue
        if before is None or after is None:
            return None  # the comparison will be inconclusive, or the rest has it
        effects = _partial_effects(before, after, runs.pairing, plan.share)
        if not effects or min(effect.clusters for effect in effects) < MIN_CLUSTERS:
            return None
        measures.append(effects)
    alpha = final_alpha(config.alpha)
    bound = look_bounds(plan.shares, config.alpha, len(measures))[plan.number - 1]
    return decided_word(measures, StopRules(config.margin, alpha, plan.certainty), bound)


def _partial_effects(
    before: CaseMeasure, after: CaseMeasure, pairing: Pairing, share: float
) -> list[PartialEffect]:
    """The change of a measure so far, in points, for each filling of missing values."""
    before, after = contrasts.on_one_scale((before, after))
    scale = 100.0 if before.share else 1.0
    effects = []
    if not pairing.is_paired:
        before, after = whole(before), whole(after)
        for filling in FILLINGS:
            sides = contrasts.side_samples((before, after), pairing, filling)
            if not min(side.size for side in sides):
                return []
            effects.append(unpaired_effect(*sides, share, scale))
        return effects
    joined = contrasts.joined_measures(before, after, pairing)
    for filling in FILLINGS if "known" in joined.columns else FILLINGS[:1]:
        sample = contrasts.differences(joined, filling)
        if not sample.size:
            return []
        least_move = 100.0 if before.share else LEAST_MOVE
        effects.append(partial_effect(sample, share, least_move=least_move))
    return effects


def unpaired_effect(before: Sample, after: Sample, share: float, scale: float) -> PartialEffect:
    """The change of means over different cases, in points; `scale` is 100 for a share of cases."""
    more = (1.0, 0.0) if scale > 1 else ()  # Agresti and Caffo, as in the comparison itself
    errors = [side.with_cases(*more).error * scale for side in (before, after)]
    return PartialEffect(
        delta=(after.mean - before.mean) * scale,
        error=hypot(*errors),
        clusters=min(before.clusters, after.clusters),
        share=share,
        fixed=errors[0],
    )


def bounds_of_all(cases: pl.LazyFrame, left: int) -> tuple[NumberBounds, NumberBounds | None]:
    """The pass rate (percent) and the average score of a run if all cases left had failed or passed.

    `cases` are the judged rows of table `cases`, and `left` is the number of rows not judged.
    """
    table: CaseTable = case_table(cases)
    runs, scored = float(table.cases["runs"].sum()), float(table.cases["scored"].sum())
    rate = bounds(float(table.cases["passes"].sum()) * 100, runs, left, 100.0)
    if not scored:
        return rate, None
    return rate, bounds(float(table.cases["total"].sum()), scored, left, 100.0)
