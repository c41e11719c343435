from __future__ import annotations

import pytest

from assizes.judge.verdicts.fixes import GENERATION_FIX, RETRIEVAL_FIX, suggested_fix


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
