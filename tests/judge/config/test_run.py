"""Secrets that a configuration refuses: it is stored with every run, shown, and sent to Prefect."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from assizes.judge.config.run import RunConfig

SECRET = "hunter2"


def config(**tables: Any) -> RunConfig:
    return RunConfig.model_validate({"transcripts": {"uri": "in/"}, **tables})


def refused(**tables: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        config(**tables)
    assert SECRET not in str(caught.value)
    (fault,) = caught.value.errors(include_input=False, include_context=False)
    return fault["msg"].removeprefix("Value error, ")


@pytest.mark.parametrize("table", ["store", "cache", "report", "transcripts"])
@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"secret": SECRET}, "secret"),
        ({"client_kwargs": {"aws_secret_access_key": SECRET}}, None),
        ({"client_kwargs": {"aws_session_token": SECRET}}, None),
        ({"headers": {"Authorization": f"Bearer {SECRET}"}}, None),
        ({"hosts": [{"name": "a"}, {"password": SECRET}]}, "hosts.1.password"),
        ({"connection_string": SECRET}, None),
        ({"endpoint": {"deep": {"er": {"api_KEY": SECRET}}}}, None),
    ],
)
def test_secrets_of_any_depth_are_refused_by_their_place(table, options, place):
    place = place or _path(options)
    assert refused(**{table: {"uri": "x", "storage_options": options}}) == (
        f"[{table}] storage_options.{place}: secrets belong in the environment "
        "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"
    )


def _path(options: Any) -> str:
    ((name, value),) = options.items()
    return f"{name}.{_path(value)}" if isinstance(value, dict) else name


@pytest.mark.parametrize(
    ("tables", "place"),
    [
        ({"store": {"uri": f"s3://ada:{SECRET}@host/lake"}}, "[store] uri"),
        ({"cache": {"uri": f"simplecache::https://{SECRET}@host/x"}}, "[cache] uri"),
        ({"report": {"uri": f"sftp://ada:{SECRET}@host/reports"}}, "[report] uri"),
        ({"transcripts": {"uri": f"https://host/x?X-Amz-Signature={SECRET}"}}, "[transcripts] uri"),
        ({"judge": {"api_base": f"http://ada:{SECRET}@host/v1"}}, "[judge] api_base"),
        ({"judge": {"api_base": f"http://host/v1?api_key={SECRET}"}}, "[judge] api_base"),
        (
            {"judge": {"options": {"own": {"lookup": f"https://{SECRET}@host"}}}},
            "[judge] options.own.lookup",
        ),
        (
            {"store": {"storage_options": {"endpoint_url": f"http://ada:{SECRET}@host:9000"}}},
            "[store] storage_options.endpoint_url",
        ),
        (
            {"cache": {"storage_options": {"proxies": [f"http://ada:{SECRET}@host:9000"]}}},
            "[cache] storage_options.proxies.0",
        ),
    ],
)
def test_urls_with_credentials_are_refused_wherever_they_stand(tables, place):
    assert refused(**tables) == (
        f"{place}: holds a URL with a password, key or signature in it; "
        "secrets belong in the environment"
    )


@pytest.mark.parametrize(
    "tables",
    [
        {
            "store": {
                "uri": "s3://bucket/lake@2/a:b",
                "storage_options": {
                    "endpoint_url": "http://127.0.0.1:9000",
                    "client_kwargs": {"region_name": "eu-central-1", "verify": False},
                    "config_kwargs": {"signature_version": "s3v4", "s3": {"tcp_keepalive": True}},
                    "s3_additional_kwargs": {"SSEKMSKeyId": "alias/lake"},
                },
            }
        },
        {"transcripts": {"uri": "abfs://container@account.example/in/*.jsonl"}},
        {"report": {"uri": "sftp://ada@host/reports"}},
        {"judge": {"api_base": "https://host/v1?version=2", "options": {"a": {"max_tokens": 5}}}},
    ],
)
def test_addresses_and_settings_that_give_nothing_away_are_taken(tables):
    configured = config(**tables)
    for table, values in tables.items():
        dumped = configured.model_dump()[table]
        assert {name: dumped[name] for name in values} == values
