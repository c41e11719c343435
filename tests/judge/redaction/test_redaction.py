"""Redaction of a case: all of its texts, and one placeholder for the same value."""

from __future__ import annotations

import sys

import pytest
from pydantic import ValidationError

from assizes.judge.case import Chunk, Expected, ExpectedCall
from assizes.judge.config.transcripts import PrivacyConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.redaction.redaction import (
    EntitySpan,
    Redactor,
    presidio_finder,
    pseudonym,
    redactor,
    without_overlaps,
)
from tests.builders import agent, call, case, result, user

KEY = "sk-proj-" + "a1B2" * 10
ALL = PrivacyConfig(redact=("secret", "email", "phone", "card", "iban"))


def whole_case():
    return case(
        user(f"I am ada@example.com, key {KEY}"),
        agent(
            "Looking you up.",
            calls=[call("find", email="ADA@example.com", nested={"api_key": "abcd1234efgh"})],
        ),
        result('{"phone": "5552345678", "mail": "bob@example.com"}'),
        agent("Done, Ada."),
        case_id="ada@example.com",
        expected=Expected(
            outcomes=("A mail goes to ada@example.com",),
            tool_calls=(ExpectedCall(name="find", arguments={"email": "ada@example.com"}),),
        ),
        tags={"customer": "ada@example.com", "channel": "voice"},
        metadata={"debug": {"headers": [f"Authorization: Bearer {KEY}"]}},
        chunks=(Chunk(content="write to bob@example.com"),),
    )


@pytest.mark.row("004-96")
def test_one_value_has_one_placeholder_wherever_it_stands():
    shown = redactor(ALL).redact_case(whole_case())
    turns = shown.transcript.turns
    assert turns[0].text == "I am [EMAIL_1], key [SECRET_1]"
    assert turns[1].tool_calls[0].arguments == {
        "email": "[EMAIL_1]",
        "nested": {"api_key": "[SECRET_2]"},
    }
    assert turns[2].tool_result.content == '{"phone": "[PHONE_1]", "mail": "[EMAIL_2]"}'
    assert shown.expected.outcomes == ("A mail goes to [EMAIL_1]",)
    assert shown.expected.tool_calls[0].arguments == {"email": "[EMAIL_1]"}
    assert shown.tags == {"customer": "[EMAIL_1]", "channel": "voice"}
    assert shown.transcript.chunks[0].content == "write to [EMAIL_2]"
    assert KEY not in shown.model_dump_json()
    assert shown.case_id == "ada@example.com"  # what a case is known by is kept: hash it at source


def test_nothing_links_two_cases_of_one_person():
    first = redactor(ALL).redact_case(case(user("bob@x.io and ada@x.io")))
    second = redactor(ALL).redact_case(case(user("ada@x.io")))
    assert first.transcript.turns[0].text == "[EMAIL_1] and [EMAIL_2]"
    assert second.transcript.turns[0].text == "[EMAIL_1]"


def test_a_case_with_nothing_to_hide_is_the_very_same():
    plain = case(user("Hi"), agent("Hello", calls=[call("look", depth=3)]), tags={"a": "b"})
    assert redactor(ALL).redact_case(plain) is plain


def test_without_a_word_about_privacy_keys_are_hidden_and_addresses_are_not():
    shown = redactor(PrivacyConfig()).redact_case(whole_case())
    assert shown.transcript.turns[0].text == "I am ada@example.com, key [SECRET_1]"
    assert Redactor(()).redact_case(whole_case()) == whole_case()


def test_a_telling_cluster_becomes_a_pseudonym_that_still_tells_clusters_apart():
    clusters = {
        redactor(ALL).redact_case(case(user("Hi"), cluster=name)).cluster
        for name in ("ada@x.io", "bob@x.io", "ada@x.io", "session 7")
    }
    assert clusters == {pseudonym("ada@x.io"), pseudonym("bob@x.io"), "session 7"}


