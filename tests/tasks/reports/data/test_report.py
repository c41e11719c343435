"""What a report holds, before it is rendered."""

from __future__ import annotations

import json
from dataclasses import replace

import polars as pl
import pytest

from assizes.judge.case import Case, Transcript
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.rows import as_json
from assizes.judge.summary.run_summary import RunSummary
from assizes.tasks.reports import formatting, json_report, report_data
from assizes.tasks.reports.data.metric_rows import MAX_CODES
from tests.tasks.reports.sample import Run, Said, compared, incomplete, run

GOOD = Said("good", (5, 4))
BAD = Said("bad", (1, 3), done=False, why="Called a tool that does not exist.")
LOST = Said("lost", (0, 0), error="timeout: no answer in 120 s")


def openai(**tables: object) -> dict[str, object]:
    metrics = [{"metric": "tool_routing", "weight": 1}]
    return {"judge": {"metrics": metrics, "model": "gpt-4.1", "provider": "openai"}, **tables}


def dimensions(of: Run) -> dict[str, tuple[str, str, bool | None]]:
    found = of.data()["verdict"]["dimensions"]
    return {one["name"]: (one["shown"], one["needs"], one["passed"]) for one in found}


def test_the_offline_baseline_is_named_as_what_it_is():
    assert run([GOOD]).data()["judged_by"] == {
        "line": (
            "Judged by the offline baseline (offline/lexical): plain text rules, no language model."
        ),
        "model": "offline/lexical",
        "answered_by": ["offline/lexical"],
        "offline": True,
    }


def test_a_language_model_is_named_with_the_one_that_answered():
    data = run([GOOD], **openai()).data()
    assert data["judged_by"]["line"] == "Judged by openai/gpt-4.1 (answered by openai/gpt-4.1)."


def test_a_judge_that_never_answered_is_not_said_to_have_answered():
    data = run([LOST], **openai()).data()
    assert data["judged_by"]["line"] == "Judged by openai/gpt-4.1 (no answer came)."


def test_several_models_are_all_named_and_are_no_offline_baseline():
    of = run([GOOD])
    record = replace(of.record, judge_model="offline/lexical, openai/gpt-4.1")
    data = replace(of, record=record).data()
    assert data["judged_by"] == {
        "line": "Judged by offline/lexical, openai/gpt-4.1 (answered by offline/lexical).",
        "model": "offline/lexical, openai/gpt-4.1",
        "answered_by": ["offline/lexical"],
        "offline": False,
    }


def test_a_report_is_the_same_of_a_summary_that_was_stored_with_sorted_keys():
    of = run([GOOD, BAD, LOST])
    summary = of.summary.model_copy(update={"failures": {"unavailable": 2, "timeout": 1}})
    stored = RunSummary.model_validate_json(as_json(summary.model_dump(mode="json")))
    data = replace(of, summary=stored).data()
    assert data == replace(of, summary=summary).data()
    assert [one["code"] for one in data["coverage"]["failures"]] == ["unavailable", "timeout"]


def test_of_many_root_causes_the_most_frequent_are_shown_whatever_they_are_called():
    of = run([GOOD])
    causes = {f"cause_{n:03d}": 1 for n in range(MAX_CODES)} | {"why_most_fail": 9}
    data = replace(of, summary=of.summary.model_copy(update={"root_causes": causes})).data()
    shown = [(one["name"], one["count"]) for one in data["root_causes"]]
    assert (len(shown), shown[0]) == (MAX_CODES, ("why_most_fail", 9))


@pytest.mark.row("001-29")
def test_expected_outcomes_are_a_checklist_with_a_justification_for_each_statement():
    outcomes = (
        ("The booking is cancelled", True, "cancel_booking succeeded at turn 7."),
        ("The refund is named", False, "No amount is mentioned."),
    )
    (case,) = run([Said("c1", (5, 5), outcomes=outcomes)]).data()["cases"]["read_first"]
    assert case["outcomes"] == [
        {
            "passed": True,
            "statement": "The booking is cancelled",
            "justification": "cancel_booking succeeded at turn 7.",
        },
        {
            "passed": False,
            "statement": "The refund is named",
            "justification": "No amount is mentioned.",
        },
    ]


