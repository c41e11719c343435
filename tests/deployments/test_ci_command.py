"""`assizes ci` in a scratch repository: a regression, an improvement, an inconclusive change, and attacks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from jsonschema import Draft202012Validator

from assizes.tasks.ci.step_summary import COMMENT_BYTES, SUMMARY_BYTES
from tests.deployments.ci_repository import ScratchRepository
from tests.deployments.sarif_schema import SARIF

ATTACK = "fool: \n::error::pwned\r\n::add-mask::a %0A @everyone #12 GH-3 !4 <img src=x> [x](http://e.x) |"
COMMON = "What failed cases have in common:"
COMMAND = re.compile(r"::(error|warning|notice) ([^:]*)::(.*)")


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """The workflow commands in the output of a step, as the runner of GitHub reads them."""
    read, token = [], None
    for line in text.splitlines():
        bare = line.strip()
        if token is not None:
            token = None if bare == f"::{token}::" else token
        elif bare.startswith("::stop-commands::"):
            token = bare.removeprefix("::stop-commands::")
        elif bare.startswith("::"):
            match = COMMAND.fullmatch(bare)
            assert match, bare
            properties = dict(pair.split("=", 1) for pair in match[2].split(","))
            read.append((match[1], properties, match[3]))
    assert token is None
    return read


@pytest.fixture
def scratch(tmp_path: Path) -> ScratchRepository:
    return ScratchRepository.begin(tmp_path / "repository")


def summary_of(scratch: ScratchRepository) -> str:
    return (scratch.folder.parent / "summary.md").read_text()


@pytest.mark.full
def test_a_regression_is_annotated_where_the_case_stands_and_fails_the_job(
    scratch: ScratchRepository,
):
    base = scratch.commit_day("v1", rude=[1])
    first = scratch.ci_json()
    assert (first["exit_code"], first["baseline"], first["commit"]) == (0, None, base)
    assert "the gates alone decide" in first["compared"]
    scratch.git("switch", "--quiet", "--create", "change")
    head = scratch.commit_day("v2", rude=[1, 2])

    files = ("--comment", "out/c.md", "--junit", "out/j.xml", "--sarif", "out/s.json")
    answer = scratch.ci(*files, **scratch.pull_request(base))
    assert answer.code == 1, answer
    verdict, case = commands(answer.out)
    assert verdict[:2] == ("error", {"title": "assizes%3A REGRESSION%3A clerk"})
    assert "pass rate fell from 91.7 %25 to 83.3 %25" in verdict[2]
    assert f"run {first['run_id']} of the base commit {base[:12]}" in verdict[2]
    title = "assizes%3A c02 regressed (passed → failed)"
    assert case[:2] == ("error", {"file": "chats/day.jsonl", "line": "3", "title": title})
    assert "rude and impatient" in case[2]

    summary = summary_of(scratch)
    assert summary.startswith("## REGRESSION: clerk\n")
    assert f"Commit `{head[:12]}`. Compared with run {first['run_id']}" in summary
    assert "| `c02` | passed → failed | manners: The tone of the agent is rude" in summary
    assert "Still fails, as in the base run: `c01`." in summary
    assert "Judging cost $0.00" in summary
    comment = (scratch.folder / "out/c.md").read_text()
    assert comment == f"<!-- assizes-ci: clerk -->\n\n{summary}"
    assert (scratch.folder.parent / "output.txt").read_text().splitlines()[1:] == [
        "verdict=REGRESSION",
        "exit-code=1",
    ]

    suite = ET.parse(scratch.folder / "out/j.xml").getroot()[0]
    assert suite.get("failures") == "4"  # verdict, comparison, and both cases
    document = json.loads((scratch.folder / "out/s.json").read_text())
    Draft202012Validator(SARIF).validate(document)
    results = document["runs"][0]["results"]
    assert [(each["ruleId"], each["level"], each["baselineState"]) for each in results] == [
        ("assizes/regressed", "error", "new"),
        ("assizes/still_fails", "note", "unchanged"),
    ]
    assert results[0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 3}

    # The same job again: nothing is judged, the same is told.
    again = scratch.ci_json(code=1, **scratch.pull_request(base))
    assert again["baseline"] == first["run_id"]
    assert [finding["case_id"] for finding in again["findings"]] == ["c02", "c01"]


@pytest.mark.full
def test_an_improvement_passes_and_names_who_passes_again(scratch: ScratchRepository):
    base = scratch.commit_day("v1", rude=[1, 2])
    assert scratch.ci().code == 0
    scratch.git("switch", "--quiet", "--create", "change")
    scratch.commit_day("v2", rude=[2])
    answer = scratch.ci(**scratch.pull_request(base))
    assert answer.code == 0, answer
    ((level, properties, _),) = commands(answer.out)
    assert (level, properties["title"]) == ("notice", "assizes%3A PASSED%3A clerk")
    assert "Passes again: `c01`." in summary_of(scratch)
    assert "Worse than" not in summary_of(scratch)


@pytest.mark.full
def test_an_inconclusive_change_is_neither_a_pass_nor_a_regression(tmp_path: Path):
    scratch = ScratchRepository.begin(tmp_path / "repository", mode="statistics")
    base = scratch.commit_day("v1", rude=[1])
    assert scratch.ci().code == 0
    scratch.git("switch", "--quiet", "--create", "change")
    scratch.commit_day("v2", rude=[1, 2])
    answer = scratch.ci(**scratch.pull_request(base))
    assert answer.code == 4, answer
    verdict, *_ = commands(answer.out)
    assert verdict[:2] == ("error", {"title": "assizes%3A INCONCLUSIVE%3A clerk"})
    summary = summary_of(scratch)
    assert summary.startswith("## INCONCLUSIVE: clerk\n")
    row = next(line for line in summary.splitlines() if line.startswith("| pass rate |"))
    detectable = row.split("|")[6].strip()
    assert float(detectable) > 2  # points, and more than the margin: so few cases cannot tell
    assert "the smallest change that 4 of 5 such comparisons would see" in summary


@pytest.mark.full
def test_the_base_is_what_the_service_says_else_the_branch_point_else_an_older_commit(
    scratch: ScratchRepository,
):
    first = scratch.commit_day("v1")
    run = scratch.ci_json()["run_id"]
    unjudged = scratch.commit_day("v2", rude=[3])
    scratch.git("switch", "--quiet", "--create", "change")
    scratch.commit_day("v3", rude=[4])
    own = scratch.ci_json(code=1)
    assert own["baseline"] == run
    line = f"run {run} of commit {first[:12]}, 1 commit before the base commit {unjudged[:12]}"
    assert own["compared"] == line
    merge = {"GITLAB_CI": "true", "CI_MERGE_REQUEST_DIFF_BASE_SHA": first}
    assert (
        scratch.ci_json(code=1, **merge)["compared"] == f"run {run} of the base commit {first[:12]}"
    )
    named = scratch.ci_json("--baseline", run, code=1)
    assert named["baseline"] == run
    # The run of a change, or of files that differ from their commit, is nobody's baseline.
    push = {"GITHUB_ACTIONS": "true", "GITHUB_REF_NAME": "main", "GITHUB_BASE_REF": "main"}
    assert scratch.ci_json(code=1, **push)["baseline"] == run
    unknown = scratch.ci("--base", "nowhere")
    assert (unknown.code, unknown.err.count("\n")) == (2, 1)
    assert "--base 'nowhere': no such commit here" in unknown.err


@pytest.mark.full
def test_without_a_base_run_the_gates_decide_or_nothing_is_judged(scratch: ScratchRepository):
    scratch.commit_day("v1", rude=range(9))
    refused = scratch.ci("--require-baseline")
    assert refused.code == 3
    assert "--require-baseline: no store at" in refused.err
    assert not (scratch.folder / "assizes.duckdb").exists()
    answer = scratch.ci(GITHUB_ACTIONS="true")
    assert answer.code == 1
    told = commands(answer.out)
    assert len([each for each in told if each[0] == "error"]) == 10  # what GitHub shows of one step
    assert "c00 failed" in told[1][1]["title"]
    error = scratch.ci("--set", "judge.judges=['nobody']", GITHUB_ACTIONS="true")
    assert error.code == 2
    (fault,) = commands(error.out)
    assert "unknown judge" in fault[2]


@pytest.mark.full
def test_texts_of_a_transcript_become_no_command_no_link_and_no_line(scratch: ScratchRepository):
    base = scratch.commit_day("v1")
    scratch.ci()
    scratch.git("switch", "--quiet", "--create", "change")
    scratch.commit_day("v2", rude=range(9), words=ATTACK)
    files = ("--comment", "c.md", "--sarif", "s.json", "--code-quality", "q.json")
    answer = scratch.ci(*files, **scratch.pull_request(base))
    told = commands(answer.out)  # which checks the form of every line
    assert {level for level, *_ in told} == {"error"}
    assert all("pwned" not in title["title"] for _, title, _ in told)
    assert all("%0A" not in message or "%250A" in message for *_, message in told)
    comment = (scratch.folder / "c.md").read_text()
    for sign in ("@everyone", "#12 ", "GH-3", "!4", "<img", "[x](", "http://e"):
        assert sign not in comment
    (row,) = [line for line in comment.splitlines() if line.startswith("| `c04`")]
    assert row.count("|") == 5
    Draft202012Validator(SARIF).validate(json.loads((scratch.folder / "s.json").read_text()))
    entries: list[dict[str, Any]] = json.loads((scratch.folder / "q.json").read_text())
    assert len(entries) == 9
    for entry in entries:
        assert set(entry) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert "\n" not in entry["description"]
        assert entry["severity"] == "major"
    assert len({entry["fingerprint"] for entry in entries}) == 9


@pytest.mark.full
def test_a_suite_is_annotated_in_its_own_file(scratch: ScratchRepository):
    scratch.commit_day("v1", rude=range(3))
    assert scratch.ci().code == 0
    from tests.command import assizes

    promoted = assizes(
        *("promote", "latest", "--failed", "--to", "suites/manners"), cwd=scratch.folder
    )
    assert promoted.code == 0, promoted
    text = (scratch.folder / "assizes.toml").read_text()
    truth = '[ground_truth]\nuri = "suites/manners/cases.jsonl"\n'
    (scratch.folder / "guard.toml").write_text(f"{text.replace('clerk', 'guard', 1)}\n{truth}")
    base = scratch.commit_day("v2", cases=range(3))
    guard = ("-c", "guard.toml")
    mended = scratch.ci_json(*guard)
    assert (mended["exit_code"], mended["baseline"]) == (0, None)
    scratch.commit_day("v3", rude=[1], cases=range(3))
    worse = scratch.ci_json(*guard, code=1, CI_COMMIT_BEFORE_SHA=base, GITLAB_CI="true")
    assert worse["baseline"] == mended["run_id"]
    (finding,) = worse["findings"]
    assert finding["place"] == {"path": "suites/manners/cases.jsonl", "line": 2}
    assert (scratch.folder / "gl-code-quality-report.json").exists()
    assert any("came back" in reason for reason in worse["reasons"])


@pytest.mark.full
def test_summary_and_comment_stay_within_what_a_service_takes(scratch: ScratchRepository):
    base = scratch.commit_day("v1", cases=range(400))
    scratch.ci()
    scratch.git("switch", "--quiet", "--create", "change")
    scratch.commit_day("v2", rude=range(400), words="fool \u202e|<&" * 300, cases=range(400))
    job = scratch.pull_request(base)
    full = scratch.folder.parent / "summary.md"
    full.write_text("x" * (SUMMARY_BYTES - 2000))
    scratch.ci("--comment", "c.md", "--summary", "own.md", **job)
    assert SUMMARY_BYTES - 2000 < full.stat().st_size <= SUMMARY_BYTES
    assert full.read_text().endswith("The rest is left out: it would be too long here.\n")
    assert (scratch.folder / "c.md").stat().st_size <= COMMENT_BYTES
    assert "And 350 cases more." in (scratch.folder / "own.md").read_text()


@pytest.mark.full
def test_causes_are_named_where_the_settings_ask_for_them(scratch: ScratchRepository):
    base = scratch.commit_day("v1", rude=[])
    assert scratch.ci().code == 0
    scratch.git("switch", "--quiet", "--create", "change")
    scratch.commit_day("v2", rude=[1, 2, 3, 4, 5])
    without = scratch.ci(**scratch.pull_request(base))
    assert COMMON not in summary_of(scratch), without
    config = scratch.folder / "assizes.toml"
    config.write_text(f"{config.read_text()}\n[causes]\nin_ci = true\n")
    (scratch.folder.parent / "summary.md").unlink()
    asked = scratch.ci(**scratch.pull_request(base))
    assert asked.code == without.code == 1
    shown = summary_of(scratch).partition(COMMON)[2]
    assert re.search(r"5 (of \d+ )?cases", shown), (shown, asked)
