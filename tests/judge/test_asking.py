"""One ask: what is asked again, what then counts, and what all of it took."""

from __future__ import annotations

import json

import pytest

from judge.errors import ModelError
from judge.llm import Completion, Unreached, UnusableReply
from judge.protocol import Ask, Prompt, ask, ask_each
from judge.score import Score
from judge.scripted import Scripted
from tests.judge.levels import CASE, LEVEL, PAID, Asking, Reply, but, doubts_below_3, engine, priced


@pytest.mark.row("000-57")
async def test_not_json_twice_is_no_reply_and_the_raw_text_is_kept():
    model = Scripted(["not json", Completion("not json either", "m", 1, 2, 0.5, 3.0)])

    heard = await engine(model).hear(Asking(), CASE)

    reason = "not json: Expecting value at character 0"
    assert heard.scores == [
        Score.failed("level", reason, "invalid_reply", raw="not json either"),
    ]
    assert heard.asks == [
        but(
            PAID,
            answered_by="m",
            attempts=2,
            input_tokens=11,
            output_tokens=7,
            cost_usd=0.5,
            latency_ms=4.0,
            error=f"invalid_reply: {reason}",
            reply="not json either",
        )
    ]


@pytest.mark.row("000-55", "000-56")
@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ("{}", "score: Field required"),
        ('{"score": 4, "mood": 1}', "mood: Extra inputs are not permitted"),
    ],
)
async def test_a_reply_that_does_not_fit_is_asked_for_once_more_with_the_problem(wrong, complaint):
    model = Scripted([wrong, priced(4)])
    asking = engine(model)

    heard = await asking.hear(Asking(), CASE)

    assert [said for _, said in model.asked] == [None, complaint]
    assert heard.scores == [Score.of(LEVEL, 4)]
    assert heard.asks == [
        but(PAID, attempts=2, input_tokens=110, output_tokens=25, latency_ms=51.0)
    ]
    assert asking.calls == 2


@pytest.mark.row("000-56")
async def test_what_is_still_missing_after_the_re_ask_is_named_in_the_failure():
    heard = await engine(Scripted(["{}", "{}", priced(4)])).hear(Asking(), CASE)

    assert heard.scores == [
        Score.failed("level", "score: Field required", "invalid_reply", raw="{}")
    ]
    assert heard.asks[0].attempts == 2


@pytest.mark.parametrize(
    ("replies", "score", "attempts"),
    [
        ([{"score": 4}], 4, 1),
        ([{"score": 1}, {"score": 5}], 5, 2),
        ([{"score": 1}, {"score": 2}, {"score": 5}], 2, 2),
        ([{"score": 1}, "not json", {"score": 5}], 1, 2),
        ([{"score": 1}, ModelError("timeout", "late"), {"score": 5}], 1, 2),
    ],
)
async def test_doubts_are_put_once_and_a_reply_that_fitted_is_never_lost(replies, score, attempts):
    model = Scripted(replies)

    heard = await engine(model).hear(Asking(doubts=doubts_below_3), CASE)

    complaints = [None, "score is too low"][:attempts]
    assert [said for _, said in model.asked] == complaints
    assert heard.scores == [Score.of(LEVEL, score)]
    assert (heard.asks[0].attempts, heard.asks[0].error) == (attempts, None)
    assert heard.asks[0].reply == json.dumps({"score": score})


@pytest.mark.parametrize("replies", [["{}", priced(4, None)], [priced(1, None), priced(4)]])
async def test_a_price_unknown_for_one_attempt_is_unknown_for_the_ask(replies):
    asking = engine(Scripted(replies))

    heard = await asking.hear(Asking(doubts=doubts_below_3), CASE)

    assert (heard.asks[0].attempts, heard.asks[0].cost_usd) == (2, None)


@pytest.mark.parametrize(
    ("error", "used"),
    [
        (ModelError("rate_limited", "said"), 0),
        (ModelError("quota", "said"), 0),
        (ModelError("authentication", "said"), 0),
        (ModelError("not_found", "said"), 0),
        (ModelError("bad_request", "said"), 0),
        (ModelError("context_overflow", "said"), 0),
        (ModelError("no_offline_rule", "said"), 0),
        (Unreached("said"), 0),
        (ModelError("timeout", "said"), None),
        (ModelError("unavailable", "said"), None),
        (ModelError("refused", "said"), None),
    ],
)
async def test_a_model_error_is_not_asked_again_and_costs_nothing_only_if_turned_away(error, used):
    model = Scripted([error, priced(4)])

    heard = await engine(model).hear(Asking(), CASE)

    assert heard.scores == [Score.failed("level", "said", error.code, raw="")]
    latency_ms = heard.asks[0].latency_ms
    assert 0 <= latency_ms < 1000
    assert heard.asks == [
        but(
            PAID,
            answered_by=None,
            input_tokens=used,
            output_tokens=used,
            cost_usd=used,
            latency_ms=latency_ms,
            error=f"{error.code}: said",
            reply=None,
        )
    ]


@pytest.mark.parametrize(("error", "cost_usd"), [("timeout", None), ("rate_limited", 0.25)])
async def test_a_paid_reply_that_did_not_fit_costs_what_its_re_ask_leaves_known(error, cost_usd):
    unfit = Completion("{}", "m-2025", 100, 20, 0.25, 50.0)
    model = Scripted([unfit, ModelError(error, "said")])

    heard = await engine(model).hear(Asking(), CASE)

    assert (heard.asks[0].attempts, heard.asks[0].cost_usd) == (2, cost_usd)


async def test_an_unusable_answer_was_paid_for_all_the_same():
    cut = UnusableReply("truncated_output", "cut off", priced(4))
    asking = engine(Scripted([cut]))

    heard = await asking.hear(Asking(), CASE)

    assert heard.asks == [but(PAID, error="truncated_output: cut off")]
    assert asking.cost_usd == 0.25


async def test_a_failed_ask_leaves_the_others_of_its_round_alone():
    class Lenient(Asking):
        def judge(self, case):
            replies = yield from ask_each([Ask(Prompt("s", t), Reply) for t in "abc"])
            return [Score.of(LEVEL, sum(isinstance(reply, Reply) for reply in replies))]

    model = Scripted([{"score": 1}, ModelError("refused", "no"), {"score": 1}])

    heard = await engine(model).hear(Lenient(), CASE)

    assert heard.scores == [Score.of(LEVEL, 2)]
    assert [record.error for record in heard.asks] == [None, "refused: no", None]


async def test_lone_surrogates_never_reach_the_rows():
    heard = await engine(Scripted(["\ud800", "x\udfff"])).hear(Asking(), CASE)

    assert heard.asks[0].reply == "x\ufffd"
    heard.asks[0].reply.encode()


async def test_one_question_in_a_line_raises_inside_the_judge_when_no_reply_comes():
    class OneQuestion(Asking):
        def judge(self, case):
            reply = yield from ask(Prompt("s", "q"), Reply)
            return [Score.of(LEVEL, reply.score)]

    model = Scripted([{"score": 2}, ModelError("refused", "no")])
    asking = engine(model)

    assert (await asking.hear(OneQuestion(), CASE)).scores == [Score.of(LEVEL, 2)]
    failed = await asking.hear(OneQuestion(), CASE)
    assert failed.scores == [Score.failed("level", "no", "refused")]
