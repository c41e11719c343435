"""What a report shows of the judges that gate: families, root causes, fixes, skips, costs."""

from __future__ import annotations

import os
from functools import cache
from itertools import cycle
from pathlib import Path

import polars as pl
import pytest
from bs4 import BeautifulSoup

from assizes.judge.verdicts.case_rows import (
    GENERATION_FIX,
    RETRIEVAL_FIX,
)
from assizes.tasks.reports import html_report, json_report, markdown_report, report_data
from tests.tasks.reports.render.hostile import PAYLOADS
from tests.tasks.reports.sample import Run, Said, run
from tests.tasks.reports.sample_families import families_run

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "reports" / "families.md"
RUN = families_run()
DATA = RUN.data()
REASONS = RUN.frames["scores"]["reason"].count()
"""Places for a text of others in one page."""


def page(of: Run) -> BeautifulSoup:
    return BeautifulSoup(html_report(of.data()), "html.parser")


def cells(table) -> list[list[str]]:
    return [
        [cell.get_text(" ", strip=True) for cell in row.find_all(["th", "td"])]
        for row in table.select("tbody tr")
    ]


def test_the_report_of_all_families_reads_as_agreed():
    text = markdown_report(DATA)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(text, "utf-8")
    assert text == GOLDEN.read_text("utf-8")


def test_each_family_has_a_table_of_its_own_metrics():
    assert [one["family"] for one in DATA["families"]] == [
        "conversation",
        "judges",
        "quality",
        "measured",
    ]
    by_metric = {one["metric"]: one["family"] for one in DATA["metrics"]}
    assert by_metric == {
        "tool_routing": "conversation",
        "sql": "judges",
        "correctness": "quality",
        "context_sufficiency": "quality",
        "safety": "quality",
        "document_recall": "measured",
        "total_token_count": "measured",
    }
    tables = page(RUN).select('[aria-label^="Metrics: "]')
    assert [sorted(row[0] for row in cells(table)) for table in tables] == [
        ["tool_ routing"],
        ["sql"],
        ["context_ sufficiency", "correctness", "safety"],
        ["document_ recall", "total_ token_ count"],
    ]


def test_one_family_alone_needs_no_heading():
    alone = run([Said("a", (5, 5))])
    assert "### Conversation" not in markdown_report(alone.data())
    assert "### Quality" in markdown_report(DATA)


@pytest.mark.row("004-95")
def test_root_causes_are_counted_with_what_to_try():
    assert DATA["root_causes"] == [
        {"name": "context_sufficiency", "count": 1, "suggested_fix": RETRIEVAL_FIX},
        {"name": "correctness", "count": 1, "suggested_fix": GENERATION_FIX},
    ]
    (table,) = page(RUN).select('[aria-labelledby="root-causes"]')
    assert cells(table) == [
        ["context_ sufficiency", "1", RETRIEVAL_FIX],
        ["correctness", "1", GENERATION_FIX],
    ]


@pytest.mark.row("004-03", "004-04")
def test_a_failed_case_shows_its_root_cause_and_the_fix():
    found = {
        case["case_id"]: (case["root_cause"], case["suggested_fix"])
        for case in DATA["cases"]["read_first"]
    }
    assert found == {
        "wrong-answer": ("correctness", GENERATION_FIX),
        "too-little-found": ("context_sufficiency", RETRIEVAL_FIX),
        "all-good": (None, None),
    }
    lines = markdown_report(DATA).splitlines()
    assert {"Root cause: `context_sufficiency`", f"Try: {RETRIEVAL_FIX}"} <= set(lines)
    shown = page(RUN).select_one("#read-first").get_text(" ", strip=True)
    assert f"Root cause: correctness Try: {GENERATION_FIX}" in shown
    assert shown.count("Root cause: ") == 2


def test_a_rationale_is_shown_whatever_its_judge_calls_it():
    (case,) = (one for one in DATA["cases"]["read_first"] if one["case_id"] == "all-good")
    said = {one["metric"]: one["justification"] for one in case["findings"]}
    assert said["tool_routing"] == "Every call was right."
    assert said["sql"] == "Result Match: 0.90"
    assert said["correctness"] == "It names the price."


