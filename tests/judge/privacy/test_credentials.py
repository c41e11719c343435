"""Credentials in texts: what is masked, and that masking leaves everything else alone."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.privacy.secret_masking import mask_credentials, revealing_urls


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://ada:pw@host/x", "s3://***@host/x"),
        ("s3://ada:p@w@host/x", "s3://***@host/x"),
        ("HTTPS://token@host/x", "HTTPS://***@host/x"),
        ("git+https://token@host/x", "git+https://***@host/x"),
        ("a::http://u:p@h and http://v:q@i", "a::http://***@h and http://***@i"),
        ("https://h/x?a=1&sig=ab%2B&b=2", "https://h/x?a=1&sig=***&b=2"),
        (
            "http://h?X-Amz-Credential=a&Signature=b#c",
            "http://h?X-Amz-Credential=***&Signature=***#c",
        ),
        ("sftp://ada@host/x",) * 2,
        ("abfs://container@account/x",) * 2,
        ("https://h/@user/a:b@c",) * 2,
        ("s3://bucket/day=1/*.json",) * 2,
        ("no url: ada:pw@host?token=x",) * 2,
    ],
)
def test_only_credentials_are_masked(text, shown):
    assert mask_credentials(text) == shown
    assert list(revealing_urls({"uri": text})) == ([] if text == shown else ["uri"])


@given(st.text(st.sampled_from("ah:/@?&=# *") | st.characters(), max_size=40))
def test_a_masked_text_holds_nothing_more_to_mask(text):
    once = mask_credentials(f"http://{text}")
    assert mask_credentials(once) == once


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://h/?token?=x&a=b", "http://h/?token?=***&a=b"),
        ("http://h/?token&token=x", "http://h/?token&token=***"),
        (f"{'1' * 45}://u:pw@h", f"{'1' * 45}://***@h"),
    ],
)
def test_a_name_without_a_value_hides_no_secret_behind_it(text, shown):
    assert mask_credentials(text) == shown


def test_a_word_without_an_end_is_looked_at_in_linear_time():
    begun = time.process_time()
    assert mask_credentials("a" * 400_000) == "a" * 400_000
    assert mask_credentials(f"http://x/{'?' * 400_000}") == f"http://x/{'?' * 400_000}"
    assert (
        mask_credentials(f"{'a' * 400_000}+https://token@host")
        == f"{'a' * 400_000}+https://***@host"
    )
    assert time.process_time() - begun < 5  # squared, it takes half an hour
