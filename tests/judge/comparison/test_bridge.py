"""The change between two runs without the change of the judge, which anchors show."""

from __future__ import annotations

import pytest

from assizes.judge.comparison.compare import compare, gated_runs
from assizes.judge.comparison.statistical_verdict import verdict_with_bridges
from assizes.judge.config.gates import ComparisonConfig
from tests.judge.run_frames import case_row, run_of, score_row

PLAIN = ComparisonConfig()


def run(name, points, prefix="c", scored=()):
    """Cases with these overall scores; one of 70 points passes."""
    cases = [
        case_row(f"{prefix}{n:03}", one >= 70, overall_score=float(one))
        for n, one in enumerate(points)
    ]
    return run_of(cases, [score_row(f"{prefix}{n:03}") for n in scored], run_id=name)


def found(runs, anchors, limits=PLAIN):
    verdict = compare(*runs, limits).verdict.statistics
    told = verdict_with_bridges(verdict, gated_runs(*runs, limits), gated_runs(*anchors, limits))
    assert told.verdict == verdict.verdict
    assert told.reasons == (*verdict.reasons, *(one.line for one in told.bridge))
    return {one.measure: one for one in told.bridge}


BEFORE = run("before", [80 + n % 3 for n in range(60)])
AFTER = run("after", [60 + n % 4 for n in range(60)])


def test_what_the_later_judge_takes_off_the_same_transcripts_is_taken_off_the_change():
    golden = [90 + n % 5 for n in range(40)]
    stricter = [one - 15 - n % 2 for n, one in enumerate(golden)]
    score = found((BEFORE, AFTER), (run("a", golden, "g"), run("b", stricter, "g")))[
        "overall_score"
    ]
    assert (score.judge, score.anchors) == (-15.5, 40)
    assert score.delta == pytest.approx(-19.5 + 15.5, abs=1e-6)
    assert score.low < score.delta < score.high
    assert score.line.startswith(
        "bridge, average score: on 40 anchors of both judges the later judge gives -15.5; "
        "without that -19.5 is -4.0 (95 % CI "
    )


def test_a_judge_that_held_still_leaves_the_change_as_it_is():
    golden = [90 + n % 5 for n in range(40)]
    left = found((BEFORE, AFTER), (run("a", golden, "g"), run("b", golden, "g")))
    assert (left["overall_score"].judge, left["overall_score"].delta) == (0.0, -19.5)
    assert left["pass_rate"].delta == -100.0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (run("a", [90] * 5, "g"), run("b", [80] * 5, "g")),
        (run("a", [90] * 40, "g"), run("b", [80] * 40, "h")),
    ],
    ids=["few", "others"],
)
def test_anchors_that_are_few_or_not_the_same_bridge_nothing(before, after):
    assert found((BEFORE, AFTER), (before, after)) == {}


def test_a_measure_that_anchors_do_not_have_has_no_bridge():
    limits = ComparisonConfig(gating=("overall_score", "tool_routing"))
    runs = [run(name, [80, 90] * 20, scored=range(40)) for name in ("before", "after")]
    golden = [run(name, [80, 90] * 20, "g") for name in ("a", "b")]
    assert set(found(runs, golden, limits)) == {"overall_score"}


def test_a_gated_metric_has_a_bridge_too():
    limits = ComparisonConfig(gating=("tool_routing",))
    runs = [run(name, [80, 90] * 20, scored=range(40)) for name in ("before", "after")]
    golden = [run(name, [80, 90] * 20, "g", scored=range(20)) for name in ("a", "b")]
    assert found(runs, golden, limits)["tool_routing"].anchors == 20
