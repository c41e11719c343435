"""A judge with a planted bias is aligned end to end: run, labels, proposal, proof, new version."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from prefect.client.schemas.objects import State

from assizes.deployments.settings import validate_config
from assizes.flows.align import align_judge
from assizes.judge.alignment.result import AlignmentRequest, AlignmentResult
from assizes.judge.case import Case
from assizes.judge.config.gates import CalibrationConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError, Inconclusive
from assizes.judge.formats import native_line
from assizes.tasks.runs.labels.people_labels import labels_to_import
from assizes.tasks.store import open_store
from tests.flows.test_evaluate import outcome_of

pytestmark = pytest.mark.usefixtures("prefect_server")

RUBRIC = (
    'kind = "ANSWER"\nname = "helpful"\ndescription = "Helpful?"\nquestion = "Is it helpful?"\n'
)
CASES = 96


def passes(number: int) -> bool:
    return number % 2 == 0


def conversation(number: int) -> Case:
    """People pass every second case; of these, every second one is long."""
    word = "right" if passes(number) else "wrong"
    text = f"This is {word}. " + ("More words follow here. " * 20 if number % 4 < 2 else "")
    turns = [{"role": "user", "text": f"Question {number}?"}, {"role": "assistant", "text": text}]
    return Case.model_validate({"case_id": f"case-{number}", "transcript": {"turns": turns}})


def config(folder: Path, server: Any, labels: list[bool] | None = None, **more: Any) -> RunConfig:
    said = labels or [passes(number) for number in range(CASES)]
    (folder / "t.jsonl").write_bytes(b"".join(native_line(conversation(n)) for n in range(CASES)))
    rows = "".join(f"case-{n},{'pass' if good else 'fail'}\n" for n, good in enumerate(said))
    (folder / "labels.csv").write_text(f"case_id,label\n{rows}", encoding="utf-8")
    (folder / "rubrics").mkdir(exist_ok=True)
    if not (folder / "rubrics" / "helpful.toml").exists():
        (folder / "rubrics" / "helpful.toml").write_text(RUBRIC, encoding="utf-8")
    price = {"input_usd_per_million": 1.0, "output_usd_per_million": 2.0}
    names = ("long-hater", "proposer", "idle-proposer")
    body = {
        "name": "aligned",
        "transcripts": {"uri": str(folder / "t.jsonl")},
        "store": {"uri": f"duckdb:///{folder}/rows.duckdb"},
        "cache": {"uri": f"{folder}/replies"},
        "report": {"uri": f"{folder}/reports"},
        "limits": {
            "ledger": f"{folder}/ledger.db",
            "prices": {f"openai/{name}": price for name in names},
        },
        "runner": {"fail_flow": False},
        "judge": {
            "model": "openai/long-hater",
            "api_base": server.api_base,
            "judges": ["helpful"],
            "rubrics": [str(folder / "rubrics")],
        },
        "calibration": {"labels": str(folder / "labels.csv"), "metric": "helpful"},
        **more,
    }
    return validate_config(body, "test")


async def aligned(wanted: RunConfig, **request: Any) -> tuple[State[Any], AlignmentResult]:
    asked = {"run": "latest", "metric": "helpful", "model": "openai/proposer", **request}
    state = await align_judge(wanted, AlignmentRequest(**asked), return_state=True)
    return state, await state.aresult()


async def test_a_judge_that_fails_long_answers_is_mended_and_proved_on_held_out_labels(
    tmp_path: Path, judge_server: Any
):
    wanted = config(tmp_path, judge_server)
    await outcome_of(wanted)
    state, result = await aligned(wanted)
    assert (state.name, result.verdict) == ("Better", "better"), result.lines()
    assert result.held_out is not None
    assert (result.held_out.old, result.held_out.new) == (pytest.approx(0.75, abs=0.05), 1.0)
    assert "+[[guidelines]]" in result.diff
    table = tomllib.loads(result.text)
    assert table["guidelines"][0]["text"].startswith("Do not hold the length")
    assert table["guidelines"][0]["rests_on"][0].startswith("case-")
    assert table["alignment"]["parent"] == result.old_hash != result.new_hash
    assert table["alignment"]["held_out_uses"] == result.uses == 1
    assert 0 < result.cost_usd < 1
    assert (tmp_path / "rubrics" / "helpful.toml").read_text() == RUBRIC  # a person applies it
    judge_server.reset()
    _, again = await aligned(wanted)
    assert judge_server.stats()["requests"] == 0  # every reply was in the cache
    assert again.text == result.text


@pytest.mark.full
async def test_an_edited_text_is_tried_again_and_the_bar_is_higher(
    tmp_path: Path, judge_server: Any
):
    wanted = config(tmp_path, judge_server)
    await outcome_of(wanted)
    _, result = await aligned(wanted)
    edited = tmp_path / "edited.toml"
    edited.write_text(result.text.replace("What counts", "Length is no fault"), encoding="utf-8")
    _, tried = await aligned(wanted, file=str(edited))
    assert tried.is_better
    assert tried.uses == 2
    assert tried.held_out is not None
    assert result.held_out is not None
    assert tried.held_out.alpha < result.held_out.alpha
    assert any("have now tried 2 texts" in line for line in tried.lines())
    _, same = await aligned(wanted, file=str(edited))
    assert same.uses == 2  # the same text is the same use
    with open_store(wanted.store) as store:
        rows = store.people.rows("annotations")
    assert rows["kind"].to_list() == ["alignment", "alignment"]


@pytest.mark.full
async def test_guidelines_that_help_nobody_are_not_written_and_use_no_held_out_label(
    tmp_path: Path, judge_server: Any
):
    wanted = config(tmp_path, judge_server)
    await outcome_of(wanted)
    state, result = await aligned(wanted, model="openai/idle-proposer", examples=0)
    assert (state.name, result.text, result.diff, result.uses) == ("NotShown", "", "", 0)
    assert result.held_out is None
    assert "not shown to be better" in result.why


@pytest.mark.full
async def test_labels_are_too_few_or_of_another_metric(tmp_path: Path, judge_server: Any):
    wanted = config(tmp_path, judge_server)
    await outcome_of(wanted)
    few = config(tmp_path, judge_server, [True] * 90 + [False] * 6)
    with pytest.raises(Inconclusive, match="too few labels"):
        await aligned(few)
    with pytest.raises(ConfigurationError, match="nonsense"):
        await aligned(wanted, metric="nonsense")


def anchored(folder: Path, server: Any, **anchors: str) -> RunConfig:
    """The same with 24 anchors, of which the judge fails six good ones, as they are long."""
    lines = [native_line(conversation(number)) for number in range(200, 224)]
    (folder / "golden.jsonl").write_bytes(b"".join(lines))
    return config(folder, server, anchors={"uri": str(folder / "golden.jsonl"), **anchors})


def anchor_labels(folder: Path) -> Path:
    """Labels of twenty anchors; one is of a case that people fail though the text is right."""
    said = {number: passes(number) and number != 202 for number in range(200, 220)}
    rows = "".join(f"case-{n},{'pass' if good else 'fail'}\n" for n, good in said.items())
    path = folder / "anchor-labels.csv"
    path.write_text(f"case_id,label\n{rows}", encoding="utf-8")
    return path


@pytest.mark.full
async def test_anchors_say_how_far_they_move_and_how_often_each_judge_agrees_with_their_labels(
    tmp_path: Path, judge_server: Any
):
    wanted = anchored(tmp_path, judge_server, labels=str(anchor_labels(tmp_path)))
    await outcome_of(wanted, trigger="nightly")
    _, result = await aligned(wanted)
    shift = result.anchors
    assert shift is not None
    assert result.plan.hearings == 38 + 2 * 10 + 24 + 58 * 5  # the anchors are planned, too
    assert (shift.cases, shift.points) == (24, pytest.approx(25.0))
    # Five long ones of the twenty were wrong; 202 stays wrong, as the label is.
    assert (shift.labelled, shift.right_before, shift.right_after) == (20, 14, 19)
    assert result.lines()[-1] == (
        f"anchors: the new judge moves 24 anchors of run {shift.run} by +25.0 points; of 20 with a "
        "label the old judge gets 14 right, the new one 19"
    )


@pytest.mark.full
async def test_labels_of_anchors_come_from_the_store_where_no_file_is_named(
    tmp_path: Path, judge_server: Any
):
    wanted = anchored(tmp_path, judge_server)
    outcome = await outcome_of(wanted, trigger="nightly")
    _, unlabelled = await aligned(wanted)
    assert unlabelled.anchors is not None
    assert (unlabelled.anchors.cases, unlabelled.anchors.labelled) == (24, 0)
    assert unlabelled.anchors.sentence().endswith("by +25.0 points")
    source = CalibrationConfig(labels=str(anchor_labels(tmp_path)), metric="helpful")
    with open_store(wanted.store) as store:
        record = store.run(f"{outcome.run_id}-anchors")
        store.people.add("labels", labels_to_import(store, record, source, "anna"))
    _, result = await aligned(wanted)
    shift = result.anchors
    assert shift is not None
    assert (shift.labelled, shift.right_before, shift.right_after) == (20, 14, 19)


@pytest.mark.full
async def test_labels_of_the_whole_verdict_are_no_labels_of_the_metric(
    tmp_path: Path, judge_server: Any
):
    labels = str(anchor_labels(tmp_path))
    wanted = anchored(tmp_path, judge_server, labels=labels)
    of_verdict = wanted.calibration.model_copy(update={"metric": None})
    await outcome_of(wanted.model_copy(update={"calibration": of_verdict}), trigger="nightly")
    _, result = await aligned(wanted)
    assert result.anchors is not None
    assert (result.anchors.cases, result.anchors.labelled) == (24, 0)


@pytest.mark.full
async def test_labels_of_anchors_that_cannot_be_read_are_named_before_anything_is_asked(
    tmp_path: Path, judge_server: Any
):
    await outcome_of(anchored(tmp_path, judge_server), trigger="nightly")
    judge_server.reset()
    gone = anchored(tmp_path, judge_server, labels=str(tmp_path / "gone.csv"))
    with pytest.raises(ConfigurationError, match=r"gone\.csv"):
        await aligned(gone)
    assert judge_server.stats()["requests"] == 0


@pytest.mark.full
async def test_a_budget_ends_the_alignment(tmp_path: Path, judge_server: Any):
    from assizes.judge.errors import OverBudget

    wanted = config(tmp_path, judge_server)
    await outcome_of(wanted)
    with pytest.raises(OverBudget, match="budget is spent"):
        await aligned(wanted, budget_usd=0.001)
