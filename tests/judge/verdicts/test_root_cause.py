from __future__ import annotations

from itertools import combinations

import pytest

from assizes.judge.verdicts.case_rows import (
    GENERATION_FIX,
    RETRIEVAL_FIX,
    suggested_fix,
)
from assizes.judge.verdicts.verdict import (
    rationale,
    root_cause,
)
from tests.judge.verdicts.quality_scores import QUALITY

DECLARED = ("tone", *QUALITY, "brevity")


@pytest.mark.row("004-19", "004-20", "004-21", "004-22", "004-23")
@pytest.mark.parametrize(
    ("failed", "cause"),
    [
        (("correctness", "context_sufficiency"), "context_sufficiency"),
        (("groundedness", "correctness"), "groundedness"),
        (("correctness", "safety"), "correctness"),
        (("tone", "safety"), "safety"),
        (("brevity", "tone"), "tone"),
        (("brevity",), "brevity"),
    ],
)
def test_with_ground_truth_the_first_of_its_list_is_named(failed, cause):
    assert root_cause(failed, DECLARED, has_ground_truth=True) == cause


@pytest.mark.row("004-24", "004-25", "004-26", "004-27")
@pytest.mark.parametrize(
    ("failed", "cause"),
    [
        (("groundedness", "chunk_relevance"), "chunk_relevance"),
        (("relevance_to_query", "groundedness"), "groundedness"),
        (("safety", "relevance_to_query"), "relevance_to_query"),
        (("tone", "safety"), "safety"),
        (("brevity", "tone"), "tone"),
    ],
)
def test_without_ground_truth_the_first_of_the_other_list_is_named(failed, cause):
    assert root_cause(failed, DECLARED, has_ground_truth=False) == cause


@pytest.mark.row("004-28")
@pytest.mark.parametrize(
    ("failed", "has_ground_truth", "cause"),
    [
        (("relevance_to_query",), True, "relevance_to_query"),
        (("relevance_to_query", "chunk_relevance"), True, "chunk_relevance"),
        (("relevance_to_query", "tone"), True, "tone"),
        (("correctness", "context_sufficiency"), False, "context_sufficiency"),
        (("correctness",), False, "correctness"),
    ],
)
def test_a_judge_that_no_list_names_is_the_cause_where_nothing_else_failed(
    failed, has_ground_truth, cause
):
    assert root_cause(failed, DECLARED, has_ground_truth=has_ground_truth) == cause


@pytest.mark.row("004-28")
@pytest.mark.parametrize("has_ground_truth", [True, False])
def test_whatever_failed_has_a_cause_among_the_failed(has_ground_truth):
    for size in (1, 2, 3):
        for failed in combinations(DECLARED, size):
            cause = root_cause(failed, DECLARED, has_ground_truth=has_ground_truth)
            assert cause in failed


def test_without_a_failure_there_is_no_cause():
    assert root_cause((), DECLARED, has_ground_truth=True) is None


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ({"justification": "a", "rationale": "b"}, "a"),
        ({"rationale": "b"}, "b"),
        ({"reasoning": "c", "explanation": "d"}, "c"),
        ({"reasoning": ["c"], "reason": "e"}, "e"),
        ({"rationale": ""}, ""),
        ({}, ""),
    ],
)
def test_a_rationale_is_read_under_any_of_its_names(details, said):
    assert rationale(details) == said


@pytest.mark.row("004-04")
@pytest.mark.parametrize(
    ("cause", "fix"),
    [
        ("context_sufficiency", RETRIEVAL_FIX),
        ("chunk_relevance", RETRIEVAL_FIX),
        ("groundedness", GENERATION_FIX),
        ("correctness", GENERATION_FIX),
        ("relevance_to_query", GENERATION_FIX),
        ("safety", GENERATION_FIX),
        ("tone", GENERATION_FIX),
    ],
)
def test_a_fix_is_one_of_retrieval_or_of_generation(cause, fix):
    assert suggested_fix(cause) == fix
    assert RETRIEVAL_FIX != GENERATION_FIX


@pytest.mark.row("004-04")
@pytest.mark.parametrize(
    ("run_name", "fix"),
    [
        ("retrieval/llm_judged/freshness/precision/average", RETRIEVAL_FIX),
        ("response/llm_judged/freshness/rating/percentage", GENERATION_FIX),
    ],
)
def test_the_fix_of_a_custom_judge_follows_from_what_it_is_published_under(run_name, fix):
    assert suggested_fix("freshness", (run_name,)) == fix
