"""Calls from templates beside calls by litellm's function, against servers that speak the protocols."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.errors import ModelError
from assizes.judge.models import direct_calls, litellm_direct
from assizes.judge.models.litellm_library import litellm
from assizes.judge.models.litellm_model import LiteLLM
from assizes.judge.models.model import Completion, UnusableReply
from assizes.judge.protocol import Ask, Prompt
from tests.doubles.json_server import JsonServer, Reply, Request, json_server
from tests.judge.engine.calls import ASK
from tests.judge.engine.calls import Reply as Answer
from tests.judge.models.protocols import FAMILIES, MAIN, Family

pytestmark = pytest.mark.promised  # takes seconds, too many for `make quick`

TEXT = f'{{"reply_id": "{ASK.reply_id}", "justification": "sehr gut \\u00e9", "score": 4}}'
LIMITS = LimitsConfig(timeout_s=5)
ODD = Ask(Prompt('Du urteilst.\n\t"é" \\ 漢', 'War es gut? </s> {x} 🙂\u2028 \x07 "q"'), Answer)
LONG = Ask(Prompt("You judge with care. " * 2_000, "Was it good?"), Answer)
"""Long enough to be marked for a prompt cache."""

SIGNATURE = {"authorization", "x-amz-date"}

Script = Callable[[Family, Request], Reply]


def good(family: Family, request: Request) -> Reply:
    return Reply(200, family.answer(request, TEXT))


def error(status: int, message: str, code: str, **headers: str) -> Script:
    def script(family: Family, _: Request) -> Reply:
        return replace(family.error(status, message, code), headers=headers)

    return script


def answers_after(event: threading.Event) -> Script:
    """Answers once nobody waits any more: on a busy machine any time that is fixed may be too short."""

    def script(family: Family, request: Request) -> Reply:
        event.wait(30)
        return good(family, request)

    return script


ENDS: dict[str, Script] = {
    "rate limit": error(429, "Rate limit reached", "rate_limit_exceeded", **{"Retry-After": "7"}),
    "rate limit in ms": error(429, "Slow down", "rate_limit", **{"retry-after-ms": "1500"}),
    "quota": error(429, "You exceeded your current quota", "insufficient_quota"),
    "wrong key": error(401, "Incorrect API key sk-abcdef123456 provided", "invalid_api_key"),
    "forbidden": error(403, "not for you", "permission_error"),
    "no such model": error(404, "no such model", "model_not_found"),
    "too long": error(
        400, "This model's maximum context length is 8 tokens", "context_length_exceeded"
    ),
    "filtered prompt": error(400, "flagged by content management policy", "content_filter"),
    "odd": error(418, "a teapot", "teapot"),
    "down": error(500, "the server had an error", "server_error"),
    "overloaded": error(529, "Overloaded", "overloaded_error"),
    "cut": lambda family, request: Reply(200, family.answer(request, TEXT[:30], "length")),
    "filtered": lambda family, request: Reply(200, family.answer(request, "", "content_filter")),
    "empty": lambda family, request: Reply(200, family.answer(request, "")),
    "no JSON": lambda _family, _: Reply(200, b'{"choices": [{"mess'),
    "another shape": lambda _family, _: Reply(
        200, {"choices": [], "candidates": [], "content": []}
    ),
    "an error as an answer": lambda _family, _: Reply(
        200, {"error": {"message": "no", "code": 500}}
    ),
    "a list": lambda _family, _: Reply(200, [1]),
    "nothing": lambda _family, _: Reply(200, b""),
    "a page": lambda _family, _: Reply(502, b"<html><title>502 Bad Gateway</title></html>"),
    "cut short": lambda family, request: replace(good(family, request), length=1_000_000),
    "not packed": lambda family, request: replace(
        good(family, request), headers={"content-encoding": "gzip"}
    ),
    "hung up": lambda _family, _: Reply(hang_up=True),
    "rejected": error(400, "Unsupported parameter: 'temperature' is unknown", "invalid_request"),
}


class Meeting:
    """One provider, a server that speaks its protocol, and what the server answers just now."""

    def __init__(self, family: Family, server: JsonServer) -> None:
        self.family, self.server = family, server
        self.script: Script = good
        server.answer = lambda request: self.script(family, request)

    def model(self, *, limits: LimitsConfig = LIMITS, **rest: Any) -> LiteLLM:
        base = f"{self.server.url}{self.family.base}"
        return LiteLLM(JudgeConfig(model=self.family.model, api_base=base, **rest), limits)

    async def outcome(self, model: LiteLLM, script: Script, ask: Ask[Any] = ASK) -> Any:
        """What a call ends with, and the requests that it made."""
        self.script, before = script, len(self.server.requests)
        try:
            ended: Any = comparable(await model.complete(ask))
        except ModelError as failed:
            detail = re.sub(r"time taken=\S+", "time taken", failed.detail)
            ended = (type(failed), failed.code, detail, failed.status, failed.retry_after_s)
            if isinstance(failed, UnusableReply):
                ended += (comparable(failed.completion),)
        finally:
            self.script = good
        return ended, [comparable_request(each) for each in self.server.requests[before:]]


def comparable(completion: Completion) -> Completion:
    return replace(completion, latency_ms=0.0)


def comparable_request(request: Request) -> tuple[Any, ...]:
    headers = {name: value for name, value in request.headers.items() if name not in SIGNATURE}
    return request.method, request.path, request.query, headers, request.raw


@pytest.fixture
def meeting(request, monkeypatch):
    family = FAMILIES[request.param]
    for name, value in family.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with json_server(lambda _: Reply(500)) as server:
        yield Meeting(family, server)


@pytest.fixture
def plain_calls(monkeypatch) -> list[dict[str, Any]]:
    """The arguments of all calls of litellm's function."""
    calls: list[dict[str, Any]] = []
    function = litellm.acompletion

    async def counting(**arguments: Any) -> Any:
        calls.append(arguments)
        return await function(**arguments)

    monkeypatch.setattr(litellm, "acompletion", counting)
    return calls


