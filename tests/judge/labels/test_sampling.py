"""The drawn queue: chances, order, strata, and how many labels are needed."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil

import numpy as np
import pytest

from assizes.judge.errors import ConfigurationError
from assizes.judge.labels import sampling
from assizes.judge.labels.sampling import Candidate, QueuePlan, candidates, draw_queue
from assizes.judge.rows import as_json, frame
from assizes.judge.statistics.labelled_cases import LabelledCases
from assizes.judge.statistics.prediction_powered import CorrectedEstimate, corrected_mean
from tests.judge.run_frames import case_row, score_row

AT = datetime(2026, 1, 1, tzinfo=UTC)
SIZES = {"passes": 700, "fails": 150, "near_threshold": 100, "split_votes": 40, "flips": 10}


def everything():
    return [Candidate(f"{name}{n}", 0, name) for name, count in SIZES.items() for n in range(count)]


def plan(size=100, seed="s", **rest):
    return QueuePlan("q", "run", "verdict", size, seed, "ann", AT, **rest)


def test_the_chances_are_those_of_the_design_and_add_up_to_the_cases():
    rows = draw_queue(plan(), everything())
    assert [row["position"] for row in rows] == list(range(100))
    drawn = Counter(row["stratum"] for row in rows)
    for row in rows:
        assert row["probability"] == drawn[row["stratum"]] / SIZES[row["stratum"]]
    # Over all cases the chances add up to the size; 1 / chance of the drawn to the cases.
    assert sum(drawn[name] / SIZES[name] * SIZES[name] for name in SIZES) == 100
    assert sum(1 / row["probability"] for row in rows) == pytest.approx(1000)
    assert all(drawn[name] >= min(2, 50 * SIZES[name] // 1000) for name in SIZES)
    assert drawn["near_threshold"] > 10
    assert {row["part"] for row in rows} == {"random", "informative", "flip"}


def test_the_same_seed_draws_the_same_whatever_the_order():
    first, again = draw_queue(plan(), everything()), draw_queue(plan(), everything()[::-1])
    assert first == again
    assert first != draw_queue(plan(seed="t"), everything())


def test_a_case_is_drawn_as_often_as_its_chance_says():
    seen, chance = defaultdict(int), {}
    for seed in range(300):
        for row in draw_queue(plan(20, str(seed)), everything()[690:720]):
            seen[row["stratum"]] += row["case_id"] in ("passes695", "fails5")
            chance[row["stratum"]] = row["probability"]
    for name, expected in chance.items():
        assert seen[name] / 300 == pytest.approx(expected, abs=0.08)


def test_labels_of_earlier_queues_move_the_queue():
    learnt = sampling.stratum_errors([("passes", n < 40) for n in range(100)])
    assert learnt == {"passes": (40, 100)}
    before, after = (
        Counter(row["stratum"] for row in draw_queue(plan(errors=errors), everything()))
        for errors in ({}, learnt)
    )
    assert after["passes"] > before["passes"]


def test_a_queue_of_few_or_of_all_cases():
    few = draw_queue(plan(3), everything())
    assert [row["stratum"] for row in few] == ["all"] * 3
    assert few[0]["probability"] == 3 / 1000
    everyone = draw_queue(plan(5000), everything())
    assert len(everyone) == 1000
    assert {row["probability"] for row in everyone} == {1.0}
    assert draw_queue(plan(), []) == []


@pytest.mark.parametrize("wrong", [{"size": 0}, {"size": 10**6}, {"share": 0.0}, {"share": 2.0}])
def test_sizes_and_shares_have_bounds(wrong):
    with pytest.raises(ConfigurationError):
        draw_queue(plan(**wrong), everything())


def test_strata_are_read_from_the_rows_of_a_run():
    votes = [{"status": "scored", "passed": n, "label": None, "value": 1.0} for n in (True, False)]
    ids = ("clear", "close", "failed", "flipped", "split")
    points = {"clear": 95.0, "close": 62.0, "failed": 10.0, "flipped": 90.0, "split": 90.0}
    cases = frame(
        "cases",
        [case_row(i, i != "failed", overall_score=points[i]) for i in ids]
        + [case_row("errored", None)],
    )
    scores = frame(
        "scores",
        [score_row(i, raw=5) for i in ids if i != "split"]
        + [score_row("split", raw=3, details=as_json({"votes": votes}))],
    )
    other = frame("cases", [case_row("flipped", False), case_row("clear", True)])
    of = {c.case_id: c.stratum for c in candidates(cases, scores, "verdict", other)}
    assert of == {
        "clear": "passes",
        "close": "near_threshold",
        "failed": "fails",
        "flipped": "flips",
        "split": "split_votes",
    }
    metric = {c.case_id: c.stratum for c in candidates(cases, scores, "tool_routing")}
    assert (metric["split"], metric["failed"]) == ("split_votes", "passes")


def estimate(labels=100, effective=200.0, width=0.2, step=0.0):
    span = (0.5, 0.5 - width / 2, 0.5 + width / 2)
    return CorrectedEstimate(*span, 0.05, labels, effective, 1, "x", 0.05**2, step)


def test_how_many_more_labels_narrow_an_interval():
    # Without a judge half the width takes four times the labels.
    assert sampling.labels_needed(estimate(effective=100.0), 10**9, 0.1) == 300
    assert sampling.labels_needed(estimate(), 10_000, 0.3) == 0
    assert 0 < sampling.labels_needed(estimate(), 10_000, 0.1) < 350
    assert sampling.labels_needed(estimate(), 500, 0.01) is None
    assert sampling.labels_needed(estimate(), 100, 0.1) is None
    assert sampling.labels_needed(estimate(), 500, 0.0) is None


def test_the_variance_that_more_labels_leave_is_that_of_the_formula():
    # s^2 is 0.05^2 x 200; of it the judge leaves q with 0.05^2 = s^2 (1/N + (1/100 - 1/N) q).
    spread, cases = 0.05**2 * 200, 1000
    left = (0.05**2 / spread - 1 / cases) / (1 / 100 - 1 / cases)
    goal = 0.05**2 * 0.6**2
    enough = left / (goal / spread - (1 - left) / cases)
    more = sampling.labels_needed(estimate(), cases, 0.6 * 0.2)
    assert more == ceil(enough) - 100


def test_a_narrower_interval_never_takes_fewer_labels():
    for step in (0.0, 0.01, 0.03, 0.2):
        now = estimate(step=step)
        counts = [sampling.labels_needed(now, 100_000, 0.2 - n / 500) for n in range(1, 90)]
        assert counts == sorted(counts)
        assert len(set(counts)) > 80


def test_errors_that_are_expected_ask_for_more_labels():
    more = replace(estimate(), expected=0.05**2 * 1.5)
    counts = [sampling.labels_needed(now, 10_000, 0.1) for now in (estimate(), more)]
    assert counts[0] < counts[1]


@pytest.mark.parametrize("labels", [30, 40, 80])
def test_labels_that_show_no_error_narrow_the_interval_as_promised(labels):
    truth = (np.random.default_rng(2).random(4000) < 0.8).astype(float)

    def corrected(count):
        people = np.where(np.arange(4000) < count, truth, np.nan)
        return corrected_mean(LabelledCases.of(truth, people), share=True)

    now = corrected(labels)
    goal = 0.6 * (now.high - now.low)
    more = sampling.labels_needed(now, 4000, goal)
    then = corrected(labels + more)
    # Half an error more is expected, and none is there, so the interval is narrower by that.
    assert 0.7 * goal < then.high - then.low < 1.02 * goal
