"""Request logs without a conversation id: which requests are one conversation."""

from __future__ import annotations

import time
from typing import Any

import pytest

from assizes.judge.case import Case
from assizes.judge.formats import FORMATS
from tests.judge.formats.foreign import lines, turn_lines

PROMPT = [{"role": "system", "content": "You are Fern."}]


def request(answer: str, *said: str, before: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A request whose messages are said by the user and the agent in turns, with its answer."""
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)]
    return {
        "request": {"model": "m", "messages": [*(before or []), *messages]},
        "response": {"choices": [{"message": {"role": "assistant", "content": answer}}]},
    }


def cases(*requests: dict[str, Any]) -> list[Case]:
    logs = FORMATS["openai_logs"]
    return [logs.case(record) for record in logs.records(lines(*requests))]


def conversations(*requests: dict[str, Any]) -> list[list[str]]:
    return [turn_lines(case) for case in cases(*requests)]


@pytest.mark.parametrize("before", [[], PROMPT, [*PROMPT, *PROMPT]])
def test_a_first_request_belongs_to_the_conversation_that_goes_on_from_it(
    before: list[dict[str, Any]],
):
    first = request("a1", "q1", before=before)
    second = request("a2", "q1", "a1", "q2", before=before)
    whole = ["user: q1", "assistant: a1", "user: q2", "assistant: a2"]
    assert conversations(first, second) == [whole]
    assert conversations(second, first) == [whole]


def test_conversations_that_begin_with_the_same_words_stay_apart():
    greeted = [request("Hello", "hi"), request("Hello", "hi")]
    going_on = [request("a", "hi", "Hello", "one"), request("b", "hi", "Hello", "two")]
    other = [request("Yes?", "hi"), request("c", "hi", "Yes?", "three")]
    found = cases(*greeted, *going_on, *other)
    assert len({case.case_id for case in found}) == 3  # equal ids would reject both
    assert sorted(map(turn_lines, found)) == [
        ["user: hi", "assistant: Hello", "user: one", "assistant: a"],
        ["user: hi", "assistant: Hello", "user: two", "assistant: b"],
        ["user: hi", "assistant: Yes?", "user: three", "assistant: c"],
    ]


def test_a_greeting_of_the_agent_that_all_conversations_share_joins_none_of_them():
    greeting = [*PROMPT, {"role": "assistant", "content": "How can I help?"}]
    found = conversations(
        request("a1", "q1", before=greeting),
        request("b1", "p1", before=greeting),
        request("a2", "q1", "a1", "q2", before=greeting),
    )
    assert [len(turns) for turns in found] == [5, 3]


def test_requests_in_which_no_user_speaks_are_known_by_all_their_messages():
    found = conversations(request("Hello", before=PROMPT), request("Hi", before=PROMPT * 2))
    assert found == [["assistant: Hello"], ["assistant: Hi"]]


def test_time_grows_with_the_requests_and_not_with_their_square():
    asked = [str(number) for number in range(2000)]
    greeted = [request(f"Hello {one}", "hi") for one in asked]
    going_on = [request("a", "hi", f"Hello {one}", one) for one in asked]
    began = time.process_time()
    found = FORMATS["openai_logs"].records(lines(*greeted, *going_on))
    assert len(found) == len(asked)
    assert time.process_time() - began < 5  # 0.2 s; 9 s when each is compared with each