def test_statements_that_were_changed_are_not_run():
    """The expected and the actual statement would both return no rows, and so seem to agree."""
    wanted = Expected(sql="select * from u where mail = 'ada@x.io'", database="u.sqlite")
    made = case(user("Hi"), agent(calls=[call("sql", q="select 1")]), expected=wanted)
    assert redactor(ALL).redact_case(made).expected.database is None
    plain = wanted.model_copy(update={"sql": "select 1"})
    unchanged = case(user("ada@x.io"), agent(calls=[call("sql", q="select 1")]), expected=plain)
    assert redactor(ALL).redact_case(unchanged).expected.database == "u.sqlite"


def test_own_rules_go_first():
    rules = (
        {"name": "ORDER", "pattern": r"#W\d{7}"},
        {"name": "PIN", "pattern": r"pin (?P<value>\d+)"},
    )
    own = redactor(PrivacyConfig(redact=(), rules=rules))
    assert own.redact_text("#W1234567, pin 4711, pin 4712") == "[ORDER_1], pin [PIN_1], pin [PIN_2]"


def test_a_number_of_json_is_looked_at_like_a_text():
    arguments = {
        "card_number": 4111111111111111,
        "phone": 4155551234,
        "phone_numbers": [4155551234, 4155551235.0],
        "orders": [4111111111111111, 7, True, 1.5, 1700000000],
    }
    made = case(user("Hi"), agent(calls=[call("pay", **arguments)]))
    assert redactor(ALL).redact_case(made).transcript.turns[1].tool_calls[0].arguments == {
        "card_number": "[CARD_1]",
        "phone": "[PHONE_1]",
        "phone_numbers": ["[PHONE_1]", "[PHONE_2]"],
        "orders": ["[CARD_1]", 7, True, 1.5, 1700000000],
    }


def test_a_telling_name_tells_of_each_part_of_a_list():
    metadata = {
        "api_keys": ["9f8e7d6c5b4a", "9f8e7d6c5b4b"],
        "tokens": ("9f8e7d6c5b4a",),
        "signing_key": "9f8e7d6c5b4a9f8e7d6c5b4a",
        "key": "order_4711_of_12",
        "total_tokens": 12345678,
    }
    made = case(user("Hi"), metadata=metadata)
    assert redactor(ALL).redact_case(made).metadata == {
        "api_keys": ["[SECRET_1]", "[SECRET_2]"],
        "tokens": ("[SECRET_1]",),
        "signing_key": "[SECRET_3]",
        "key": "order_4711_of_12",
        "total_tokens": 12345678,
    }


def test_a_tab_before_a_credential_does_not_hide_it_from_the_case():
    shown = redactor(PrivacyConfig()).redact_case(case(user("Bearer\tabcdefgh12345678")))
    assert shown.transcript.turns[0].text == "Bearer\t[SECRET_1]"


@pytest.mark.parametrize(
    ("pattern", "text", "shown"),
    [
        (r"\b[A-Z]*\d*\b", "hello A1, b", "hello [OWN_1], b"),
        (r"(?=o)", "hello", "hello"),
        (r"\[ticket \d+\]", "see [ticket 12]", "see [OWN_1]"),
        (r"\[.+?\]", "[SECRET_3] and [ticket 12]", "[SECRET_3] and [OWN_1]"),
    ],
)
def test_an_own_rule_may_find_nothing_and_brackets(pattern: str, text: str, shown: str):
    own = redactor(PrivacyConfig(redact=(), rules=({"name": "OWN", "pattern": pattern},)))
    assert own.redact_text(text) == shown


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"name": "ORDER", "pattern": "("}, "no regular expression"),
        ({"name": "ORDER", "pattern": "x*"}, "matches the empty text"),
        ({"name": "order", "pattern": "x"}, "should match pattern"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(rule, message):
    with pytest.raises(ValidationError, match=message):
        PrivacyConfig(rules=(rule,))


def test_of_overlapping_entities_the_first_given_stays():
    person, other = EntitySpan(5, 20, "PERSON"), EntitySpan(30, 31, "X")
    assert without_overlaps([person, EntitySpan(0, 7, "ORG"), other]) == [person, other]


def test_presidio_that_is_not_there_is_named_with_the_way_to_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    with pytest.raises(ConfigurationError, match=r"install assizes\[presidio\]"):
        presidio_finder(("PERSON",), "en")
