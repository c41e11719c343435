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
from assizes.judge.selection import (
    ALWAYS,
    OrderedCase,
    WaveRules,
    draw_sample,
    facts,
    ordered_case,
    stratum_of,
    waves_of,
)
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


def ordered_cases(cases: int, cluster: int = 1, strata: int = 1) -> list[OrderedCase]:
    return [
        OrderedCase(f"c{number}", f"u{number // cluster}", f"s{number // cluster % strata}")
        for number in range(cases)
    ]


@given(
    cases=st.integers(1, 400),
    cluster=st.integers(1, 30),
    strata=st.integers(1, 12),
    looks=st.integers(2, 10),
    seed=st.integers(0, 3),
)
def test_waves_hold_every_unit_once_and_leave_no_wave_empty(cases, cluster, strata, looks, seed):
    given_cases = ordered_cases(cases, cluster, strata)
    waves = waves_of(given_cases, WaveRules(looks, 30, frozenset()), seed)
    assert waves.keys() == {case.unit for case in given_cases}
    assert sorted(set(waves.values())) == list(range(max(waves.values()) + 1))
    assert waves == waves_of(reversed(given_cases), WaveRules(looks, 30, frozenset()), seed)


def test_waves_are_of_equal_size_in_every_stratum_and_random():
    given_cases = ordered_cases(3000, 1, 3)
    rules = WaveRules(10, 100, frozenset())
    waves = waves_of(given_cases, rules, 0)
    sizes = Counter((waves[case.unit], case.stratum) for case in given_cases)
    assert len(sizes) == 30
    assert set(sizes.values()) <= {99, 100, 101}
    numbers = [int(case.case_id[1:]) for case in given_cases if waves[case.unit] == 0]
    assert 1400 < sum(numbers) / len(numbers) < 1600  # from everywhere in the input
    assert waves_of(given_cases, rules, 1) != waves


def test_the_first_wave_has_as_many_cases_as_are_wanted_and_the_critical_ones():
    given_cases = ordered_cases(1000)
    waves = waves_of(given_cases, WaveRules(10, 250, frozenset({"c7", "c8"})), 0)
    assert waves["u7"] == waves["u8"] == 0
    assert 300 <= Counter(waves.values())[0] <= 302
    assert max(waves.values()) == 7
    assert set(waves_of(given_cases, WaveRules(10, 2000, frozenset()), 0).values()) == {0}


def test_strata_of_one_case_are_spread_over_the_waves_too():
    given_cases = [OrderedCase(f"c{n}", f"u{n}", f"s{n}") for n in range(1000)]
    sizes = Counter(waves_of(given_cases, WaveRules(5, 30, frozenset()), 0).values())
    assert sorted(sizes) == [0, 1, 2, 3, 4]
    assert min(sizes.values()) > 150


def test_a_cluster_and_a_case_of_its_name_are_two_units():
    alone = ordered_case(case(user("Hi"), case_id="k"), ())
    shared = ordered_case(case(user("Hi"), case_id="x", cluster="k"), ())
    assert alone.unit != shared.unit