def test_more_than_nine_outcomes_keep_the_order_of_the_case():
    outcomes = tuple((f"statement {place}", True, "") for place in range(12))
    (case,) = run([Said("c1", (5, 5), outcomes=outcomes)]).data()["cases"]["read_first"]
    assert [one["statement"] for one in case["outcomes"]] == [one for one, _, _ in outcomes]


def test_a_finding_is_shown_with_its_level_justification_code_and_turns():
    (case,) = run([BAD]).data()["cases"]["read_first"]
    assert [
        (one["metric"], one["shown"], one["justification"], one["failure_code"], one["turns"])
        for one in case["findings"]
    ] == [
        ("task_completion", "fail", BAD.why, "goal_not_reached", []),
        ("tool_routing", "fail (1 of 5)", BAD.why, "wrong_tool_selected", [1, 3]),
        ("response_delivery", "acceptable (3 of 5)", BAD.why, None, []),
    ]


def test_a_score_that_could_not_be_had_says_why_and_has_no_number():
    (case,) = run([LOST]).data()["cases"]["read_first"]
    assert {(one["shown"], one["raw"], one["justification"]) for one in case["findings"]} == {
        ("could not be had", None, "timeout: no answer in 120 s")
    }


def test_both_gates_and_the_coverage_stand_with_their_thresholds():
    assert dimensions(run([GOOD, BAD])) == {
        "Metrics": ("60.00", "80 of 100", False),
        "Cases": ("50.0 %", "100 %", False),
        "Coverage": ("100.0 %", "95 %", True),
    }


def test_a_share_just_under_everything_is_not_shown_as_everything():
    cases = [Said(f"c{place}", (5, 5)) for place in range(2000)] + [BAD]
    assert dimensions(run(cases))["Cases"] == ("99.9 %", "100 %", False)


@pytest.mark.parametrize(
    ("of", "outcome", "reasons"),
    [
        (run([GOOD]), "passed", []),
        (
            run([GOOD, BAD]),
            "failed",
            ["metrics gate: 60.00, needs 80 of 100", "cases gate: 50.0 %, needs 100 %"],
        ),
        (
            run([GOOD, LOST]),
            "inconclusive",
            [
                "cases gate: 50.0 %, needs 100 %",
                "coverage gate: 50.0 %, needs 95 %",
                "timeout: no answer in 120 s, 1 of 2 asks",
            ],
        ),
        (
            run([GOOD, BAD, LOST]),
            "failed",
            [
                "metrics gate: 60.00, needs 80 of 100",
                "cases gate: 33.3 %, needs 100 %",
                "coverage gate: 66.7 %, needs 95 %",
                "timeout: no answer in 120 s, 1 of 3 asks",
            ],
        ),
        (run([]), "inconclusive", ["No case has a verdict."]),
        (incomplete(run([GOOD])), "incomplete", ["0 cases could not be judged"]),
    ],
    ids=["passed", "failed", "inconclusive", "failed and short", "empty", "incomplete"],
)
@pytest.mark.row("005-05")
def test_the_most_severe_finding_names_the_run(of: Run, outcome: str, reasons: list[str]):
    verdict = of.data()["verdict"]
    assert (verdict["outcome"], verdict["reasons"]) == (outcome, reasons)


def test_a_regression_comes_before_a_missed_gate_and_keeps_both_reasons():
    data = compared(run([GOOD, Said("bad", (5, 5))], run_id="before"), run([GOOD, BAD]))
    assert data["verdict"]["outcome"] == "regression"
    assert data["verdict"]["reasons"][0].startswith("pass rate fell")
    assert data["verdict"]["reasons"][-1] == "cases gate: 50.0 %, needs 100 %"


def test_counts_reconcile_in_one_sentence():
    counts = run([GOOD, BAD, LOST]).data()["counts"]
    assert counts["reconciles"] is True
    assert counts["sentence"] == (
        "5 read = 2 judged + 0 reused + 1 quarantined + 1 duplicate + 1 errored + 0 skipped "
        "+ 0 not attempted."
    )


