"""Rubrics with guidance: what the judge reads, what is replaced, and what stays as it was."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from assizes.judge.alignment.rejudging import judge_of, rubric_hash
from assizes.judge.alignment.rubric_files import RubricFile, diff, rubric_file
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.rows import as_json
from assizes.judge.rubrics.guidance import AlignmentRecord, Guideline, JudgedExample
from assizes.judge.rubrics.rubric import rubrics

GUIDELINE = Guideline(title='Say "no"', text='Back\\slash, quote " and\nline.', rests_on=["a"])
EXAMPLE = JudgedExample(case_id="c", excerpt="x\n</data>\u2028| y", answer="fail", reason="why")


def record(parent: str) -> AlignmentRecord:
    return AlignmentRecord(
        parent=parent,
        version=1,
        metric="m",
        run="r",
        labels="l",
        proposer="p",
        held_out="h",
        held_out_uses=1,
        result="better",
    )


def aligned(metric: str) -> tuple[JudgeConfig, RubricFile, str]:
    conversation = metric in {"tool_routing", "response_delivery"}
    config = JudgeConfig(model="openai/x", judges=["conversation" if conversation else metric])
    base = rubric_file(metric, [])
    old = rubric_hash(judge_of(config, None, metric), metric)
    return config, base.with_guidance([GUIDELINE], [EXAMPLE], record(old)), old


@pytest.mark.parametrize(
    "metric", ["tool_routing", "response_delivery", "safety", "groundedness", "chunk_relevance"]
)
def test_a_built_in_rubric_is_replaced_by_an_aligned_one(metric: str):
    config, new, old = aligned(metric)
    judge = judge_of(config, new, metric)
    assert rubric_hash(judge, metric) != old
    (system, *others) = judge.prompts  # type: ignore[attr-defined]
    for text in (system, *others):
        assert '- Say "no": Back\\slash, quote " and line.' in text
        assert "| x\n| <\\/data>\n| | y\nPeople judged case 1, above: fail, because: why" in text


def test_an_aligned_yes_no_judge_asks_the_same_beside_its_guidance():
    config, new, _ = aligned("safety")
    old_system = judge_of(config, None, "safety").prompts[0]  # type: ignore[attr-defined]
    new_system = judge_of(config, new, "safety").prompts[0]  # type: ignore[attr-defined]
    start, _, rest = new_system.partition("\nGuidelines, which")
    assert old_system.startswith(start)
    assert rest.endswith(old_system[old_system.index("\n\n# Reply") :])


def test_a_rubric_aligned_from_another_text_is_refused():
    config, new, _ = aligned("tool_routing")
    stale = new.with_record(record("0" * 16))
    with pytest.raises(ConfigurationError, match="aligned from rubric 0000000000000000"):
        judge_of(config, stale, "tool_routing")


def test_history_changes_no_hash_and_unaligned_rubrics_keep_theirs():
    config, new, old = aligned("tool_routing")
    other = new.with_record(record(old).model_copy(update={"result": "else", "version": 3}))
    assert other.text.count("[alignment]") == 1
    hashes = [
        rubric_hash(judge_of(config, each, "tool_routing"), "tool_routing") for each in (new, other)
    ]
    assert hashes[0] == hashes[1]
    body = rubrics()[0].model_dump(
        mode="json", exclude={"guidelines", "examples", "alignment", "tests"}
    )
    # As hashes were made before rubrics had guidelines: no stored run gets another judge.
    assert hashlib.sha256(as_json(body).encode()).hexdigest()[:16] == old


def test_the_words_of_people_stay_and_the_diff_only_adds(tmp_path: Path):
    text = '# ours\nkind = "ANSWER"\nname = "mine"\ndescription = "d"\nquestion = "q?"  # why\n'
    (tmp_path / "mine.toml").write_text(text)
    base = rubric_file("mine", [str(tmp_path)])
    new = base.with_guidance([GUIDELINE], [], record("x"))
    assert new.text.startswith(text.rstrip("\n"))
    lines = diff(base, new, "mine.toml").splitlines()[2:]
    assert not [line for line in lines if line.startswith("-")]


def test_a_metric_without_a_rubric_is_refused():
    with pytest.raises(ConfigurationError, match="has no rubric to align"):
        rubric_file("agent_usage", [])
