"""A stratified sample speaks for all it was drawn from, and says how surely."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from assizes.judge.rows import CASES
from assizes.judge.selection import ALWAYS
from assizes.judge.summary.run_intervals import population_numbers
from tests.judge.run_frames import case_row

BY = ("channel",)
VOICE, CHAT = '{"channel":"voice"}', '{"channel":"chat"}'


def frame(rows) -> pl.LazyFrame:
    """Rows of `cases`: (channel, passed, score) each."""
    of_case = [
        {
            **dict.fromkeys(CASES),
            **case_row(f"c{n}"),
            "status": "judged",
            "tags": f'{{"channel":"{channel}"}}',
            "passed": passed,
            "overall_score": score,
            "cluster": None,
        }
        for n, (channel, passed, score) in enumerate(rows)
    ]
    return pl.DataFrame(
        [{name: one[name] for name in CASES} for one in of_case], schema=CASES
    ).lazy()


def design(**strata) -> dict:
    return {
        "by": BY,
        "strata": [{"name": n, "cases": c, "drawn": d} for n, (c, d) in strata.items()],
        "limited": 0,
    }


def test_a_stratum_counts_as_much_as_it_has_cases_and_not_as_it_was_drawn():
    rows = [("voice", True, 80.0)] * 5 + [("chat", False, 40.0)] * 5
    found = population_numbers(frame(rows), design(**{VOICE: (900, 5), CHAT: (100, 5)}), ())
    assert found["pass_rate"].value == pytest.approx(0.9)
    assert found["avg_overall_score"].value == pytest.approx(76.0)
    assert (found["pass_rate"].cases, found["pass_rate"].population) == (10, 1000)
    assert found["pass_rate"].low < 0.9 < found["pass_rate"].high


def test_what_was_judged_whole_is_known():
    rows = [("voice", True, 80.0), ("voice", False, 20.0), ("chat", True, 90.0)]
    found = population_numbers(frame(rows), design(**{VOICE: (2, 2), CHAT: (1, 1)}), ())
    for number, value in (("pass_rate", 2 / 3), ("avg_overall_score", 190 / 3)):
        assert (found[number].low, found[number].high) == pytest.approx((value, value))


def test_what_is_always_judged_stands_for_itself_only():
    rows = [("voice", False, 0.0), ("voice", True, 100.0), ("voice", True, 100.0)]
    sizes = {VOICE: (98, 2), ALWAYS: (1, 1)}
    found = population_numbers(frame(rows), design(**sizes), ("c0",))
    assert found["pass_rate"].value == pytest.approx(98 / 99)


@pytest.mark.parametrize(
    ("sizes", "limited"),
    [({}, 0), ({VOICE: (100, 2)}, 3), ({CHAT: (100, 2)}, 0), ({VOICE: (9, 2), CHAT: (9, 2)}, 0)],
)
def test_nothing_is_said_of_what_nothing_is_known(sizes, limited):
    rows = [("voice", True, 80.0), ("voice", True, 90.0)]
    wanted = {**design(**sizes), "limited": limited}
    assert population_numbers(frame(rows), wanted, ()) == {}


def test_a_stratum_of_which_one_case_was_drawn_has_no_interval():
    rows = [("voice", True, 80.0), ("chat", True, 80.0), ("chat", True, 90.0)]
    found = population_numbers(frame(rows), design(**{VOICE: (50, 1), CHAT: (50, 2)}), ())
    assert found["pass_rate"].low is None


@pytest.mark.promised
def test_intervals_hold_the_truth_about_as_often_as_they_say():
    """300 samples of 60 from 400 cases in two strata: 95 % within what chance allows."""
    rng = np.random.default_rng(9)
    voice, chat = rng.random(300) < 0.9, rng.random(100) < 0.5
    truth = (voice.sum() + chat.sum()) / 400
    held = {"pass_rate": 0, "avg_overall_score": 0}
    sizes = design(**{VOICE: (300, 40), CHAT: (100, 20)})
    template = frame([("voice", True, 80.0)]).collect()
    for _ in range(300):
        took = np.concatenate([rng.choice(voice, 40, False), rng.choice(chat, 20, False)])
        table = pl.concat([template] * 60).with_columns(
            case_id=pl.Series([f"c{n}" for n in range(60)]),
            tags=pl.Series(['{"channel":"voice"}'] * 40 + ['{"channel":"chat"}'] * 20),
            passed=pl.Series(took),
            overall_score=pl.Series(took * 100.0),
        )
        found = population_numbers(table.lazy(), sizes, ())
        for name, number in found.items():
            scale = 100 if name == "avg_overall_score" else 1
            held[name] += number.low <= truth * scale <= number.high
    assert all(0.91 * 300 <= times <= 300 for times in held.values()), held


draws = st.lists(st.integers(0, 1000).map(lambda tenths: tenths / 10), min_size=2, max_size=12)


@settings(max_examples=60, deadline=None)
@given(draws, draws, st.integers(1, 500), st.integers(1, 500))
def test_a_mean_of_strata_and_its_interval_are_those_of_the_textbook(voice, chat, more, others):
    """Cochran, Sampling Techniques, 5.3 and 5.4: W_h^2 (1 - f_h) s_h^2 / n_h, and t with the
    effective degrees of freedom of Satterthwaite.
    """
    drawn = {"voice": voice, "chat": chat}
    sizes = {"voice": len(voice) + more, "chat": len(chat) + others}
    rows = [(name, True, score) for name, scores in drawn.items() for score in scores]
    strata = {VOICE: (sizes["voice"], len(voice)), CHAT: (sizes["chat"], len(chat))}
    found = population_numbers(frame(rows), design(**strata), ())["avg_overall_score"]
    total = sum(sizes.values())
    mean = sum(sizes[name] / total * np.mean(scores) for name, scores in drawn.items())
    parts = [
        (sizes[name] / total) ** 2
        * (1 - len(scores) / sizes[name])
        * np.var(scores, ddof=1)
        / len(scores)
        for name, scores in drawn.items()
    ]
    variance = sum(parts)
    fourth = sum(
        part**2 / (len(scores) - 1) for part, scores in zip(parts, (voice, chat), strict=True)
    )
    freedom = variance**2 / fourth if fourth else len(rows) - 2
    half = stats.t.ppf(0.975, freedom) * np.sqrt(variance)
    wanted = (mean, max(0.0, mean - half), min(100.0, mean + half))
    assert (found.value, found.low, found.high) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_a_stratum_that_was_judged_whole_makes_the_others_no_surer():
    drawn = [("voice", True, score) for score in (60.0, 80.0, 100.0)]
    whole = [("chat", True, 50.0)] * 200
    sizes = {VOICE: (100, 3), CHAT: (200, 200)}
    found = population_numbers(frame(drawn + whole), design(**sizes), ())["avg_overall_score"]
    half = stats.t.ppf(0.975, 2) * (100 / 300) * np.sqrt(400.0 / 3 * (1 - 3 / 100))
    assert (found.low, found.high) == pytest.approx((60 - half, 60 + half))
