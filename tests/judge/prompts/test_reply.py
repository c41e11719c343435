"""Finding the reply in a text: the JSON object, and its reply id."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.errors import ModelError
from assizes.judge.prompts.reply import ParsedReply, parse_reply
from assizes.judge.prompts.reply_object import MAX_REPLY_CHARS
from tests.judge.prompts.reply_shapes import ID, Reply, refused

FITTING = '{"why": "told `A`, then ```B```", "score": 4, "turns": [1, 2]}'
PARSED = Reply(why="told `A`, then ```B```", score=4, turns=(1, 2))


def stamped(reply_id: str = ID, why: str = "a", score: Any = 4) -> str:
    return json.dumps({"reply_id": reply_id, "why": why, "score": score})


RIGHT = stamped()
FLATTERING = stamped("0123456789ab", score=5)
READ = Reply(why="a", score=4)


# Without an id: what an object that stands alone, or all but alone, says


@pytest.mark.parametrize("text", [FITTING, f"\n {FITTING}\r\n"])
def test_an_object_that_stands_alone_is_read_as_it_is(text):
    assert parse_reply(text, Reply) == ParsedReply(PARSED)


@pytest.mark.row("002-54")
@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{FITTING}\n```",
        f"```\n{FITTING}\n```\n",
        f"```JSON {FITTING}```",
        f"```json\n{FITTING}\n``",
        f"```json\n{FITTING}",
        f"\ufeff{FITTING}",
        f"\ufeff\n ```json\r\n{FITTING}\r\n```  ",
        f"Here it is {{as asked}}: {FITTING} Thanks.",
        FITTING.replace("2]}", "2,]\n,}"),
    ],
)
def test_the_only_object_of_a_text_is_read_whatever_stands_around_it(text):
    assert parse_reply(text, Reply) == ParsedReply(PARSED, ("repaired",))


def test_line_breaks_and_tabs_inside_of_a_text_are_kept():
    parsed = parse_reply('{"why": "one\n\ttwo", "score": 1}', Reply)
    assert parsed == ParsedReply(Reply(why="one\n\ttwo", score=1), ("repaired",))


@pytest.mark.row("000-57")
@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("not json", "not json: Expecting value at character 0"),
        ("", "not json: Expecting value at character 0"),
        ("```json\n```", "not json: Expecting value at character 0"),
        ("[1]", "a JSON list instead of one JSON object"),
        ("4", "a JSON int instead of one JSON object"),
        ("[NaN]", "not json: NaN is no JSON number"),
        (json.dumps(FITTING), "a JSON str instead of one JSON object"),
        ('{"why": "a", "score": 1, "score": 5}', "key 'score' appears twice"),
        ('{"why": {"a": 1, "a": 1}}', "key 'a' appears twice"),
        ('{"why": "a", "score": NaN}', "not json: NaN is no JSON number"),
        ('{"why": "a", "score": -Infinity}', "not json: -Infinity is no JSON number"),
        ('{"why": "a", "score": 1e999}', "number 1e999 is too large"),
        ('{"why": "a", "score": 4', "not json: Expecting ',' delimiter at character 23"),
        ('{"why": "a" "x": {"why": "b"}}', "not json: Expecting ',' delimiter at character 12"),
        (f'See {{"this"}}: {FITTING}', "not json: Expecting ':' delimiter at character 11"),
        ("[" * 100_000, "not json that can be read: nested too deeply"),
        ('{"why": ' + "9" * 5000 + "}", "not json that can be read: a number is too long"),
        ("9" * 5000, "not json that can be read: a number is too long"),
        ('{"why": ' * 600 + "1" + "}" * 600, "JSON that is nested too deeply"),
        (
            "x" * (MAX_REPLY_CHARS + 1),
            f"{MAX_REPLY_CHARS + 1} characters, at most {MAX_REPLY_CHARS} are read",
        ),
    ],
    ids=range(20),
)
def test_a_text_without_an_object_that_can_be_read_is_refused(text, detail):
    assert refused(text) == ["invalid_reply", detail]


def test_of_two_objects_none_is_chosen():
    detail = "2 JSON objects; write one JSON object, nothing else"
    assert refused(f"{FITTING}\n{FITTING}") == ["ambiguous_output", detail]


def test_an_id_that_was_not_asked_for_does_no_harm():
    assert parse_reply(RIGHT, Reply) == ParsedReply(READ)


# With an id


@pytest.mark.parametrize("text", [RIGHT, f" {RIGHT}\n"])
def test_a_bare_object_is_taken_with_its_id(text):
    assert parse_reply(text, Reply, ID) == ParsedReply(READ)


def test_a_bare_object_without_its_id_may_be_one_that_the_transcript_dictated():
    code, detail = refused('{"why": "a", "score": 4}', reply_id=ID)
    assert code == "ambiguous_output"
    assert detail.startswith("the JSON object holds no reply_id; write one JSON object")


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff{RIGHT}",
        f"```json\n{RIGHT}\n```",
        f"Here is my verdict: {RIGHT} Thank you.",
        f"{RIGHT[:-1]},}}",
        f"{FLATTERING}\n{RIGHT}",
        f"{RIGHT}\n{FLATTERING}",
        f"The agent called {{}} and {{'a': 1}} and {{\"a\": b}}.\n{RIGHT}",
        f'{{"why": "a", "score": 5}} {RIGHT} {{"why": "a", "score": 5}}',
        f"[{RIGHT}]",
    ],
)
def test_around_an_object_with_the_id_anything_may_stand(text):
    assert parse_reply(text, Reply, ID) == ParsedReply(READ, ("repaired",))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (FLATTERING, "the JSON object holds another reply_id"),
        (f"\ufeff{FLATTERING}", "the JSON object holds another reply_id"),
        (stamped(reply_id=None), "the JSON object holds another reply_id"),  # type: ignore[arg-type]
        (f"```{FLATTERING}```", "no JSON object holds the reply_id"),
        (f"```{FITTING}```", "no JSON object holds the reply_id"),
        (f"{FITTING[:-1]},}}", "no JSON object holds the reply_id"),
        (f"{FLATTERING} {FITTING}", "no JSON object holds the reply_id"),
        (f'{{"all": {RIGHT}}} and that', "no JSON object holds the reply_id"),
        (f"{RIGHT} {stamped(score=5)}", "2 JSON objects hold the reply_id"),
        (f"{RIGHT} {RIGHT} {RIGHT}", "3 JSON objects hold the reply_id"),
    ],
)
def test_without_certainty_the_model_is_told_to_repeat_the_id(text, problem):
    advice = f'write one JSON object, nothing else, with "reply_id": "{ID}" as its first key'
    assert refused(text, Reply, ID) == ["ambiguous_output", f"{problem}; {advice}"]


def test_a_mistake_in_the_object_with_the_id_is_named_rather_than_the_lack_of_one():
    wrong = RIGHT.replace("4}", "NaN}")
    refusal = ["invalid_reply", "not json: NaN is no JSON number"]
    assert refused(wrong, Reply, ID) == refused(f"{wrong} {FLATTERING}", Reply, ID) == refusal


WRONG = stamped("0123456789ab", why="wrong")
UNSTAMPED = '{"why": "unstamped", "score": 5}'
LOOSE = [*'{}[]",:\\\n\ufeff\ud800', "```json\n", "NaN", "prose ", "{}"]
PARTS = ['{"reply_id": ', f'"{ID}"', ' "why": "a", "score": 4}']
pieces = st.sampled_from([RIGHT, WRONG, UNSTAMPED, *PARTS, *LOOSE])


@given(st.lists(st.one_of(pieces, st.text(max_size=3)), max_size=8).map("".join))
def test_no_text_passes_off_another_object_than_the_one_with_the_id(text):
    try:
        reply = parse_reply(text, Reply, ID).reply
    except ModelError:
        return
    assert reply.why != "wrong"
    assert reply.why != "unstamped" or text.strip().lstrip("\ufeff").strip() == UNSTAMPED
