"""Which turns of two conversations belong together."""

from __future__ import annotations

import random

from assizes.judge.comparison import turn_alignment
from assizes.judge.comparison.turn_alignment import TurnPair, align_turns, are_equal
from tests.builders import agent, call, result, user

HELLO = user("Hello, I would like to change my flight")
ASK = agent("Which reservation is it, please?")
ANSWER = user("It is ABC123, to Newark")
LOOK = agent(calls=[call("get_reservation", id="1", reservation="ABC123")])
DONE = agent("Your flight is changed to Newark")


def test_equal_conversations_are_paired_turn_by_turn():
    turns = [HELLO, ASK, ANSWER, DONE]
    assert align_turns(turns, turns) == [TurnPair(n, n) for n in range(4)]


def test_turns_that_only_one_conversation_has_stand_alone_and_the_rest_stays_paired():
    answer = result("{}", name="get_reservation")
    pairs = align_turns([HELLO, ASK, ANSWER, DONE], [HELLO, ASK, ANSWER, LOOK, answer, DONE])
    alone = [TurnPair(None, 3), TurnPair(None, 4)]
    assert pairs == [TurnPair(0, 0), TurnPair(1, 1), TurnPair(2, 2), *alone, TurnPair(3, 5)]


def test_the_turn_that_shares_words_is_the_one_that_is_paired():
    other = agent("Let me see what else there is")
    pairs = align_turns(
        [HELLO, DONE], [HELLO, other, agent("Your flight is now changed to Boston")]
    )
    assert pairs == [TurnPair(0, 0), TurnPair(None, 1), TurnPair(1, 2)]


def test_the_same_tool_outweighs_a_few_words():
    book, cancel = (agent(calls=[call(name, flight="HAT001")]) for name in ("book", "cancel"))
    assert align_turns([cancel], [book, cancel]) == [TurnPair(None, 0), TurnPair(0, 1)]


def test_turns_of_different_roles_are_never_paired():
    assert align_turns([user("yes")], [agent("yes")]) == [TurnPair(0, None), TurnPair(None, 0)]


def test_an_empty_conversation_leaves_the_other_alone():
    assert align_turns([], [HELLO, ASK]) == [TurnPair(None, 0), TurnPair(None, 1)]
    assert align_turns([HELLO], []) == [TurnPair(0, None)]


def test_ids_of_calls_and_times_make_no_difference_and_arguments_do():
    one = agent(calls=[call("look", id="1", at="x")], latency_ms=3)
    assert not are_equal(one, agent(calls=[call("look", id="1", at="y")]))
    assert are_equal(one, agent(calls=[call("look", id="2", at="x")], latency_ms=9))


def test_every_turn_is_in_one_pair_and_both_orders_are_kept():
    draw = random.Random(7)
    words = ["pay", "fly", "seat", "bag", "late"]
    for _ in range(200):
        sides = [
            [
                draw.choice([user, agent])(" ".join(draw.choices(words, k=3)))
                for _ in range(draw.randrange(9))
            ]
            for _ in range(2)
        ]
        pairs = align_turns(*sides)
        for side, turns in enumerate(sides):
            assert [pair[side] for pair in pairs if pair[side] is not None] == [*range(len(turns))]
        assert all(
            None in pair or sides[0][pair[0]].role == sides[1][pair[1]].role for pair in pairs
        )


def test_conversations_over_the_bound_are_paired_by_position(monkeypatch):
    monkeypatch.setattr(turn_alignment, "MAX_CELLS", 3)
    pairs = align_turns([user("a"), user("b")], [user("x"), user("a"), user("y")])
    assert pairs == [TurnPair(0, 0), TurnPair(1, 1), TurnPair(None, 2)]
