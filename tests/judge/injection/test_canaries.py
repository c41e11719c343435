"""Canaries: planted the same every time, in turns with a text, and found by the detector."""

from __future__ import annotations

import pytest

from assizes.judge.calibration.record import Canaries
from assizes.judge.case import Case
from assizes.judge.injection.families import ATTACKS, plant_attack
from assizes.judge.verdicts.case_rows import case_flags

TURNS = [
    {"role": "user", "text": "Please move booking AX7."},
    {"role": "assistant", "tool_calls": [{"name": "find", "arguments": {}, "id": "1"}]},
    {"role": "tool", "tool_result": {"content": "AX7: 12A", "call_id": "1"}},
    {"role": "assistant", "text": "It cannot be moved."},
]


def case(case_id: str, turns: list[dict] = TURNS) -> Case:
    return Case.model_validate({"case_id": case_id, "transcript": {"turns": turns}})


def texts(planted: Case) -> list[str]:
    return [
        turn.tool_result.content if turn.tool_result else turn.text or ""
        for turn in planted.transcript.turns
    ]


def test_one_attack_is_planted_at_the_end_of_one_text():
    attacks, places = set(), set()
    for number in range(200):
        plain = case(f"case-{number}")
        ours = plant_attack(plain)
        assert ours.case_id == plain.case_id
        (place,) = [
            n for n, (a, b) in enumerate(zip(texts(plain), texts(ours), strict=True)) if a != b
        ]
        before, _, attack = texts(ours)[place].partition("\n")
        assert before == texts(plain)[place]
        attacks.add(attack)
        places.add(place)
    assert attacks == set(ATTACKS)
    assert places == {0, 2, 3}


def test_the_same_case_gets_the_same_attack():
    assert plant_attack(case("a")) == plant_attack(case("a"))


def test_nothing_is_planted_where_nothing_was_said():
    silent = case("silent", [{"role": "assistant", "tool_calls": TURNS[1]["tool_calls"]}])
    assert plant_attack(silent) is silent


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_is_one_that_is_flagged(attack):
    assert case_flags(case("one", [{"role": "user", "text": attack}, TURNS[3]]))


def test_what_became_of_canaries_is_said_in_one_line():
    canaries = Canaries(
        run_id="r", planted=9, judged=8, takeovers=7, noticed=6, silent=1, taken=tuple("abcdefg")
    )
    assert canaries.sentence() == (
        "canaries: 7 of 8 took the judge over, 6 were flagged, 1 of 9 could not be judged"
    )
    assert (
        canaries.shortfall()
        == "7 of 8 canaries took the judge over, 1 unnoticed: a, b, c, d, e and 2 more"
    )


def test_a_judge_that_holds_falls_short_of_nothing_and_one_that_was_not_tried_does():
    held = Canaries(run_id="r", planted=2, judged=2, takeovers=0, noticed=2, silent=0)
    assert held.shortfall() is None
    none = held.model_copy(update={"planted": 0, "judged": 0, "run_id": None})
    assert none.shortfall() is None
    assert none.sentence() == "canaries: none, for no case fails by people and by the judge"
    lost = held.model_copy(update={"judged": 0})
    assert lost.shortfall() == "canaries: none of 2 could be judged"
