"""Files and batches of the judge model server, as litellm asks for them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from assizes.judge.models.litellm_model import (
    litellm,  # it sets it up first: no price list over the network
)
from tests.doubles.asking import RIGHT, ask, body
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer, running_openai_server


def where(server: OpenAIServer) -> dict[str, Any]:
    return {"custom_llm_provider": "openai", "api_base": server.api_base, "api_key": OPENAI_KEY}


def jsonl(model: str, count: int) -> bytes:
    lines = [
        {
            "custom_id": f"ask-{n}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": body(model, f"case {n}"),
        }
        for n in range(count)
    ]
    return "\n".join(map(json.dumps, lines)).encode()


async def submitted(server: OpenAIServer, content: bytes) -> Any:
    file = await litellm.acreate_file(
        file=("asks.jsonl", content), purpose="batch", **where(server)
    )
    return await litellm.acreate_batch(
        input_file_id=file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        metadata={"run": "r1"},
        **where(server),
    )


async def ended(server: OpenAIServer, batch: Any) -> Any:
    while batch.status in ("validating", "in_progress", "finalizing"):
        await asyncio.sleep(0.02)
        batch = await litellm.aretrieve_batch(batch_id=batch.id, **where(server))
    return batch


async def lines(server: OpenAIServer, file_id: str | None) -> list[dict[str, Any]]:
    if file_id is None:
        return []
    content = await litellm.afile_content(file_id=file_id, **where(server))
    return [json.loads(line) for line in content.text.splitlines()]


async def outcome(server: OpenAIServer, model: str, count: int) -> tuple[Any, list, list]:
    batch = await ended(server, await submitted(server, jsonl(model, count)))
    files = [await lines(server, one) for one in (batch.output_file_id, batch.error_file_id)]
    return batch, files[0], files[1]


async def test_a_batch_answers_every_line_and_is_listed(judge_server):
    begun = await submitted(judge_server, jsonl("stub", 3))
    assert (begun.status, begun.metadata) == ("validating", {"run": "r1"})
    batch = await ended(judge_server, begun)

    out = await lines(judge_server, batch.output_file_id)
    assert (batch.status, batch.error_file_id, batch.errors) == ("completed", None, None)
    assert batch.request_counts.model_dump() == {"total": 3, "completed": 3, "failed": 0}
    assert [one["custom_id"] for one in out] == ["ask-0", "ask-1", "ask-2"]
    for one in out:
        assert one["response"]["status_code"] == 200
        said = one["response"]["body"]["choices"][0]["message"]["content"]
        assert json.loads(said) == RIGHT
    listed = await litellm.alist_batches(limit=10, **where(judge_server))
    assert [one.id for one in listed.data] == [batch.id]
    assert listed.has_more is False


async def test_a_batch_is_counted_apart_from_requests(judge_server):
    await outcome(judge_server, "stub", 3)
    await outcome(judge_server, "stub", 4)

    stats = judge_server.stats()
    names = ("requests", "batches", "batch_lines", "batch_repeats", "batch_answered", "paid_again")
    assert [stats[name] for name in names] == [0, 2, 7, 3, 7, 3]
    assert stats["output_tokens"] > 0
    (second, first) = judge_server.batches()
    assert len(judge_server.batch_requests(second)) == 4
    assert len(judge_server.batch_requests(first)) == 3


async def test_every_tenth_line_of_a_partial_batch_fails_and_may_be_asked_live(judge_server):
    batch, out, failed = await outcome(judge_server, "stub-batch-partial", 20)

    assert (batch.status, len(out)) == ("completed", 18)
    assert [(one["custom_id"], one["response"]["status_code"]) for one in failed] == [
        ("ask-9", 500),
        ("ask-19", 500),
    ]
    assert (await ask(judge_server, "stub-batch-partial", "case 9")).how == "good"


async def test_half_of_an_expired_batch_is_answered(judge_server):
    batch, out, failed = await outcome(judge_server, "stub-batch-expired", 4)

    assert (batch.status, batch.expired_at is not None) == ("expired", True)
    assert [one["custom_id"] for one in out] == ["ask-0", "ask-1"]
    assert [(one["response"], one["error"]["code"]) for one in failed] == [
        (None, "batch_expired"),
        (None, "batch_expired"),
    ]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (jsonl("stub-batch-failed", 2), "model_not_found"),
        (jsonl("stub", 1) + b"\nnot json", "invalid_json_line"),
        (jsonl("stub", 1) + b"\n" + jsonl("stub", 1), "duplicate_custom_id"),
        (jsonl("stub", 1) + b"\n" + jsonl("other", 2), "mismatched_model"),
        (b"", "empty_file"),
    ],
)
async def test_a_batch_that_cannot_be_run_fails_its_validation(judge_server, content, code):
    batch = await ended(judge_server, await submitted(judge_server, content))

    assert (batch.status, batch.output_file_id) == ("failed", None)
    assert code in [one.code for one in batch.errors.data]
    assert judge_server.stats()["batch_lines"] == 0


@pytest.mark.parametrize(
    ("fault", "status"),
    [("status-503", 503), ("context", 400), ("flaky-reset-1", 500), ("flaky-502html-1", 500)],
)
async def test_a_line_that_fails_is_in_the_error_file_with_its_status(judge_server, fault, status):
    _, out, failed = await outcome(judge_server, f"stub-{fault}", 1)

    assert (out, failed[0]["response"]["status_code"]) == ([], status)
    assert failed[0]["response"]["body"]["error"]["message"]


async def test_a_cancelled_batch_keeps_what_it_had_answered():
    with running_openai_server("--batch-delay", "3") as server:
        early = await submitted(server, jsonl("stub", 4))
        await litellm.acancel_batch(batch_id=early.id, **where(server))
        late = await submitted(server, jsonl("stub", 4))
        while late.status != "in_progress":
            late = await litellm.aretrieve_batch(batch_id=late.id, **where(server))
        cancelling = await litellm.acancel_batch(batch_id=late.id, **where(server))
        early, late = [
            await litellm.aretrieve_batch(batch_id=one.id, **where(server)) for one in (early, late)
        ]

        assert (cancelling.status, early.status, late.status) == ("cancelling",) + (
            "cancelled",
        ) * 2
        assert early.output_file_id is None
        assert len(await lines(server, late.output_file_id)) == 2


async def test_an_unknown_file_or_batch_is_named(judge_server):
    with pytest.raises(Exception, match="no such file"):
        await litellm.acreate_batch(
            input_file_id="file-none",
            endpoint="/v1/chat/completions",
            completion_window="24h",
            **where(judge_server),
        )
    with pytest.raises(Exception, match="batch_none"):
        await litellm.aretrieve_batch(batch_id="batch_none", **where(judge_server))
