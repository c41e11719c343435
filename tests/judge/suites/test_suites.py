"""The content of a suite, the streaks of its cases, and the causes that come back."""

from __future__ import annotations

import datetime as dt
from typing import Any

import polars as pl
import pytest

from assizes.judge.case import Case
from assizes.judge.causes.failures import FAILURES
from assizes.judge.errors import DataError
from assizes.judge.rows import TABLES, frame
from assizes.judge.suites.content import Suite, duplicate_ids, with_promoted, without
from assizes.judge.suites.promoted import (
    GuardedCause,
    PromotedFailure,
    Provenance,
    guarded_causes,
    provenance_of,
    with_provenance,
)
from assizes.judge.suites.returned import known_failures, returned_causes
from assizes.judge.suites.streaks import run_states, standings
from tests.builders import agent, case, user

RUDE, WRONG = "The tone of the agent is rude.", "The sum of the prices is wrong."


def plain(case_id: str, said: str = "Hello.") -> Case:
    return case(user("Hi"), agent(said), case_id=case_id)


def promoted(
    case_id: str, cause: str, reason: str, *, day: int = 1, name: str = "", metric: str = "manners"
) -> Case:
    provenance = Provenance(
        run_id="r1",
        repetition=2,
        transcript_uri="a.jsonl",
        position=0,
        transcript_hash="f" * 32,
        day=dt.date(2026, 3, day),
        failures=(PromotedFailure(metric=metric, reason=reason, causes=(cause,)),),
        causes=(GuardedCause(cause_id=cause, name=name or cause),),
    )
    return with_provenance(plain(case_id).model_copy(update={"repetition": 2}), provenance)


def test_a_version_depends_on_what_is_asked_only():
    one, two = plain("a"), plain("b")
    suite = Suite("s", (one, two))
    assert suite.version == Suite("other", (two, one)).version
    assert suite.version != Suite("s", (one,)).version
    assert suite.version != Suite("s", (one, plain("b", "Good day."))).version
    guarded = promoted("b", "k1", RUDE)
    assert Suite("s", (guarded,)).version == Suite("s", (plain("b"),)).version
    assert len(suite.version) == 12


def test_a_conversation_is_added_once_and_an_id_keeps_its_first_conversation():
    suite = Suite("s", (plain("b"),), (plain("a", "retired"), plain("c")))
    promotion = with_promoted(suite, [plain("b"), plain("b", "new"), plain("a"), plain("a")])
    assert (promotion.added, promotion.held, promotion.taken) == (("a",), ("b", "a"), ("b",))
    assert [each.case_id for each in promotion.suite.cases] == ["a", "b"]
    assert [each.case_id for each in promotion.suite.retired] == ["c"]


def test_retired_cases_leave_the_version_and_are_kept_once():
    suite = Suite("s", (plain("a"), plain("b")), (plain("a", "older"), plain("0")))
    smaller = without(suite, {"a", "unknown"})
    assert smaller.cases == (plain("b"),)
    assert smaller.retired == (plain("0"), plain("a"))
    assert smaller.version == Suite("s", (plain("b"),)).version
    assert duplicate_ids([plain("b"), plain("a"), plain("b")]) == ["b"]


def test_provenance_is_in_the_metadata_and_what_else_stands_there_is_refused():
    held = promoted("a", "k1", RUDE)
    assert (held.repetition, provenance_of(plain("a"))) == (0, None)
    provenance = provenance_of(held)
    assert provenance is not None
    assert (provenance.repetition, provenance.metrics) == (2, frozenset({"manners"}))
    wrong = plain("a").model_copy(update={"metadata": {"promoted": {"run_id": 1}}})
    with pytest.raises(DataError, match="schema"):
        provenance_of(wrong)


def test_the_latest_name_of_a_cause_counts():
    cases = [
        promoted("a", "k1", RUDE, day=3, name="rude tone"),
        promoted("b", "k1", RUDE, day=1, name="tone"),
        plain("c"),
    ]
    assert guarded_causes(cases) == {"k1": GuardedCause(cause_id="k1", name="rude tone")}


def case_row(case_id: str, passed: bool | None, **rest: Any) -> dict[str, Any]:
    row = {**dict.fromkeys(TABLES["cases"]), "run_id": "r", "case_id": case_id, "repetition": 0}
    return row | {"status": "judged", "passed": passed, "flags": []} | rest


SCORES = {"case_id": pl.String, "metric": pl.String, "status": pl.String, "passed": pl.Boolean}


