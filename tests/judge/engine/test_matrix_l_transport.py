"""Matrix L, transport: what each fault of a provider does to an ask, over real HTTP.

L1 to L4, L8, L9, L12 (the re-ask), L20, and the goals G4 (fault storm) and G5 (deadline).
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.engine.ask_records import AskRecord
from assizes.judge.engine.attempts import Backoff
from assizes.judge.engine.call_gates import BreakerPolicy
from assizes.judge.engine.hearings import Engine, EngineDependencies
from assizes.judge.model_factory import model_for
from assizes.judge.protocol import Ask, Prompt
from assizes.tasks.spending.reply_cache import FileReplyCache
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer
from tests.doubles.openai_faults import FAULTS
from tests.judge.engine.calls import config
from tests.judge.engine.levels import CASE, Asking, Reply, codes

QUICK = Backoff(0.01, 0.05)
PATIENT = BreakerPolicy(failures=10_000)


class Questions(Asking):
    """A judge that puts all its questions in one round."""

    def judge(self, case):
        yield [Ask(Prompt("s", text), Reply) for texts in self.rounds for text in texts]
        return []


@pytest.fixture(scope="module", autouse=True)
async def _warm(openai_server: OpenAIServer) -> None:
    """The first call loads litellm; it is not measured."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", OPENAI_KEY)
        assert (await one(openai_server, "good", timeout_s=60.0)).error is None


async def put(
    judge: JudgeConfig, texts=("q",), *, cache=None, trip=None, **limits
) -> list[AskRecord]:
    """Put questions to a model at once and return the record of each ask."""
    bounds = LimitsConfig(**{"timeout_s": 5.0, "max_in_flight": 32} | limits)
    means = EngineDependencies(cache=cache, backoff=QUICK, breaker_policy=trip)
    engine = Engine(model_for(judge, bounds), bounds, means)
    try:
        return (await engine.hear(Questions(list(texts)), CASE)).asks
    finally:
        await engine.aclose()


async def one(server: OpenAIServer, behaviour: str, **limits) -> AskRecord:
    """Put one question to a model with this behaviour."""
    (record,) = await put(config(server, f"m-{behaviour}"), **limits)
    return record


def code(record: AskRecord) -> str | None:
    return record.error and record.error.partition(":")[0]


@contextmanager
def lasting(at_least_s: float, at_most_s: float):
    """Check that the block takes at least, and at most, so many seconds."""
    started = time.monotonic()
    yield
    assert at_least_s <= time.monotonic() - started < at_most_s


# L1: 429 with a hint


@pytest.mark.parametrize(
    ("hint", "floor_s"),
    [("1", 1.0), ("0.2", 0.2), ("ms", 0.2), ("date", 0.3), ("-5", 0.0), ("junk", 0.0)],
)
async def test_l1_a_hint_is_waited_for_whatever_its_form_and_then_comes_a_reply(
    judge_server, hint, floor_s
):
    with lasting(floor_s, floor_s + 3):
        record = await one(judge_server, f"retry-after-{hint}-1")

    assert codes(record) == ["rate_limited", None]
    assert json.loads(record.trail)[0]["status"] == 429
    assert record.waited_ms >= floor_s * 1000
    assert judge_server.stats()["requests"] == 2


async def test_l1_a_hint_beyond_the_deadline_ends_the_ask_at_once(judge_server):
    with lasting(0, 2):
        record = await one(judge_server, "retry-after-far")

    assert (code(record), judge_server.stats()["requests"]) == ("rate_limited", 1)


async def test_l1_a_provider_that_never_stops_refusing_is_given_up(judge_server):
    record = await one(judge_server, "retry-after-0.05")

    assert (code(record), record.attempts, record.cost_usd) == ("rate_limited", 4, 0.0)
    assert judge_server.stats()["requests"] == 4


# L2: transient faults

TRANSIENT = ("408", "500", "502html", "503", "529", "reset", "cut", "html200", "error200")


