"""What counts as a reply, what is put right in it, and what is said about a text that is none."""

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
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticKnownError

from judge.errors import ModelError
from judge.protocol import Ask, Prompt
from judge.reply import Parsed, parse_reply, read_reply
from judge.reply_object import MAX_REPLY_CHARS
from judge.reply_text import MAX_TEXT_CHARS


class Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")

    why: str
    score: float = Field(ge=0, le=5)
    turns: tuple[int, ...] = ()


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


ID = "00c0ffee1234"
FITTING = '{"why": "told `A`, then ```B```", "score": 4, "turns": [1, 2]}'
PARSED = Reply(why="told `A`, then ```B```", score=4, turns=(1, 2))


def stamped(reply_id: str = ID, why: str = "a", score: Any = 4) -> str:
    return json.dumps({"reply_id": reply_id, "why": why, "score": score})


RIGHT = stamped()
FLATTERING = stamped("0123456789ab", score=5)
READ = Reply(why="a", score=4)


def words(**fields: Any) -> Parsed[Words]:
    return parse_reply(json.dumps(fields), Words)


def refused(text: str, reply: type[BaseModel] = Reply, reply_id: str | None = None) -> list[str]:
    with pytest.raises(ModelError) as caught:
        parse_reply(text, reply, reply_id)
    return [caught.value.code, caught.value.detail]


# Without an id: what an object that stands alone, or all but alone, says


@pytest.mark.parametrize("text", [FITTING, f"\n {FITTING}\r\n"])
def test_an_object_that_stands_alone_is_read_as_it_is(text):
    assert parse_reply(text, Reply) == Parsed(PARSED)


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
    assert parse_reply(text, Reply) == Parsed(PARSED, ("repaired",))


def test_line_breaks_and_tabs_inside_of_a_text_are_kept():
    parsed = parse_reply('{"why": "one\n\ttwo", "score": 1}', Reply)
    assert parsed == Parsed(Reply(why="one\n\ttwo", score=1), ("repaired",))


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
    assert parse_reply(RIGHT, Reply) == Parsed(READ)


# With an id


@pytest.mark.parametrize("text", [RIGHT, f" {RIGHT}\n"])
def test_a_bare_object_is_taken_with_its_id(text):
    assert parse_reply(text, Reply, ID) == Parsed(READ)


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
    assert parse_reply(text, Reply, ID) == Parsed(READ, ("repaired",))


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
    told = f'write one JSON object, nothing else, with "reply_id": "{ID}" as its first key'
    assert refused(text, Reply, ID) == ["ambiguous_output", f"{problem}; {told}"]


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
    assert words(level=given_) == Parsed(Words(level=4), ("coerced",))


def test_numbers_in_lists_are_read_too():
    assert words(turns=["1", 2.0, 3]) == Parsed(Words(turns=[1, 2, 3]), ("coerced",))


@pytest.mark.parametrize(("given_", "read"), [("0.5", 0.5), (" 1 ", 1.0), ("2e-1", 0.2)])
def test_a_number_is_read_out_of_a_text(given_, read):
    assert words(part=given_) == Parsed(Words(part=read), ("coerced",))


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
    assert words(word=given_) == Parsed(Words(word=read), ("normalised",))


def test_a_number_may_stand_for_the_word_that_it_is():
    assert words(word=4) == words(word=4.0) == Parsed(Words(word="4"), ("coerced",))


def test_the_words_of_an_enum_are_known_too():
    assert words(tone="Hard ") == Parsed(Words(tone=Tone.HARD), ("normalised",))


def test_null_for_what_may_be_left_out_leaves_it_out():
    assert words(level=None, turns=None) == Parsed(Words(), ("coerced",))
    assert words(note=None) == Parsed(Words())


def test_keys_that_nobody_asked_for_are_left_out_and_worth_asking_once_more():
    parsed = words(level="4", mood="good", more={"a": 1})
    doubt = "mood: Extra inputs are not permitted; more: Extra inputs are not permitted"
    assert parsed == Parsed(Words(level=4), ("coerced", "extra_keys"), doubt)


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
    assert parse_reply(text, Reply) == Parsed(
        Reply(why=read, score=1), ("text_replaced", sha256(text))
    )


def test_a_lone_surrogate_in_the_text_itself_is_replaced():
    assert parse_reply('{"why": "\udfff", "score": 1}', Reply).reply.why == "\ufffd"


def test_pairs_of_surrogates_line_breaks_and_other_scripts_are_left_alone():
    text = r'{"why": "\ud83d\ude00 a\n\tb ä 漢", "score": 1}'
    assert parse_reply(text, Reply) == Parsed(Reply(why="\U0001f600 a\n\tb ä 漢", score=1))


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
    assert parse_reply(text, Reply) == Parsed(Reply(why=why, score=score, turns=tuple(turns)))


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
