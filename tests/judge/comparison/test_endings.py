"""How a comparison ends in each mode, and what it counts."""

from __future__ import annotations

import pytest

from assizes.judge.comparison.compare import ALLOW_HINT, compare, gated_runs
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.errors import NotComparable
from assizes.judge.evidence.tool_calls import NO_TOOL_TRACE_REASON
from tests.judge.run_frames import (
    binary_row,
    case_row,
    config,
    fraction_row,
    outcomes,
    run_of,
    score_row,
    skipped_row,
)


def suite(*passed, **rest):
    """Cases c0, c1 .. with these verdicts (`None`: errored)."""
    return [case_row(f"c{i:03}", one, **rest) for i, one in enumerate(passed)]


def told(before, after, **limits):
    return compare(run_of(before), run_of(after), ComparisonConfig(**limits)).verdict


GOOD, BAD = suite(*[True] * 60), suite(*[False] * 60)
TWO_WORSE = suite(*[True] * 58, False, False)
LENIENT = {"max_pass_rate_drop": 1.0}


@pytest.mark.parametrize(
    ("mode", "sides", "limits", "ending"),
    [
        ("rules", (GOOD, GOOD), {}, "fine"),
        ("rules", (GOOD, TWO_WORSE), {}, "regressed"),
        ("rules", (GOOD, BAD), LENIENT, "fine"),
        ("both", (GOOD, TWO_WORSE), {}, "regressed"),
        ("both", (GOOD, BAD), LENIENT, "fine"),
        ("statistics", (GOOD, BAD), LENIENT, "regressed"),
        ("statistics", (GOOD, TWO_WORSE), {}, "inconclusive"),
        ("statistics", (BAD, GOOD), {}, "fine"),
    ],
)
def test_the_mode_says_whose_word_the_ending_is(mode, sides, limits, ending):
    found = told(*sides, mode=mode, **limits)
    assert (found.mode, found.ending) == (mode, ending)
    assert (found.statistics is None) == (mode == "rules")


def test_the_sentences_behind_an_ending_are_those_of_who_decided():
    by_rules = told(GOOD, TWO_WORSE)
    assert by_rules.why == by_rules.reasons != ()
    by_statistics = told(GOOD, TWO_WORSE, mode="statistics")
    assert by_statistics.why == by_statistics.statistics.reasons != by_statistics.reasons
    other = config().model_dump(mode="json")
    other["judge"] |= {"model": "openai/gpt-4.1", "temperature": 0.5}
    sides = (run_of(GOOD), run_of(BAD, config=other))
    refused = compare(*sides, ComparisonConfig())
    assert [one.field for one in refused.verdict.mismatches] == ["judge.model", "judge.temperature"]
    assert refused.verdict.ending == "not_comparable"
    lines = tuple(mismatch.line for mismatch in refused.verdict.mismatches)
    assert refused.verdict.why == (*lines, ALLOW_HINT)
    assert refused.warnings[0] == (
        "the runs were judged differently (judge.model, judge.temperature): a change need not be "
        "the agent's"
    )
    allowed = compare(*sides, ComparisonConfig(allow=True)).verdict
    assert (allowed.ending, allowed.statistics.verdict) == ("regressed", "inconclusive")


SKIPPED = [skipped_row(row["case_id"]) for row in GOOD]
UNCOVERED = [score_row(row["case_id"], raw=None) for row in GOOD]
UNTRACED = [
    score_row(row["case_id"], raw=None) | {"status": "skipped", "reason": NO_TOOL_TRACE_REASON}
    for row in GOOD
]