@pytest.mark.parametrize("fault", ["429", *TRANSIENT])
async def test_l2_a_fault_that_passes_costs_one_more_call(judge_server, fault):
    record = await one(judge_server, f"flaky-{fault}-1")

    assert (record.error, record.attempts) == (None, 2)
    assert judge_server.stats()["requests"] == 2


@pytest.mark.parametrize("fault", TRANSIENT)
async def test_l2_a_fault_that_lasts_ends_after_all_attempts(judge_server, fault):
    record = await one(judge_server, f"flaky-{fault}")

    assert (code(record), record.attempts) == ("transient_exhausted", 4)
    assert judge_server.stats()["requests"] == 4


async def test_l2_without_a_hint_a_refusal_that_lasts_is_still_a_rate_limit(judge_server):
    record = await one(judge_server, "flaky-429")

    assert (code(record), judge_server.stats()["requests"]) == ("rate_limited", 4)


def nobody() -> str:
    """The address of a port on which no server listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"


@pytest.mark.parametrize("kind", ["nobody listens", "no such host", "no TLS"])
async def test_l2_a_provider_that_cannot_be_reached_costs_nothing(judge_server, monkeypatch, kind):
    addresses = {
        "nobody listens": nobody(),
        "no such host": "http://assizes.invalid/v1",
        "no TLS": judge_server.api_base.replace("http:", "https:"),
    }
    judge = JudgeConfig(model="openai/m", api_base=addresses[kind])

    (record,) = await put(judge)

    assert (code(record), record.attempts) == ("transient_exhausted", 4)
    assert (record.cost_usd, record.cost_source) == (0.0, "free")
    assert " at 0x" not in record.error


# L3: errors that all other calls would have too


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("quota", "quota"),
        ("status-401", "authentication"),
        ("status-403", "authentication"),
        ("status-404", "not_found"),
    ],
)
async def test_l3_after_three_in_a_row_nothing_more_is_asked(judge_server, behaviour, said):
    judge = config(judge_server, f"m-{behaviour}")

    records = await put(judge, [str(n) for n in range(10)], max_in_flight=1)

    assert [code(record) for record in records] == [said] * 3 + ["circuit_open"] * 7
    assert [record.attempts for record in records] == [1] * 3 + [0] * 7
    assert f"the last with {said}: " in records[-1].error
    assert judge_server.stats()["requests"] == 3


# L4: providers that do not answer in time


@pytest.mark.parametrize("behaviour", ["hang", "drip", "stall"])
@pytest.mark.parametrize(
    ("limits", "calls"),
    [
        ({"timeout_s": 0.4, "max_attempts": 1}, 1),
        ({"timeout_s": 0.4, "deadline_s": 1.0, "max_attempts": 9}, 3),
        ({"timeout_s": 60.0, "deadline_s": 0.8}, 1),
    ],
)
async def test_l4_a_call_is_cut_in_time_and_its_connection_closed(
    judge_server, behaviour, limits, calls
):
    limit_s = min(limits["timeout_s"] * limits.get("max_attempts", 4), limits.get("deadline_s", 9))
    with lasting(0.3, limit_s + 1):
        record = await one(judge_server, behaviour, **limits)

    assert code(record) == "deadline"
    assert record.attempts == judge_server.stats()["requests"] == calls
    assert record.cost_source == "unknown"
    await until(lambda: judge_server.stats()["disconnects"] == calls)


async def until(holds, within_s: float = 2.0) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        await asyncio.sleep(0.05)


# L8, L9: answers without a readable reply


async def test_l8_an_answer_that_was_cut_off_gets_twice_the_room_once(judge_server):
    record = await one(judge_server, "flaky-truncated-9")

    assert (record.error, record.attempts, record.flags) == (None, 2, ("longer",))
    caps = [
        next(body[name] for name in ("max_tokens", "max_completion_tokens") if name in body)
        for body in judge_server.requests()
    ]
    assert caps == [4096, 8192]


async def test_l8_an_answer_that_is_cut_off_again_is_given_up(judge_server):
    record = await one(judge_server, "truncated")

    assert (code(record), record.attempts) == ("truncated_output", 2)
    assert judge_server.stats()["requests"] == 2
    assert record.output_tokens > 0


@pytest.mark.parametrize("fault", ["empty", "no-choices"])
async def test_l9_an_answer_without_text_is_asked_for_once_more(judge_server, fault):
    record = await one(judge_server, f"flaky-{fault}-1")
    assert codes(record) == ["empty", None]

    record = await one(judge_server, fault)
    assert (code(record), codes(record)) == ("empty", ["empty", "empty"])
    assert judge_server.stats()["requests"] == 4


# L12: the re-ask


async def test_l12_a_reply_that_does_not_fit_is_repaired_once_with_the_error_alone(judge_server):
    record = await one(judge_server, "invalid")

    assert record.attempts == 2
    first, second = (body["messages"][-1]["content"] for body in judge_server.requests())
    assert "could not be used" in second
    assert len(second) - len(first) < 600


# L20: down for the whole run


async def test_l20_a_provider_that_is_down_ends_the_run_soon_and_nothing_is_kept(
    judge_server, tmp_path
):
    trip = BreakerPolicy(failures=8, cool_down_s=0.05, longest_s=0.2)
    cache = FileReplyCache(str(tmp_path))
    texts = [str(n) for n in range(100)]
    with lasting(0, 8):
        records = await put(
            JudgeConfig(model="openai/m", api_base=nobody()),
            texts,
            cache=cache,
            trip=trip,
            max_in_flight=8,
        )

    assert {code(record) for record in records} <= {"circuit_open", "transient_exhausted"}
    assert sum(code(record) == "circuit_open" for record in records) >= 90
    assert sum(record.attempts for record in records) <= 8 + 8 + 5
    assert not list(Path(tmp_path).rglob("*.json"))


# G5: requests per ask


async def test_g5_no_behaviour_takes_more_requests_than_attempts(judge_server):
    names = [*FAULTS, "storm", "storm-transient", "flaky11", "status-418", "unknown"]

    limits = {"timeout_s": 2.0, "deadline_s": 6.0, "max_attempts": 3}
    few = asyncio.Semaphore(8)
    await one(judge_server, "warm-up")
    judge_server.reset()

    async def within(name: str) -> tuple[str, AskRecord]:
        model = f"flaky-{name}" if name in FAULTS else name
        async with few:
            return name, await one(judge_server, model, **limits)

    with lasting(0, 60):
        records = dict(await asyncio.gather(*(within(name) for name in names)))

    counted = judge_server.stats()["models"]
    prefix = re.compile(r"^m-(flaky-)?")
    asked = {prefix.sub("", name): count for name, count in counted.items()}
    assert {name: count for name, count in asked.items() if count > 3} == {}
    # A call that was cut before its request went out is an attempt that the server did not see.
    assert all(asked.get(name, 0) <= one.attempts <= 3 for name, one in records.items())
    unseen = [record for name, record in records.items() if name not in asked]
    assert [record.error for record in unseen if set(codes(record)) != {"timeout"}] == []


# G4: the storm


async def test_g4_in_a_storm_every_ask_ends_with_a_reply_or_an_error(judge_server):
    judge = config(judge_server, "m-storm")
    with lasting(0, 20):
        records = await put(judge, prompts(200), timeout_s=3.0, trip=PATIENT)

    failed = {code(record) for record in records if record.error}
    assert len(records) == 200
    assert failed <= {"refused", "context_overflow", "invalid_reply", "ambiguous_output", "schema"}
    assert 0 < sum(record.error is None for record in records) >= 190
    assert max(record.attempts for record in records) <= 4
    assert sum(record.attempts for record in records) >= judge_server.stats()["requests"]


async def test_g4_in_a_storm_that_passes_every_ask_ends_with_a_reply(judge_server):
    judge = config(judge_server, "m-storm-transient")

    records = await put(judge, prompts(200), trip=PATIENT)

    assert sum(record.error is None for record in records) >= 199
    assert sum(record.attempts > 1 for record in records) >= 20


def prompts(count: int) -> list[str]:
    return [f"Was answer {n} good?" for n in range(count)]