async def learned(meeting: Meeting, *asks: Ask[Any], **rest: Any) -> LiteLLM:
    """A model whose calls are made from templates."""
    model = meeting.model(**rest)
    for ask in asks or (ASK,):
        for _ in range(2):
            before = len(meeting.server.requests)
            await model.complete(ask)
            assert len(meeting.server.requests) == before + 1, "learning sends nothing"
    assert (model.calls.plain, litellm_direct.needed_hook()) == (None, None)
    return model


@pytest.mark.parametrize("mode", ["json_schema", "json_object", "words"])
@pytest.mark.parametrize("meeting", FAMILIES, indirect=True)
async def test_requests_and_answers_are_those_of_litellms_function(
    meeting, mode, plain_calls, monkeypatch
):
    model = await learned(meeting, ASK, LONG, reply_format=mode)
    plain_calls.clear()
    direct = [await meeting.outcome(model, good, ask) for ask in (ASK, ODD, LONG)]
    assert not plain_calls

    monkeypatch.setenv(litellm_direct.CALLS, "plain")
    other = meeting.model(reply_format=mode)
    plain = [await meeting.outcome(other, good, ask) for ask in (ASK, ODD, LONG)]
    assert len(plain_calls) == 3

    assert direct == plain
    assert all(len(requests) == 1 for _, requests in direct)
    assert direct[0][0].text.startswith('{"reply_id"')
    await asyncio.gather(model.aclose(), other.aclose())


@pytest.mark.parametrize("meeting", MAIN, indirect=True)
async def test_whatever_goes_wrong_is_what_litellms_function_makes_of_it(meeting, monkeypatch):
    model = await learned(meeting)
    direct = {name: await meeting.outcome(model, script) for name, script in ENDS.items()}

    monkeypatch.setenv(litellm_direct.CALLS, "plain")
    model = meeting.model()
    for _ in range(2):  # as many answers to learn the length of tokens from
        await model.complete(ASK)
    plain = {name: await meeting.outcome(model, script) for name, script in ENDS.items()}

    differing = {name: (direct[name], plain[name]) for name in ENDS if direct[name] != plain[name]}
    assert not differing
    assert {len(requests) for _, requests in direct.values()} == {1}


