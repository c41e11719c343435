"""The numbers of a run under the names of seed 004, and the overall assessment of its cases."""

from __future__ import annotations

import pytest
from scipy import stats

from assizes.judge.rows import as_json
from assizes.judge.score import Metric, Scale
from assizes.judge.summary.headlines import OVERALL, overall_assessments
from assizes.judge.summary.run_summary import RunSummary, run_metrics
from assizes.judge.summary.summary import summarise
from tests.judge.run_frames import case_row, config, fraction_row, lazy, score_row
from tests.judge.verdicts.quality_scores import Promising

RATED = ("context_sufficiency", "correctness", "relevance_to_query", "groundedness")
STEPS = {"context_sufficiency": "retrieval"}
RATING = {
    name: f"{STEPS.get(name, 'response')}/llm_judged/{name}/rating/percentage" for name in RATED
}
SAFETY = (
    "response/llm_judged/safety/rating/average",
    "response/llm_judged/safety/rating/percentage",
)
PRECISION = "retrieval/llm_judged/chunk_relevance/precision/average"
RECALL = "retrieval/ground_truth/document_recall/average"
AMOUNTS = {
    "total_token_count": "agent/total_token_count/average",
    "total_input_token_count": "agent/input_token_count/average",
    "total_output_token_count": "agent/output_token_count/average",
    "latency_seconds": "agent/latency_seconds/average",
}
JUDGE = Promising(
    "rag",
    (
        *(Metric(n, Scale.YES_NO, gate="quality", run_names=(RATING[n],)) for n in RATED),
        Metric("safety", Scale.YES_NO, gate="quality", run_names=SAFETY),
        Metric("chunk_relevance", gate="quality", run_names=(PRECISION,)),
        Metric("document_recall", run_names=(RECALL,)),
        *(Metric(n, Scale.AMOUNT, run_names=(name,)) for n, name in AMOUNTS.items()),
    ),
)


def yes_no(case_id: str, metric: str, rating: str | None, why: str = ""):
    """A row of a quality judge; `None`: the judge failed."""
    if rating is None:
        return score_row(case_id, metric, raw=None, judge="rag", weight=None, tier=None)
    yes = rating == "yes"
    fields = {"label": rating, "passed": yes, "details": as_json({"rationale": why})}
    return fraction_row(case_id, metric, float(yes), judge="rag", **fields)


def share(case_id: str, metric: str, value: float | None):
    if value is None:
        return yes_no(case_id, metric, None)
    return fraction_row(case_id, metric, value, judge="rag", passed=value > 0)


def amount(case_id: str, metric: str, raw: float | None):
    if raw is None:
        reason = {"status": "skipped", "reason": "no trace", "raw": None, "value": None}
        return fraction_row(case_id, metric, 0.0, judge="rag") | reason
    return fraction_row(case_id, metric, raw, judge="rag", value=None)


def summed(*scores, cases=()) -> RunSummary:
    """Of a run in which the judge did not apply wherever no score of it is given."""
    ids = sorted({row["case_id"] for row in (*cases, *scores)})
    cases = cases or [case_row(case_id) for case_id in ids]
    found = {(row["case_id"], row["metric"]) for row in scores if not row["part"]}
    nothing = {"status": "skipped", "reason": "not asked", "raw": None, "value": None}
    skipped = [
        fraction_row(case_id, metric.name, 0.0, judge="rag") | nothing
        for case_id in ids
        for metric in JUDGE.metrics
        if (case_id, metric.name) not in found
    ]
    tables = (lazy("cases", cases), lazy("scores", [*scores, *skipped]), lazy("asks", []))
    return summarise(*tables, config(), {"read": len(cases)}, [JUDGE])


def published(*scores) -> dict[str, float]:
    return summed(*scores).published


@pytest.mark.row("004-44", "004-47", "004-50", "004-52")
@pytest.mark.parametrize("metric", RATED)
@pytest.mark.parametrize(
    ("given", "share_of_yes"),
    [(("yes", "no", "yes", None), 0.666666667), (("yes", "no"), 0.5), (("no",), 0.0)],
)
def test_the_percentage_of_a_yes_no_judge_is_the_share_of_yes_among_the_rated(
    metric, given, share_of_yes
):
    rows = [yes_no(f"c{place}", metric, rating) for place, rating in enumerate(given)]
    assert published(*rows)[RATING[metric]] == share_of_yes


@pytest.mark.row("004-54")
def test_safety_is_published_as_an_average_and_as_an_equal_percentage():
    rows = [yes_no(f"c{i}", "safety", one) for i, one in enumerate(("yes", "yes", "no", "yes"))]
    assert published(*rows) == {**dict.fromkeys(SAFETY, 0.75), OVERALL: 0.75}


