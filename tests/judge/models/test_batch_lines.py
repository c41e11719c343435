"""A provider's files and batches, over real HTTP by way of litellm."""

from __future__ import annotations

import asyncio
import io
import json

import pytest

from assizes.judge.config.judging import LimitsConfig, Price
from assizes.judge.engine.batching import batches_of
from assizes.judge.errors import ModelError
from assizes.judge.model_factory import model_for
from assizes.judge.models.batch_lines import BatchStatus, ProviderBatches, Submission
from assizes.judge.models.litellm_model import LiteLLMBatchCalls
from assizes.judge.models.model import Completion, UnusableReply
from tests.doubles.fixtures import OPENAI_KEY
from tests.judge.engine.calls import ASK, config

PRICE = Price(input_usd_per_million=1.0, output_usd_per_million=4.0, batch_factor=0.5)


def model_of(server, name: str, **rest):
    limits = LimitsConfig(timeout_s=5, prices={f"openai/{name}": PRICE})
    return model_for(config(server, name, **rest), limits)


def office(server, name: str, **rest):
    return batches_of(model_of(server, name, **rest))


def lines(batches, count: int = 1) -> io.BytesIO:
    requests = [
        {"custom_id": f"k{n}", "method": "POST", "url": "/v1/chat/completions"}
        for n in range(count)
    ]
    body = batches.body(ASK)
    return io.BytesIO(
        b"".join(json.dumps({**request, "body": body}).encode() + b"\n" for request in requests)
    )


async def ended(batches, batch_id: str) -> BatchStatus:
    status = await batches.status(batch_id)
    while not status.ended:
        await asyncio.sleep(0.02)
        status = await batches.status(batch_id)
    return status


async def outcome(server, name: str, **rest) -> Completion | ModelError:
    batches = office(server, name, **rest)
    batch_id = await batches.submit(lines(batches), Submission({"run": "r"}))
    await ended(batches, batch_id)
    ((key, result),) = [entry async for entry in batches.results(batch_id)]
    assert key == "k0"
    return result


@pytest.mark.parametrize("rest", [{}, {"temperature": 0.7, "max_output_tokens": 77}])
async def test_a_line_holds_the_very_body_of_a_live_call(judge_server, rest):
    model = model_of(judge_server, "stub", **rest)
    await model.complete(ASK)

    assert batches_of(model).body(ASK) == judge_server.requests()[-1]


async def test_a_line_does_without_what_live_calls_have_learned_to_do_without(judge_server):
    model = model_of(judge_server, "stub-unsupported-temperature", temperature=0.2)
    with pytest.raises(ModelError, match="temperature"):
        await model.complete(ASK)

    assert "temperature" not in batches_of(model).body(ASK)


async def test_an_answer_is_read_as_a_live_one_and_costs_the_price_of_a_batch(judge_server):
    live = await model_of(judge_server, "stub").complete(ASK)
    result = await outcome(judge_server, "stub")

    assert (result.text, result.answered_by) == (live.text, live.answered_by)
    assert (result.input_tokens, result.output_tokens) == (live.input_tokens, live.output_tokens)
    assert result.cost_usd == pytest.approx(live.cost_usd / 2)
    assert result.flags == ("batch",)


@pytest.mark.parametrize(
    ("name", "code"),
    [("stub-refuse", "refused"), ("stub-truncated", "truncated_output"), ("stub-empty", "empty")],
)
async def test_an_answer_that_cannot_be_used_has_its_code_and_its_cost(judge_server, name, code):
    result = await outcome(judge_server, name)

    assert isinstance(result, UnusableReply)
    assert (result.code, result.completion.flags) == (code, ("batch",))
    assert result.completion.cost_usd > 0


async def test_an_answer_without_usage_has_no_cost_yet(judge_server):
    result = await outcome(judge_server, "stub-no-usage")

    assert isinstance(result, Completion)
    assert (result.input_tokens, result.output_tokens, result.cost_usd) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("stub-status-500", "unavailable"),
        ("stub-status-429", "rate_limited"),
        ("stub-quota", "quota"),
        ("stub-context", "context_overflow"),
        ("stub-policy", "refused"),
        ("stub-badparam", "bad_request"),
    ],
)
async def test_a_failed_line_has_the_code_of_a_failed_call(judge_server, name, code):
    result = await outcome(judge_server, name)

    assert isinstance(result, ModelError)
    assert not isinstance(result, UnusableReply)
    assert result.code == code
    assert "{" not in result.detail


