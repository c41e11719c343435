from __future__ import annotations

import gzip
from importlib import resources
from pathlib import Path

import pytest

from assizes.deployments.samples import FILE, sample_cases, with_planted_regression
from assizes.deployments.samples.make import write_sample
from assizes.judge.case import Case, Expected
from assizes.judge.evidence.tool_calls import tool_evidence
from tests.builders import agent, call, case, result, user

BOOKED = Expected(writes=("book",))


def matching(cases: list[Case]) -> list[str]:
    return [case.case_id for case in cases if tool_evidence(case).write_match]


def texts(case: Case) -> list[str]:
    return [text for _, text in case.transcript.agent_texts()]


def test_the_sample_holds_forty_whole_conversations_with_ground_truth():
    cases = sample_cases()
    assert len({sampled.case_id for sampled in cases}) == len(cases) == 40
    for sampled in cases:
        assert sampled.agent_version == "v1"
        assert sampled.transcript.finished is True
        assert sampled.transcript.system
        assert sampled.transcript.agent_latency_ms()
        assert sampled.transcript.cost_usd()
        assert sampled.expected.tool_calls is not None
        assert sampled.expected.writes


def test_thirty_six_of_the_sample_change_what_was_expected():
    cases = sample_cases()
    assert len(matching(cases)) == 36
    assert matching(cases) == [case.case_id for case in cases if case.labels["reward"] == 1.0]


def test_the_sample_is_small_and_has_its_licence_beside_it():
    folder = resources.files("assizes.deployments.samples")
    assert len((folder / FILE).read_bytes()) <= 350_000
    assert (folder / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    assert "chosen" in (folder / "SOURCE.md").read_text(encoding="utf-8")


@pytest.mark.data
def test_the_sample_can_be_made_again_from_its_source(data: Path, tmp_path: Path):
    write_sample(data, tmp_path / FILE)
    bundled = (resources.files("assizes.deployments.samples") / FILE).read_bytes()
    # Lines, not bytes: another zlib may pack the same lines differently.
    assert gzip.decompress((tmp_path / FILE).read_bytes()) == gzip.decompress(bundled)


def test_the_planted_regression_takes_the_last_change_from_six_conversations():
    cases = sample_cases()
    worse = with_planted_regression(cases)
    assert sorted(set(matching(cases)) - set(matching(worse)), key=int) == [
        "8",
        "15",
        "19",
        "22",
        "30",
        "42",
    ]
    assert len(matching(worse)) == 30
    for before, after in zip(cases, worse, strict=True):
        lost = "planted" in after.metadata
        done = len(tool_evidence(before).done_writes) - len(tool_evidence(after).done_writes)
        assert done == int(lost)
        assert texts(after) == texts(before)
        assert after.labels == ({} if lost else before.labels)
        assert (before.agent_version, after.agent_version) == ("v1", "v2")


def test_the_planted_version_takes_three_tenths_longer_everywhere():
    cases = sample_cases()
    for before, after in zip(cases, with_planted_regression(cases), strict=True):
        assert after.transcript.duration_ms == pytest.approx(
            (before.transcript.duration_ms or 0) * 1.3
        )
        if "planted" not in after.metadata:
            assert after.transcript.agent_latencies_ms() == pytest.approx(
                [latency * 1.3 for latency in before.transcript.agent_latencies_ms()]
            )


def test_planting_is_deterministic_and_leaves_its_input_alone():
    cases = sample_cases()
    assert with_planted_regression(cases) == with_planted_regression(sample_cases())
    assert cases == sample_cases()


def test_the_removed_call_goes_with_its_result_and_its_empty_turn():
    original = case(
        user("Book two"),
        agent("Booking.", calls=[call("look", "a"), call("book", "b")], latency_ms=100),
        result("seen", call_id="a"),
        result("booked", call_id="b"),
        agent(calls=[call("book", "c")], latency_ms=100),
        result("booked", call_id="c"),
        agent(calls=[call("book", "d")], latency_ms=100),
        result("Error", call_id="d", is_error=True),
        agent("Both are booked.", latency_ms=100),
        expected=BOOKED,
    )
    (once,) = with_planted_regression([original])
    (twice,) = with_planted_regression([once])
    assert once.metadata == {"planted": "removed the call of book in turn 4"}
    assert [turn.latency_ms for turn in once.transcript.turns] == [
        None,
        130,
        None,
        None,
        130,
        None,
        130,
    ]
    assert twice.transcript.turns[1:3] == (
        agent("Booking.", calls=[call("look", "a")], latency_ms=169),
        result("seen", call_id="a"),
    )
    assert [call.id for _, call in twice.transcript.calls()] == ["a", "d"]


def test_only_every_third_case_that_changes_state_is_touched():
    def booking(number: int) -> Case:
        turns = (user("Book"), agent(calls=[call("book")]), result("booked"), agent("Booked."))
        return case(*turns, case_id=str(number), expected=BOOKED)

    idle = case(user("Hi"), agent("Hi"), case_id="idle", expected=BOOKED)
    worse = with_planted_regression([idle, *(booking(number) for number in range(5)), idle])
    assert [case.case_id for case in worse if "planted" in case.metadata] == ["0", "3"]
