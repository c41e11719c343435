"""Contracts between the parts of the domain: a breach is an error at once, not a wrong number."""

from __future__ import annotations

import math

import pytest
from pydantic import BaseModel, ValidationError

from assizes.judge.case import Expected
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.config.run import NightlyConfig, RunConfig
from assizes.judge.config.transcripts import SelectionConfig
from assizes.judge.engine.ensemble import Vote, escalation_reason, reduce_votes
from assizes.judge.families.conversation import NO_AGENT_TURN, ConversationJudge
from assizes.judge.hearing import Hearing
from assizes.judge.heuristic.answers import HeuristicModel
from assizes.judge.protocol import Ask, Prompt
from assizes.judge.rubrics.rubric import rubrics
from assizes.judge.score import Metric, Scale, Score
from assizes.judge.selection import draw_sample
from tests.builders import agent, call, case, user

CASE = case(user("hello"), agent("hi"))
LEVEL = Metric("level", scale=Scale.SCORED)
YES = Metric("polite", scale=Scale.YES_NO)
DONE = Metric("done", scale=Scale.BINARY)


class Reply(BaseModel):
    score: int


ASK = Ask(Prompt("s", "q"), Reply)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"raw": math.inf}, "is not finite"),
        ({"value": math.nan, "raw": 1.0}, "is not finite"),
        ({}, "is scored but has no number"),
        ({"status": "failed"}, "is failed: a reason and no number"),
        ({"status": "skipped", "reason": "no", "raw": 1.0}, "is skipped: a reason and no number"),
    ],
)
def test_a_score_is_scored_skipped_or_failed_and_never_two_of_them(fields, message):
    with pytest.raises(ValueError, match=f"score of 'm' {message}"):
        Score("m", **fields)


class Twice:
    """A judge with a headline too many."""

    name, version, metrics = "twice", "1", (LEVEL,)

    def missing(self, case):
        return None

    def judge(self, case):
        return [Score.of(LEVEL, 1), Score.of(LEVEL, 2)]


def test_a_judge_that_scores_a_metric_twice_is_a_bug():
    with pytest.raises(ValueError, match="judge 'twice' returned two scores for 'level'"):
        Hearing(Twice(), CASE)


class Once(Twice):
    """A judge that asks once."""

    def judge(self, case):
        (reply,) = yield [ASK]
        return [Score.of(LEVEL, reply.score)]


def test_a_hearing_takes_as_many_answers_as_it_asked_for_and_none_after_its_end():
    hearing = Hearing(Once(), CASE)
    with pytest.raises(ValueError, match="1 asks are pending, 2 replies given"):
        hearing.answer([Reply(score=1)] * 2)
    hearing.answer([Reply(score=4)])
    assert hearing.is_closed
    with pytest.raises(ValueError, match="the hearing is closed"):
        hearing.answer([])
    assert [score.raw for score in hearing.scores] == [4]


def test_an_agent_that_never_speaks_gets_the_lowest_of_everything_and_no_model_is_asked():
    chosen = [
        rubric for rubric in rubrics(()) if rubric.name in ("tool_routing", "task_completion")
    ]
    silent = case(user("Hello?"), expected=Expected(outcomes=("The seat is booked",)))
    hearing = Hearing(ConversationJudge(chosen), silent)
    assert hearing.is_closed
    scores = {(score.metric, score.part): score for score in hearing.scores}
    assert scores["tool_routing", ""].raw == 0
    assert scores["tool_routing", ""].failure_code == NO_AGENT_TURN
    assert scores["task_completion", ""].passed is False
    assert scores["expected_outcomes", ""].value == 0


@pytest.mark.parametrize("text", [None, "", " ", "\n\n", "\u200b"])
def test_an_agent_without_a_word_and_a_call_has_said_nothing(text):
    chosen = [rubric for rubric in rubrics(()) if rubric.name == "tool_routing"]
    silent = case(user("Cancel order 7"), agent(text), agent(text))
    score, *_ = Hearing(ConversationJudge(chosen), silent).scores
    assert (score.raw, score.failure_code) == (0, NO_AGENT_TURN)
    for turn in (agent("..."), agent("\U0001f44d"), agent(text, calls=[call("cancel", order=7)])):
        spoken = case(user("Cancel order 7"), agent(text), turn)
        assert not Hearing(ConversationJudge(chosen), spoken).is_closed


def test_the_offline_judge_takes_no_tokens():
    assert HeuristicModel().tokens(ASK) == (0, 0)


def test_what_the_agent_cost_as_a_whole_comes_before_the_sum_of_its_turns():
    turns = [agent("hi").model_copy(update={"cost_usd": usd}) for usd in (0.25, 0.5, None)]
    transcript = case(user("hello"), *turns).transcript
    assert transcript.cost_usd() == 0.75
    assert transcript.model_copy(update={"agent_cost_usd": 2.0}).cost_usd() == 2.0


