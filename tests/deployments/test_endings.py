"""The ending of a run or a comparison: one word, its reasons in order, and the command that goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from assizes.deployments.commands.output import (
    STYLES,
    print_comparison,
    print_comparison_ending,
    print_outcome,
)
from assizes.deployments.samples import sample_cases
from assizes.flows.outcome import RunOutcome, to_state
from assizes.flows.shards import ShardFailures
from assizes.judge.comparison.compare import RunComparison, compare
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.formats import native_line
from assizes.judge.verdicts.run_outcome import WORDS as WORDS_OF_CONCLUSIONS
from assizes.judge.verdicts.run_outcome import Conclusion
from assizes.tasks.reports.render.markdown import markdown_report
from assizes.tasks.summarise import BaselineResult
from tests.command import assizes
from tests.doubles.fixtures import OPENAI_KEY
from tests.tasks.reports.sample import Run, Said, incomplete, run

WORDS = ("REGRESSION", "INCONCLUSIVE", "NOT COMPARABLE", "PASSED", "NOT WORSE")
GOOD = run([Said(f"c{n}", (5, 5)) for n in range(4)])
NOT_JSON = "invalid_reply: not json: Expecting value at character {}"
SILENT = [Said(f"c{n}", (0, 0), error=NOT_JSON.format(n)) for n in range(30)]


def worse(**tables: Any) -> Run:
    said = [Said(f"c{n}", (5, 5) if n else (1, 1), done=bool(n)) for n in range(4)]
    return run(said, run_id="nightly-bbbbbbbbbbbb", **tables)


def comparison_of(candidate: Run, **limits: Any) -> RunComparison:
    return compare(GOOD.side(), candidate.side(), ComparisonConfig(**limits))


def outcome_of(of: Run, comparison: RunComparison | None = None, **failures: Any) -> RunOutcome:
    against, lost = BaselineResult(comparison), ShardFailures(**failures)
    outcome = to_state(of.record, of.summary, against, lost, {}, fail=False).data
    assert isinstance(outcome, RunOutcome)
    return outcome


def words_of(out: str) -> list[str]:
    """The words in capitals that stand anywhere in an output."""
    return [word for word in WORDS if word in out]


def test_a_run_that_is_worse_ends_with_one_word_and_the_broken_rules_below_it(capsys):
    found = worse(thresholds={"cases_pass_threshold": 80, "metrics_pass_threshold": 50})
    comparison = comparison_of(found, allow=True)
    assert comparison.verdict.statistics is not None
    assert comparison.verdict.statistics.verdict == "inconclusive"
    code = print_outcome(outcome_of(found, comparison))
    out = capsys.readouterr().out
    assert (code, words_of(out)) == (1, ["REGRESSION"])
    assert out[out.index("REGRESSION") :].splitlines()[:4] == [
        "REGRESSION",
        "  pass rate fell from 100.0 % to 75.0 % (limit 0.0 %)",
        "  average score fell from 100.00 to 78.75 (limit 5.0 points)",
        "  cases pass rate 75.00 % is under 80 %",
    ]
    assert "by the statistics: inconclusive" in out


@pytest.mark.parametrize("conclusion", get_args(Conclusion))
def test_every_conclusion_has_one_word_in_the_terminal(conclusion, capsys):
    ended = outcome_of(GOOD).model_copy(update={"conclusion": conclusion})
    print_outcome(ended)
    assert WORDS_OF_CONCLUSIONS[conclusion] in capsys.readouterr().out.splitlines()


def test_the_word_says_what_the_colour_says():
    words = WORDS_OF_CONCLUSIONS
    assert [name for name in words if STYLES.get(words[name]) == "bold green"] == ["Passed"]
    assert [name for name in words if STYLES.get(words[name]) == "bold red"] == [
        *("GateFailed", "Regression", "Failed")
    ]
    assert len(set(words.values())) == len(words)


@pytest.mark.parametrize("limits", [{}, {"allow": True}, {"allow": True, "mode": "statistics"}])
def test_the_report_ends_with_the_word_of_the_terminal(limits, capsys):
    gates = {"cases_pass_threshold": 50, "metrics_pass_threshold": 50}
    for ended in (worse(thresholds=gates), worse(), incomplete(worse())):
        comparison = None if ended.record.status != "complete" else comparison_of(ended, **limits)
        print_outcome(outcome_of(ended, comparison))
        word = ended.data(comparison)["verdict"]["word"]
        assert word in capsys.readouterr().out.splitlines()


def test_runs_that_are_not_judged_alike_end_with_that_word_and_what_differs(capsys):
    found = worse(
        judge={"metrics": ["tool_routing", "response_delivery"]},
        thresholds={"cases_pass_threshold": 50, "metrics_pass_threshold": 50},
    )
    comparison = comparison_of(found)
    code = print_outcome(outcome_of(found, comparison))
    out = capsys.readouterr().out
    assert (code, words_of(out)) == (3, ["NOT COMPARABLE"])
    ending = out[out.index("NOT COMPARABLE") :]
    assert ending.index("judge.metrics.") < ending.index("a change need not be the agent's")
    assert "by the rules: pass rate fell from 100.0 % to 75.0 % (limit 0.0 %)" in out


@pytest.mark.parametrize(
    ("limits", "word", "reason"),
    [
        ({"allow": True}, "REGRESSION", "pass rate fell from 100.0 %"),
        ({"allow": True, "mode": "statistics"}, "INCONCLUSIVE", "too few independent cases: 4"),
        ({}, "NOT COMPARABLE", "judge.metrics."),
        (
            {"allow": True, "max_pass_rate_drop": 1.0, "max_avg_score_drop": 100.0},
            "NOT WORSE",
            "pass rate, average score and latency stayed within their limits",
        ),
    ],
)
def test_a_comparison_ends_with_one_word_and_its_reasons(capsys, limits, word, reason):
    ended = worse(judge={"metrics": ["tool_routing", "response_delivery"]})
    comparison = comparison_of(ended, **limits)
    print_comparison(comparison, comparison.verdict.why)
    figures = capsys.readouterr().out
    print_comparison_ending(comparison.verdict)
    first, *reasons = capsys.readouterr().out.splitlines()
    assert (words_of(figures), first) == ([], word)
    assert any(line.startswith(f"  {reason}") for line in reasons)


def test_a_report_names_what_differs_beside_a_gate_that_failed():
    found = worse(judge={"metrics": ["tool_routing", "response_delivery"]})
    data = found.data(comparison_of(found))
    assert data["verdict"]["word"] == "FAILED"
    reasons = data["verdict"]["reasons"]
    assert [reason.partition(":")[0] for reason in reasons[:2]] == ["metrics gate", "cases gate"]
    assert all(reason.startswith("judge.metrics.") for reason in reasons[2:-1])
    assert (len(reasons) > 3, "--allow" in reasons[-1]) == (True, True)


def test_when_every_ask_failed_the_ending_says_why_and_names_the_command_that_goes_on(capsys):
    silent = run(SILENT)
    outcome = outcome_of(silent)
    why = "invalid_reply: not json, 30 of 30 asks (such as: Expecting value at character 0)"
    hint = "30 cases with an error: `assizes resume nightly-aaaaaaaaaaaa --errors` judges them anew"
    assert outcome.reasons[-2:] == [why, hint]
    assert print_outcome(outcome) == 4
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("INCONCLUSIVE")
    assert lines[at + 2 : at + 4] == [f"  {why}", f"  {hint}"]
    report = silent.data()
    assert (report["verdict"]["reasons"][-1], report["verdict"]["cautions"]) == (why, [hint])
    assert "not json, 30 of 30 asks" in markdown_report(report)


def test_several_kinds_of_failed_asks_stand_by_how_often_they_came():
    errors = ["timeout: no answer within 120 s"] * 3 + ["schema: score: Field required"] * 5
    said = [Said(f"c{n}", (0, 0), error=error) for n, error in enumerate(errors)]
    assert run(said).summary.ask_failures == (
        "schema: score, 5 of 8 asks (such as: Field required)",
        "timeout: no answer within 120 s, 3 of 8 asks",
    )


def test_a_few_failed_asks_of_a_run_with_enough_scores_are_no_reason():
    found = run(
        [*(Said(f"c{n}", (5, 5)) for n in range(30)), Said("lost", (0, 0), error="timeout: late")],
        thresholds={"cases_pass_threshold": 50},
    )
    outcome = outcome_of(found)
    (hint,) = outcome.reasons
    assert outcome.conclusion == "Passed"
    assert hint.startswith("1 case with an error: `assizes resume ")


def test_a_repeated_command_that_finds_old_failures_says_so_and_how_to_judge_them_anew(capsys):
    outcome = outcome_of(run(SILENT), had_ended=True)
    print_outcome(outcome)
    out = capsys.readouterr().out
    assert "this run had ended before, nothing was judged now; 30 cases with an error: " in out
    assert "`assizes resume nightly-aaaaaaaaaaaa --errors`" in out
    assert outcome_of(GOOD, had_ended=True).reasons == []


@pytest.mark.full
def test_a_command_whose_asks_all_fail_says_why_and_what_goes_on_also_the_second_time(
    tmp_path: Path, judge_server, prefect_server: str
):
    lines = [native_line(case) for case in sample_cases()[:3]]
    (tmp_path / "t.jsonl").write_bytes(b"".join(lines))
    pairs = {
        "transcripts.uri": "t.jsonl",
        "judge.model": "openai/stub-invalid",
        "judge.api_base": judge_server.api_base,
    }
    words = [word for name, value in pairs.items() for word in ("--set", f"{name}={value}")]
    env = {"OPENAI_API_KEY": OPENAI_KEY, "PREFECT_API_URL": prefect_server}
    first, again = (assizes("run", *words, cwd=tmp_path, env=env) for _ in range(2))
    for answer in (first, again):
        assert (answer.code, words_of(answer.out)) == (4, ["INCONCLUSIVE"]), answer
        assert "  invalid_reply: not json, 3 of 3 asks" in answer.out
        assert "3 cases with an error: `assizes resume " in answer.out
    ended = "this run had ended before, nothing was judged now; 3 cases with an error"
    assert (ended in first.out, ended in again.out) == (False, True)
    assert judge_server.stats()["requests"] == 6
