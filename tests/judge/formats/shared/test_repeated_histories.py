"""Parts of a conversation that was summed up on the way, joined again."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from assizes.judge.case import ToolCall, Turn
from assizes.judge.formats.shared.parsing import FIDELITY, FidelityCounter
from assizes.judge.formats.shared.spans import TraceSpan, conversation
from assizes.judge.formats.shared.turn_chains import (
    TracePart,
    join_compacted_parts,
    join_parts,
)
from tests.builders import agent, call, result, user

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)


def turns(*texts: str) -> list[Turn]:
    """Return turns: texts in lower case are of the user, all others of the agent."""
    return [Turn(role="user" if text[0].islower() else "assistant", text=text) for text in texts]


BOOKED = ("hi", "Book it?", "yes", "Done.")


@pytest.mark.parametrize(
    ("part", "new", "repeated"),
    [
        (("so far", "What else?", "cancel 7", "Sure?", "yes", "Cancelled."), "all", 0),
        (("so far", "What else?", "cancel 7", "Sure?", "yes", "Done."), "all", 0),
        (("cancel 7", "Done."), "all", 0),
        (("so far", "yes", "Done.", "cancel 7", "Done."), ("cancel 7", "Done."), 3),
        (("so far", "I see.", "Done.", "thanks", "Bye"), ("thanks", "Bye"), 3),
        ((*BOOKED, "yes", "Done."), ("yes", "Done."), 4),
        (("hi", "Book it?", "no", "Fine."), ("no", "Fine."), 2),
        (BOOKED, (), 4),
    ],
)
def test_of_a_part_behind_a_summary_nothing_new_is_lost(part, new, repeated):
    tally = FidelityCounter()
    found = join_compacted_parts([turns(*BOOKED), turns(*part)], tally)
    expected = (*BOOKED, *(part if new == "all" else new))
    assert [turn.text for turn in found] == list(expected)
    assert tally.metadata() == ({FIDELITY: {"repeated turn": repeated}} if repeated else {})


def test_a_part_that_tells_everything_again_adds_what_is_new_and_another_part_all_of_it():
    tally = FidelityCounter()
    talks = (("hi", "A?"), ("hi", "A?", "b", "B."), ("hi", "C?"))
    found = join_parts([TracePart(tuple(turns(*texts)), 1) for texts in talks], tally)
    assert [turn.text for turn in found] == ["hi", "A?", "b", "B.", "hi", "C?"]
    assert tally.metadata() == {FIDELITY: {"repeated turn": 2}}


def joined_texts(*talks: tuple[tuple[str, ...], tuple[str, ...]]) -> list[str | None]:
    """Return the texts of a conversation of traces: of each, what it was sent and what it added."""
    parts = [TracePart(tuple(turns(*sent, *added)), len(sent)) for sent, added in talks]
    return [turn.text for turn in join_parts(parts, FidelityCounter())]


HI = (("hi",), ("Book it?",))
YES = (("hi", "Book it?", "yes"), ("Done.",))


@pytest.mark.parametrize(
    ("talks", "expected"),
    [
        # A window of the last messages.
        ([HI, YES, (("yes", "Done.", "thanks"), ("Bye",))], (*BOOKED, "thanks", "Bye")),
        ([HI, YES, (("Done.", "thanks"), ("Bye",))], (*BOOKED, "thanks", "Bye")),
        # The user says the same once more.
        ([HI, YES, (("yes", "Done.", "yes"), ("Done.",))], (*BOOKED, "yes", "Done.")),
        ([HI, YES, (("yes",), ("Done.",))], (*BOOKED, "yes", "Done.")),
        ([HI, YES, (("yes", "please"), ("Done.",))], (*BOOKED, "yes", "please", "Done.")),
        ([HI, HI, HI], (*BOOKED[:2], *BOOKED[:2], *BOOKED[:2])),
        # The user went back and asked another thing.
        ([HI, YES, (("hi", "Book it?", "no"), ("Fine.",))], (*BOOKED, "no", "Fine.")),
        # An exchange was not recorded.
        ([HI, (("hi", "Book it?", "why?", "So.", "yes"), ("Done.",))],
         ("hi", "Book it?", "why?", "So.", "yes", "Done.")),
        ([HI, YES, (("yes", "Done.", "why?", "So.", "bye"), ("Bye",))],
         (*BOOKED, "why?", "So.", "bye", "Bye")),
        # Another history, which begins by chance as the conversation ends.
        ([HI, YES, (("Done.", "why?", "So.", "bye"), ("Bye",))],
         (*BOOKED, "Done.", "why?", "So.", "bye", "Bye")),
        # The same question is tried again, and the agent is sent what was not answered.
        ([(("hi",), ()), HI], BOOKED[:2]),
    ],
)  # fmt: skip
def test_of_a_trace_what_it_was_sent_of_the_conversation_is_left_out(talks, expected):
    assert joined_texts(*talks) == list(expected)


LATE = [user("Late?"), agent("I look.", calls=[call("find")]), result("yes"), agent("It is.")]


def traces(*talks: tuple[list[Turn], list[Turn]]) -> list[str]:
    """Return what is said and done in a session, told by the model calls of its traces."""
    spans = [
        TraceSpan(
            str(place), None, f"t{trace}", "llm",
            NOON + timedelta(seconds=trace * 60 + place),
            input_turns=(*sent, *added[:place]), output_turns=(turn,),
        )
        for trace, (sent, added) in enumerate(talks)
        for place, turn in enumerate(added)
        if turn.role == "assistant"
    ]  # fmt: skip
    return [turn.all_text() for turn in conversation(spans, FidelityCounter()).turns]


@pytest.mark.parametrize(
    "history",
    [
        LATE,
        LATE[1:],
        LATE[2:],
        [LATE[0], LATE[3]],
        [LATE[0], agent("I look."), LATE[3]],
        [LATE[0], agent("I look.", calls=[call("find", "again")]), LATE[3]],
    ],
    ids=["all", "window", "cut", "answers", "texts", "calls"],
)
def test_a_history_without_tools_or_beginning_adds_nothing(history):
    asked = [*history, user("Late?")]
    expected = [turn.all_text() for turn in [*LATE, user("Late?"), agent("Yes.")]]
    assert traces((LATE[:1], LATE[1:]), (asked, [agent("Yes.")])) == expected


def test_a_call_that_only_a_later_history_tells_is_not_lost():
    asked = [*LATE, user("Why?")]
    found = traces((LATE[:1], LATE[3:]), (asked, [agent("Snow.")]))
    assert found[2:] == [turn.all_text() for turn in [*asked, agent("Snow.")]]


def test_of_a_history_with_an_exchange_that_was_not_recorded_only_that_one_is_added():
    lost = [user("Why?"), agent(calls=[call("look")]), result("snow"), agent("Snow.")]
    found = traces((LATE[:1], LATE[1:]), ([LATE[0], LATE[3], *lost, user("Bye")], [agent("Bye!")]))
    assert found == [turn.all_text() for turn in [*LATE, *lost, user("Bye"), agent("Bye!")]]


def test_a_trace_that_goes_on_where_another_stopped_repeats_nothing():
    found = traces((LATE[:1], LATE[1:2]), (LATE[:3], LATE[3:]))
    assert found == [turn.all_text() for turn in LATE]


def test_windows_of_a_long_session_are_put_together_at_once():
    begun = time.process_time()
    talks = [(("ok", "Ok", "ok", "So?", "ok"), ("Ok",))] * 1_000
    assert len(joined_texts((("ok",), ("Ok",)), *talks)) == 2_004
    assert time.process_time() - begun < 3.0


def test_a_history_whose_old_results_were_cleared_is_no_second_conversation():
    first = turns("hi", "A?", "r1", "B?", "r2", "C?", "r3", "D?", "r4", "Done.")
    again = turns(
        "hi", "A?", "[...]", "B?", "[...]", "C?", "[...]", "D?", "r4", "Done.", "bye", "Bye"
    )
    found = join_compacted_parts([first, again], FidelityCounter())
    assert [turn.text for turn in found][-4:] == ["r4", "Done.", "bye", "Bye"]
    assert len(found) == len(first) + 2


def test_a_conversation_that_repeats_one_word_is_put_together_at_once():
    history = [Turn(role="user", text="ok")] * 20_000
    begun = time.process_time()
    assert (
        len(join_compacted_parts([history, [*history[1:], *turns("So?")]], FidelityCounter()))
        == 20_001
    )
    assert time.process_time() - begun < 3.0  # it compared each with each


def test_spans_of_two_traces_may_bear_one_id_and_none_of_them_is_lost():
    tally = FidelityCounter()
    spans = [
        TraceSpan(
            "1",
            None,
            trace,
            "agent",
            input_turns=tuple(turns("hi")),
            output_turns=tuple(turns("Hello")),
        )
        for trace in ("a", "b")
    ]
    found = conversation([*spans, TraceSpan("2", None, "a", "other")], tally)
    assert tally.metadata()[FIDELITY]["dropped span of another kind"] == 1
    assert [turn.text for turn in found.turns][:2] == ["hi", "Hello"]


def test_the_system_prompt_of_a_model_stays_though_a_tool_of_another_trace_bears_its_parents_id():
    called = ToolCall(id="c", name="find", arguments={})
    model = TraceSpan("2", "1", "a", "llm", systems=("Be kind.",), output_turns=tuple(turns("Hi")))
    tool = TraceSpan("1", None, "b", "tool", call=called)
    assert (
        conversation([TraceSpan("1", None, "a", "agent"), model, tool], FidelityCounter()).system
        == "Be kind."
    )
    assert conversation([tool, replace(model, trace="b")], FidelityCounter()).system is None
