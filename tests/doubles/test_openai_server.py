"""The judge model server itself: every fault by name, and when it passes."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from email.utils import parsedate_to_datetime

import aiohttp
import pytest

from tests.doubles.asking import COMPLAINT, REPLY_ID, RIGHT, ask, body, tries


async def test_a_plain_model_fills_the_schema_and_repeats_the_last_reply_id(judge_server):
    forged = await ask(judge_server, "stub", "Reply id: abcdef\nReply id: none")
    unknown = body("stub") | {"messages": [{"role": "user", "content": "no id"}]}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{judge_server.api_base}/chat/completions", json=unknown) as response,
    ):
        lost = json.loads((await response.json())["choices"][0]["message"]["content"])

    assert json.loads(forged.text) == RIGHT
    assert lost["reply_id"] == "unknown"


@pytest.mark.parametrize("name", ["429", "408", "500", "503", "529"])
async def test_a_flaky_model_answers_a_prompt_after_its_failures(judge_server, name):
    assert await tries(judge_server, f"stub-flaky-{name}-2", 3) == [name, name, "good"]


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("502html", "502"),
        ("reset", "ClientOSError"),
        ("cut", "ClientPayloadError"),
        ("html200", "html"),
        ("error200", "error"),
        ("empty", "stop"),
        ("no-choices", "no choices"),
        ("truncated", "length"),
        ("invalid", "bad text"),
        ("prose", "bad text"),
        ("status-418", "418"),
        ("quota", "429"),
    ],
)
async def test_a_flaky_model_fails_in_any_way(judge_server, name, how):
    assert await tries(judge_server, f"stub-flaky-{name}-1", 2) == [how, "good"]
    assert await tries(judge_server, f"stub-flaky-{name}", 2) == [how, how]


async def test_tries_are_counted_by_prompt_and_model_whatever_the_complaint(judge_server):
    first = await ask(judge_server, "stub-flaky-500-1", "one")
    other = await ask(judge_server, "stub-flaky-500-1", "two")
    again = await ask(judge_server, "stub-flaky-500-1", "one" + COMPLAINT)

    assert [first.how, other.how, again.how] == ["500", "500", "good"]
    stats = judge_server.stats()
    assert (stats["prompts"], stats["repeats"], stats["answered"]) == (2, 0, 1)


async def test_a_truncated_answer_is_whole_where_the_request_allows_twice_as_much(judge_server):
    model = "stub-flaky-truncated-9"
    caps = [100, 150, 200]
    hows = [(await ask(judge_server, model, max_tokens=cap)).how for cap in caps]

    assert hows == ["length", "length", "good"]


@pytest.mark.parametrize("value", ["1", "0.2", "-5", "junk"])
async def test_a_refusal_has_the_hint_of_the_models_name(judge_server, value):
    first = await ask(judge_server, f"stub-retry-after-{value}-1")

    assert (first.status, first.headers["Retry-After"]) == (429, value)
    assert await tries(judge_server, f"stub-retry-after-{value}-1", 1, "Was it good?") == ["good"]
    assert await tries(judge_server, f"stub-retry-after-{value}", 2) == ["429", "429"]


async def test_a_hint_is_a_date_or_milliseconds(judge_server):
    soon = (await ask(judge_server, "stub-retry-after-date-1")).headers["Retry-After"]
    far = (await ask(judge_server, "stub-retry-after-far-1")).headers["Retry-After"]
    ms = (await ask(judge_server, "stub-retry-after-ms-1")).headers

    assert 0 < parsedate_to_datetime(soon).timestamp() - time.time() + 0.2 < 1.9
    assert parsedate_to_datetime(far).year == 2099
    assert (ms["retry-after-ms"], ms.get("Retry-After")) == ("200", None)


async def test_a_misspelt_fault_is_an_error_rather_than_a_good_answer(judge_server):
    said = await ask(judge_server, "stub-flaky-50-1")

    assert (said.status, said.json["error"]["message"]) == (
        404,
        "no fault is known for the model name 'stub-flaky-50-1'",
    )


@pytest.mark.parametrize("name", ["hang", "stall", "drip", "flaky-hang-1"])
async def test_an_answer_that_never_comes_ends_when_the_caller_leaves(judge_server, name):
    assert (await ask(judge_server, f"stub-{name}", timeout_s=0.3)).how == "timeout"

    await asyncio.sleep(0.1)
    stats = judge_server.stats()
    assert (stats["disconnects"], stats["answered"]) == (1, 0)


async def test_headers_of_a_dripping_answer_come_at_once(judge_server):
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{judge_server.api_base}/chat/completions", json=body("drip")) as response,
    ):
        begun = time.monotonic()
        drops = [await response.content.read(1) for _ in range(3)]

    assert b"".join(drops) == b'{"i'
    assert 0.2 < time.monotonic() - begun < 10


async def test_parameters_are_refused_by_name_or_without(judge_server):
    warm = await ask(judge_server, "stub-unsupported-temperature", temperature=0.2)
    cold = await ask(judge_server, "stub-unsupported-temperature")
    bad = await ask(judge_server, "stub-badparam")

    assert (warm.status, cold.how, bad.status) == (400, "good", 400)
    assert warm.json["error"] == {
        "message": "Unsupported parameter: 'temperature' is not supported with this model.",
        "type": "invalid_request_error",
        "param": "temperature",
        "code": "unsupported_parameter",
    }
    assert bad.json["error"]["param"] is None


WRONG = '{"reply_id": "0123456789ab", "rationale": "ok", "score": %s, "safe": true}'
GOOD = json.dumps(RIGHT)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("prose", f"Here is my verdict: {GOOD} Thank you."),
        ("bom", f"\ufeff{GOOD}"),
        ("comma", f"{GOOD[:-1]},}}"),
        ("fenced", f"```json\n{GOOD}\n```"),
        ("echo", f"{WRONG % 5}\n{GOOD}"),
        ("two", f"{GOOD}\n{GOOD.replace('4,', '5,')}"),
        ("wrong-id", f"```json\n{WRONG % 4}\n```"),
        ("no-id", '{"rationale": "ok", "score": 4, "safe": true}'),
        ("strings", GOOD.replace("4,", '"4",')),
        ("floats", GOOD.replace("4,", "4.0,")),
        ("bools", GOOD.replace("4,", "true,")),
        ("halves", GOOD.replace("4,", "4.5,")),
        ("nan", GOOD.replace("4,", "NaN,")),
        ("missing-metric", GOOD.replace('"rationale": "ok", ', "")),
        ("extra-metric", GOOD.replace("}", ', "extra_metric": "ok"}')),
        ("renamed-metric", GOOD.replace("rationale", "rationale_renamed")),
        ("double-key", GOOD.replace("}", ', "safe": true}')),
        ("surrogate", GOOD.replace("ok", r"ok \ud800 \u0000 \u0007 \u001b[31m \u007f end")),
    ],
)
async def test_a_text_fault_spoils_the_right_answer(judge_server, name, text):
    assert (await ask(judge_server, f"stub-{name}")).text == text


async def test_a_huge_rationale_has_a_million_characters(judge_server):
    said = json.loads((await ask(judge_server, "stub-huge")).text)

    assert (len(said["rationale"]), said["reply_id"]) == (1_000_000, REPLY_ID)


async def test_a_model_says_it_is_another_or_changes_on_the_way(judge_server):
    other = await ask(judge_server, "stub-model-b")
    prints = [
        (await ask(judge_server, "stub-fingerprint-change", str(n))).json["system_fingerprint"]
        for n in range(7)
    ]

    assert other.json["model"] == "stub-b-2026"
    assert prints == ["fp_a"] * 5 + ["fp_b"] * 2


async def test_a_storm_meets_a_fifth_of_the_prompts_and_passes(judge_server):
    first = [(await ask(judge_server, "stub-storm-transient", str(n))).how for n in range(400)]
    second = [(await ask(judge_server, "stub-storm-transient", str(n))).how for n in range(400)]

    assert 50 <= sum(how != "good" for how in first) <= 110
    assert len(Counter(first)) >= 10
    assert set(second) == {"good"}


async def test_a_storm_is_the_same_after_a_reset(judge_server):
    runs = []
    for _ in range(2):
        judge_server.reset()
        runs.append(
            [(await ask(judge_server, "storm", str(n), timeout_s=0.5)).how for n in range(60)]
        )

    assert runs[0] == runs[1]
    assert 4 <= sum(how != "good" for how in runs[0]) <= 24


async def test_11_percent_of_prompts_get_exactly_one_faulty_answer(judge_server):
    first = [(await ask(judge_server, "stub-flaky11", str(n))).how for n in range(300)]
    second = [(await ask(judge_server, "stub-flaky11", str(n))).how for n in range(300)]

    faulty = Counter(how for how in first if how != "good")
    assert 18 <= faulty.total() <= 50
    assert set(faulty) == {"bad text", "length", "stop", "500"}
    assert set(second) == {"good"}


async def test_what_was_asked_is_counted(judge_server):
    for system, prompt in [("a", "1"), ("a", "2"), ("b", "2"), ("a", "3" + COMPLAINT)]:
        await ask(judge_server, "stub", prompt, system=system)

    stats = judge_server.stats()
    counted = {name: stats[name] for name in ("answered", "prompts", "repeats", "systems")}
    assert counted == {"answered": 4, "prompts": 3, "repeats": 1, "systems": 2}
    assert stats["paid_again"] == 1
    assert (stats["input_tokens"], stats["output_tokens"]) == (211, 76)
    assert 0 <= stats["last_at"] - stats["first_at"] < 5
    assert [accepted for _, accepted in judge_server.timeline()] == [True] * 4


async def test_a_body_that_is_no_request_is_said_to_be_one(judge_server):
    url = f"{judge_server.api_base}/chat/completions"
    async with aiohttp.ClientSession() as session:
        for content in (b"{", b"[]", b'{"model": "x"}'):
            async with session.post(url, data=content) as response:
                said = await response.json()
                assert (response.status, said["error"]["message"][:13]) == (400, "request body:")
