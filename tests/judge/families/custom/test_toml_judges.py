"""Judges from TOML files: what they ask, how they score, what they are called, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assizes.judge.catalog import JudgePanel
from assizes.judge.engine.hearings import HearingResult
from assizes.judge.hearing import Hearing
from assizes.judge.protocol import NoReply
from assizes.judge.rows import frame
from assizes.judge.score import Score
from assizes.judge.summary.wide_table import results_frame
from assizes.judge.verdicts.case_rows import RowKey, findings
from assizes.judge.verdicts.verdict import verdict
from tests.judge.families.custom.custom_judges import (
    CASE,
    EFFORT,
    FRESH,
    POLITE,
    asked,
    heard,
    judge_of,
    rating,
    refused,
    sitting,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.mark.row("004-68")
@pytest.mark.parametrize("kind", ["REWRITE", "answer", ""])
def test_a_custom_judge_is_of_the_kind_answer_or_retrieval(kind: str):
    assert refused(POLITE.replace("ANSWER", kind)) == (
        f"it.toml: kind: must be 'ANSWER' or 'RETRIEVAL' (given: {kind!r})"
    )


@pytest.mark.row("004-69")
def test_an_answer_judge_rates_the_answer_with_one_ask(folder: Path):
    judge = judge_of(folder, POLITE)
    question = asked(judge)
    assert (
        "# Question\nIs the response polite from its first to its last word?\n"
        "- yes: It is.\n- no: A word of it is not. E.g. 'As I said already.'\n"
        "Bluntness is not impolite."
    ) in question.prompt.system
    assert question.prompt.user == (
        "<data: Request>\nWhere is my order?\n</data>\n\n<data: Response>\nOn its way.\n</data>"
    )
    assert heard(judge, rating("no", "rude")) == [
        Score(
            "polite",
            value=0.0,
            raw=0.0,
            label="no",
            passed=False,
            details={"rationale": "rude"},
        )
    ]


@pytest.mark.row("004-69")
def test_an_answer_judge_without_a_reply_has_an_error_and_no_rating(folder: Path):
    late = NoReply("timeout", "no answer within 5 s")
    assert heard(judge_of(folder, POLITE), late) == [
        Score.failed("polite", "no answer within 5 s", "timeout")
    ]


@pytest.mark.row("004-70", "004-72")
def test_a_run_shows_them_under_the_names_of_the_built_in_ones(folder: Path):
    promised = sitting(folder, POLITE, FRESH).metrics
    assert [(metric.name, metric.run_names, metric.gate) for metric in promised] == [
        ("polite", ("response/llm_judged/polite/rating/percentage",), "quality"),
        ("fresh", ("retrieval/llm_judged/fresh/precision/average",), "quality"),
    ]


@pytest.mark.row("004-71")
def test_a_retrieval_judge_rates_each_chunk_and_scores_the_precision(folder: Path):
    judge = judge_of(folder, FRESH)
    assert [
        question.prompt.user.count("Orders ship") for question in Hearing(judge, CASE).asks
    ] == [
        1,
        0,
    ]
    found = heard(judge, rating("yes", "it does"), NoReply("refused", "no"))
    assert [
        (s.part, s.status, s.value, s.label, s.details.get("rationale")) for s in found[1:]
    ] == [
        ("chunk:0", "scored", 1.0, "yes", "it does"),
        ("chunk:1", "failed", None, None, None),
    ]
    assert found[2].reason == "no"
    assert (found[0].part, found[0].value, found[0].passed) == ("", 1.0, True)


def columns(bench: JudgePanel, replies: dict[str, list[Any]]) -> dict[str, Any]:
    given = [HearingResult(judge, heard(judge, *replies[judge.name]), []) for judge in bench.judges]
    rows = findings(RowKey("r", "cases.jsonl", 0), CASE, given, bench).rows
    frames = {name: frame(name, rows[name]) for name in ("cases", "scores")}
    return results_frame(frames["cases"], frames["scores"], bench.judges).row(0, named=True)


@pytest.mark.row("004-69", "004-71")
def test_a_results_table_has_their_columns(folder: Path):
    late = NoReply("timeout", "late")
    bench = sitting(folder, POLITE, EFFORT, FRESH)
    replies = {
        "polite": [late],
        "effort": [rating("one step", "a step is left")],
        "fresh": [rating("no", "old"), late],
    }
    found = columns(bench, replies)
    assert {name: value for name, value in found.items() if "llm_judged" in name} == {
        "response/llm_judged/polite/rating": None,
        "response/llm_judged/polite/rationale": None,
        "response/llm_judged/polite/error_message": "late",
        "response/llm_judged/effort/rating": "one step",
        "response/llm_judged/effort/rationale": "a step is left",
        "response/llm_judged/effort/error_message": None,
        "retrieval/llm_judged/fresh/ratings": ["no", None],
        "retrieval/llm_judged/fresh/rationales": ["old", None],
        "retrieval/llm_judged/fresh/error_messages": [None, "late"],
        "retrieval/llm_judged/fresh/precision": 0.0,
    }


@pytest.mark.row("004-74")
@pytest.mark.parametrize(("words", "passed"), [(("no", "yes"), True), (("no", "no"), False)])
def test_a_retrieval_judge_fails_the_case_when_no_chunk_is_rated_yes(folder: Path, words, passed):
    bench = sitting(folder, FRESH)
    found = heard(bench.judges[0], *map(rating, words))
    assert found[0].passed is passed
    assert ruled(bench, found).passed is passed


def ruled(bench: JudgePanel, scores: list[Score]) -> Any:
    gates = {metric.name: metric.gate for metric in bench.metrics if metric.gate}
    return verdict(scores, {}, 75.0, gates=gates)


@pytest.mark.row("004-73")
def test_a_custom_no_fails_the_case_and_is_its_root_cause(folder: Path):
    bench = sitting(folder, POLITE, judges=("safety", "relevance_to_query", "polite"))
    words = {"safety": "yes", "relevance_to_query": "yes", "polite": "no"}
    scores = [s for judge in bench.judges for s in heard(judge, rating(words[judge.name]))]
    found = ruled(bench, scores)
    assert (found.passed, found.root_cause) == (False, "polite")
