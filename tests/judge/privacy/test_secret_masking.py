"""Texts about a run hold no secret, and everything else in them stays."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.config.run import RunConfig
from assizes.judge.config.transcripts import PrivacyConfig
from assizes.judge.errors import ConfigurationError, DataError, ModelError
from assizes.judge.models.provider_calls import completion_of
from assizes.judge.privacy import secret_masking
from assizes.judge.privacy.secret_masking import (
    MASK,
    keys_in,
    mask,
    mask_process_secrets,
    mask_values,
    process_secret_rules,
    register_secrets,
    secrets_in,
)
from assizes.judge.redaction.redaction import redactor

OWN = "q7c0ffee55aa"
KEY = "sk-proj-" + "a1B2" * 6


@pytest.fixture(autouse=True)
def _known():
    register_secrets([OWN, f"{OWN}-longer"])


@pytest.mark.row("S4")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"x{OWN}y", "x***y"),
        (f"{OWN}-longer", "***"),
        (f"key {KEY} is wrong", "key sk-*** is wrong"),
        ("at postgresql://svc:hunter2x@db/app", "at postgresql://***@db/app"),
        ("{'password': 'a1b2c3d4e5'}", "{'password': '***'}"),
        ("Authorization: Bearer abc.def-1234567890", "Authorization: Bearer ***"),
        ("https://h/x?sig=abc&a=1", "https://h/x?sig=***&a=1"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----", "***"),
        ("password: unchanged here",) * 2,
        ("set ANTHROPIC_API_KEY in the environment",) * 2,
        ("[judge] model 'openai/gpt-4.1': set OPENAI_API_KEY",) * 2,
        ("shard 3f9c5d1e8a20 committed: {'judged': 3}",) * 2,
        ("300 tokens, 12 of them cached",) * 2,
    ],
)
def test_secrets_are_starred_and_nothing_else(text: str, shown: str):
    assert mask(text) == shown
    assert mask(shown) == shown


@given(st.text(max_size=60))
def test_hiding_twice_is_hiding_once(text: str):
    once = mask(f"secret={text} {OWN}")
    assert OWN not in once
    assert mask(once) == once


@pytest.mark.row("S4")
def test_errors_of_ours_are_said_without_secrets():
    assert OWN not in str(ConfigurationError(f"no way to {OWN}"))
    assert DataError("json", f"at {OWN}").detail == f"at {MASK}"
    assert ModelError("bad", f"at {KEY}").detail == "at sk-***"
    assert ConfigurationError(3).args == (3,)


@pytest.mark.row("S4")
def test_what_a_name_calls_secret_is_hidden_and_remembered():
    settings = {
        "config": {"storage_options": {"secret": "letters-only-x1", "endpoint": "http://h"}},
        "lists": [{"api_key": "abcdefgh9"}, f"with {OWN}", 4, None],
        "judge": {"criteria_key": "expected_answer", "max_output_tokens": 4096},
    }
    assert mask_values(settings) == {
        "config": {"storage_options": {"secret": MASK, "endpoint": "http://h"}},
        "lists": [{"api_key": MASK}, f"with {MASK}", 4, None],
        "judge": settings["judge"],
    }
    assert mask_process_secrets("said letters-only-x1 aloud") == f"said {MASK} aloud"


def test_what_lies_too_deep_is_not_shown():
    deep: dict = {}
    for _ in range(60):
        deep = {"in": deep}
    assert MASK in str(mask_values(deep))


@pytest.mark.row("S4")
def test_the_environment_tells_its_secrets():
    environment = {
        "OPENAI_API_KEY": "one",
        "MY_DSN": "postgresql://svc:p%40ss@db/x",
        "PROXY": "http://token@proxy:3128",
        "GOOGLE_KEY_FILE": "/etc/key.json",
        "HOME": "/root",
        "PLAIN_URL": "https://host/path",
        "LANG": "C",
    }
    assert set(secrets_in(environment)) == {"one", "p%40ss", "p@ss", "token"}


def test_short_texts_and_plain_words_are_not_hidden():
    register_secrets(["short1", "password", "postgres"])
    assert mask_process_secrets("short1 password postgres") == "short1 password postgres"


@pytest.mark.row("S4")
def test_a_transcript_loses_the_secrets_of_the_process_whatever_is_configured():
    assert process_secret_rules()
    assert (
        redactor(PrivacyConfig(redact=())).redact_text(f"a {OWN} b {KEY}")
        == f"a [SECRET_1] b {KEY}"
    )


@pytest.mark.row("S4")
def test_a_reply_that_repeats_a_key_is_kept_without_it():
    message = SimpleNamespace(content=f'{{"reason": "Bearer {OWN}"}}')
    response = SimpleNamespace(choices=[SimpleNamespace(message=message)], model="m", usage=None)
    assert completion_of(response, "m", None).text == f'{{"reason": "Bearer {MASK}"}}'


@pytest.mark.row("S4")
@pytest.mark.parametrize(
    ("table", "place"),
    [
        ({"anchors": {"uri": f"s3://b/{KEY}"}}, r"\[anchors\] uri"),
        ({"transcripts": {"uri": "x", "storage_options": {"a": {"b": [KEY]}}}}, "a.b.0"),
        ({"judge": {"options": {"sql": {"note": f"Bearer {OWN}abcdefgh"}}}}, "options.sql.note"),
        ({"ground_truth": {"uri": "https://ada:secret@h/x"}}, r"\[ground_truth\] uri"),
        ({"limits": {"ledger": "http://ada:pw@h/l.db"}}, r"\[limits\] ledger"),
    ],
)
def test_a_configuration_with_a_secret_in_it_is_refused(table, place: str):
    with pytest.raises(ValueError, match=place) as refused:
        RunConfig.model_validate({"transcripts": {"uri": "t"}, **table})
    assert KEY not in str(refused.value)


def test_places_of_keys_are_named():
    assert list(keys_in({"a": [KEY, "no key"], "b": 3})) == ["a.0"]


def test_a_process_without_secrets_looks_for_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(secret_masking._ProcessSecrets, "values", ())
    assert process_secret_rules() == ()
