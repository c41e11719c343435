"""From labels and grades to a calibration, its warnings and its gate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from assizes.judge.calibration.calibrate import CalibrationSubject, calibrate, judge_fingerprint
from assizes.judge.calibration.labelled import (
    ItemKey,
    RatedItem,
    agreed_grade,
    judgements,
    labels_by_metric,
    parse_grade,
    pass_mark,
)
from assizes.judge.calibration.record import Calibration, former_of, shortfalls
from assizes.judge.config.gates import CalibrationConfig
from assizes.judge.errors import ConfigurationError

PLAIN = CalibrationConfig()
SUBJECT = CalibrationSubject("verdict", "judge-1", "f1", "labels.csv", "h1")


def rated(*counts: int, judge_errors: int = 0) -> list[RatedItem]:
    """Items by (both pass, judge alone passes, judge alone fails, both fail)."""
    kinds = ((1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.0, 0.0))
    pairs = [pair for pair, times in zip(kinds, counts, strict=True) for _ in range(times)]
    pairs += [(1.0, None)] * judge_errors
    return [
        RatedItem(f"c{n}", f"c{n}", {"ann": one}, other) for n, (one, other) in enumerate(pairs)
    ]


def of(*counts: int, fingerprint: str = "f1", **rest: int) -> Calibration:
    subject = CalibrationSubject("verdict", f"judge {fingerprint}", fingerprint, "labels.csv", "h1")
    return calibrate(subject, rated(*counts, **rest), PLAIN)


def test_the_sentence_that_reports_cite():
    found = of(40, 10, 5, 45)
    assert found.agreement.kappa.value == 0.7
    assert found.citation().startswith("kappa 0.70 [0.5")
    assert found.citation().endswith("] on 100 labels")
    assert found.confusion == ((45, 10), (5, 40))


def test_the_failing_class_is_what_people_fail():
    failing = of(40, 10, 5, 45).failing
    assert failing.pass_from == 1.0
    assert failing.f1.value == pytest.approx(90 / 105)
    assert failing.false_positive_rate.value == pytest.approx(5 / 45)
    assert failing.false_negative_rate.value == pytest.approx(10 / 55)
    assert (failing.errors.passes, failing.errors.fails) == (45, 55)


def test_an_answer_that_is_no_grade_is_a_judge_error_and_in_no_measure():
    found, bare = of(40, 10, 5, 45, judge_errors=25), of(40, 10, 5, 45)
    assert (found.judge_errors, found.judge_error_rate) == (25, 0.2)
    assert found.agreement == bare.agreement
    assert found.labelled == 125


def test_items_the_judge_was_not_asked_about_are_counted_apart():
    items = [*rated(40, 10, 5, 45), RatedItem("z", "z", {"ann": 1.0}, missing=True)]
    found = calibrate(SUBJECT, items, PLAIN)
    assert (found.labelled, found.missing, found.judge_errors) == (101, 1, 0)


def test_people_who_are_divided_decide_nothing():
    items = [RatedItem(f"c{n}", f"c{n}", {"ann": 1.0, "bob": n % 2.0}, 1.0) for n in range(40)]
    found = calibrate(SUBJECT, items, PLAIN)
    assert (found.disputed, found.agreement.items) == (20, 20)
    assert found.ceiling.pairs[0].agreement.accuracy.value == 0.5


def test_a_grade_that_is_none_of_the_configured_levels_is_named():
    items = [RatedItem("c1", "c1", {"ann": 2.0}, judged=4.0)]
    wanted = r"levels: labels.csv and the judge have grades .* such as 2; accepted: 1, 3, 4"
    with pytest.raises(ConfigurationError, match=wanted):
        calibrate(SUBJECT, items, CalibrationConfig(levels=(1, 3, 4)))


def test_an_adjudicator_may_settle_on_a_grade_that_nobody_else_gave():
    items = [
        RatedItem(f"c{n}", f"c{n}", {"ann": 2.0, "bob": 4.0}, 4.0, settled=4.0 if n else 3.0)
        for n in range(12)
    ]
    found = calibrate(SUBJECT, items, PLAIN)
    assert found.levels == (2.0, 3.0, 4.0)
    assert found.confusion == ((0, 0, 0), (0, 0, 1), (0, 0, 11))
    assert found.raters == ("ann", "bob")


def test_the_ceiling_is_how_far_people_agree():
    items = [
        RatedItem(
            f"c{n}", f"c{n}", {"ann": n % 2.0, "bob": n % 2.0, "cy": float(n % 3 > 0)}, n % 2.0
        )
        for n in range(60)
    ]
    found = calibrate(SUBJECT, items, PLAIN)
    kappas = {pair.raters: pair.agreement.kappa.value for pair in found.ceiling.pairs}
    assert kappas["ann", "bob"] == 1.0
    assert kappas["ann", "cy"] == kappas["bob", "cy"] == 0.0
    assert found.ceiling.mean_kappa == pytest.approx(1 / 3)
    assert calibrate(SUBJECT, rated(1, 1, 1, 1), PLAIN).ceiling is None


def test_levels_are_cited_by_the_quadratic_kappa_and_pass_from_three():
    items = [
        RatedItem(f"c{n}", f"c{n}", {"ann": n % 6.0}, min(5.0, n % 6.0 + n % 2)) for n in range(120)
    ]
    found = calibrate(SUBJECT, items, PLAIN)
    assert found.citation().startswith("quadratic kappa 0.9")
    assert found.failing.pass_from == 3.0
    nominal = calibrate(SUBJECT, items, CalibrationConfig(scale="nominal"))
    assert nominal.citation().startswith("kappa ")
    assert (nominal.failing, nominal.agreement.quadratic_kappa) == (None, None)


def test_the_pass_rate_of_everything_judged_is_corrected_by_the_errors_on_the_labelled():
    outcomes = [(f"x{n}", float(n % 10 != 0)) for n in range(1000)]
    subject = CalibrationSubject("verdict", "j", "f1", "l", "h1", outcomes=outcomes)
    found = calibrate(subject, rated(40, 10, 5, 45), PLAIN)
    q1, q0 = 40 / 45, 45 / 55
    assert found.observed_pass_rate == 0.9
    assert found.corrected_pass_rate.value == min(1.0, round((0.9 + q0 - 1) / (q0 + q1 - 1), 9))


def test_few_labels_weak_kappa_and_rare_fails_are_warned_of():
    said = " | ".join(of(40, 2, 2, 4).warnings)
    assert "48 labels; with fewer than 100" in said
    assert "6 failed and 42 passed by people" in said
    assert "kappa may be as low as" in said
    assert of(200, 5, 5, 200).warnings == ()


def test_a_judge_under_the_floor_falls_short_and_one_at_it_does_not():
    found = of(40, 10, 5, 45)
    assert shortfalls(found, None, CalibrationConfig(min_kappa=0.7)) == []
    (why,) = shortfalls(found, None, CalibrationConfig(min_kappa=0.71))
    assert why.startswith("verdict: kappa 0.70 [")
    assert why.endswith("under its floor 0.71")
    assert shortfalls(found, None, PLAIN) == []


def test_an_upgrade_may_fall_under_the_former_judge_by_the_margin_and_no_further():
    former, found = of(45, 5, 5, 45), of(40, 10, 5, 45, fingerprint="f2")
    assert shortfalls(found, former, CalibrationConfig(max_kappa_drop=0.1)) == []
    (why,) = shortfalls(found, former, CalibrationConfig(max_kappa_drop=0.05))
    assert "0.10 under the former judge's 0.80 (judge f1); allowed 0.05" in why


def test_a_gated_kappa_that_is_not_defined_falls_short():
    assert shortfalls(of(30, 0, 0, 0), None, CalibrationConfig(min_kappa=0.1)) == [
        "verdict: kappa is not defined on these labels"
    ]


def test_the_former_judge_is_the_last_other_one_on_the_same_labels():
    first, second, same = of(9, 1, 1, 9), of(8, 1, 2, 9, fingerprint="f2"), of(7, 1, 1, 9)
    other = same.model_copy(update={"labels_hash": "h2", "fingerprint": "f3"})
    assert former_of(same, [first, second, same, other]) == second
    assert former_of(same, [first, other]) is None


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0]), max_size=7))
def test_people_agree_by_more_than_half_else_by_the_median(grades):
    found = agreed_grade(grades, ordered=True)
    majority = [one for one in grades if 2 * grades.count(one) > len(grades)]
    if majority:
        assert found == majority[0]
    elif len(grades) % 2:
        assert sum(one < found for one in grades) <= len(grades) // 2
        assert sum(one > found for one in grades) <= len(grades) // 2
    else:
        assert found is None
    assert agreed_grade(grades, ordered=False) == (majority[0] if majority else None)


@pytest.mark.parametrize(
    ("value", "grade"),
    [("Pass", 1.0), (" no ", 0.0), (True, 1.0), ("3", 3.0), (2, 2.0), ("tie", 0.5)]
    + [(one, None) for one in ("maybe", None, "", "nan", "inf", float("nan"))],
)
def test_a_grade_is_a_number_or_a_known_word(value, grade):
    assert parse_grade(value, CalibrationConfig(words={"Tie": 0.5})) == grade


def test_a_number_that_is_no_level_is_no_grade_unless_it_may_be_clipped():
    levels = (0.0, 1.0, 2.0)
    assert parse_grade("7", CalibrationConfig(levels=levels)) is None
    assert parse_grade("7", CalibrationConfig(levels=levels, clip=True)) == 2.0
    assert parse_grade("1.5", CalibrationConfig(levels=levels, clip=True)) is None


@pytest.mark.parametrize(
    ("levels", "mark"),
    [
        ((0, 1), 1.0),
        ((1,), 1.0),
        ((0, 1, 2, 5), 3.0),
        ((0, 2, 4), 3.0),
        ((0, 1, 2, 3), None),
        ((0, 10), None),
        ((), None),
    ],
)
def test_where_passing_begins_unless_it_is_said(levels, mark):
    assert pass_mark(levels, PLAIN) == mark
    assert pass_mark(levels, CalibrationConfig(pass_from=2)) == 2


def rows(*given: tuple) -> list[dict]:
    return [dict(zip(("case_id", "label", "rater"), row, strict=False)) for row in given]


def test_labels_are_gathered_by_metric_case_and_rater():
    given = [
        {"case_id": "a", "label": "pass", "rater": "ann", "metric": "tone", "cluster": "s1"},
        {"case_id": "a", "label": "fail", "rater": "bob", "metric": "tone"},
        {"case_id": "a", "label": "1", "rater": ""},
        {"case_id": "b", "label": None, "repetition": "2"},
    ]
    found = labels_by_metric(given, PLAIN, "l.csv")
    assert found["tone"][ItemKey("a", None)].grades == {"ann": 1.0, "bob": 0.0}
    assert found["tone"][ItemKey("a", None)].cluster == "s1"
    assert found["verdict"][ItemKey("a", None)].grades == {"label": 1.0}
    assert found["verdict"][ItemKey("b", 2)].grades == {}


def test_a_column_for_each_rater():
    config = CalibrationConfig.model_validate({"columns": {"label": ["ann", "bob"]}})
    found = labels_by_metric([{"case_id": "a", "ann": 1, "bob": 0}], config, "l.csv")
    assert found["verdict"][ItemKey("a", None)].grades == {"ann": 1.0, "bob": 0.0}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (rows(("a", "maybe")), "l.csv, row 1: label 'maybe' is no grade; accepted: a number"),
        (rows(("a", "1"), ("", "1")), "l.csv, row 2: case_id is empty"),
        (rows(("a", "1", "x"), ("a", "0", "x")), "row 2: 'x' gave this another grade above"),
        ([{"id": "a", "label": 1}], "row 1: no column 'case_id'; there are id, label"),
        ([{"case_id": "a", "label": 1, "repetition": "-1"}], "repetition '-1'; accepted: 0, 1"),
        (rows(("a", "")), "l.csv: holds no label"),
        ([], "l.csv: holds no label"),
    ],
)
def test_labels_that_cannot_be_used_are_named_by_their_row(given, said):
    with pytest.raises(ConfigurationError) as caught:
        labels_by_metric(given, PLAIN, "l.csv")
    assert said in str(caught.value)


def test_recorded_replies_are_read_by_the_parser_of_replies():
    config = CalibrationConfig.model_validate({"columns": {"reply": "text"}})
    texts = {
        "fenced": '```json\n{"verdict": "pass", "justification": "so"}\n```',
        "case": '{"verdict": "FAIL"}',
        "other word": '{"verdict": "satisfactory"}',
        "no object": "I would say it passed.",
        "null": '{"verdict": null}',
    }
    given = [{"case_id": name, "text": text} for name, text in texts.items()]
    found = judgements(given, config, "j.jsonl")
    assert {thing.case_id: grade for thing, grade in found.items()} == {
        "fenced": 1.0,
        "case": 0.0,
        "other word": None,
        "no object": None,
        "null": None,
    }


def test_a_case_judged_twice_is_refused():
    given = [{"case_id": "a", "judge": 1}, {"case_id": "a", "judge": 1}]
    with pytest.raises(ConfigurationError, match=r"row 2: case 'a' is judged twice"):
        judgements(given, PLAIN, "j.csv")


@pytest.mark.parametrize(
    "bad", [{"clip": True}, {"scale": "nominal", "pass_from": 1}, {"min_kappa": 2}, {"label": "x"}]
)
def test_settings_that_cannot_be_meant_are_refused(bad):
    with pytest.raises(ValidationError):
        CalibrationConfig.model_validate(bad)


CONFIG = {
    "judge": {"model": "m", "judges": ["conversation"], "metrics": [{"metric": "tone"}]},
    "fingerprints": {"judge:conversation": "1", "metric:tone": "aa", "metric:other": "bb"},
}


def test_the_fingerprint_changes_with_what_can_change_a_finding_and_with_nothing_else():
    def of(metric="tone", answered=("m-1",), **changed):
        config = {name: {**part, **changed.get(name, {})} for name, part in CONFIG.items()}
        return judge_fingerprint(config, "conversation", metric, answered)

    same = of()
    assert same == of(fingerprints={"metric:other": "cc"}) == of(judge={"pass_threshold": 1})
    assert same == of(judge={"reply_format": None})
    others = [
        of(answered=("m-2",)),
        of(judge={"model": "n"}),
        of(judge={"temperature": 1.0}),
        of(judge={"reply_format": "words"}),
        of(judge={"metrics": [{"metric": "tone"}, {"metric": "x"}]}),
        of(judge={"options": {"conversation": {"threshold": 0.5}}}),
        of(fingerprints={"metric:tone": "ab"}),
        of(fingerprints={"judge:conversation": "2"}),
    ]
    assert len({same, *others}) == 1 + len(others)
    verdict = of("verdict")
    assert verdict == of("verdict", judge={"judges": ["conversation", "recorded"]})
    assert verdict == of("verdict", judge={"reply_format": None})
    assert verdict != of("verdict", judge={"pass_threshold": 1})
    assert verdict != of("verdict", judge={"reply_format": "words"})
