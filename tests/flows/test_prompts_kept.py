"""A run stores the prompts of its judges, and a comparison shows where they differ."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.config.run import RunConfig
from assizes.judge.prompts.prompt_texts import PromptDiff
from assizes.tasks.runs.stored_comparison import compare_stored
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.doubles.fixtures import OpenAIServer
from tests.flows.test_evaluate import config, outcome_of, report_bytes, written

pytestmark = pytest.mark.usefixtures("prefect_server")

TONE = """\
name = "tone"
display_name = "Tone"
description = "Whether the agent is polite."
tier = "delivery"
score_type = "binary"
default_weight = 1
[levels.pass]
criteria = "{line}"
[levels.fail]
criteria = "The agent is rude."
"""


def told(folder: Path, server: OpenAIServer, line: str, **tables: object) -> RunConfig:
    rubrics = folder / "rubrics"
    rubrics.mkdir(exist_ok=True)
    (rubrics / "tone.toml").write_text(TONE.format(line=line), "utf-8")
    judge = {
        "model": "openai/a",
        "api_base": server.api_base,
        "rubrics": [str(rubrics)],
        "metrics": ["tone"],
    }
    uri = written(folder / "t.jsonl", sample_cases()[:2])
    return config(folder, uri, judge=judge, **tables)


def differing(wanted: RunConfig, *sides: str) -> tuple[PromptDiff, ...] | None:
    with open_store(wanted.store, writing=True) as store:
        return compare_stored(store, *sides, wanted.comparison).prompt_diff


@pytest.mark.full
async def test_a_line_changed_in_a_rubric_is_shown_and_an_old_run_goes_on_without_texts(
    tmp_path: Path, judge_server: OpenAIServer
):
    wanted = told(tmp_path, judge_server, "Always polite.")
    for run_id in ("before", "twin"):
        await outcome_of(wanted, run_id=run_id)
    against = {"baseline": "before", "allow": True}
    changed = told(tmp_path, judge_server, "Polite & short.", comparison=against)
    outcome = await outcome_of(changed, run_id="after")

    assert differing(wanted, "before", "twin") == ()
    (one,) = differing(wanted, "before", "after") or ()
    lines = [line for line in one.lines if line[0] in "+-"]
    assert (one.judge, lines) == (
        "conversation",
        ["-pass: Always polite.", "+pass: Polite & short."],
    )
    written_down = report_bytes(outcome)
    assert "+pass: Polite &amp; short." in written_down["html"].decode()
    assert "| candidate | pass: Polite &amp; short. |" in written_down["md"].decode()
    with open_store(wanted.store) as store:
        assert "polite" not in str(store.runs().rows())
    said = assizes(
        "compare", "before", "after", "--allow", "--store", wanted.store.uri, cwd=tmp_path
    ).out
    assert (
        "prompts of judge conversation (- baseline, + candidate):\n"
        "  - pass: Always polite.\n  + pass: Polite & short.\n"
    ) in said

    _forgotten(tmp_path / "rows.duckdb", "before")
    assert differing(wanted, "before", "after") is None
    wanted = told(tmp_path, judge_server, "Always polite.")
    again = await outcome_of(wanted, run_id="before", manner="resume")
    assert again.summary.counts["judged"] == 2


def _forgotten(file: Path, run_id: str) -> None:
    """The plan of a run as an older version of this program stored it."""
    with duckdb.connect(str(file)) as con:
        (text,) = con.execute("select plan from _plans where run_id = ?", [run_id]).fetchone() or ()
        plan = json.loads(text)
        assert "Always polite." in str(plan.pop("prompts"))
        con.execute("update _plans set plan = ? where run_id = ?", [json.dumps(plan), run_id])
