"""What counts as a reply, and what is said about a text that is none."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from judge.errors import ModelError
from judge.reply import MAX_REPLY_CHARS, parse_reply


class Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")

    why: str
    score: float = Field(ge=0, le=5)
    turns: tuple[int, ...] = ()


class Nested(BaseModel):
    metrics: dict[str, Reply]


FITTING = '{"why": "told `A`, then ```B```", "score": 4, "turns": [1, 2]}'
PARSED = Reply(why="told `A`, then ```B```", score=4, turns=(1, 2))


@pytest.mark.row("002-54")
@pytest.mark.parametrize(
    "text",
    [
        FITTING,
        f"```json\n{FITTING}\n```",
        f"```\n{FITTING}\n```\n",
        f"```JSON {FITTING}```",
        f"```json\n{FITTING}\n``",
        f"```json\n{FITTING}",
        f"\ufeff{FITTING}",
        f"\ufeff\n ```json\r\n{FITTING}\r\n```  ",
    ],
)
def test_an_object_is_read_bare_or_in_a_fence_even_when_the_fence_is_cut_off(text):
    assert parse_reply(text, Reply) == PARSED


@pytest.mark.row("000-57")
@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("not json", "not json: Expecting value at character 0"),
        ("", "not json: Expecting value at character 0"),
        ("```json\n```", "not json: Expecting value at character 0"),
        (f"Here it is: {FITTING}", "not json: Expecting value at character 0"),
        (f"{FITTING}\n{FITTING}", "not json: Extra data at character 63"),
        ("[1]", "a JSON list instead of one JSON object"),
        ("4", "a JSON int instead of one JSON object"),
        ('{"why": "a", "score": 1, "score": 5}', "key 'score' appears twice"),
        ('{"why": {"a": 1, "a": 1}}', "key 'a' appears twice"),
        ('{"why": "a", "score": NaN}', "not json: NaN is no JSON number"),
        ('{"why": "a", "score": -Infinity}', "not json: -Infinity is no JSON number"),
        ('{"why": "a", "score": 1e999}', "number 1e999 is too large"),
        ('{"why": "a", "score": 7}', "score: Input should be less than or equal to 5"),
        ('{"why": "a"}', "score: Field required"),
        (
            '{"why": "a", "score": 1, "sure": true}',
            "sure: Extra inputs are not permitted",
        ),
        ("[" * 100_000, "not json that can be read: nested too deeply"),
        ('{"why": ' + "9" * 5000 + "}", "not json that can be read: a number is too long"),
        (
            "x" * (MAX_REPLY_CHARS + 1),
            f"{MAX_REPLY_CHARS + 1} characters, at most {MAX_REPLY_CHARS} are read",
        ),
    ],
)
def test_a_text_that_is_no_reply_is_refused_with_the_path_and_the_problem(text, detail):
    with pytest.raises(ModelError) as caught:
        parse_reply(text, Reply)
    assert (caught.value.code, caught.value.detail) == ("invalid_reply", detail)


def test_json_is_not_mended():
    with pytest.raises(ModelError, match="invalid_reply: not json: "):
        parse_reply('{"why": "a", "score": 4,}', Reply)


def test_the_path_leads_to_the_nested_field():
    with pytest.raises(ModelError) as caught:
        parse_reply('{"metrics": {"tool_routing": {"why": "a"}}}', Nested)
    assert caught.value.detail == "metrics.tool_routing.score: Field required"


def test_of_many_problems_three_are_named_and_the_others_counted():
    text = json.dumps({"why": "a", "score": 1, **{f"k{i}": i for i in range(5)}})
    with pytest.raises(ModelError) as caught:
        parse_reply(text, Reply)
    problem = "Extra inputs are not permitted"
    assert caught.value.detail == f"k0: {problem}; k1: {problem}; k2: {problem}; and 2 more"


def test_the_detail_stays_short_whatever_the_model_wrote():
    text = json.dumps({"why": "a", "score": 1, "k" * 1000: 1})
    with pytest.raises(ModelError) as caught:
        parse_reply(text, Reply)
    assert caught.value.detail == "k" * 300


def test_lone_surrogates_are_replaced_and_pairs_are_joined():
    assert (
        parse_reply(r'{"why": "\ud800 \ud83d\ude00", "score": 1}', Reply).why == "\ufffd \U0001f600"
    )
    assert parse_reply('{"why": "\udfff", "score": 1}', Reply).why == "\ufffd"


@given(why=st.text(), score=st.floats(0, 5), turns=st.lists(st.integers(0, 99)))
def test_what_a_model_serialises_is_read_back_as_it_was(why, score, turns):
    text = json.dumps({"why": why, "score": score, "turns": turns})
    expected = why.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    read = parse_reply(text, Reply)
    assert (read.why, read.score, read.turns) == (expected, score, tuple(turns))


@given(st.text())
def test_any_text_is_read_or_refused(text):
    with suppress(ModelError):
        assert isinstance(parse_reply(text, Reply), Reply)