def test_a_metric_has_its_tier_weight_mean_labels_and_what_could_not_be_scored():
    (routing, *_) = run([GOOD, BAD, LOST]).data()["metrics"]
    interval = routing.pop("interval")
    assert (interval["cases"], interval["coverage"]) == (2, 0.666666667)
    assert interval["shown"].startswith("95% CI ")
    assert routing.pop("pass_rate_interval") is None
    assert routing == {
        "judge": "conversation",
        "metric": "tool_routing",
        "family": "conversation",
        "tier": "execution",
        "weight": 0.5,
        "unit": "0-5",
        "mean": 3.0,
        "pass_rate": None,
        "labels": [{"label": "excellent", "count": 1}, {"label": "fail", "count": 1}],
        "scored": 2,
        "failed": 1,
        "skipped": 0,
        "baseline_mean": None,
        "delta": None,
        "low": 1,
        "delta_span": None,
        "delta_sure": False,
    }


def test_a_binary_metric_changes_on_the_scale_of_its_mean():
    before = run([Said("a", (5, 5)), Said("b", (5, 5))], run_id="before")
    after = run([Said("a", (5, 5)), Said("b", (5, 5), done=False)])
    rows = {one["metric"]: one for one in compared(before, after)["metrics"]}
    completion = rows["task_completion"]
    assert (completion["mean"], completion["baseline_mean"], completion["delta"]) == (2.5, 5, -2.5)


def test_failure_codes_are_counted_with_their_metrics():
    assert run([BAD, Said("c", (2, 2))]).data()["failure_codes"] == {
        "total": 4,
        "unspecified": 0,
        "more": 0,
        "shown": [
            {
                "code": "wrong_tool_selected",
                "count": 3,
                "metrics": [
                    {"name": "tool_routing", "count": 2},
                    {"name": "response_delivery", "count": 1},
                ],
                "shift": None,
            },
            {
                "code": "goal_not_reached",
                "count": 1,
                "metrics": [{"name": "task_completion", "count": 1}],
                "shift": None,
            },
        ],
    }


def test_an_unknown_price_is_unknown_and_not_nothing():
    usage = run([GOOD], **openai()).data()["usage"]
    costs = {
        (group["title"], fact["name"]): fact["value"]
        for group in usage
        for fact in group["facts"]
        if fact["name"].startswith("Cost")
    }
    assert costs == {
        ("Agent", "Cost"): "unknown",
        ("Judge", "Cost"): "unknown",
        ("Judge", "Cost with the agent's"): "unknown",
    }


def test_what_got_worse_is_read_before_what_failed_before_what_errored():
    before = [GOOD, Said("dropped", (5, 5)), BAD, Said("gained", (1, 1), done=False), LOST]
    after = [GOOD, Said("dropped", (2, 2)), BAD, Said("gained", (5, 5)), LOST]
    data = compared(run(before, run_id="before"), run(after))
    assert [case["case_id"] for case in data["cases"]["read_first"]] == [
        "dropped",
        "bad",
        "lost",
        "gained",
        "good",
    ]


def test_flips_are_listed_both_ways_with_the_metrics_that_moved():
    before = [Said("down", (5, 5)), Said("up", (2, 5), done=False)]
    after = [Said("down", (2, 5), done=False), Said("up", (5, 5))]
    comparison = compared(run(before, run_id="before"), run(after))["comparison"]
    (down,), (up,) = comparison["worse"]["shown"], comparison["better"]["shown"]
    assert down == {
        "case_id": "down",
        "flip": "passed → failed",
        "baseline_score": 100.0,
        "candidate_score": 45.0,
        "score_delta": -55.0,
        "moved": "tool_routing 5 → 2, task_completion pass → fail",
    }
    assert (up["flip"], up["score_delta"]) == ("failed → passed", 55.0)


