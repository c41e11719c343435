"""Repairs of values in a reply, and doubts for which the model is asked once more."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticKnownError

from assizes.judge.errors import ModelError
from assizes.judge.prompts.reply import ParsedReply, parse_reply, read_reply
from assizes.judge.prompts.reply_object import MAX_TEXT_CHARS
from assizes.judge.protocol import Ask, Prompt
from tests.judge.prompts.reply_shapes import ID, Reply, refused


class Nested(BaseModel):
    metrics: dict[str, Reply]


class Tone(Enum):
    SOFT = "soft"
    HARD = "hard"


class Words(BaseModel):
    model_config = ConfigDict(extra="forbid")

    level: int = 0
    part: float = 0.0
    sure: bool = False
    word: Literal["yes", "no", 'it\'s "fine" or not', "one step", "4"] = "no"
    tone: Tone = Tone.SOFT
    note: str | None = None
    turns: list[int] = []


def words(**fields: Any) -> ParsedReply[Words]:
    return parse_reply(json.dumps(fields), Words)


# How strictly it has to fit


@pytest.mark.row("000-56")
@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ('{"why": "a", "score": 7}', "score: Input should be less than or equal to 5"),
        ('{"why": "a"}', "score: Field required"),
        ('{"why": null, "score": 1}', "why: Field required"),
        ('{"why": "a", "score": true}', "score: Input should be a valid number"),
        ('{"why": 4, "score": 1}', "why: Input should be a valid string"),
        ('{"why": "a", "more": 1}', "more: Extra inputs are not permitted; score: Field required"),
        ("{}", "why: Field required; score: Field required"),
    ],
)
def test_an_object_that_does_not_fit_is_refused_with_the_path_and_the_problem(text, detail):
    assert refused(text) == ["schema", detail]


@pytest.mark.parametrize("given_", ["4", 4.0, " 4 ", "4.0", "+4"])
def test_a_whole_number_is_read_however_it_is_written(given_):
    assert words(level=given_) == ParsedReply(Words(level=4), ("coerced",))


def test_numbers_in_lists_are_read_too():
    assert words(turns=["1", 2.0, 3]) == ParsedReply(Words(turns=[1, 2, 3]), ("coerced",))


@pytest.mark.parametrize(("given_", "read"), [("0.5", 0.5), (" 1 ", 1.0), ("2e-1", 0.2)])
def test_a_number_is_read_out_of_a_text(given_, read):
    assert words(part=given_) == ParsedReply(Words(part=read), ("coerced",))


@pytest.mark.parametrize(
    "fields",
    [
        {"level": True},
        {"level": 4.5},
        {"level": "4.5"},
        {"level": "four"},
        {"level": "4/5"},
        {"level": "1_0"},
        {"level": "٤"},
        {"level": "9" * 5000},
        {"level": [4]},
        {"level": "nan"},
        {"part": "inf"},
        {"part": "1e999"},
        {"part": True},
        {"sure": "yes"},
        {"sure": "true"},
        {"sure": 1},
        {"sure": 0},
        {"word": True},
        {"word": "ye"},
        {"word": "yes."},
        {"word": 5},
        {"tone": "loud"},
        {"note": 4},
        {"turns": [True]},
        {"turns": [0.5]},
        {"turns": "1"},
    ],
    ids=str,
)
def test_what_would_have_to_be_guessed_is_refused(fields):
    with pytest.raises(ModelError, match=f"^schema: {next(iter(fields))}"):
        words(**fields)


@pytest.mark.parametrize(
    ("given_", "read"),
    [
        (" Yes\n", "yes"),
        ("NO", "no"),
        ("One  Step", "one step"),
        ("one_step", "one step"),
        ('It\'s "FINE" or not', 'it\'s "fine" or not'),
    ],
)
def test_a_word_is_known_in_any_case_and_with_any_white_space(given_, read):
    assert words(word=given_) == ParsedReply(Words(word=read), ("normalised",))


def test_a_number_may_stand_for_the_word_that_it_is():
    assert words(word=4) == words(word=4.0) == ParsedReply(Words(word="4"), ("coerced",))


def test_the_words_of_an_enum_are_known_too():
    assert words(tone="Hard ") == ParsedReply(Words(tone=Tone.HARD), ("normalised",))


def test_null_for_what_may_be_left_out_leaves_it_out():
    assert words(level=None, turns=None) == ParsedReply(Words(), ("coerced",))
    assert words(note=None) == ParsedReply(Words())


def test_keys_that_nobody_asked_for_are_left_out_and_worth_asking_once_more():
    parsed = words(level="4", mood="good", more={"a": 1})
    doubt = "mood: Extra inputs are not permitted; more: Extra inputs are not permitted"
    assert parsed == ParsedReply(Words(level=4), ("coerced", "extra_keys"), doubt)


def test_the_doubts_of_an_ask_come_on_top():
    ask = Ask(Prompt("s", "u"), Words, doubts=lambda reply: f"level is {reply.level}")
    both = "mood: Extra inputs are not permitted; level is 3"
    assert read_reply(ask, '{"level": 3, "mood": 1}').doubt == both
    assert read_reply(ask, '{"level": 3}').doubt == "level is 3"
    assert read_reply(Ask(Prompt("s", "u"), Words), '{"level": 3}').doubt is None


def test_a_validator_that_is_never_content_is_not_tried_for_ever():
    def never(value: object) -> object:
        raise PydanticKnownError("literal_error", {"expected": "'a' or 'b'"})

    class Stubborn(BaseModel):
        word: Annotated[str, BeforeValidator(never)]

    assert refused('{"word": "A"}', Stubborn) == ["schema", "word: Input should be 'a' or 'b'"]


def test_the_path_leads_to_the_nested_field():
    text = '{"metrics": {"tool_routing": {"why": "a"}}}'
    assert refused(text, Nested) == ["schema", "metrics.tool_routing.score: Field required"]
    text = '{"metrics": {"tool_routing": {"why": "a", "score": "4", "mood": 1}}}'
    assert parse_reply(text, Nested).flags == ("coerced", "extra_keys")


def test_of_many_problems_three_are_named_and_the_others_counted():
    text = json.dumps({"turns": [[], [], []]})
    problem = "Input should be a valid integer"
    assert refused(text)[1] == (
        f"why: Field required; score: Field required; turns.0: {problem}; and 2 more"
    )


def test_the_detail_stays_short_whatever_the_model_wrote():
    assert refused(json.dumps({"k" * 1000: 1}))[1] == "k" * 300


# Texts


def sha256(text: str) -> str:
    return f"text_sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"\ud800 x", "\ufffd x"),
        (r"a\u0000b\u001b[31m", "a\ufffdb\ufffd[31m"),
        ("a\x7fb\x9b", "a\ufffdb\ufffd"),
    ],
)
def test_what_cannot_be_printed_is_replaced_and_the_original_known_by_its_hash(written, read):
    text = f'{{"why": "{written}", "score": 1}}'
    assert parse_reply(text, Reply) == ParsedReply(
        Reply(why=read, score=1), ("text_replaced", sha256(text))
    )


def test_a_lone_surrogate_in_the_text_itself_is_replaced():
    assert parse_reply('{"why": "\udfff", "score": 1}', Reply).reply.why == "\ufffd"


def test_pairs_of_surrogates_line_breaks_and_other_scripts_are_left_alone():
    text = r'{"why": "\ud83d\ude00 a\n\tb ä 漢", "score": 1}'
    assert parse_reply(text, Reply) == ParsedReply(Reply(why="\U0001f600 a\n\tb ä 漢", score=1))


def test_a_long_text_is_cut_and_the_original_known_by_its_hash():
    text = json.dumps({"why": "y" * 1_000_000, "score": 1})
    parsed = parse_reply(text, Reply)
    assert parsed.reply.why == "y" * (MAX_TEXT_CHARS - 1) + "…"
    assert parsed.flags == ("text_capped", sha256(text))


@given(
    why=st.text(st.characters(min_codepoint=32, exclude_categories=["Cc", "Cs"])),
    score=st.floats(0, 5),
    turns=st.lists(st.integers(0, 99)),
)
def test_what_a_model_serialises_is_read_back_as_it_was(why, score, turns):
    text = json.dumps({"why": why, "score": score, "turns": turns})
    assert parse_reply(text, Reply) == ParsedReply(Reply(why=why, score=score, turns=tuple(turns)))


@given(st.text(), st.sampled_from([ID, None]))
def test_any_text_is_read_or_refused(text, reply_id):
    with suppress(ModelError):
        assert isinstance(parse_reply(text, Reply, reply_id).reply, Reply)


# Time


@pytest.mark.parametrize("reply_id", [ID, None])
@pytest.mark.parametrize(
    "piece",
    [
        "{",
        '{"a":',
        '{"a',
        "{}",
        '{"a":1,}',
        '{"a":[1,2,],',
        '{"a":[',
        '"\\"',
        "{ ",
        '{"a":"\\"',
        "[",
    ],
)
def test_a_text_made_to_be_slow_is_read_in_linear_time(piece, reply_id):
    text = (piece * 200_000)[:200_000]
    started = time.perf_counter()
    with pytest.raises(ModelError):
        parse_reply(text, Reply, reply_id)
    assert time.perf_counter() - started < 10  # squared, it takes minutes
