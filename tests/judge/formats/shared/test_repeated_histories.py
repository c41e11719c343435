"""Parts of a conversation that was summed up on the way, joined again."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from assizes.judge.case import ToolCall, Turn
from assizes.judge.formats.shared.parsing import FIDELITY, FidelityCounter
from assizes.judge.formats.shared.spans import TraceSpan, conversation
from assizes.judge.formats.shared.turn_chains import join_compacted_parts, join_parts


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
    found = join_parts([turns("hi", "A?"), turns("hi", "A?", "b", "B."), turns("hi", "C?")], tally)
    assert [turn.text for turn in found] == ["hi", "A?", "b", "B.", "hi", "C?"]
    assert tally.metadata() == {FIDELITY: {"repeated turn": 2}}


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