@pytest.mark.parametrize("meeting", MAIN, indirect=True)
async def test_a_call_that_takes_too_long_is_the_same_timeout(meeting, monkeypatch):
    limits = LimitsConfig(timeout_s=0.6)
    model = await learned(meeting, limits=limits)
    has_ended = threading.Event()
    direct = await meeting.outcome(model, answers_after(has_ended))
    monkeypatch.setenv(litellm_direct.CALLS, "plain")
    plain = await meeting.outcome(meeting.model(limits=limits), answers_after(has_ended))
    has_ended.set()

    assert direct == plain
    assert direct[0][1] == "timeout"


@pytest.mark.parametrize("meeting", ["bedrock"], indirect=True)
async def test_every_request_to_bedrock_has_a_signature_of_its_own_that_aws_would_accept(meeting):
    model = await learned(meeting)
    await meeting.outcome(model, good, ODD)
    await meeting.outcome(model, good, LONG)

    sent = meeting.server.requests
    assert len({request.headers["authorization"] for request in sent}) > 2
    for request in sent:
        assert request.headers["x-amz-security-token"] == "token-of-the-tests"
        assert request.headers["authorization"] == _signature(meeting, request)


def _signature(meeting: Meeting, request: Request) -> str:
    """The header that AWS computes for a request, from the secret that only AWS and we know."""
    environment = meeting.family.environment
    signer = SigV4Auth(
        Credentials(
            environment["AWS_ACCESS_KEY_ID"],
            environment["AWS_SECRET_ACCESS_KEY"],
            environment["AWS_SESSION_TOKEN"],
        ),
        "bedrock",
        "eu-west-1",
    )
    names = re.search(r"SignedHeaders=([\w;-]+)", request.headers["authorization"])[1].split(";")
    headers = {name: request.headers[name] for name in names if name != "host"}
    path = request.path.replace(":", "%3A")
    signed = AWSRequest("POST", f"{meeting.server.url}{path}", headers=headers, data=request.raw)
    signed.context["timestamp"] = request.headers["x-amz-date"]
    canonical = signer.canonical_request(signed)
    signature = signer.signature(signer.string_to_sign(signed, canonical), signed)
    scope = request.headers["authorization"].partition(", Signature=")[0]
    return f"{scope}, Signature={signature}"


@pytest.mark.parametrize("meeting", ["openai"], indirect=True)
async def test_a_rejected_parameter_is_left_out_of_later_calls(meeting):
    model = await learned(meeting)
    ended, _ = await meeting.outcome(model, ENDS["rejected"])
    assert ended[1] == "unsupported_parameter"

    for _ in range(3):
        completion, ((*_, raw),) = await meeting.outcome(model, good)
        assert b"temperature" not in raw
        assert completion.flags == ("dropped:temperature",)


@pytest.mark.parametrize("meeting", ["openai"], indirect=True)
async def test_many_calls_at_once_learn_once_and_each_sends_one_request(meeting, plain_calls):
    model = meeting.model()
    asks = [Ask(Prompt("You judge.", f"Was number {n} good?"), Answer) for n in range(40)]
    await model.complete(ASK)
    plain_calls.clear()
    await asyncio.gather(*(model.complete(ask) for ask in asks))

    assert len(meeting.server.requests) == 41
    assert len({request.raw for request in meeting.server.requests}) == 41
    assert len(plain_calls) == 3  # two requests recorded, one answer read both ways
    await model.aclose()


@pytest.mark.parametrize("meeting", ["openai"], indirect=True)
async def test_a_new_key_is_used_once_the_template_is_old(meeting, monkeypatch):
    model = await learned(meeting)
    monkeypatch.setenv("OPENAI_API_KEY", "a-new-one")
    monkeypatch.setattr(direct_calls, "LASTS_S", 0.0)
    await model.complete(ASK)

    assert meeting.server.requests[-1].headers["authorization"] == "Bearer a-new-one"