@pytest.mark.parametrize(
    ("sides", "doubt"),
    [
        ((run_of(GOOD), run_of(SKIPPED)), "the candidate run is inconclusive by itself"),
        ((run_of(SKIPPED), run_of(GOOD)), "the baseline run is inconclusive by itself"),
        ((run_of(GOOD), run_of([])), "the candidate run is inconclusive by itself"),
        ((run_of(GOOD), run_of(GOOD, UNCOVERED)), "the candidate run is inconclusive by itself"),
        ((run_of(BAD), run_of(outcomes(0, 0, 60))), "the candidate run is inconclusive by itself"),
        ((run_of(GOOD), run_of(outcomes(0, 0, 60))), "the candidate run is inconclusive by itself"),
        (
            (run_of(GOOD), run_of(GOOD, UNTRACED)),
            "no conversation of the candidate holds a tool call, though the baseline's do: the agent "
            "calls no tools any more, or they are not recorded",
        ),
    ],
)
@pytest.mark.parametrize("mode", ["rules", "both", "statistics"])
def test_scores_that_are_missing_never_make_a_verdict_better(mode, sides, doubt):
    found = compare(*sides, ComparisonConfig(mode=mode)).verdict
    assert (found.ending, found.why[0]) == ("inconclusive", doubt)
    assert len(found.why) == len(set(found.why))


def test_a_run_without_calls_that_got_worse_is_a_regression():
    found = compare(run_of(GOOD), run_of(BAD, UNTRACED), ComparisonConfig()).verdict
    assert (found.ending, len(found.doubts)) == ("regressed", 1)
    both = compare(run_of(GOOD, UNTRACED), run_of(GOOD, UNTRACED), ComparisonConfig()).verdict
    assert (both.ending, both.doubts) == ("fine", ())


def twice(points):
    return [
        case_row(f"c{i:02}", True, overall_score=score + shift, repetition=repeat)
        for i, score in enumerate(points)
        for repeat, shift in enumerate((-6.0, 6.0))
    ]


def test_a_change_that_repetitions_alone_could_make_is_within_noise():
    noise = told(twice([60.0] * 12), twice([75.0, 85.0, *[60.0] * 10])).statistics.noise
    assert (noise.repeat_sd, noise.threshold) == (8.485281374, 16.970562748)
    assert noise.changed_within == ("c00",)
    assert told(GOOD, GOOD).statistics.noise is None


def test_repetitions_without_a_score_say_nothing_of_noise():
    repeated = [case_row("a", True, repetition=i) for i in range(2)]
    assert told(repeated, repeated).statistics.noise is None


def test_what_became_of_each_case_is_counted():
    before = suite(*[True] * 3, *[False] * 2, *[True] * 4)
    after = suite(False, None, None, True, True, True, True, True, True)
    comparison = compare(run_of(before), run_of(after), ComparisonConfig())
    deltas = comparison.aggregate
    assert (deltas.total_regressions, deltas.total_improvements) == (1, 2)
    assert (deltas.total_unchanged, deltas.total_errors) == (4, 2)
    counts = comparison.case_counts
    assert (counts.flipped_regressions, counts.flipped_improvements) == (1, 2)
    nothing = compare(run_of([]), run_of([]), ComparisonConfig())
    counted = nothing.aggregate
    assert (counted.total_regressions, counted.total_improvements) == (0, 0)
    assert (counted.total_unchanged, counted.total_errors) == (0, 0)
    counts = nothing.case_counts
    assert (counts.flipped_regressions, counts.flipped_improvements) == (0, 0)


@pytest.mark.parametrize("passed", [(None, False), (None, True), (False, None), (None, None)])
@pytest.mark.parametrize(("after", "status"), [(60.0, "regression"), (99.0, "improvement")])
def test_a_verdict_that_is_not_there_has_not_turned(passed, after, status):
    sides = (
        run_of([case_row("a", verdict, status="judged", overall_score=score)])
        for verdict, score in zip(passed, (80.0, after), strict=True)
    )
    comparison = compare(*sides, ComparisonConfig())
    assert [case.status for case in comparison.test_case_comparisons] == [status]
    counts = comparison.case_counts
    assert (counts.flipped_regressions, counts.flipped_improvements) == (0, 0)


def test_cases_of_one_run_only_are_counted_by_run():
    counts = compare(run_of(suite(True, True, True)), run_of(suite(True)), ComparisonConfig())
    found = counts.case_counts
    assert (found.matched, found.listed) == (1, 1)
    assert (found.baseline_only, found.candidate_only) == (2, 0)


