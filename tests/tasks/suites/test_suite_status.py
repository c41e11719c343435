"""How a suite stands after runs over new conversations, and what a run over its own lines checks."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.config.run import SUITE, StoreConfig
from assizes.judge.suites.content import with_promoted, without
from assizes.tasks.runs.stored_comparison import stored_comparison
from assizes.tasks.store import open_store
from assizes.tasks.suites.promotion import CaseChoice, promotable_cases
from assizes.tasks.suites.suite_folder import read_or_new_suite, read_suite, write_suite
from assizes.tasks.suites.suite_status import SuiteStatus, suite_lines, suite_status
from tests.tasks.suites.clerk import RUDE_AGAIN, judged, write_day


@dataclass(frozen=True)
class Place:
    """A folder with a store, and a suite of five rude cases in it."""

    folder: Path
    store: str

    @property
    def suite(self) -> Path:
        return self.folder / "suites" / "clerk"

    def promote(self, run_id: str, choice: CaseChoice) -> None:
        with open_store(StoreConfig(uri=self.store)) as store:
            cases = promotable_cases(store, run_id, choice, "").cases
        write_suite(self.suite, with_promoted(read_or_new_suite(self.suite), cases).suite)

    def night(self, number: int, **said: Any) -> str:
        """A run over new conversations, with the expectations of the suite."""
        file = write_day(self.folder / f"n{number}" / "a.jsonl", f"v{number}", **said)
        truth = {"uri": str(self.suite / "cases.jsonl")}
        return judged(self.folder, self.store, file, ground_truth=truth)

    def status(self) -> SuiteStatus:
        with open_store(StoreConfig(uri=self.store)) as store:
            return suite_status(store, read_suite(self.suite))

    def lines(self, run_id: str) -> list[str]:
        with open_store(StoreConfig(uri=self.store)) as store:
            return suite_lines(store, store.run(run_id), read_suite(self.suite))


@pytest.fixture(
    params=[pytest.param("duckdb:///{}/s.duckdb", marks=pytest.mark.full), "{}/lake"],
    ids=["duckdb", "lake"],
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    made = Place(tmp_path, str(request.param).format(tmp_path))
    first = write_day(tmp_path / "n0" / "a.jsonl", "v0", rude=range(5), wrong=range(6, 10))
    made.promote(judged(tmp_path, made.store, first), CaseChoice(case_ids=tuple(ids(range(5)))))
    return made


def ids(numbers: Collection[int]) -> list[str]:
    return [f"c{number:02}" for number in numbers]


def passes(status: SuiteStatus) -> dict[str, tuple[str | None, int]]:
    return {case.case_id: (case.state, case.passes) for case in status.cases}


def test_passes_are_counted_up_to_the_latest_run(place: Place):
    assert passes(place.status()) == dict.fromkeys(ids(range(5)), (None, 0))
    place.night(1, rude=[2])
    place.night(2)
    place.night(3, cases=range(1, 12))
    assert passes(place.status()) == {
        **dict.fromkeys(["c01", "c03", "c04"], ("passing", 3)),
        "c00": ("passing", 2),
        "c02": ("passing", 2),
    }
    assert place.status().retirable(3) == ["c01", "c03", "c04"]
    place.night(4, rude=[1], words=RUDE_AGAIN)
    assert passes(place.status())["c01"] == ("failing", 0)
    assert place.status().retirable(3) == ["c00", "c02", "c03", "c04"]
    assert place.status().runs[0].run_id == place.status().cases[0].run_id


def test_a_cause_that_comes_back_in_other_words_is_named_and_another_failure_is_not(place: Place):
    run_id = place.night(1, rude=[1, 2], wrong=[3], words=RUDE_AGAIN)
    (cause,) = {cause for case in place.status().cases for cause in case.causes}
    back = {case.case_id: case.came_back for case in place.status().cases if case.came_back}
    assert back == {"c01": (cause,), "c02": (cause,)}
    assert passes(place.status())["c03"] == ("failing", 0)
    (line,) = place.lines(run_id)
    assert line.startswith(f"cause {cause} (")
    assert line.endswith("of suite 'clerk' came back: cases c01, c02")
    fine = place.night(2)
    assert place.lines(fine) == []


def test_a_case_passes_only_if_it_was_judged_for_what_it_failed_at(place: Place):
    judge = {"judges": ["tests.tasks.suites.clerk:sums"]}
    file = write_day(place.folder / "n1" / "a.jsonl", "v1", rude=range(5))
    truth = {"uri": str(place.suite / "cases.jsonl")}
    judged(place.folder, place.store, file, ground_truth=truth, judge=judge)
    assert set(passes(place.status()).values()) == {("undecided", 0)}


def test_a_run_over_the_stored_lines_checks_the_judges_and_no_case(place: Place):
    stored = judged(place.folder, place.store, place.suite)
    status = place.status()
    assert set(passes(status).values()) == {(None, 0)}
    assert status.judge_check is not None
    assert (status.judge_check.failing, status.judge_check.passing) == (5, ())
    assert place.lines(stored) == []
    judge = {"judges": ["tests.tasks.suites.clerk:lenient_manners"]}
    lenient = judged(place.folder, place.store, place.suite, judge=judge)
    check = place.status().judge_check
    assert check is not None
    assert check.run.run_id == lenient
    assert check.passing == tuple(ids(range(5)))
    assert place.lines(lenient)[0].endswith("that failed before: cases c00, c01, c02, c03, c04")


def test_a_run_is_compared_with_the_run_before_over_the_same_suite(place: Place):
    before = place.night(1)
    plain = write_day(place.folder / "p" / "a.jsonl", "v1", rude=range(12))
    judged(place.folder, place.store, plain)  # of the same name, over no suite
    judged(place.folder, place.store, place.suite)  # over the lines of the suite themselves
    grown = CaseChoice(case_ids=("c06", "c07"))
    with open_store(StoreConfig(uri=place.store)) as store:
        first = store.runs().sort("started_at")["run_id"][0]
    old = read_suite(place.suite).version
    place.promote(first, grown)
    new = read_suite(place.suite).version
    assert old != new
    after = place.night(2, rude=[3], cases=range(16))
    with open_store(StoreConfig(uri=place.store)) as store:
        record = store.run(after)
        comparison = stored_comparison(store, record)
    assert record.config[SUITE] == {"name": "clerk", "version": new, "conversations": "new"}
    assert comparison is not None
    assert comparison.baseline_run_id == before
    assert comparison.verdict.ending == "regressed"  # although the suite grew, and its file changed
    assert (comparison.case_counts.matched, comparison.case_counts.candidate_only) == (12, 4)
    assert any(f"from version {old} to {new}" in warning for warning in comparison.warnings)


def test_retired_cases_are_kept_and_not_read(place: Place):
    suite = read_suite(place.suite)
    write_suite(place.suite, without(suite, {"c01"}))
    smaller = read_suite(place.suite)
    assert [case.case_id for case in smaller.retired] == ["c01"]
    assert smaller.version != suite.version
    run_id = judged(place.folder, place.store, place.suite)
    with open_store(StoreConfig(uri=place.store)) as store:
        assert store.table(run_id, "cases")["case_id"].to_list() == ["c00", "c02", "c03", "c04"]
    back = with_promoted(smaller, smaller.retired).suite
    assert back == suite
    assert back.version == suite.version


def test_the_lines_of_a_suite_are_ground_truth(place: Place):
    path = place.suite / "cases.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["expected"] = {"outcomes": ["The clerk says sorry."], "said": ["[sorry]"]}
    path.write_text("\n".join(map(json.dumps, lines)))
    run_id = place.night(1, cases=[0, 1, 11])
    with open_store(StoreConfig(uri=place.store)) as store:
        plan = store.run(run_id).plan
    assert plan["truth"] == {
        "rows": 5,
        "joined": 2,
        "rows_without_case": 3,
        "cases_without_row": 1,
    }
