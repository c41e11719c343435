"""How often votes on the same headline differ."""

from __future__ import annotations

import pytest

from assizes.judge.engine.ensemble import Vote, escalate_scores, reduce_votes
from assizes.judge.rows import as_json, frame
from assizes.judge.score import Metric, Scale, Score
from assizes.judge.summary.headlines import stability

LEVEL = Metric("level", scale=Scale.SCORED)


def rows(*cases: list[Score]):
    made = [
        {
            "run_id": "run",
            "case_id": f"c{number}",
            "repetition": 0,
            "judge": "asking",
            "metric": score.metric,
            "part": score.part,
            "status": score.status,
            "details": as_json(dict(score.details)),
        }
        for number, scores in enumerate(cases)
        for score in scores
    ]
    return frame("scores", made).lazy()


def voted(*raws: int, models=("a",)) -> list[Score]:
    each = len(raws) // len(models)
    return reduce_votes(
        [Vote(models[n // each], n % each, [Score.of(LEVEL, raw)]) for n, raw in enumerate(raws)]
    )


def test_a_run_without_votes_has_none():
    assert stability(rows([Score.of(LEVEL, 3)])) == ()


def test_repeats_of_a_model_flip_and_models_agree_by_pairs():
    (one,) = stability(
        rows(voted(4, 4, 4, 1, models=("a", "b")), voted(5, 5, 5, 5, models=("a", "b")))
    )
    assert (one.judge, one.metric, one.cases) == ("asking", "level", 2)
    # Repeats: a-a same, b-b differs; then both same: 1 of 4. Across: 2 of 4, then 4 of 4.
    assert one.flip_rate == pytest.approx(0.25)
    assert one.agreement == pytest.approx(0.75)


def test_shares_without_such_pairs_are_null():
    (repeats,) = stability(rows(voted(4, 4)))
    (panel,) = stability(rows(voted(4, 2, models=("a", "b"))))
    assert (repeats.flip_rate, repeats.agreement) == (0.0, None)
    assert (panel.flip_rate, panel.agreement) == (None, 0.0)


def test_escalated_cases_are_counted_and_their_first_vote_is_compared_with_nobody():
    first = [Vote("small", 0, [Score.of(LEVEL, 2)])]
    (one,) = stability(rows(escalate_scores([Score.of(LEVEL, 4)], first, "unsure")))
    assert (one.cases, one.escalated, one.flip_rate, one.agreement) == (0, 1, None, None)
