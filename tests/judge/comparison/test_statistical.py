"""The statistical verdict on two runs, beside the three rules of seed 001."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.comparison.compare import ALLOW_HINT, RunComparison, compare
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.rows import as_json
from tests.drawn import examples
from tests.judge.run_frames import binary_row, case_row, config, run_of, score_row

FEW = examples(25)


def suite(passed, **rest):
    """Cases c0, c1 .. with these verdicts (`None`: errored) and 90 or 50 points."""
    return [
        case_row(f"c{i:03}", one, overall_score=None if one is None else 90.0 if one else 50.0)
        | rest
        for i, one in enumerate(passed)
    ]


def verdict(before, after, **limits):
    sides = (run_of(before, run_id="before"), run_of(after, run_id="after"))
    return compare(*sides, ComparisonConfig(**limits)).verdict


def found(before, after, **limits):
    return verdict(before, after, **limits).statistics


def test_a_clear_drop_is_a_regression_with_its_line():
    told = found(suite([True] * 60), suite([True] * 40 + [False] * 20))
    rate = told.metrics[0]
    assert (told.verdict, rate.verdict, rate.method) == ("regressed", "regressed", "mcnemar")
    assert (rate.p_value, rate.severe) == (round(2 * 0.5**20, 9), True)
    assert rate.line == (
        "pass rate 100.0 % -> 66.7 % (-33.3; 95 % CI -45.1..-19.4; paired 60 cases / 60 clusters; "
        "coverage 100.0/100.0 %; MDE 18.0) -> regressed"
    )


def test_six_of_forty_cases_that_fell_and_none_that_rose_are_enough_for_two_measures_together():
    told = found(suite([True] * 40), suite([True] * 34 + [False] * 6))
    assert told.verdict == "regressed"
    assert [(one.p_value, one.p_adjusted) for one in told.metrics] == [(0.03125, 0.03125)] * 2
    five = found(suite([True] * 40), suite([True] * 35 + [False] * 5))
    assert (five.verdict, five.metrics[0].p_adjusted) == ("inconclusive", 0.0625)


def test_a_clear_rise_is_an_improvement():
    assert found(suite([False] * 20 + [True] * 40), suite([True] * 60)).verdict == "improved"


def test_the_same_run_twice_is_not_worse_where_the_cases_are_many():
    same = suite([True] * 300)
    assert found(same, same, margin=2).verdict == "not_worse"
    assert found(same[:20], same[:20], margin=2).verdict == "inconclusive"


def test_few_flips_are_no_regression_though_the_rule_fires():
    told = verdict(suite([True] * 50), suite([True] * 48 + [False] * 2))
    assert told.regression_detected
    assert told.statistics.verdict == "inconclusive"


def test_under_ten_independent_cases_there_is_no_verdict():
    told = found(suite([True] * 9), suite([False] * 9))
    assert told.verdict == "inconclusive"
    assert told.reasons[0] == "too few independent cases: 9, and a verdict takes 10"
    many = suite([True] * 90)
    rows = [row | {"cluster": f"u{i % 9}"} for i, row in enumerate(many)]
    worse = [row | {"passed": False} for row in rows]
    assert found(rows, worse).verdict == "inconclusive"


def test_cases_of_one_user_are_no_independent_evidence():
    passed = [True] * 60
    failed = [i >= 12 for i in range(60)]
    clusters = [f"u{i // 6}" for i in range(60)]
    alone = found(suite(passed), suite(failed))
    together = found(
        [row | {"cluster": of} for row, of in zip(suite(passed), clusters, strict=True)],
        [row | {"cluster": of} for row, of in zip(suite(failed), clusters, strict=True)],
    )
    assert alone.verdict == "regressed"
    assert (together.verdict, together.metrics[0].clusters) == ("inconclusive", 10)


def test_repetitions_are_averaged_within_a_case():
    before = [row | {"repetition": i} for row in suite([True] * 30) for i in range(3)]
    after = [row | {"repetition": i} for row in suite([True] * 30) for i in range(3)]
    after = [row | {"passed": row["repetition"] > 0} for row in after]
    rate = found(before, after).metrics[0]
    assert (rate.cases, rate.method) == (30, "sign_flip")
    assert rate.delta == pytest.approx(-100 / 3)


def test_different_cases_are_compared_side_by_side():
    after = [row | {"case_id": f"n{i}"} for i, row in enumerate(suite([False] * 30 + [True] * 30))]
    told = found(suite([True] * 60), after)
    assert (told.verdict, told.metrics[0].method) == ("regressed", "welch")
    assert "unpaired 60 cases / 60 clusters" in told.metrics[0].line


def night(name, easy, hard):
    """Cases of two kinds: easy ones pass, of the hard ones every second."""
    kinds = ["easy"] * easy + ["hard"] * hard
    return [
        case_row(f"{name}{i}", kind == "easy" or i % 2 == 0, overall_score=80.0)
        | {"tags": as_json({"kind": kind})}
        for i, kind in enumerate(kinds)
    ]


def test_another_mix_of_cases_is_told_from_a_worse_agent():
    before, after = night("a", 300, 100), night("b", 100, 300)
    told = found(before, after, mix_by="kind")
    (mix, _) = told.mix
    assert (mix.total, mix.mix, mix.quality) == pytest.approx((-25.0, -25.0, 0.0))
    assert told.metrics[0].verdict != "regressed"
    assert found(before, after).verdict == "regressed"


def test_a_listed_case_that_turned_is_a_regression_by_itself():
    after = [row | {"passed": row["case_id"] != "c003"} for row in suite([True] * 300)]
    assert found(suite([True] * 300), after).verdict != "regressed"
    told = found(suite([True] * 300), after, critical_cases=["c003", "c004"])
    assert (told.verdict, told.critical_flips) == ("regressed", ("c003",))
    lost = suite([None, *[True] * 299])
    assert found(suite([True] * 300), lost, critical_cases=["c000"]).critical_flips == ()


def test_a_listed_metric_gates_and_others_are_explored():
    cases = suite([True] * 40)
    good = [score_row(row["case_id"], raw=5) for row in cases]
    bad = [score_row(row["case_id"], raw=2 + i % 2) for i, row in enumerate(cases)]
    sides = (run_of(cases, good), run_of(cases, bad))
    gating = compare(*sides, ComparisonConfig(gating=("tool_routing",))).verdict.statistics
    assert (gating.verdict, gating.metrics[0].measure) == ("regressed", "tool_routing")
    explored = compare(*sides, ComparisonConfig()).verdict.statistics
    assert explored.verdict != "regressed"
    assert [(one.kind, one.name, one.moved) for one in explored.exploratory] == [
        ("metric", "tool_routing", True)
    ]


@pytest.mark.parametrize("others", ["the same", "the same, joined", "other ones"])
def test_a_metric_with_two_values_in_one_run_only_is_explored_in_points(others):
    cases = suite([True] * 40)
    same = cases if others != "other ones" else renamed(cases, "n")
    yes_or_no = [binary_row(row["case_id"], i % 2 == 0, "m") for i, row in enumerate(cases)]
    levels = [score_row(row["case_id"], "m", 3 + i % 3 / 2) for i, row in enumerate(same)]
    sides = run_of(cases, yes_or_no), run_of(same, levels[:: -1 if "joined" in others else 1])
    there, back = (
        compare(*pair, ComparisonConfig()).verdict.statistics.exploratory[0]
        for pair in (sides, sides[::-1])
    )
    assert (there.name, there.baseline, there.candidate) == ("m", 50.0, 69.75)
    assert there.delta == 19.75
    assert (there.low, there.high) == (-back.high, -back.low)


def test_a_gating_metric_that_nobody_scored_leaves_it_open():
    told = found(suite([True] * 300), suite([True] * 300), gating=("nobody",))
    assert (told.verdict, told.reasons) == (
        "inconclusive",
        ("nobody: no case has it in both runs",),
    )


def test_the_slice_that_moved_comes_first():
    before, after = night("a", 60, 60), night("a", 60, 60)
    after = [row | {"passed": row["passed"] and "hard" not in row["tags"]} for row in after]
    first = found(before, after).exploratory[0]
    assert (first.kind, first.name, first.measure) == ("slice", "kind=hard", "pass_rate")
    assert (first.moved, first.delta) == (True, -50.0)


def routed(passed, *tools, **rest):
    """Cases that called these tools."""
    return suite(passed, tools=list(tools), **rest)


def renamed(cases, start):
    return [row | {"case_id": f"{start}{row['case_id']}"} for row in cases]


def by_tool(explored):
    return {one.name: one for one in explored if one.name.startswith("tool=")}


@pytest.mark.parametrize("same_cases", [True, False])
def test_the_tool_that_got_worse_comes_first(same_cases):
    fine = renamed(routed([True] * 60, "find", "log"), "a")
    before = [*fine, *renamed(routed([True] * 30, "log", "pay"), "b")]
    after = [*fine, *renamed(routed([False] * 20 + [True] * 10, "log", "pay"), "b")]
    after = after if same_cases else renamed(after, "other-")
    explored = found(before, after).exploratory
    assert [(one.kind, one.name, one.moved) for one in explored[:2]] == [
        ("slice", "tool=pay", True)
    ] * 2
    rate = next(one for one in explored if one.measure == "pass_rate")
    assert (rate.cases, rate.delta) == (30, pytest.approx(-66.666667))
    looks = by_tool(explored)
    assert looks["tool=find"].moved is False
    assert by_tool(found(before, after, slices=("agent",)).exploratory) == {}


def test_a_tool_that_goes_with_failure_is_no_change_of_an_agent_that_stayed():
    def one_night(failing):
        verdicts = [i not in failing for i in range(60)]
        return [
            row | {"tools": ["find"] if row["passed"] else ["find", "give_up"]}
            for row in suite(verdicts)
        ]

    before, after = one_night(range(10)), one_night(range(50, 60))
    looks = by_tool(found(before, after).exploratory)
    assert (looks["tool=give_up"].delta, looks["tool=give_up"].cases) == (0.0, 20)


def test_a_case_belongs_to_every_tool_of_its_repetitions():
    def twice(passed):
        first, second = routed(passed, "find"), routed(passed, "pay")
        return [*first, *(row | {"repetition": 1} for row in second)]

    looks = by_tool(found(twice([True] * 20), twice([False] * 20)).exploratory)
    assert {name: one.cases for name, one in looks.items()} == {"tool=find": 20, "tool=pay": 20}


def test_no_tool_is_shown_where_the_rows_of_one_side_hold_none():
    known, unknown = routed([True] * 20, "find"), suite([False] * 20)
    assert by_tool(found(unknown, known).exploratory) == {}
    assert by_tool(found(known, unknown, slices=("tool",)).exploratory) == {}
    assert by_tool(found(known, renamed(unknown, "other-")).exploratory) == {}
    assert by_tool(found(known, renamed(routed([False] * 20, "pay"), "other-")).exploratory) == {}
    assert by_tool(found(routed([True] * 20), routed([False] * 20)).exploratory) == {}


def test_of_many_tools_those_that_most_cases_called_are_shown():
    cases = [
        row | {"tools": ["common", f"rare{i // 10:02}"]}
        for i, row in enumerate(suite([True] * 300))
    ]
    worse = [row | {"passed": i % 2 == 0} for i, row in enumerate(cases)]
    names = sorted(by_tool(found(cases, worse).exploratory))
    assert names == ["tool=common", *(f"tool=rare{n:02}" for n in range(19))]


def test_a_failure_code_that_spreads_is_found():
    cases = suite([True] * 40)
    clean = [score_row(row["case_id"]) for row in cases]
    coded = [row | {"failure_code": "made_up" if i < 15 else None} for i, row in enumerate(clean)]
    told = compare(run_of(cases, clean), run_of(cases, coded), ComparisonConfig()).verdict
    looks = {one.name: one for one in told.statistics.exploratory}
    assert (looks["made_up"].kind, looks["made_up"].delta) == ("failure_code", 37.5)
    assert looks["made_up"].moved


@pytest.mark.parametrize("share", [10, 30, 50])
def test_losing_the_worst_cases_to_errors_never_makes_good_news(share):
    before = suite([i % 10 != 0 for i in range(100)])
    after = suite([i % 3 != 0 for i in range(100)])
    worst = sorted(range(100), key=lambda i: (after[i]["passed"], i))[:share]
    lost = [case_row(row["case_id"], None) if i in worst else row for i, row in enumerate(after)]
    assert found(before, after).verdict == "regressed"
    scores = [
        score_row(row["case_id"], raw=None if i in worst else 4) for i, row in enumerate(lost)
    ]
    told = compare(run_of(before), run_of(lost, scores), ComparisonConfig()).verdict.statistics
    assert told.verdict == "inconclusive"
    assert "the candidate run is inconclusive by itself" in told.reasons


@pytest.mark.promised
@FEW
@given(st.sets(st.integers(0, 59), max_size=30), st.booleans())
def test_errors_on_either_side_never_turn_a_verdict_into_good_news(errored, of_candidate):
    before, after = suite([True] * 60), suite([i % 4 != 0 for i in range(60)])
    whole = found(before, after).verdict
    broken = [
        case_row(row["case_id"], None) if i in errored else row
        for i, row in enumerate(after if of_candidate else before)
    ]
    told = found(before, broken) if of_candidate else found(broken, after)
    assert whole == "regressed"
    assert told.verdict in ("regressed", "inconclusive")


def test_cases_that_the_candidate_lost_count_against_it():
    before = suite([i != 0 for i in range(400)])
    after = suite([True] * 400)[:388]
    rate = found(before, after).metrics[0]
    assert rate.candidate_coverage == 0.97
    assert rate.worst == -2.75
    assert rate.verdict == "inconclusive"


def test_the_judge_is_never_the_agents_fault():
    other = config().model_dump(mode="json")
    other["judge"]["model"] = "openai/gpt-4.1"
    sides = (run_of(suite([True] * 60)), run_of(suite([False] * 60), config=other))
    refused = compare(*sides, ComparisonConfig()).verdict
    assert (refused.regression_detected, refused.ending) == (True, "not_comparable")
    assert refused.why == ("judge.model: not set -> openai/gpt-4.1", ALLOW_HINT)
    allowed = compare(*sides, ComparisonConfig(allow=True)).verdict
    assert (allowed.ending, allowed.statistics.verdict) == ("regressed", "inconclusive")


@pytest.mark.parametrize(
    ("mode", "ending"),
    [("rules", "regressed"), ("both", "regressed"), ("statistics", "inconclusive")],
)
def test_the_mode_says_who_decides_and_the_rules_stay_as_they_are(mode, ending):
    told = verdict(suite([True] * 50), suite([True] * 48 + [False] * 2), mode=mode)
    assert (told.regression_detected, told.ending) == (True, ending)
    assert (told.statistics is None) == (mode == "rules")


def test_a_comparison_with_statistics_survives_json():
    cases = suite([True] * 20)
    scores = [binary_row(row["case_id"], True) for row in cases]
    comparison = compare(
        run_of(cases, scores), run_of(suite([False] * 20), scores), ComparisonConfig()
    )
    body = json.loads(json.dumps(comparison.model_dump(mode="json"), allow_nan=False))
    assert RunComparison.model_validate(body) == comparison


def recorded(data: Path, name: str):
    with gzip.open(data / name) as file:
        return json.load(file)


@pytest.mark.data
def test_trials_of_one_agent_are_flagged_by_the_rule_and_never_by_the_statistics(data: Path):
    rows = recorded(data, "tau_bench_airline/gpt-4o-airline.json.gz")
    trials = [
        run_of(
            [
                case_row(
                    str(one["task_id"]), one["reward"] == 1.0, overall_score=100.0 * one["reward"]
                )
                for one in rows
                if one["trial"] == trial
            ]
        )
        for trial in range(4)
    ]
    verdicts = [
        compare(*pair, ComparisonConfig()).verdict for pair in itertools.permutations(trials, 2)
    ]
    assert len(verdicts) == 12
    assert sum(one.regression_detected for one in verdicts) == 5
    assert sum(one.statistics.verdict == "regressed" for one in verdicts) == 0


@pytest.mark.data
def test_a_fine_tuned_agent_is_not_called_worse_but_slower(data: Path):
    sides = []
    for name in ("gpt-4.1", "gpt-4.1-finetuned"):
        runs = recorded(data, f"tau2_airline/{name}.json.gz")["simulations"]
        cases = [
            case_row(
                str(one["task_id"]),
                one["reward_info"]["reward"] == 1.0,
                overall_score=100.0 * one["reward_info"]["reward"],
                agent_latency_ms=1000 * one["duration"],
            )
            for one in runs
        ]
        sides.append(run_of(cases, run_id=name))
    told = compare(*sides, ComparisonConfig()).verdict
    assert told.statistics.verdict in ("improved", "inconclusive")
    assert told.statistics.metrics[0].delta == pytest.approx(15.0)
    (reason,) = told.reasons
    assert reason.startswith("average latency rose")
    assert "by 53" in reason
