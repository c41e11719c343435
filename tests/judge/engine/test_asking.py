"""One ask: which calls are repeated, which reply counts, and what all calls took."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from assizes.judge.errors import ModelError
from assizes.judge.models.model import Completion, ProviderUnreachable, ScriptedModel, UnusableReply
from assizes.judge.protocol import Ask, Prompt, ask, ask_each
from assizes.judge.score import Score
from tests.judge.engine.levels import (
    CASE,
    LEVEL,
    PAID,
    Asking,
    Reply,
    but,
    codes,
    doubts_below_3,
    engine,
    priced,
)


@pytest.mark.row("000-57")
async def test_not_json_twice_is_no_reply_and_the_raw_text_is_kept():
    model = ScriptedModel(["not json", Completion("not json either", "m", 1, 2, 0.5, 3.0)])

    heard = await engine(model).hear(Asking(), CASE)

    (record,) = heard.asks
    reason = record.error.removeprefix("invalid_reply: ")
    assert reason.startswith("not json")
    assert heard.scores == [
        Score.failed("level", reason, "invalid_reply", raw="not json either"),
    ]
    assert codes(record) == ["invalid_reply", "invalid_reply"]
    assert record == but(
        PAID,
        answered_by="m",
        attempts=2,
        input_tokens=11,
        output_tokens=7,
        cost_usd=0.5,
        latency_ms=4.0,
        error=f"invalid_reply: {reason}",
        reply="not json either",
        trail=record.trail,
    )


@pytest.mark.row("000-55", "000-56")
@pytest.mark.parametrize("wrong", ["{}", '{"score": "high"}'])
async def test_a_reply_that_does_not_fit_is_asked_for_once_more_with_the_problem(wrong):
    model = ScriptedModel([wrong, priced(4)])
    asking = engine(model)

    heard = await asking.hear(Asking(), CASE)

    first, complaint = (said for _, said in model.asked)
    assert first is None
    assert "score" in complaint
    assert wrong not in complaint
    assert heard.scores == [Score.of(LEVEL, 4)]
    (record,) = heard.asks
    assert record == but(
        PAID, attempts=2, input_tokens=110, output_tokens=25, latency_ms=51.0, trail=record.trail
    )
    assert codes(record) == ["schema", None]
    assert asking.calls == 2


@pytest.mark.row("000-56")
async def test_what_is_still_missing_after_the_re_ask_is_named_in_the_failure():
    heard = await engine(ScriptedModel(["{}", "{}", priced(4)])).hear(Asking(), CASE)

    (score,) = heard.scores
    assert (score.status, score.details["error"]) == ("failed", "schema")
    assert "score" in score.reason
    assert heard.asks[0].attempts == 2


@pytest.mark.parametrize(
    ("replies", "score", "said"),
    [
        ([{"score": 4}], 4, []),
        ([{"score": 1}, {"score": 5}], 5, ["doubts", None]),
        ([{"score": 1}, {"score": 2}, {"score": 5}], 2, ["doubts", "doubts"]),
        ([{"score": 1}, "not json", {"score": 5}], 1, ["doubts", "invalid_reply"]),
        ([{"score": 1}, ModelError("refused", "no"), {"score": 5}], 1, ["doubts", "refused"]),
        (
            [{"score": 1}, ModelError("timeout", "late"), {"score": 5}],
            5,
            ["doubts", "timeout", None],
        ),
    ],
)
async def test_doubts_are_put_once_and_a_reply_that_fitted_is_never_lost(replies, score, said):
    model = ScriptedModel(replies)

    heard = await engine(model).hear(Asking(doubts=doubts_below_3), CASE)

    (record,) = heard.asks
    calls = max(len(said), 1)
    assert [complaint for _, complaint in model.asked] == [
        None,
        *["score is too low"] * (calls - 1),
    ]
    assert heard.scores == [Score.of(LEVEL, score)]
    assert (record.attempts, record.error, codes(record)) == (calls, None, said)
    assert record.reply == json.dumps({"score": score})


@pytest.mark.parametrize("replies", [["{}", priced(4, None)], [priced(1, None), priced(4)]])
async def test_a_price_unknown_for_one_attempt_is_unknown_for_the_ask(replies):
    asking = engine(ScriptedModel(replies))

    heard = await asking.hear(Asking(doubts=doubts_below_3), CASE)

    record = heard.asks[0]
    assert (record.attempts, record.cost_usd, record.cost_source) == (2, None, "unknown")


FINAL = [
    (ModelError("quota", "said"), 0),
    (ModelError("authentication", "said"), 0),
    (ModelError("not_found", "said"), 0),
    (ModelError("bad_request", "said"), 0),
    (ModelError("context_overflow", "said"), 0),
    (ModelError("no_offline_rule", "said"), 0),
    (ModelError("not_cached", "said"), 0),
    (ModelError("refused", "said"), None),
    (ModelError("a code nobody knows", "said"), None),
]


@pytest.mark.parametrize(("error", "used"), FINAL)
async def test_what_would_fail_again_is_not_asked_again_and_costs_nothing_if_turned_away(
    error, used
):
    model = ScriptedModel([error, priced(4)])

    heard = await engine(model).hear(Asking(), CASE)

    assert heard.scores == [Score.failed("level", "said", error.code, raw="")]
    (record,) = heard.asks
    assert 0 <= record.latency_ms < 1000
    assert codes(record) == [error.code]
    assert record == but(
        PAID,
        answered_by=None,
        input_tokens=used,
        output_tokens=used,
        cost_usd=used,
        cost_source="unknown" if used is None else "free",
        latency_ms=record.latency_ms,
        error=f"{error.code}: said",
        reply=None,
        trail=record.trail,
    )


PASSING = [
    (ModelError("rate_limited", "said"), 0.25),
    (ModelError("unsupported_parameter", "said"), 0.25),
    (ProviderUnreachable("said"), 0.25),
    (ModelError("unavailable", "said"), None),
    (ModelError("timeout", "said"), None),
    (UnusableReply("empty", "said", Completion("", "m-2025", 10, 0, 0.5, 1.0)), 0.75),
    (UnusableReply("truncated_output", "said", Completion("{", "m-2025", 9, 9, 0.5, 1.0)), 0.75),
]


@pytest.mark.parametrize(("error", "cost_usd"), PASSING)
async def test_a_call_that_failed_for_the_providers_sake_is_made_again(error, cost_usd):
    model = ScriptedModel([error, priced(4)])

    heard = await engine(model).hear(Asking(), CASE)

    assert [complaint for _, complaint in model.asked] == [None, None]
    assert heard.scores == [Score.of(LEVEL, 4)]
    (record,) = heard.asks
    assert codes(record) == [error.code, None]
    assert (record.error, record.attempts, record.cost_usd) == (None, 2, cost_usd)


@pytest.mark.parametrize(
    ("error", "code", "calls"),
    [
        (ModelError("rate_limited", "said"), "rate_limited", 4),
        (ModelError("unavailable", "said"), "transient_exhausted", 4),
        (ProviderUnreachable("said"), "transient_exhausted", 4),
        (ModelError("timeout", "said"), "deadline", 4),
        (ModelError("unsupported_parameter", "said"), "bad_request", 4),
        (ModelError("empty", "said"), "empty", 2),
        (ModelError("truncated_output", "said"), "truncated_output", 2),
    ],
)
async def test_attempts_run_out_and_the_failure_says_of_what(error, code, calls):
    model = ScriptedModel([error] * 9)

    heard = await engine(model, max_attempts=4).hear(Asking(), CASE)

    assert heard.asks[0].error == f"{code}: said"
    assert (heard.asks[0].attempts, len(model.asked)) == (calls, calls)


async def test_a_repair_is_put_once_however_often_the_provider_fails_meanwhile():
    down = ModelError("unavailable", "down")
    model = ScriptedModel(["{}", down, down, "{}", priced(4)])

    heard = await engine(model, max_attempts=9).hear(Asking(), CASE)

    (record,) = heard.asks
    assert codes(record) == ["schema", "unavailable", "unavailable", "schema"]
    complaints = [complaint for _, complaint in model.asked]
    assert complaints[0] is None
    assert len(set(complaints[1:])) == 1
    assert record.error.startswith("schema: ")


class Capped(ScriptedModel):
    """Records the factor on the cap of tokens of each call."""

    def __init__(self, replies):
        super().__init__(replies)
        self.caps = []

    async def complete(self, ask, *, complaint=None, cap=1):
        self.caps.append(cap)
        return await super().complete(ask, complaint=complaint, cap=cap)


async def test_an_answer_that_was_cut_off_may_be_twice_as_long_from_then_on():
    cut = UnusableReply("truncated_output", "cut", Completion("{", "m", 1, 1, 0.1, 1.0))
    model = Capped([cut, "{}", priced(4)])

    heard = await engine(model).hear(Asking(), CASE)

    assert model.caps == [1, 2, 2]
    assert (heard.asks[0].error, heard.asks[0].flags) == (None, ("longer",))


@pytest.mark.parametrize(("error", "cost_usd"), [("timeout", None), ("rate_limited", 0.25)])
async def test_a_paid_reply_that_did_not_fit_costs_what_its_re_ask_leaves_known(error, cost_usd):
    unfit = Completion("{}", "m-2025", 100, 20, 0.25, 50.0)
    model = ScriptedModel([unfit, ModelError(error, "said")])

    heard = await engine(model, max_attempts=2).hear(Asking(), CASE)

    assert (heard.asks[0].attempts, heard.asks[0].cost_usd) == (2, cost_usd)
    assert heard.asks[0].reply == "{}"


async def test_an_unusable_answer_was_paid_for_all_the_same():
    asking = engine(ScriptedModel([UnusableReply("refused", "no", priced(4))]))

    heard = await asking.hear(Asking(), CASE)

    assert heard.asks == [but(PAID, error="refused: no", trail=heard.asks[0].trail)]
    assert asking.cost_usd == 0.25


async def test_the_trail_tells_each_call_with_status_tokens_cost_and_wait():
    busy = ModelError("rate_limited", "busy", retry_after_s=0.03, status=429)
    heard = await engine(ScriptedModel([busy, priced(4)])).hear(Asking(), CASE)

    refused, good = json.loads(heard.asks[0].trail)
    assert (refused["code"], refused["status"], refused["cost_usd"]) == ("rate_limited", 429, 0.0)
    assert {**good, "waited_ms": None} == {
        "code": None,
        "status": None,
        "latency_ms": 50.0,
        "input_tokens": 100,
        "output_tokens": 20,
        "cost_usd": 0.25,
        "waited_ms": None,
    }
    assert good["waited_ms"] >= 30
    total_ms = refused["waited_ms"] + good["waited_ms"]
    assert heard.asks[0].waited_ms == pytest.approx(total_ms, abs=0.01)


async def test_a_hint_that_does_not_fit_into_the_deadline_ends_the_ask_at_once():
    busy = ModelError("rate_limited", "busy", retry_after_s=60.0)
    started = time.monotonic()

    heard = await engine(ScriptedModel([busy, priced(4)]), deadline_s=30).hear(Asking(), CASE)

    assert time.monotonic() - started < 10
    assert (heard.asks[0].error, heard.asks[0].attempts) == ("rate_limited: busy", 1)


class Hanging(ScriptedModel):
    """A model that never answers."""

    async def complete(self, ask, *, complaint=None, cap=1):
        self.asked.append((ask, complaint))
        await asyncio.sleep(60)
        raise AssertionError


async def test_no_ask_outlives_its_deadline_however_many_calls_it_may_make():
    model = Hanging([])
    started = time.monotonic()

    heard = await engine(model, timeout_s=0.2, deadline_s=0.5, max_attempts=9).hear(Asking(), CASE)

    assert 0.4 < time.monotonic() - started < 10
    assert heard.asks[0].error.startswith("deadline: ")
    assert heard.asks[0].attempts == len(model.asked) == 3


async def test_waiting_for_a_slot_to_ask_again_counts_against_the_deadline():
    class Busy(ScriptedModel):
        """Answer one question late, and fail the other."""

        async def complete(self, ask, *, complaint=None, cap=1):
            self.asked.append((ask, complaint))
            if ask.prompt.user == "long":
                await asyncio.sleep(2)
                return priced(1)
            raise ModelError("unavailable", "down")

    asking = engine(Busy([]), max_in_flight=1, deadline_s=0.3, timeout_s=9)
    short = asyncio.create_task(asking.hear(Asking(["short"]), CASE))
    await asyncio.sleep(0.001)
    long = asyncio.create_task(asking.hear(Asking(["long"]), CASE))

    heard = await short
    assert heard.asks[0].error == "deadline: no reply within 0.3 s of the first call"
    long.cancel()


async def test_a_failed_ask_leaves_the_others_of_its_round_alone():
    class Lenient(Asking):
        def judge(self, case):
            replies = yield from ask_each([Ask(Prompt("s", t), Reply) for t in "abc"])
            return [Score.of(LEVEL, sum(isinstance(reply, Reply) for reply in replies))]

    model = ScriptedModel([{"score": 1}, ModelError("refused", "no"), {"score": 1}])

    heard = await engine(model).hear(Lenient(), CASE)

    assert heard.scores == [Score.of(LEVEL, 2)]
    assert [record.error for record in heard.asks] == [None, "refused: no", None]


async def test_lone_surrogates_never_reach_the_rows():
    heard = await engine(ScriptedModel(["\ud800", "x\udfff"])).hear(Asking(), CASE)

    assert heard.asks[0].reply == "x\ufffd"
    heard.asks[0].reply.encode()


async def test_one_question_in_a_line_raises_inside_the_judge_when_no_reply_comes():
    class OneQuestion(Asking):
        def judge(self, case):
            reply = yield from ask(Prompt("s", "q"), Reply)
            return [Score.of(LEVEL, reply.score)]

    model = ScriptedModel([{"score": 2}, ModelError("refused", "no")])
    asking = engine(model)

    assert (await asking.hear(OneQuestion(), CASE)).scores == [Score.of(LEVEL, 2)]
    failed = await asking.hear(OneQuestion(), CASE)
    assert failed.scores == [Score.failed("level", "no", "refused")]