@pytest.mark.parametrize("meeting", ["openai"], indirect=True)
async def test_an_answer_without_end_is_given_up(meeting):
    model = await learned(meeting)
    ended, requests = await meeting.outcome(model, lambda *_: Reply(200, endless=True))

    assert ended[:3] == (ModelError, "unavailable", "the answer has more than 64000000 bytes")
    assert len(requests) == 1


@pytest.mark.parametrize("meeting", ["openai"], indirect=True)
async def test_calls_go_through_litellms_function_while_a_callback_is_set(
    meeting, plain_calls, monkeypatch
):
    model = await learned(meeting)
    plain_calls.clear()
    seen: list[Any] = []

    async def callback(*given: Any) -> None:
        seen.append(given)

    with monkeypatch.context() as patch:
        for name in ("success_callback", "_async_success_callback"):
            patch.setattr(litellm, name, list(getattr(litellm, name)))
        litellm.success_callback.append(callback)
        assert "callback is set" in model.calls.way()
        await model.complete(ASK)
        await asyncio.sleep(0.5)
    assert len(plain_calls) == 1
    assert seen

    await model.complete(ASK)
    assert len(plain_calls) == 1
    assert model.calls.way() == "direct"


@pytest.mark.parametrize("meeting", ["openai"], indirect=True)
def test_a_model_is_called_from_one_event_loop_after_the_other(meeting, plain_calls):
    model = meeting.model()

    async def several() -> None:
        await asyncio.gather(*(model.complete(ASK) for _ in range(5)))
        await model.aclose()

    for _ in range(3):
        asyncio.run(several())
    assert len(meeting.server.requests) == 15
    assert len(plain_calls) == 4


@pytest.mark.parametrize("meeting", ["openai"], indirect=True)
async def test_a_call_that_is_cut_leaves_no_connection_in_use(meeting):
    model = await learned(meeting)
    has_ended = threading.Event()
    meeting.script = answers_after(has_ended)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(model.complete(ASK), 0.2)
    has_ended.set()
    meeting.script = good
    assert (await model.complete(ASK)).text == TEXT
    await model.aclose()


@pytest.mark.parametrize("meeting", ["openai"], indirect=True)
async def test_a_proxy_of_the_environment_is_used(meeting, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", meeting.server.url)
    for name in ("NO_PROXY", "no_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    config = JudgeConfig(model="openai/gpt-4.1", api_base="http://models.invalid/v1")
    model = LiteLLM(config, LIMITS)
    for _ in range(3):
        await model.complete(ASK)
    assert model.calls.way() == "direct"
    assert {request.headers["host"] for request in meeting.server.requests} == {"models.invalid"}
    await model.aclose()


PACKED = {"gzip": gzip.compress, "deflate": zlib.compress}


@pytest.mark.parametrize("encoding", PACKED)
@pytest.mark.parametrize("meeting", ["openai"], indirect=True)
async def test_a_compressed_answer_is_read(meeting, encoding):
    def compressed(family: Family, request: Request) -> Reply:
        body = PACKED[encoding](json.dumps(family.answer(request, TEXT)).encode())
        return Reply(200, body, {"content-encoding": encoding})

    model = await learned(meeting)
    completion, _ = await meeting.outcome(model, compressed)
    assert completion.text == TEXT


@pytest.mark.parametrize("encoding", PACKED)
@pytest.mark.parametrize("meeting", ["openai"], indirect=True)
async def test_an_answer_that_unpacks_without_end_is_given_up(meeting, encoding):
    bomb = PACKED[encoding](b" " * 65_000_000)
    model = await learned(meeting)
    ended, requests = await meeting.outcome(
        model, lambda *_: Reply(200, bomb, {"content-encoding": encoding})
    )

    assert len(bomb) < 100_000
    assert ended[:3] == (ModelError, "unavailable", "the answer has more than 64000000 bytes")
    assert len(requests) == 1
