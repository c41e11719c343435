"""A measure of two runs, case by case: counted and short tables give the same result as full ones."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from assizes.judge.comparison.compare import compare
from assizes.judge.comparison.contrasts import Contrast, Pairing, contrast
from assizes.judge.comparison.runs import CaseMeasure, whole
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.statistics.effects import MAX_DRAWN
from tests.judge.run_frames import case_row, run_of

CASES = 3 * MAX_DRAWN
RNG = np.random.default_rng(17)


def measure(points: np.ndarray, *, share: bool) -> CaseMeasure:
    ids = np.arange(points.size, dtype=np.uint64)
    return CaseMeasure("m", share, pl.DataFrame({"case_id": ids, "point": points}))


def sides(*, share: bool) -> tuple[CaseMeasure, CaseMeasure]:
    """More cases moved than the number up to which differences are drawn one by one."""
    rows = RNG.random((2, CASES))
    found = (rows < [[0.7], [0.5]]) * 100.0 if share else np.round(rows * 60 + 20, 1)
    return measure(found[0], share=share), measure(found[1], share=share)


def held(before: CaseMeasure, after: CaseMeasure, clusters: np.ndarray) -> Contrast:
    cases = pl.DataFrame({"case_id": np.arange(clusters.size, dtype=np.uint64)})
    table = cases.with_columns(cluster=pl.Series(clusters.astype(np.uint64)))
    found = contrast(before, after, Pairing.of(table, table), alpha=0.05)
    assert found is not None
    return found


@pytest.mark.parametrize("share", [True, False])
def test_differences_that_are_counted_give_the_effect_of_the_cases_one_by_one(share: bool):
    both = sides(share=share)
    counted = held(*both, np.arange(CASES)).effects["point"]
    renamed = np.arange(CASES) + CASES  # clusters of one case, by other names: not counted
    alone = held(*both, renamed).effects["point"]
    assert counted is not None
    assert alone is not None
    assert (counted.method, counted.cases, counted.clusters) == (alone.method, CASES, CASES)
    assert [counted.delta, counted.error, *counted.span, counted.p_value] == pytest.approx(
        [alone.delta, alone.error, *alone.span, alone.p_value], rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("share", [True, False])
def test_a_measure_of_which_nothing_is_missing_needs_no_columns_that_say_so(share: bool):
    before, after = sides(share=share)
    slim = held(before, after, np.arange(CASES))
    full = held(whole(before), after, np.arange(CASES))
    assert (slim.means, slim.coverage, slim.effects) == (full.means, (1.0, 1.0), full.effects)


@pytest.mark.parametrize("shared", [0, CASES])
@pytest.mark.parametrize("two_valued", [0, 1])
def test_a_measure_that_is_a_share_in_one_run_only_is_compared_in_points(shared, two_valued):
    both = [sides(share=place == two_valued)[place] for place in range(2)]
    points = [side._replace(share=False) for side in both]
    ids = np.arange(CASES, dtype=np.uint64)
    tables = [pl.DataFrame({"case_id": at, "cluster": at}) for at in (ids, ids + CASES - shared)]
    at = tables[1]["case_id"]
    found, due = (
        contrast(before, after._replace(cases=after.cases.with_columns(at)), pairing, alpha=0.05)
        for pairing in [Pairing.of(*tables)]
        for before, after in (both, points)
    )
    assert found is not None
    assert due is not None
    assert (found.means, found.effects) == (due.means, due.effects)
    assert found.effects["point"].delta == pytest.approx(found.means[1] - found.means[0])


def test_a_case_that_a_run_lost_counts_against_it_though_nothing_else_is_missing():
    before, after = sides(share=True)
    kept = after._replace(cases=after.cases.head(CASES - 30))
    table = before.cases.select("case_id", cluster="case_id")
    found = contrast(before, kept, Pairing.of(table, table.head(CASES - 30)), alpha=0.05)
    assert found is not None
    assert found.coverage == (1.0, 1 - 30 / CASES)
    worst, best = found.effects["worst"], found.effects["best"]
    assert worst is not None
    assert best is not None
    assert best.delta - worst.delta == pytest.approx(30 / CASES * 100)


def test_a_run_with_repetitions_is_held_beside_one_without():
    once = [case_row(f"c{n:02}", overall_score=90.0, tools=["find"]) for n in range(30)]
    twice = [row | {"repetition": n, "overall_score": 70.0} for row in once for n in (0, 1)]
    found = compare(run_of(once, (), run_id="a"), run_of(twice, (), run_id="b"), ComparisonConfig())
    assert found.verdict.statistics is not None
    by_tool = [one for one in found.verdict.statistics.exploratory if one.name == "tool=find"]
    assert {one.measure: (one.cases, one.delta) for one in by_tool}["overall_score"] == (30, -20.0)