def votes(*answers):
    return [Vote("m", n, [Score.of(YES, raw)]) for n, raw in enumerate(answers)]


def test_votes_of_yes_and_no_that_differ_call_for_the_stronger_model():
    assert escalation_reason(votes(1, 1), [YES], []) is None
    assert escalation_reason(votes(1, 0), [YES], []) == "polite: the votes differ"
    assert reduce_votes(votes(1, 1))[0].label == "yes"
    binary = [
        Vote("m", n, [Score.of(DONE, 5, passed=passed)]) for n, passed in enumerate((True, False))
    ]
    assert escalation_reason(binary, [DONE], []) == "done: the votes differ"


def config(**tables):
    return RunConfig.model_validate({"transcripts": {"uri": "in/"}, **tables})


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"limits": {"shared": "team"}}, "needs requests_per_minute or tokens_per_minute to share"),
        ({"name": "n" * 56, "anchors": {"uri": "a/"}}, "at most 55 characters with \\[anchors\\]"),
        ({"nightly": {"time_zone": "Berlin"}}, "no such time zone; write a name such as Europe"),
        ({"nightly": {"time_zone": "../etc"}}, "no such time zone; write a name such as Europe"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_could_be(tables, message):
    with pytest.raises(ValidationError, match=message):
        config(**tables)


def test_what_can_be_meant_is_taken():
    assert len(config(name="n" * 55, anchors={"uri": "a/"}).name) == 55
    assert LimitsConfig(shared="team", tokens_per_minute=5).shared == "team"
    assert NightlyConfig(time_zone="Europe/Berlin").time_zone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("limits", "limited"),
    [({}, False), ({"max_asks": 3}, False), ({"budget_usd": 1}, True),
     ({"budget_usd_per_day": 1}, True)],
)  # fmt: skip
def test_spending_is_limited_by_dollars_alone(limits, limited):
    assert LimitsConfig(**limits).spending_is_limited is limited


@pytest.mark.parametrize("percent", ["5 %", "5%", 0.05])
def test_a_drop_may_be_given_in_percent(percent):
    assert ComparisonConfig(max_pass_rate_drop=percent).max_pass_rate_drop == 0.05


@pytest.mark.parametrize(("runner", "size"), [({}, 64), ({"shard_size": 7}, 7)])
def test_a_shard_keeps_the_slots_busy_unless_its_size_is_given(runner, size):
    assert config(limits={"max_in_flight": 32}, runner=runner).shard_size == size
    assert config(limits={"max_in_flight": 2}, runner=runner).shard_size == min(size, 20)


@pytest.mark.parametrize(
    ("slots", "runner", "size", "at_once"),
    [
        (64, {}, 128, 3),
        (512, {}, 256, 12),  # as many cases as three shards of 1,024
        (512, {"kind": "workers"}, 1024, 3),
        (64, {"processes": "auto"}, 64, 6),
        (512, {"processes": 2, "shards_in_flight": 2}, 256, 8),
        (512, {"shard_size": 1024, "shards_in_flight": 2}, 1024, 2),
    ],
)
def test_shards_are_small_enough_to_be_spread_and_enough_of_them_are_judged_at_once(
    slots, runner, size, at_once
):
    given = config(limits={"max_in_flight": slots}, runner=runner)
    assert (given.shard_size, given.shards_at_once) == (size, at_once)


def test_what_can_change_a_result_counts_and_what_is_at_its_default_does_not():
    plain, hidden = config(), config(privacy={"redact": ["email"]})
    assert "privacy" not in plain.result_settings()
    assert hidden.result_settings()["privacy"]["redact"] == ["email"]
    drawn_from = config(transcripts={"uri": "in/", "number": 5}).result_settings()
    assert drawn_from["transcripts"]["number"] == 5
    assert "number" not in plain.result_settings()["transcripts"]
    assert plain.config_hash() != hidden.config_hash()


@pytest.mark.parametrize(
    ("settings", "draws"),
    [({}, False), ({"sample": 0.5}, True), ({"number": 3}, True),
     ({"per_stratum": 1, "stratify_by": ["agent"]}, True), ({"filter": None}, False)],
)  # fmt: skip
def test_something_is_left_to_chance_where_a_part_is_drawn(settings, draws):
    assert SelectionConfig(**settings).is_sampled is draws


def test_of_no_cases_none_are_drawn():
    assert draw_sample({}, SelectionConfig(number=5)) == (frozenset(), ())


def test_a_share_of_each_stratum_is_rounded_up():
    strata = {f"{name}{n}": name for name, size in {"a": 10, "b": 1}.items() for n in range(size)}
    taken, drawn = draw_sample(strata, SelectionConfig(sample=0.25, stratify_by=("agent",)))
    assert [(stratum.name, stratum.drawn) for stratum in drawn] == [("a", 3), ("b", 1)]
    assert len(taken) == 4
