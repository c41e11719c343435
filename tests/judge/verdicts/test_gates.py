"""The gates of all families, and the verdict where several families judge a case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.score import Metric, Scale, Score
from assizes.judge.verdicts.verdict import CaseVerdict, success, verdict
from tests.judge.verdicts.quality_scores import QUALITY, all_of, measured, precise, rated, ratings

JUDGES = all_of("judges", ("sql", "search", "answer_criteria"))
RAG = all_of("quality", (*QUALITY, "tone", "freshness"))
ROUTING = {"tool_routing": 1.0}
TIMEOUT = "timeout: {} (no answer in 120 s)"


def skipped(*names):
    return [Score.skipped(name, f"no {name} expected") for name in names]


def levelled(level):
    return Score.of(Metric("tool_routing", Scale.SCORED), level)


def by_judges(*scores):
    rest = JUDGES.keys() - {score.metric for score in scores}
    return verdict([*scores, *skipped(*sorted(rest))], {}, 75.0, JUDGES)


def by_quality(*scores, has_ground_truth=True):
    rest = RAG.keys() - {score.metric for score in scores}
    found = [*scores, *skipped(*sorted(rest))]
    return verdict(found, {}, 75.0, RAG, has_ground_truth=has_ground_truth)


def mixed(*scores, weights=ROUTING, gates=JUDGES | RAG):
    named = {score.metric for score in scores}
    rest = skipped(*sorted(gates.keys() - named))
    return verdict([*scores, *rest], weights, 75.0, gates, has_ground_truth=True)


@pytest.mark.row("002-57")
def test_a_case_passes_when_every_judge_that_applied_passed():
    assert by_judges(measured("sql", 0.8), measured("search", 0.65, threshold=0.6)) == CaseVerdict(
        overall_score=72.5,
        score_passed=None,
        passed=True,
        gate="all_judges",
        status="judged",
        error=None,
        root_cause=None,
        summary="PASSED (2 of 2 judges passed, mean 72.5)",
    )


@pytest.mark.row("002-57")
def test_one_judge_that_did_not_pass_fails_a_case_whatever_the_mean():
    found = by_judges(measured("sql", 1.0), measured("search", 0.59, threshold=0.6))
    assert (found.passed, found.overall_score, found.root_cause) == (False, 79.5, None)
    assert found.summary == "FAILED (1 of 2 judges passed, mean 79.5), failed search"


def test_the_mean_of_the_judges_has_two_decimals():
    scores = [measured("sql", 1.0), measured("search", 1.0), measured("answer_criteria", 0.0)]
    assert by_judges(*scores).overall_score == 66.67


@pytest.mark.row("002-58")
def test_a_case_to_which_no_judge_applies_is_skipped():
    assert by_judges() == CaseVerdict(
        overall_score=None,
        score_passed=None,
        passed=None,
        gate=None,
        status="skipped",
        error=None,
        root_cause=None,
        summary=("SKIPPED (no answer_criteria expected; no search expected; no sql expected)"),
    )


def test_many_reasons_for_a_skip_are_cut():
    scores = skipped("a", "b", "c", "d", "e")
    found = verdict(scores, {}, 75.0, all_of("quality", ("a", "b", "c", "d", "e")))
    assert found.summary == "SKIPPED (no a expected; no b expected; no c expected; and 2 more)"


@pytest.mark.row("002-59")
def test_turns_enter_the_case_through_the_mean_of_their_judge():
    turns = [
        Score.of(Metric("sql"), value, part=f"turn:{place}", passed=value >= 0.7)
        for place, value in enumerate((1.0, 0.5))
    ]
    found = by_judges(measured("sql", 0.75), *turns, measured("search", 0.85))
    assert (found.passed, found.overall_score) == (True, 80.0)


def test_a_judge_that_could_not_be_had_makes_the_case_errored():
    error = TIMEOUT.format("search")
    found = by_judges(measured("sql", 0.1), rated("search", None))
    assert found == CaseVerdict(
        None, None, False, "error", "errored", error, None, f"ERROR ({error})"
    )


def test_a_judge_that_gates_but_was_never_heard_makes_the_case_errored():
    found = verdict([measured("sql", 1.0)], {}, 75.0, all_of("judges", ("sql", "search")))
    assert (found.status, found.error) == ("errored", "missing_score: search (no judge scored it)")


def test_a_judge_without_pass_or_fail_does_not_pass_a_case():
    found = by_judges(measured("sql", 1.0), Score.of(Metric("search"), 1.0))
    assert (found.passed, found.status) == (False, "judged")


@pytest.mark.row("004-02", "004-16")
def test_a_case_passes_when_every_quality_judge_said_yes():
    found = by_quality(*ratings(**dict.fromkeys(QUALITY, "yes")))
    assert (found.passed, found.gate, found.root_cause) == (True, "quality", None)
    assert found.summary == "PASSED (6 of 6 quality judges said yes)"
    assert (found.overall_score, found.score_passed) == (None, None)


@pytest.mark.row("004-02", "004-03", "004-16")
@pytest.mark.parametrize("name", [*QUALITY, "tone"])
def test_one_no_fails_a_case_and_is_its_root_cause(name):
    yes = [one for one in ratings(**dict.fromkeys(QUALITY, "yes")) if one.metric != name]
    found = by_quality(*yes, rated(name, "no", "two\nreasons"))
    assert (found.passed, found.status, found.root_cause) == (False, "judged", name)
    assert found.summary.endswith(f"said yes), root cause {name} (two reasons)")


@pytest.mark.row("004-03", "004-21")
def test_the_summary_names_the_root_cause_with_its_rationale_and_then_the_others():
    found = by_quality(*ratings(safety="no", correctness="no", groundedness="yes"))
    assert found.summary == (
        "FAILED (1 of 3 quality judges said yes), root cause correctness (it said no), "
        "failed safety"
    )


@pytest.mark.row("004-17")
@pytest.mark.parametrize(
    ("chunks", "passed", "cause"),
    [
        ((False, False, True), True, None),
        ((False, False), False, "chunk_relevance"),
        ((), False, "chunk_relevance"),
    ],
)
def test_one_relevant_chunk_is_enough_and_none_is_too_few(chunks, passed, cause):
    found = by_quality(
        precise("chunk_relevance", *chunks), rated("safety", "yes"), has_ground_truth=False
    )
    assert (found.passed, found.root_cause) == (passed, cause)


@pytest.mark.row("004-17")
def test_a_case_without_retrieval_is_judged_by_the_others():
    found = by_quality(rated("safety", "yes"))
    assert (found.passed, found.summary) == (True, "PASSED (1 of 1 quality judge said yes)")


@pytest.mark.row("004-18")
def test_recall_is_not_part_of_quality():
    recall = Score.of(Metric("document_recall"), 0.0)
    assert by_quality(*ratings(correctness="yes", safety="yes"), recall).passed is True


@pytest.mark.row("004-19", "004-20", "004-21", "004-22")
@pytest.mark.parametrize(
    ("no", "cause"),
    [
        (("correctness", "context_sufficiency"), "context_sufficiency"),
        (("groundedness", "correctness"), "groundedness"),
        (("correctness", "safety"), "correctness"),
        (("safety", "tone"), "safety"),
    ],
)
def test_the_order_of_causes_with_ground_truth(no, cause):
    assert by_quality(*ratings(**dict.fromkeys(no, "no"))).root_cause == cause


@pytest.mark.row("004-24", "004-25", "004-26", "004-27")
@pytest.mark.parametrize(
    ("no", "cause"),
    [
        (("chunk_relevance", "groundedness"), "chunk_relevance"),
        (("groundedness", "relevance_to_query"), "groundedness"),
        (("relevance_to_query", "safety"), "relevance_to_query"),
        (("safety", "tone"), "safety"),
    ],
)
def test_the_order_of_causes_without_ground_truth(no, cause):
    found = by_quality(*ratings(**dict.fromkeys(no, "no")), has_ground_truth=False)
    assert found.root_cause == cause


@pytest.mark.row("004-23", "004-73")
def test_the_first_custom_judge_in_declaration_order_is_the_root_cause():
    found = by_quality(*ratings(freshness="no", safety="yes", tone="no"))
    assert (found.passed, found.root_cause) == (False, "tone")


@pytest.mark.row("004-74")
@pytest.mark.parametrize(("chunks", "passed"), [((False, True), True), ((False, False), False)])
def test_a_custom_retrieval_judge_fails_a_case_without_a_chunk_it_said_yes_to(chunks, passed):
    found = by_quality(precise("freshness", *chunks), rated("safety", "yes"))
    assert (found.passed, found.root_cause) == (passed, None if passed else "freshness")


@pytest.mark.row("004-28")
def test_a_failed_case_has_a_root_cause_though_no_list_names_it():
    found = by_quality(*ratings(relevance_to_query="no", correctness="yes"))
    assert (found.passed, found.root_cause) == (False, "relevance_to_query")


@pytest.mark.row("004-76", "004-77")
def test_an_error_without_a_no_leaves_quality_undecided():
    error = TIMEOUT.format("safety")
    found = by_quality(*ratings(safety=None, correctness="yes", groundedness="yes"))
    assert found == CaseVerdict(
        None, None, None, "error", "errored", error, None, f"ERROR ({error})"
    )


@pytest.mark.row("004-77", "004-78")
def test_a_no_beside_an_error_fails_the_case_and_only_the_no_is_the_cause():
    found = by_quality(*ratings(context_sufficiency=None, safety="no", correctness="yes"))
    assert (found.passed, found.status, found.gate) == (False, "judged", "quality")
    assert (found.root_cause, found.error) == ("safety", TIMEOUT.format("context_sufficiency"))
    assert found.summary == (
        "FAILED (1 of 2 quality judges said yes), root cause safety (it said no), "
        "could not be had: timeout: context_sufficiency (no answer in 120 s)"
    )


def test_a_quality_score_that_says_neither_yes_nor_no_decides_nothing():
    found = by_quality(Score.of(Metric("tone"), 0.4), rated("safety", "yes"))
    assert (found.passed, found.status, found.gate) == (None, "judged", "quality")
    assert found.summary == "NOT DECIDED (1 of 2 quality judges said yes)"


def test_a_conversation_and_judges_that_all_pass_decide_together():
    found = mixed(levelled(4), measured("sql", 0.9), rated("safety", "yes"))
    assert found == CaseVerdict(
        overall_score=80.0,
        score_passed=True,
        passed=True,
        gate="all",
        status="judged",
        error=None,
        root_cause=None,
        summary=(
            "PASSED (score 80.0, needs 75.0; 1 of 1 judge passed, mean 90.0; "
            "1 of 1 quality judge said yes)"
        ),
    )


@pytest.mark.parametrize(
    ("level", "sql", "safety", "gate"),
    [
        (3, 0.1, "no", "overall_score"),
        (4, 0.1, "no", "all_judges"),
        (4, 0.9, "no", "quality"),
        (3, 0.9, "yes", "overall_score"),
    ],
)
def test_the_first_family_that_failed_a_case_is_its_gate(level, sql, safety, gate):
    found = mixed(levelled(level), measured("sql", sql), rated("safety", safety))
    assert (found.passed, found.gate) == (False, gate)
    assert found.root_cause == ("safety" if safety == "no" else None)


def test_a_checklist_gates_a_mixed_court_in_place_of_the_score():
    outcomes = [
        Score("expected_outcomes", value=0.0, passed=False),
        Score("expected_outcomes", part="outcome:0", value=0.0, passed=False),
    ]
    found = mixed(levelled(5), *outcomes, rated("safety", "yes"))
    assert (found.passed, found.gate, found.overall_score) == (False, "expected_outcomes", 100.0)


def test_a_family_that_does_not_apply_has_no_say():
    found = mixed(levelled(4))
    assert (found.passed, found.gate) == (True, "overall_score")
    assert mixed(rated("safety", "yes"), weights={}).gate == "quality"


@pytest.mark.parametrize(
    ("scores", "passed", "error"),
    [
        ([levelled(4), rated("safety", None)], None, "safety"),
        ([levelled(4), rated("sql", None)], False, "sql"),
        ([rated("tool_routing", None), rated("safety", "yes")], False, "tool_routing"),
    ],
)
def test_a_family_that_could_not_be_had_leaves_a_mixed_case_errored(scores, passed, error):
    found = mixed(*scores)
    assert (found.status, found.gate, found.overall_score) == ("errored", "error", None)
    assert (found.passed, found.error) == (passed, TIMEOUT.format(error))


@pytest.mark.parametrize(
    ("scores", "gate"),
    [
        ([levelled(1), rated("safety", None)], "overall_score"),
        ([rated("tool_routing", None), rated("safety", "no")], "quality"),
        ([levelled(4), rated("sql", None), rated("safety", "no")], "quality"),
    ],
)
def test_what_one_family_failed_no_other_could_have_saved(scores, gate):
    found = mixed(*scores)
    assert (found.passed, found.status, found.gate) == (False, "judged", gate)
    assert found.error is not None
    assert "could not be had: timeout" in found.summary


def test_all_that_could_not_be_had_is_named_and_nothing_else_is_said_of_it():
    lost = mixed(rated("tool_routing", None), rated("sql", None))
    both = "; ".join(TIMEOUT.format(name) for name in ("tool_routing", "sql"))
    assert (lost.status, lost.passed, lost.error) == ("errored", False, both)
    assert mixed(rated("tool_routing", None), rated("safety", "no")).summary == (
        "FAILED (0 of 1 quality judge said yes), root cause safety (it said no), "
        f"could not be had: {TIMEOUT.format('tool_routing')}"
    )


def test_a_case_has_no_ground_truth_unless_that_is_said():
    scores = ratings(context_sufficiency="no", chunk_relevance="no")
    assert verdict(scores, {}, 75.0, RAG).root_cause == "chunk_relevance"


def test_the_mean_of_the_judges_never_stands_for_a_weighted_score():
    nothing = Score.skipped("tool_routing", "no tools")
    found = mixed(nothing, measured("sql", 0.9))
    assert (found.passed, found.gate, found.overall_score) == (True, "all_judges", None)


def test_ungated_findings_do_not_touch_a_gate():
    tokens = Score.of(Metric("total_token_count", Scale.AMOUNT), 350)
    lost = Score.failed("document_recall", "gone", "timeout")
    assert mixed(tokens, lost, rated("safety", "yes"), weights={}).passed is True
    assert mixed(tokens, weights={}).status == "skipped"


@pytest.mark.parametrize(
    ("label", "passed", "good"),
    [
        ("yes", None, True),
        ("no", None, False),
        ("pass", None, True),
        (None, None, None),
        ("no", True, True),
    ],
)
def test_a_finding_is_good_as_it_says_itself_or_by_its_word(label, passed, good):
    assert success(Score("m", value=0.5, label=label, passed=passed)) is good


RATING = st.sampled_from(["yes", "no", None, "skipped"])


@given(st.fixed_dictionaries(dict.fromkeys((*QUALITY, "tone"), RATING)), st.booleans())
def test_quality_follows_its_one_rule(drawn, has_ground_truth):
    given_ = {name: rating for name, rating in drawn.items() if rating != "skipped"}
    found = by_quality(*ratings(**given_), has_ground_truth=has_ground_truth)
    said = set(given_.values())
    if not given_:
        assert (found.passed, found.status) == (None, "skipped")
    elif "no" in said:
        assert (found.passed, found.status) == (False, "judged")
        assert given_[found.root_cause or ""] == "no"
    elif None in said:
        assert (found.passed, found.status, found.root_cause) == (None, "errored", None)
    else:
        assert (found.passed, found.status, found.root_cause) == (True, "judged", None)
