from __future__ import annotations

import json
import random
from fractions import Fraction

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.rows import frame
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.summary.summary import summarise
from tests.drawn import examples
from tests.judge.run_frames import (
    ask_row,
    case_row,
    config,
    repeated,
    score_row,
    scored,
    summary_of,
)

FEW = examples(40)


points = st.integers(0, 10_000).map(lambda cents: cents / 100)


@FEW
@given(st.lists(st.one_of(st.none(), points), max_size=30), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_change_the_summary(overall, rng: random.Random):
    cases = [
        case_row(
            f"c{i}",
            None if score is None else score >= 75,
            overall_score=score,
            agent_latency_ms=None if score is None else score * 7.77,
            agent_cost_usd=0.1,
        )
        for i, score in enumerate(overall)
    ]
    scores = [
        score_row(f"c{i}", raw=None if score is None else score / 20, label=None)
        for i, score in enumerate(overall)
    ]
    asks = [ask_row(f"c{i}", cost_usd=0.1) for i in range(len(overall))]
    tables = {"cases": cases, "scores": scores, "asks": asks}

    def shuffled(name):
        rows = rng.sample(tables[name], len(tables[name]))
        return pl.DataFrame(rows, schema=frame(name, []).schema, orient="row").lazy()

    intake = {"read": len(cases)}
    one = summary_of(cases, scores, asks)
    other = summarise(*(shuffled(name) for name in tables), config(), intake)
    assert one == other


@FEW
@given(st.lists(points, min_size=1, max_size=50))
def test_the_mean_is_the_exact_one(overall):
    exact = sum(map(Fraction, overall)) / len(overall)
    assert summary_of(scored(*overall)).avg_overall_score == round(float(exact), 9)


def test_a_summary_survives_json():
    summary = summary_of(repeated([True, False]), [score_row("c0")], [ask_row("c0")])
    body = json.loads(json.dumps(summary.model_dump(mode="json"), allow_nan=False))
    assert RunSummary.model_validate(body) == summary