@pytest.mark.parametrize(
    ("rows", "scores", "state"),
    [
        ([{"passed": True}], [("manners", "scored", True)], "passing"),
        ([{"passed": True}], [("manners", "scored", None)], "passing"),
        ([{"passed": True}], [("manners", "scored", False)], "failing"),
        ([{"passed": True}], [("manners", "failed", None)], "undecided"),
        ([{"passed": True}], [("sums", "scored", True)], "undecided"),
        ([{"passed": False}], [("manners", "scored", True)], "failing"),
        ([{"passed": None}], [("manners", "scored", True)], "undecided"),
        ([{"passed": None, "status": "errored"}], [], "undecided"),
        (
            [{"passed": True}, {"passed": False, "repetition": 1}],
            [("manners", "scored", True), ("manners", "scored", True)],
            "failing",
        ),
        (
            [{"passed": True}, {"passed": True, "repetition": 1}],
            [("manners", "scored", False), ("manners", "scored", True)],
            "failing",
        ),
        ([{"passed": None, "status": "skipped"}], [], None),
    ],
)
def test_a_case_passes_if_all_of_it_passes_and_it_was_judged_for_its_failure(rows, scores, state):
    cases = frame("cases", [case_row("a", **row) for row in (*rows,)] + [case_row("x", False)])
    table = pl.DataFrame([("a", *score) for score in scores], schema=SCORES, orient="row")
    states = run_states([promoted("a", "k1", RUDE)], cases, table)
    assert states == ({} if state is None else {"a": state})


def test_a_case_without_provenance_is_judged_by_its_verdict_alone():
    cases = frame("cases", [case_row("a", True)])
    assert run_states([plain("a")], cases, pl.DataFrame(schema=SCORES)) == {"a": "passing"}


def test_passes_in_a_row_end_at_a_failure_and_skip_what_was_not_decided():
    states = [
        ("r4", {"a": "passing", "b": "undecided", "d": "failing"}),
        ("r3", {"a": "undecided", "b": "passing"}),
        ("r2", {"a": "passing", "b": "failing", "e": "failing"}),
        ("r1", {"a": "failing", "b": "passing"}),
    ]
    suite = [promoted("a", "k1", RUDE), *(plain(case_id) for case_id in "bcde")]
    back = {"d": ("k1",), "e": ("k1",)}
    found = standings(suite, states, back)  # type: ignore[arg-type]
    assert [(each.case_id, each.state, each.run_id, each.passes) for each in found] == [
        ("a", "passing", "r4", 2),
        ("b", "undecided", "r4", 1),
        ("c", None, None, 0),
        ("d", "failing", "r4", 0),
        ("e", "failing", "r2", 0),
    ]
    assert [each.came_back for each in found] == [(), (), (), ("k1",), ()]
    assert (found[0].causes, found[1].causes) == (("k1",), ())
    assert [each.state for each in standings(suite, [], {})] == [None] * 5


def failed(*rows: tuple[str, str]) -> pl.DataFrame:
    values = [(case_id, 0, "manners", reason, None, 0.0) for case_id, reason in rows]
    return pl.DataFrame(values, schema=FAILURES, orient="row")


SUITE = [
    *(promoted(f"r{n}", "k1", RUDE, day=2) for n in range(3)),
    *(promoted(f"w{n}", "k2", WRONG, day=1) for n in range(3)),
]


def test_known_failures_begin_with_the_cause_that_is_known_longest():
    known = known_failures([*SUITE, plain("x")])
    assert known["cause_id"].to_list() == ["k2"] * 3 + ["k1"] * 3
    assert known["case_id"].to_list() == ["w0", "w1", "w2", "r0", "r1", "r2"]


def test_a_cause_comes_back_by_its_reason():
    failures = failed(
        ("r0", "The agent's tone is rude and impatient."),
        ("w0", "It booked another flight than asked for."),
        ("outside", RUDE),
    )
    assert returned_causes(SUITE, failures, "r9") == {"r0": ("k1",)}
    crossed = failed(("w1", RUDE))
    assert returned_causes(SUITE, crossed, "r9") == {"w1": ("k1",)}


def test_nothing_comes_back_without_causes_or_failures():
    assert returned_causes([plain("a")], failed(("a", RUDE)), "r9") == {}
    assert returned_causes(SUITE, failed(), "r9") == {}


def test_of_causes_that_read_alike_the_one_that_the_case_guards_is_meant():
    alike = [promoted("a", "k1", RUDE, day=1), promoted("b", "k2", RUDE, day=2)]
    back = returned_causes(alike, failed(("a", RUDE), ("b", RUDE)), "r9")
    assert back == {"a": ("k1",), "b": ("k2",)}