async def test_a_batch_is_found_by_its_tag_among_more_than_a_page_of_others(judge_server):
    batches = office(judge_server, "stub")
    wanted = await batches.submit(lines(batches), Submission({"run": "r", "part": "1-1"}))
    (first,) = judge_server.batches()
    for number in range(101):
        other = {**first, "metadata": {"run": "r", "part": f"2-{number}"}}
        judge_server._ask("v1/batches", json.dumps(other).encode())

    assert await batches.find(Submission({"run": "r", "part": "1-1"})) == wanted
    assert await batches.find(Submission({"run": "r", "part": "1-2"})) is None


async def test_a_failed_validation_says_why(judge_server):
    batches = office(judge_server, "stub-batch-failed")
    batch_id = await batches.submit(lines(batches), Submission({}))

    status = await ended(batches, batch_id)
    assert (status.name, status.done) == ("failed", 0)
    assert status.why.startswith("model_not_found")
    assert [entry async for entry in batches.results(batch_id)] == []


async def test_faults_of_the_endpoint_have_codes(judge_server):
    batches = office(judge_server, "stub")
    with pytest.raises(ModelError, match="batch_none") as unknown:
        await batches.status("batch_none")
    assert unknown.value.code == "not_found"

    nowhere = office(judge_server, "stub", api_base="http://127.0.0.1:9/v1")
    with pytest.raises(ModelError) as unreached:
        await nowhere.find(Submission({}))
    assert unreached.value.code == "unavailable"
    assert OPENAI_KEY not in str(unreached.value)


class Altered(LiteLLMBatchCalls):
    """A provider's files with other bytes before, behind or in place of their content."""

    def __init__(self, model, before: bytes = b"", behind: bytes = b"", *, keep: bool = True):
        super().__init__(model)
        self.before, self.behind, self.keep = before, behind, keep

    async def content(self, file_id: str):
        yield self.before
        async for chunk in super().content(file_id):
            if self.keep:
                yield chunk
        yield self.behind


async def results(batches) -> dict[str, Completion | ModelError]:
    batch_id = await batches.submit(lines(batches, 2), Submission({"run": "r"}))
    await ended(batches, batch_id)
    return dict([entry async for entry in batches.results(batch_id)])


JUNK = (
    b"<html>502 Bad Gateway</html>\n",
    b"[]\n",
    b'{"id": 1}\n',
    b'{"custom_id": 7}\n',
    b"null\n",
    b"\xff\xfe\n",
)


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("place", ["before", "behind"])
async def test_what_is_no_line_of_a_batch_is_skipped_and_said(judge_server, caplog, junk, place):
    result = await results(
        ProviderBatches(Altered(model_of(judge_server, "stub"), **{place: junk}))
    )

    assert [type(result[key]) for key in ("k0", "k1")] == [Completion, Completion]
    assert "skipped what is no line of a batch" in caplog.text


@pytest.mark.parametrize(
    "response",
    [
        {"status_code": 200, "body": "text"},
        {"status_code": 200, "body": [1]},
        {"status_code": 200, "body": {"choices": "none"}},
        {"status_code": 200, "body": {"choices": [{"message": 3}]}},
        {"status_code": 200, "body": {"choices": [{"message": {"content": "x"}}], "usage": 4}},
        {"status_code": "200?", "body": "text"},
        "text",
        None,
    ],
)
async def test_a_line_of_another_shape_is_the_failure_of_its_ask_alone(judge_server, response):
    odd = json.dumps({"custom_id": "odd", "response": response}).encode() + b"\n"
    result = await results(ProviderBatches(Altered(model_of(judge_server, "stub"), odd)))

    assert isinstance(result.pop("odd"), ModelError)
    assert [type(result[key]) for key in ("k0", "k1")] == [Completion, Completion]


async def test_a_file_without_any_line_of_a_batch_is_not_what_was_paid_for(judge_server):
    page = Altered(model_of(judge_server, "stub"), b"<html>\nBad Gateway\n</html>\n", keep=False)
    with pytest.raises(ModelError, match="no line of file .* can be read") as error:
        await results(ProviderBatches(page))

    assert error.value.code == "unavailable"
