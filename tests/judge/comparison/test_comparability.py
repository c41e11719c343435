"""The differences that keep two runs from being compared: fields that change the judge, no others."""

from __future__ import annotations

from copy import deepcopy

import pytest

from assizes.judge.comparison.compare import compare
from assizes.judge.comparison.runs import mismatches
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.config.run import TRUTH, config_diff
from tests.judge.run_frames import case_row, config, run_of

CASES = [case_row(f"c{i}") for i in range(40)]


def snapshot(**judge):
    body = config().model_dump(mode="json")
    body["judge"] |= {"metrics": [{"metric": "tool_routing", "weight": 1.0}], **judge}
    body["fingerprints"] = {"judge:conversation": "1", "metric:tool_routing": "0123"}
    return body


CHANGES = {
    "judge.model": "openai/gpt-4.1",
    "judge.provider": "azure",
    "judge.temperature": 0.7,
    "judge.max_output_tokens": 100,
    "judge.panel": ["a", "b"],
    "judge.repeats": 3,
    "judge.escalate_to": "openai/o3",
    "judge.pass_threshold": 60.0,
    "judge.judges": ["conversation", "sql"],
    "judge.options": {"sql": {"threshold": 0.5}},
    "judge.metrics": [{"metric": "information_gathering", "weight": 1.0}],
    "judge.metrics ": [{"metric": "tool_routing", "weight": 2.0}],
    "fingerprints.judge:conversation": "2",
    "fingerprints.metric:tool_routing": "4567",
    "transcripts.writes": ["book"],
    "transcripts.redact": "mine:names",
    "privacy.redact": ["secret", "email"],
    "privacy.send": "raw",
}


@pytest.mark.promised
@pytest.mark.parametrize("field", CHANGES)
def test_one_changed_field_keeps_two_runs_apart(field):
    other = deepcopy(snapshot())
    table, _, name = field.strip().partition(".")
    other[table][name] = CHANGES[field]
    sides = (run_of(CASES, config=snapshot()), run_of(CASES, config=other))
    told = compare(*sides, ComparisonConfig()).verdict
    assert told.ending == "not_comparable"
    assert all(one.field.startswith(field.strip()) for one in told.mismatches)
    assert compare(*sides, ComparisonConfig(allow=True)).verdict.ending == "fine"


def test_another_answering_model_keeps_them_apart_under_the_same_name():
    sides = [
        run_of(CASES, config=snapshot(), answered_by=(model,))
        for model in ("gpt-4.1-2025-04-14", "gpt-4.1-2025-09-01")
    ]
    told = compare(*sides, ComparisonConfig()).verdict
    assert [one.line for one in told.mismatches] == [
        "answered_by: gpt-4.1-2025-04-14 -> gpt-4.1-2025-09-01"
    ]
    assert told.ending == "not_comparable"


@pytest.mark.parametrize(
    ("shared", "ending"), [(40, "fine"), (39, "fine"), (37, "not_comparable"), (0, "fine")]
)
def test_cases_are_the_same_or_others_but_not_half_of_each(shared, ending):
    others = [case_row(f"n{i}") for i in range(40 - shared)]
    sides = (run_of(CASES), run_of([*CASES[:shared], *others]))
    assert compare(*sides, ComparisonConfig()).verdict.ending == ending


@pytest.mark.row("005-02")
@pytest.mark.parametrize(
    ("field", "before", "after"),
    [
        ("cases_pass_threshold", 100.0, 99.0),
        ("metrics_pass_threshold", 80.0, 50.0),
        ("min_coverage", 0.95, 0.5),
    ],
)
def test_thresholds_of_the_run_alone_are_shown_and_block_nothing(field, before, after):
    other = deepcopy(snapshot())
    other["thresholds"][field] = after
    sides = (run_of(CASES, config=snapshot()), run_of(CASES, config=other))
    found = compare(*sides, ComparisonConfig())
    assert (found.verdict.ending, found.verdict.mismatches) == ("fine", ())
    assert not found.verdict.regression_detected
    assert [(one.field, one.baseline, one.candidate) for one in found.config_diff] == [
        (f"thresholds.{field}", before, after)
    ]


@pytest.mark.parametrize(
    ("table", "field", "value"),
    [
        ("transcripts", "uri", "s3://elsewhere/"),
        ("transcripts", "agent_version", "2.0"),
        ("judge", "api_base", "http://127.0.0.1:1/v1"),
        ("judge", "rubrics", ["moved/"]),
        ("limits", "max_in_flight", 4),
        ("store", "uri", "duckdb:///other.duckdb"),
        ("report", "uri", "elsewhere"),
        ("runner", "shard_size", 20),
        ("comparison", "margin", 5.0),
    ],
)
def test_what_does_not_change_a_judgement_blocks_nothing(table, field, value):
    other = deepcopy(snapshot())
    other[table][field] = value
    assert mismatches(config_diff(snapshot(), other), ((), ()), 1.0) == ()


@pytest.mark.promised
def test_a_hundred_identical_pairs_are_never_blocked():
    for size in range(1, 101):
        run = run_of(CASES[: size % 40 + 1], config=snapshot(repeats=size % 25 + 1))
        assert compare(run, run, ComparisonConfig(mode="rules")).verdict.mismatches == ()


@pytest.mark.parametrize(
    ("before", "after", "shared", "blocks"),
    [
        ({"of": "a"}, {"of": "b"}, 40, True),
        ({"of": None}, {"of": "b"}, 40, True),
        ({"of": "a"}, {"of": "a"}, 40, False),
        ({}, {"of": "b"}, 40, False),  # runs of older versions did not say
        ({"of": "a"}, {"of": "b"}, 0, False),  # two nights, each with the truth about its own
    ],
)
def test_other_ground_truth_keeps_runs_over_the_same_cases_apart(before, after, shared, blocks):
    cases = [*CASES[:shared], *(case_row(f"n{i}") for i in range(40 - shared))]
    sides = [
        run_of(rows, config={**snapshot(), **({TRUTH: said["of"]} if said else {})})
        for rows, said in ((CASES, before), (cases, after))
    ]
    told = compare(*sides, ComparisonConfig()).verdict
    assert [(one.field, one.of_judge) for one in told.mismatches] == [(TRUTH, True)] * blocks