@pytest.mark.row("004-38")
def test_the_precision_of_a_run_is_the_mean_over_the_cases_that_have_one():
    rows = [share(f"c{i}", "chunk_relevance", one) for i, one in enumerate((0.75, 0.25, None))]
    assert published(*rows)[PRECISION] == 0.5


@pytest.mark.row("004-40")
def test_the_recall_of_a_run_is_the_mean_of_its_cases():
    rows = [share(f"c{i}", "document_recall", one) for i, one in enumerate((0.5, 1.0))]
    assert published(*rows) == {RECALL: 0.75}


@pytest.mark.row("004-61", "004-62", "004-63", "004-64")
@pytest.mark.parametrize(
    ("metric", "given", "average"),
    [
        ("total_token_count", (10, 11), 10.5),
        ("total_input_token_count", (7, 8), 7.5),
        ("total_output_token_count", (3, 3), 3.0),
        ("latency_seconds", (1.0, 2.0, None), 1.5),
    ],
)
def test_amounts_are_averaged_in_their_own_unit(metric, given, average):
    rows = [amount(f"c{place}", metric, raw) for place, raw in enumerate(given)]
    assert published(*rows) == {AMOUNTS[metric]: average}


@pytest.mark.row("004-67")
def test_a_metric_that_nobody_rated_is_not_published():
    lost = [yes_no("a", "correctness", None), share("a", "chunk_relevance", None)]
    summary = summed(*lost, amount("a", "latency_seconds", None))
    assert summary.published == {}
    assert not {RATING["correctness"], PRECISION, OVERALL} & run_metrics(summary).keys()


@pytest.mark.row("004-65")
def test_the_overall_percentage_is_the_share_of_yes_among_the_decided_cases():
    rows = [
        *(yes_no("good", metric, "yes") for metric in RATED),
        yes_no("bad", "safety", "yes"),
        yes_no("bad", "correctness", "no"),
        yes_no("open", "safety", "yes"),
        yes_no("open", "correctness", None),
    ]
    assert published(*rows)[OVERALL] == 0.5


def test_without_quality_judges_there_is_no_overall_percentage():
    assert OVERALL not in published(share("a", "document_recall", 1.0))


def test_published_numbers_are_run_metrics_under_their_bare_names():
    summary = summed(yes_no("a", "correctness", "yes"))
    numbers = run_metrics(summary)
    assert {name: numbers[name] for name in summary.published} == {
        RATING["correctness"]: 1.0,
        OVERALL: 1.0,
    }
    assert RunSummary.model_validate(summary.model_dump(mode="json")) == summary


@pytest.mark.row("004-03", "004-66")
def test_each_case_has_a_rating_a_root_cause_and_its_rationale():
    cases = [
        case_row("bad", False, gate="quality", root_cause="groundedness"),
        case_row("good", True, gate="quality"),
        case_row("open", None, gate="error", status="errored"),
        case_row("other", True),
    ]
    scores = [
        yes_no("bad", "correctness", "no", "wrong price"),
        yes_no("bad", "groundedness", "no", "not in the passages"),
        yes_no("good", "correctness", "yes", "right"),
        yes_no("open", "correctness", None),
        share("other", "document_recall", 1.0),
    ]
    found = overall_assessments(
        lazy("cases", cases), lazy("scores", scores), summed(*scores, cases=cases).metrics
    ).collect()
    assert found.rows(named=True) == [
        {
            "case_id": case_id,
            "repetition": 0,
            "response/overall_assessment/rating": rating,
            "response/overall_assessment/rationale": why,
            "root_cause": cause,
        }
        for case_id, rating, why, cause in (
            ("bad", "no", "not in the passages", "groundedness"),
            ("good", "yes", None, None),
            ("open", None, None, None),
        )
    ]


def test_the_overall_assessment_has_the_interval_of_a_share_and_what_could_not_be_had():
    cases = [case_row(f"c{i}") for i in range(22)]
    ratings = ["yes"] * 18 + ["no"] * 2 + [None] * 2
    scores = [yes_no(f"c{i}", "correctness", one) for i, one in enumerate(ratings)]
    found = summed(*scores, cases=cases).intervals[OVERALL]
    wilson = stats.binomtest(18, 20).proportion_ci(0.95, method="wilson")
    assert (found.low, found.high) == pytest.approx(tuple(wilson), abs=1e-9)
    assert (found.coverage, found.cases) == (pytest.approx(20 / 22), 20)
    assert (found.worst, found.best) == pytest.approx((18 / 22, 20 / 22))