def test_judges_that_did_not_apply_are_listed_with_their_reason():
    assert DATA["skipped"] == {
        "more": 0,
        "shown": [
            {"judge": "agent_usage", "metrics": ["total_token_count"], "reason": "no trace"}
            | {"count": 1},
            {"judge": "context_sufficiency", "metrics": []}
            | {"reason": "missing input: expected_response", "count": 1},
            {"judge": "document_recall", "metrics": []}
            | {"reason": "missing input: expected_response", "count": 1},
            {"judge": "sql", "metrics": [], "reason": "expected.sql is not given", "count": 1},
        ],
    }
    (table,) = page(RUN).select("#skipped table")
    assert cells(table)[0] == ["agent_ usage", "total_ token_ count", "no trace", "1"]


def test_a_judge_whose_metrics_share_a_reason_takes_one_line():
    rows = run([Said("a", (5, 5)), Said("b", (5, 5))])
    skipped = rows.frames["scores"].with_columns(
        status=rows.frames["scores"]["status"].replace("scored", "skipped"),
        reason=rows.frames["scores"]["status"].replace("scored", "the chat was cut off"),
    )
    tables = (rows.frames["cases"], skipped, rows.frames["asks"])
    assert report_data(rows.record, rows.summary, *tables)["skipped"]["shown"] == [
        {
            "judge": "conversation",
            "metrics": ["response_delivery", "task_completion", "tool_routing"],
            "reason": "the chat was cut off",
            "count": 2,
        }
    ]


def test_the_cost_is_split_by_judge_the_dearest_first():
    spent = [(one["judge"], one["asks"], one["cost_usd"]) for one in DATA["judges"]]
    assert spent == [("conversation", 3, 0.09), ("correctness", 3, 0.03), ("safety", 3, None)]
    (table,) = page(RUN).select('[aria-labelledby="judge-costs"]')
    assert cells(table)[-1] == ["safety", "3", "3", "300", "60", "unknown"]


def test_published_numbers_stand_under_their_names():
    assert DATA["published"] == [
        {"name": "agent/total_token_count/average", "value": 350.5},
        {"name": "response/llm_judged/correctness/rating/percentage", "value": 0.333333333},
        {"name": "response/llm_judged/safety/rating/percentage", "value": 1.0},
        {"name": "response/overall_assessment/rating/percentage", "value": 0.333333333},
        {"name": "retrieval/ground_truth/document_recall/average", "value": 0.75},
        {"name": "retrieval/llm_judged/context_sufficiency/rating/percentage", "value": 0.5},
    ]


def test_published_numbers_are_a_table_of_the_page():
    (table,) = page(RUN).select("#published table")
    assert [(row[0].replace(" ", ""), row[1]) for row in cells(table)][:2] == [
        ("agent/total_token_count/average", "350.5000"),
        ("response/llm_judged/correctness/rating/percentage", "0.3333"),
    ]


def test_the_order_of_the_rows_does_not_change_a_byte():
    shuffled = {
        name: rows.sample(fraction=1, shuffle=True, seed=5) for name, rows in RUN.frames.items()
    }
    tables = (shuffled[name] for name in ("cases", "scores", "asks"))
    assert json_report(report_data(RUN.record, RUN.summary, *tables)) == json_report(DATA)


@cache
def tags_of_the_page() -> set[str]:
    return {tag.name for tag in page(RUN).find_all(True)}


@pytest.mark.promised
@pytest.mark.parametrize("start", range(0, len(PAYLOADS), REASONS))
def test_a_reason_of_a_skip_makes_no_markup(start: int):
    of, scores = RUN, RUN.frames["scores"]
    payloads = cycle(PAYLOADS[start : start + REASONS])
    hostile = [None if reason is None else next(payloads) for reason in scores["reason"]]
    tables = (
        of.frames["cases"],
        scores.with_columns(reason=pl.Series(hostile, dtype=pl.String)),
        of.frames["asks"],
    )
    found = report_data(of.record, of.summary, *tables)
    tags = {tag.name for tag in BeautifulSoup(html_report(found), "html.parser").find_all(True)}
    assert tags == tags_of_the_page()