def test_a_metric_that_gates_is_tested_beside_the_two_of_every_run():
    scores = [[binary_row(row["case_id"], good) for row in GOOD] for good in (True, False)]
    sides = [run_of(GOOD, of_run) for of_run in scores]
    limits = ComparisonConfig(gating=("task_completion",), mode="statistics")
    found = compare(*sides, limits).verdict
    assert [one.measure for one in found.statistics.metrics] == ["task_completion"]
    assert found.ending == "regressed"


def test_the_latencies_compared_are_those_of_shared_cases():
    before = [case_row("a", agent_latency_ms=100.0), case_row("b", agent_latency_ms=900.0)]
    after = [case_row("a", agent_latency_ms=130.0), case_row("c", agent_latency_ms=10.0)]
    deltas = compare(run_of(before), run_of(after), ComparisonConfig()).aggregate
    assert (deltas.latency_avg_delta_ms, deltas.latency_p95_delta_ms) == (30.0, 30.0)


def test_the_percentile_of_repeated_cases_is_over_the_executions_of_shared_ones():
    def of(case_id: str, *latencies: float):
        return [
            case_row(case_id, agent_latency_ms=one, repetition=number)
            for number, one in enumerate(latencies)
        ]

    before = [*of("a", 100.0, 300.0), *of("b", 9000.0, 9000.0)]
    after = [*of("a", 200.0, 600.0), *of("c", 1.0, 1.0)]
    deltas = compare(run_of(before), run_of(after), ComparisonConfig()).aggregate
    assert deltas.latency_avg_delta_ms == 200.0
    assert deltas.latency_p95_delta_ms == 580.0 - 290.0
    apart = compare(run_of(before[2:]), run_of(after[2:]), ComparisonConfig()).aggregate
    assert apart.latency_p95_delta_ms == 1.0 - 9000.0


def test_the_gating_measures_of_two_runs_can_be_had_by_themselves():
    cases = suite(True, True)
    before = [binary_row(row["case_id"], True) for row in cases]
    after = [binary_row(row["case_id"], False) for row in cases]
    beside = [fraction_row(row["case_id"], "other", 1.0) for row in cases]
    limits = ComparisonConfig(gating=("pass_rate", "task_completion"))
    both = gated_runs(run_of(cases, [*before, *beside]), run_of(cases, [*after, *beside]), limits)
    points = [
        side.measure("task_completion").cases["point"].to_list()
        for side in (both.before, both.after)
    ]
    assert points == [[100.0, 100.0], [0.0, 0.0]]
    assert both.before.measure("other") is both.after.measure("other") is None
    assert (both.limits, both.changes) == (limits, [])


def test_the_gating_measures_of_repeated_cases_are_means_over_their_repetitions():
    cases = [case_row("a", repetition=i) for i in range(2)]
    scores = [score_row("a", raw=raw, repetition=i) for i, raw in enumerate((5, 3))]
    limits = ComparisonConfig(gating=("tool_routing",))
    both = gated_runs(run_of(cases, scores), run_of(cases, scores), limits)
    for side in (both.before, both.after):
        assert side.measure("tool_routing").cases["point"].to_list() == [80.0]


def test_a_run_that_holds_no_summary_is_named_with_its_status():
    message = "^candidate run 'run' has status 'complete'; only 'complete' runs are compared$"
    with pytest.raises(NotComparable, match=message):
        compare(run_of(GOOD), run_of(GOOD, summary=None), ComparisonConfig())


def test_what_differs_in_the_prompts_is_shown_where_both_runs_kept_theirs():
    kept = [
        {"judges": {"tone": [digest]}, "texts": {digest: f"Be {digest}."}}
        for digest in ("kind", "brief")
    ]
    sides = [run_of(GOOD, prompts=one) for one in kept]
    (found,) = compare(*sides, ComparisonConfig()).prompt_diff
    assert (found.judge, found.lines[1:]) == ("tone", ("-Be kind.", "+Be brief."))
    assert compare(sides[0], run_of(GOOD), ComparisonConfig()).prompt_diff is None
