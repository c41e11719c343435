"""The offline judge: outcomes, task completion, and agreement with the rewards of tau-bench and tau2."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter

import pytest
from sklearn.metrics import cohen_kappa_score

from assizes.judge.evidence.tool_calls import ConversationEvidence, tool_evidence
from assizes.judge.formats import FORMATS
from assizes.judge.heuristic.conversation import answer
from tests.judge.heuristic.turns import EXPECT_W, METRICS, W, called, evidence, reply_for, says

AIRLINE_WRITES = (
    "book_reservation",
    "cancel_reservation",
    "update_reservation_flights",
    "update_reservation_baggages",
    "update_reservation_passengers",
    "send_certificate",
)


AIRLINES = (
    ("tau_bench_airline/gpt-4o-airline.json.gz", "tau_bench"),
    *(
        (f"tau2_airline/{agent}.json.gz", "tau2")
        for agent in (
            "claude-sonnet-4.5",
            "gpt-4.1-finetuned",
            "gpt-4.1",
            "gpt-4o",
            "gpt-oss-120b",
            "qwen2.5-7b",
        )
    ),
)


def completed(*turns, **more):
    block = reply_for("task_completion", *turns, **more)
    return (block["passed"], block["failure_code"])


@pytest.mark.parametrize(
    ("turns", "more", "wanted"),
    [
        ([W, says("Done: 50")], {**EXPECT_W, "said": ("50",)}, (True, None)),
        ([W, says("Done")], {**EXPECT_W, "said": ("50",)}, (False, "information_not_told")),
        ([W, W], EXPECT_W, (False, "wrong_state_change")),
        ([called("w", {"x": 2})], EXPECT_W, (False, "wrong_state_change")),
        ([W], {**EXPECT_W, "finished": False}, (False, "unfinished")),
        ([W], {**EXPECT_W, "finished": None}, (True, None)),
        ([says("It is 50")], {"said": ("50",)}, (True, None)),
        ([says("No")], {"tool_calls": ()}, (True, None)),
        ([says("I greet you")], {"outcomes": ("Agent greets; greet",)}, (True, None)),
        ([says("Hm")], {"outcomes": ("Agent greets",)}, (False, "outcome_missing")),
    ],
)
def test_task_completion_follows_the_state_changing_calls_and_what_was_told(turns, more, wanted):
    assert completed(*turns, **more) == wanted


def test_task_completion_says_what_it_does_not_know():
    unknown = reply_for("task_completion", says("50"), tool_calls=(), said=("50",))
    assert "which state-changing calls were expected is not known" in unknown["justification"]
    nothing = reply_for("task_completion", says("I'm sorry, I can't"))
    assert "nothing expected is known" in nothing["justification"]
    assert "passed" not in nothing


@pytest.mark.parametrize(
    ("statement", "turns", "more", "passed"),
    [
        ("Agent makes the change.", [W], EXPECT_W, True),
        ("Agent makes the change.", [], EXPECT_W, False),
        ("Agent should not pay.", [W], {**EXPECT_W, "said": ("50",)}, True),
        ("Agent should refuse to pay.", [called("v")], EXPECT_W, False),
        ("Agent does not pay.", [says("No")], {"writes": ("w",)}, True),
        ("Agent does not pay.", [W], {"writes": ("w",)}, False),
        ("Agent does not pay.", [says("I do not pay")], {}, True),
        ("Agent tells the price 451.", [says("The price is 451")], {}, True),
        ("Agent tells the price 451.", [says("Hello")], {}, False),
        ("Agent calls find order", [called("find_order")], {}, True),
    ],
)
def test_an_outcome_is_judged_by_ground_truth_first_and_by_its_words_last(
    statement, turns, more, passed
):
    given = answer(evidence(*turns, outcomes=(statement,), **more))["expected_outcomes"]
    assert [(outcome["statement"], outcome["passed"]) for outcome in given] == [(statement, passed)]
    assert given[0]["justification"].startswith("Plain text rule: ")


def test_equal_outcomes_have_an_entry_each():
    given = answer(evidence(says("Hello"), outcomes=("One", "Two", "One")))["expected_outcomes"]
    assert [outcome["statement"] for outcome in given] == ["One", "Two", "One"]


def airline(path, form):
    document = gzip.decompress(path.read_bytes())
    for record in FORMATS[form].records(document):
        case = FORMATS[form].case(record)
        expected = case.expected.model_copy(update={"writes": AIRLINE_WRITES})
        yield case.model_copy(update={"expected": expected})


def judged(cases):
    return [answer(ConversationEvidence(case, tool_evidence(case), METRICS)) for case in cases]


def kappa(cases, answers):
    truth = [case.labels["reward"] == 1.0 for case in cases]
    return cohen_kappa_score(truth, [given["task_completion"]["passed"] for given in answers])


@pytest.mark.data
def test_offline_task_completion_agrees_with_the_true_reward_of_tau_bench_airline(data):
    cases = list(airline(data / "tau_bench_airline" / "gpt-4o-airline.json.gz", "tau_bench"))
    answers = judged(cases)
    assert len(cases) == 200
    assert kappa(cases, answers) == 1.0
    for metric in METRICS[:-1]:
        levels = Counter(given[metric.name].get("score") for given in answers)
        assert len(levels) >= 3, f"{metric.name} says nearly always the same: {levels}"
        assert max(levels.values()) < 180, f"{metric.name} says nearly always the same: {levels}"


@pytest.mark.promised
@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "count", "floor"),
    [
        ("claude-sonnet-4.5", 50, 1.0),
        ("gpt-4.1-finetuned", 20, 1.0),
        ("gpt-4.1", 20, 1.0),
        ("gpt-4o", 50, 1.0),
        ("gpt-oss-120b", 50, 0.91),
        ("qwen2.5-7b", 50, 1.0),
    ],
)
def test_offline_task_completion_agrees_with_the_true_reward_of_tau2_airline(
    data, file, count, floor
):
    cases = list(airline(data / "tau2_airline" / f"{file}.json.gz", "tau2"))
    assert len(cases) == count
    assert kappa(cases, judged(cases)) >= floor


def corrected(data):
    """The 130 runs of tau2 airline whose question is still the same, each with its agent, the case
    with the corrected ground truth, and the corrected reward."""
    truth = data / "tau3_truth"
    with (truth / "rewards.csv").open(encoding="utf-8") as file:
        rows = {row["simulation_id"]: row for row in csv.DictReader(file)}
    tasks = json.loads(gzip.decompress((truth / "tasks_tau3.json.gz").read_bytes()))
    later = {task["id"]: task for task in tasks}
    rewritten = {row["task_id"] for row in rows.values() if row["group"] == "writes"}
    for path in sorted((data / "tau2_airline").glob("*.json.gz")):
        body = json.loads(gzip.decompress(path.read_bytes()))
        body["tasks"] = [
            later[str(task["id"])] if str(task["id"]) in rewritten else task
            for task in body["tasks"]
        ]
        for record in FORMATS["tau2"].records(json.dumps(body).encode()):
            row = rows[record["simulation"]["id"]]
            if row["group"] in ("unchanged", "writes"):
                case = FORMATS["tau2"].case(record)
                expected = case.expected.model_copy(update={"writes": AIRLINE_WRITES})
                reward = row["rule_new" if row["group"] == "writes" else "recorded_reward"]
                yield row["agent"], case.model_copy(update={"expected": expected}), float(reward)


@pytest.mark.promised
@pytest.mark.data
def test_offline_task_completion_agrees_with_the_corrected_truth_of_tau2_airline(data):
    agents, cases, rewards = zip(*corrected(data), strict=True)
    assert (len(cases), sum(rewards)) == (130, 72)
    passed = [given["task_completion"]["passed"] for given in judged(cases)]
    kappas = {}
    for agent in sorted(set(agents)):
        of = [place for place, name in enumerate(agents) if name == agent]
        truth, found = [rewards[i] == 1 for i in of], [passed[i] for i in of]
        kappas[agent] = cohen_kappa_score(truth, found)
    truth = [reward == 1 for reward in rewards]
    assert cohen_kappa_score(truth, passed) >= 0.95, kappas
    assert min(kappas.values()) >= 0.85, kappas
    # The figures of docs/judges.md: both truths beside one another.
    assert round(cohen_kappa_score(truth, passed), 3) == 0.984
    recorded = [case.labels["reward"] == 1 for case in cases]
    assert round(cohen_kappa_score(truth, recorded), 3) == 0.831
    files = sorted((data / "tau2_airline").glob("*.json.gz"))
    before = [case for path in files for case in airline(path, "tau2")]
    ids = {case.metadata["simulation_id"] for case in cases}
    kept = [case for case in before if case.metadata["simulation_id"] in ids]
    assert [round(kappa(some, judged(some)), 3) for some in (before, kept)] == [0.983, 0.985]
