"""The prompt texts that a run stores, and their differences between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assizes.judge.catalog import JUDGES, resolve_judges
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.prompts.prompt_texts import MAX_LINES, PromptDiff, prompt_diff, prompt_snapshot
from assizes.judge.protocol import Ask
from assizes.judge.rows import as_json
from tests.builders import agent, case, user

KIND = """\
kind = "ANSWER"
name = "kind_words"
description = "Whether the answer is kind."
question = \"\"\"
Is the answer kind?
{line}
Say no if it is rude.\"\"\"
scale = "{scale}"
"""


def sitting(folder: Path, line: str = "Thanks are enough.", scale: str = "yes_no") -> Any:
    (folder / "kind_words.toml").write_text(KIND.format(line=line, scale=scale), "utf-8")
    return resolve_judges(
        JudgeConfig(model="openai/a", judges=["kind_words", "recorded"], rubrics=[str(folder)])
    )


def snapshot(folder: Path, line: str = "Thanks are enough.") -> dict[str, Any]:
    return prompt_snapshot(sitting(folder, line).judges)


@pytest.mark.parametrize("scale", ["yes_no", "binary"])
def test_what_is_kept_is_the_system_message_that_is_sent(tmp_path: Path, scale: str):
    bench = sitting(tmp_path, scale=scale)
    (question,) = next(bench.judges[0].judge(case(user("Hi"), agent("Hello"))))
    assert isinstance(question, Ask)
    snapshot_of_run = prompt_snapshot(bench.judges)
    (digest,) = snapshot_of_run["judges"]["kind_words"]
    assert snapshot_of_run == {
        "judges": {"kind_words": [digest]},
        "texts": {digest: question.prompt.system},
    }


def test_one_changed_line_is_the_whole_difference(tmp_path: Path):
    before, after = snapshot(tmp_path), snapshot(tmp_path, "A greeting <b>and</b> thanks.")
    differences = prompt_diff(before, after)
    assert differences is not None
    (difference,) = differences
    assert (difference.judge, difference.more) == ("kind_words", 0)
    assert [line for line in difference.lines if line[0] in "+-"] == [
        "-Thanks are enough.",
        "+A greeting <b>and</b> thanks.",
    ]
    assert " Is the answer kind?" in difference.lines


def test_the_same_rubric_differs_in_nothing_and_an_old_run_cannot_say(tmp_path: Path):
    here = snapshot(tmp_path)
    assert prompt_diff(here, snapshot(tmp_path)) == ()
    assert prompt_diff({}, here) is None
    assert prompt_diff(here, {}) is None


def test_judges_of_one_run_alone_are_not_compared(tmp_path: Path):
    assert (
        prompt_diff(snapshot(tmp_path), prompt_snapshot(resolve_judges(JudgeConfig()).judges)) == ()
    )


def test_a_judge_with_two_prompts_says_which_of_them_differs():
    sides = [
        {"judges": {"two": ["a", other]}, "texts": {"a": "same", "b": "one", "c": "two"}}
        for other in "bc"
    ]
    assert prompt_diff(*sides) == (
        PromptDiff(judge="two", lines=("@ prompt 2", "@@ -1 +1 @@", "-one", "+two")),
    )


def test_a_long_difference_is_cut_and_the_rest_counted():
    sides = [
        {"judges": {"j": [side]}, "texts": {side: "\n".join(f"{side}{n}" for n in range(150))}}
        for side in "ab"
    ]
    differences = prompt_diff(*sides)
    assert differences is not None
    assert (len(differences[0].lines), differences[0].more) == (MAX_LINES, 101)


def test_a_judge_of_ones_own_that_means_something_else_by_prompts_keeps_none():
    class Odd:
        name = "odd"
        version = "1"
        metrics = ()
        prompts = 7

        def missing(self, _: Any) -> None: ...

        def judge(self, _: Any) -> list[Any]:
            return []

    assert prompt_snapshot([Odd()]) == {"judges": {}, "texts": {}}


def test_every_built_in_judge_that_asks_keeps_its_prompts_in_under_forty_kilobytes():
    chosen = resolve_judges(JudgeConfig(model="openai/a", judges=list(JUDGES)))
    stored = prompt_snapshot(chosen.judges)
    silent = {judge.name for judge in chosen.judges} - set(stored["judges"])
    assert silent == {"trajectory", "document_recall", "agent_usage", "recorded"}
    assert len(as_json(stored).encode()) < 40_000