def test_a_case_without_a_verdict_in_one_run_is_no_flip_and_comes_by_its_move():
    before = run([Said("a", (4, 5), done=False), Said("b", (5, 5))], run_id="before")
    undecided = pl.when(pl.col("case_id") != "a").then("passed").alias("passed")
    frames = {**before.frames, "cases": before.frames["cases"].with_columns(undecided)}
    after = run([Said("a", (3, 5), done=False), Said("b", (4, 4))])
    worse = compared(replace(before, frames=frames), after)["comparison"]["worse"]
    shown = [(case["case_id"], case["flip"]) for case in worse["shown"]]
    assert (worse["flips"], shown) == (0, [("b", "passed both times"), ("a", "")])


@pytest.mark.row("001-70")
def test_cases_of_one_run_only_are_listed():
    comparison = compared(run([GOOD, BAD], run_id="before"), run([GOOD, LOST]))["comparison"]
    assert comparison["baseline_only"] == {"total": 1, "shown": ["bad"], "more": 0}
    assert comparison["candidate_only"] == {"total": 1, "shown": ["lost"], "more": 0}


def test_the_limits_of_a_comparison_are_echoed():
    tables = {"comparison": ComparisonConfig(max_avg_score_drop=10).model_dump()}
    comparison = compared(run([GOOD], run_id="before"), run([GOOD], **tables))["comparison"]
    assert comparison["thresholds_used"] == {
        "max_avg_score_drop": 10.0,
        "max_latency_increase_pct": 0.2,
        "max_pass_rate_drop": 0.0,
    }
    assert [rule["limit"] for rule in comparison["rules"]] == [
        "may drop by 0 points",
        "may drop by 10 points",
        "may grow by 20 %",
    ]


def test_one_failure_in_twenty_thousand_does_not_read_as_no_change():
    assert (formatting.points(-0.00005), formatting.points(0.0), formatting.points(-0.6)) == (
        "\u22120.0050 points",
        "0.0 points",
        "\u221260.0 points",
    )


def test_a_setting_that_differs_is_named():
    before = run([GOOD], run_id="before", judge={"metrics": ["tool_routing"], "pass_threshold": 70})
    after = run([GOOD], judge={"metrics": ["tool_routing"]})
    assert compared(before, after)["comparison"]["config_diff"] == [
        {"field": "judge.pass_threshold", "baseline": "70.0", "candidate": "75.0"}
    ]


def test_only_two_hundred_cases_are_listed_and_the_rest_are_counted():
    cases = run([Said(f"c{place:04d}", (5, 5)) for place in range(230)]).data()["cases"]
    assert (cases["total"], len(cases["shown"]), cases["more"]) == (230, 200, 30)
    assert len(cases["read_first"]) == 20


def test_repetitions_of_a_case_are_told_apart():
    said = [Said("c1", (5, 5)), Said("c1", (1, 1), done=False, repetition=1)]
    shown = run(said).data()["cases"]["shown"]
    assert [(case["case_id"], case["repetition"]) for case in shown] == [("c1", 1), ("c1", 0)]


def test_the_order_of_the_rows_does_not_change_a_byte():
    of = run([GOOD, BAD, LOST])
    shuffled = {
        name: rows.sample(fraction=1, shuffle=True, seed=5) for name, rows in of.frames.items()
    }
    tables: tuple[pl.DataFrame, ...] = tuple(shuffled[name] for name in ("cases", "scores", "asks"))
    data = report_data(of.record, of.summary, *tables)
    assert json_report(data) == json_report(of.data())


def test_the_data_is_plain_json():
    data = run([GOOD, BAD, LOST]).data()
    assert json.loads(json_report(data)) == data


def test_the_longest_case_id_is_shown_whole():
    name = "x" * 512
    assert Case(case_id=name, transcript=Transcript()).case_id == name
    assert run([Said(name, (5, 5))]).data()["cases"]["shown"][0]["case_id"] == name


def test_ids_that_differ_in_what_cannot_be_seen_stay_apart_in_the_data():
    names = ("x  1", "x 1", " x 1", "x\t1", "x\u200b1")
    lost = [Said(name, (0, 0), error="timeout: no answer") for name in names]
    shown = run(lost).data()["cases"]
    assert {case["case_id"] for case in shown["shown"]} == set(names)
    assert {case["case_id"] for case in shown["errors"]} == set(names)
    assert {case["case_id"] for case in shown["read_first"]} == set(names)
