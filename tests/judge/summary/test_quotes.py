"""Findings that quote what is not there, counted by judge and model."""

from __future__ import annotations

import json

import polars as pl

from assizes.judge.summary.quotes import quote_counts, quote_lines

CASES = [
    {"case_id": f"c{n}", "repetition": 0, "flags": ["unsupported_quote"][: n % 2]} for n in range(4)
]


def scores(judge: str, misquoting: int) -> list[dict[str, object]]:
    return [
        {
            "case_id": f"c{n}",
            "repetition": 0,
            "judge": judge,
            "status": "scored",
            "details": json.dumps({"unsupported_quote": ["x y z"]} if n < misquoting else {}),
        }
        for n in range(4)
    ]


def asks(judge: str, model: str, provider: str = "openai") -> list[dict[str, object]]:
    return [
        {
            "case_id": f"c{n}",
            "repetition": 0,
            "judge": judge,
            "model": model,
            "provider": provider,
            "error": None,
        }
        for n in range(4)
    ]


def counts(cases: list[dict[str, object]] = CASES):
    return quote_counts(
        pl.LazyFrame(cases),
        pl.LazyFrame([*scores("one", 3), *scores("two", 0), *scores("three", 1)]),
        pl.LazyFrame(
            [
                *asks("one", "openai/a"),
                *asks("two", "openai/a"),
                *asks("two", "openai/b"),
                *asks("three", "offline/lexical", "offline"),
            ],
            schema_overrides={"error": pl.String},
        ),
    )


def test_findings_are_counted_by_judge_and_all_models_that_answered_it():
    found = [(c.judge, c.model, c.findings, c.unsupported) for c in counts()]
    assert found == [("one", "openai/a", 4, 3), ("two", "openai/a, openai/b", 4, 0)]


def test_a_warning_names_each_judge_and_model_that_misquotes():
    (line,) = quote_lines(counts())
    assert line.startswith("unsupported_quote: 3 of 4 findings of one with openai/a quote words")


def test_scores_are_not_read_where_no_case_is_flagged():
    unflagged = pl.LazyFrame(
        [{**case, "flags": []} for case in CASES], schema_overrides={"flags": pl.List(pl.String)}
    )
    assert quote_counts(unflagged, pl.LazyFrame(), pl.LazyFrame()) == ()
