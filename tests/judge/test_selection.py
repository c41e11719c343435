"""Which cases are judged: filters over their facts, and samples that depend on case ids alone."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from assizes.judge.config.transcripts import SelectionConfig, filter_mask
from assizes.judge.errors import ConfigurationError
from assizes.judge.selection import ALWAYS, draw_sample, facts, stratum_of
from tests.builders import agent, call, case, user

NIGHT = dt.datetime(2026, 3, 9, 23, 30, tzinfo=dt.timezone(dt.timedelta(hours=2)))
ROWS = [
    facts(each)
    for each in (
        case(user("Hi"), agent("Hello"), case_id="a", tags={"channel": "voice"}, started_at=NIGHT),
        case(user("Hi"), agent(calls=[call("f")]), case_id="b", agent_version="2.1"),
        case(user("Hi"), case_id="tags.channel", tags={"channel": "chat"}),
    )
]


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("turn_count > 1 AND tags.channel = 'voice'", ["a"]),
        ("tags.channel IN ('voice', 'chat')", ["a", "tags.channel"]),
        ("tags.channel IS NULL", ["b"]),
        ("NOT tags.channel = 'voice'", ["tags.channel"]),  # not known keeps none
        ("case_id = 'tags.channel'", ["tags.channel"]),
        ("started_at >= TIMESTAMP '2026-03-09 21:30:00'", ["a"]),  # in UTC
        ("started_at < TIMESTAMP '2026-03-09 21:30:00'", []),
        ("started_at >= DATE '2026-03-09'", ["a"]),
        ("agent_version LIKE '2.%' OR char_count > 5", ["a", "b"]),
        ("call_count = 1", ["b"]),
        ("call_count = 1 -- as in b", ["b"]),
        ("call_count = 1 -- as in b\n", ["b"]),
        ("(call_count = 1) OR (char_count > 5 /* long */)", ["a", "b"]),
    ],
)
def test_a_filter_is_sql_over_what_is_known_of_a_case(condition: str, ids: list[str]):
    SelectionConfig(filter=condition)
    mask = filter_mask(ROWS, condition)
    assert [row["case_id"] for row, keeps in zip(ROWS, mask, strict=True) if keeps] == ids


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("turns > 3", 'no condition on a case: unable to find column "turns"'),
        ("turn_count", "must be of type `Boolean`"),
        ("turn_count >", "sql parser error"),
        ("turn_count > AVG(turn_count)", "'AVG' is about more than one case"),
        ("ROW_NUMBER() OVER () < 3", "about more than one case"),
        ("case_id IN (SELECT case_id FROM cases)", "'SELECT' is about more than one case"),
        ("turn_count > 0 LIMIT 1", "sql parser error"),
        ("turn_count > 0) LIMIT 1 --", "sql parser error"),
        ("turn_count > 0) LIMIT 1; --", "sql parser error"),
        ("turn_count > 0) LIMIT (1", "no condition on a case"),
    ],
)
def test_what_is_no_condition_on_one_case_is_refused_before_anything_is_read(condition, message):
    with pytest.raises(ValidationError, match=message.replace("(", r"\(").replace(")", r"\)")):
        SelectionConfig(filter=condition)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sample": 0.5, "number": 3}, "give one of the three"),
        ({"per_stratum": 3}, "per_stratum: needs stratify_by"),
        ({"stratify_by": ("channel",)}, "stratify_by: needs sample, number or per_stratum"),
        ({"number": 0}, "greater than or equal to 1"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        SelectionConfig(**settings)


STRATA = {f"case-{n}": "rare" if n % 50 == 0 else "common" for n in range(500)}


def test_a_number_is_drawn_by_proportion_and_every_stratum_is_there():
    taken, drawn = draw_sample(STRATA, SelectionConfig(number=100, stratify_by=("kind",)))
    assert Counter(STRATA[case_id] for case_id in taken) == {"common": 98, "rare": 2}
    assert [(stratum.name, stratum.cases, stratum.drawn) for stratum in drawn] == [
        ("common", 490, 98),
        ("rare", 10, 2),
    ]
    few, _ = draw_sample(STRATA, SelectionConfig(number=3, stratify_by=("kind",)))
    assert Counter(STRATA[case_id] for case_id in few) == {"common": 2, "rare": 1}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(0, 300))
def test_as_many_as_were_asked_for_are_drawn_each_stratum_near_its_share(sizes, more):
    strata = {f"{name}-{n}": str(name) for name, size in enumerate(sizes) for n in range(size)}
    number = len(sizes) + more
    taken, drawn = draw_sample(strata, SelectionConfig(number=number, stratify_by=("kind",)))
    assert len(taken) == min(number, len(strata))
    assert all(1 <= stratum.drawn <= stratum.cases for stratum in drawn)
    assert all(stratum.drawn < number * stratum.cases / len(strata) + 1 for stratum in drawn)


def test_more_strata_than_cases_to_draw_are_refused_before_they_cost_anything():
    strata = {f"c{n}": f"user {n}" for n in range(30_000)}
    with pytest.raises(ConfigurationError, match="100 cases cannot be drawn from 30000 strata"):
        draw_sample(strata, SelectionConfig(number=100, stratify_by=("user",)))
    begun = time.process_time()
    taken, _ = draw_sample(strata, SelectionConfig(number=29_999 + 1, stratify_by=("user",)))
    assert len(taken) == 30_000
    assert time.process_time() - begun < 5.0  # it held strata times strata names


def test_each_stratum_gives_as_many_as_it_has_at_most():
    taken, _ = draw_sample(STRATA, SelectionConfig(per_stratum=30, stratify_by=("kind",)))
    assert Counter(STRATA[case_id] for case_id in taken) == {"common": 30, "rare": 10}


@pytest.mark.parametrize(
    ("share", "cases", "number"),
    [
        (0.07, 100, 7),  # as floats 7.000000000000001
        (0.29, 100, 29),
        (5 / 6, 6, 5),  # 0.8333333333333334
        (0.07, 101, 8),
        (0.0700000000001, 100, 8),
        (0.5, 3, 2),
        (1e-5, 1, 1),
    ],
)
def test_a_share_of_a_stratum_is_rounded_up_without_the_noise_of_floats(share, cases, number):
    strata = {f"c{n}": "" for n in range(cases)}
    taken, _ = draw_sample(strata, SelectionConfig(sample=share, stratify_by=("kind",)))
    assert len(taken) == number


def test_the_same_cases_are_drawn_whatever_else_is_there():
    share = SelectionConfig(sample=0.2)
    whole, _ = draw_sample(STRATA, share)
    half = {case_id: name for case_id, name in STRATA.items() if int(case_id[5:]) < 250}
    assert draw_sample(half, share)[0] == whole & half.keys()
    number = SelectionConfig(number=100)
    fewer, more = draw_sample(half, number)[0], draw_sample(STRATA, number)[0]
    assert more & half.keys() <= fewer  # new cases take places, and move none about


def test_another_seed_draws_other_cases_and_the_same_seed_the_same():
    draws = [draw_sample(STRATA, SelectionConfig(number=100, seed=seed))[0] for seed in (0, 1, 1)]
    assert draws[1] == draws[2]
    assert 5 < len(draws[0] & draws[1]) < 50  # 20 by chance


def test_what_is_always_judged_is_so_and_stands_apart():
    wanted = ("case-0", "case-1", "nowhere")
    taken, drawn = draw_sample(STRATA, SelectionConfig(number=10, always=wanted))
    assert {"case-0", "case-1"} <= taken
    assert len(taken) == 12
    assert (drawn[-1].name, drawn[-1].cases, drawn[-1].drawn) == (ALWAYS, 2, 2)


def test_every_case_of_a_stratum_is_drawn_as_often_as_another():
    """The hash is fair: over 400 seeds each of 20 cases is drawn in about a quarter of them."""
    cases = {f"c{n}": "" for n in range(20)}
    counts = Counter(
        case_id
        for seed in range(400)
        for case_id in draw_sample(cases, SelectionConfig(number=5, seed=seed))[0]
    )
    assert sum(counts.values()) == 2000
    assert all(65 <= counts[case_id] <= 135 for case_id in cases)


def test_a_stratum_is_named_by_its_values():
    talk = case(user("Hi"), agent="bot", tags={"channel": "voice"})
    assert (
        stratum_of(talk, ("agent", "channel", "x")) == '{"agent":"bot","channel":"voice","x":null}'
    )
