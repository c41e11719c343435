"""The rules about words of rubrics on texts that people wrote: how often they fire, and on what.

    python -m benchmarks.rubric_words

Every finding is printed, so that a person can say which of them are false alarms.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable

from assizes.judge.alignment.rubric_files import rubric_file
from assizes.judge.alignment.rubric_parts import lint_findings
from assizes.judge.families.rag import yes_no_rubrics
from assizes.judge.rubrics.lint import RubricParts, lint
from assizes.judge.rubrics.rubric import BUILT_IN
from benchmarks.figures import DATA, Figures


def count(figures: Figures, name: str, texts: Iterable[str]) -> None:
    """Print what fires on each text, and add how many texts have a finding."""
    number = flagged = 0
    for text in texts:
        number += 1
        findings = lint(RubricParts("", {"text": text}, {}))
        flagged += bool(findings)
        for finding in findings:
            print(f"  {name}: {finding.rule} {finding.words!r} in {text[:80]!r}")
    figures.add(f"{name}, texts", number)
    figures.add(f"{name}, with a finding", flagged)


def main() -> None:
    """Measure and print."""
    figures = Figures()
    names = (*BUILT_IN, *yes_no_rubrics())
    own = sum(bool(lint_findings(rubric_file(name, ()))) for name in names)
    figures.add("own rubrics", len(names))
    figures.add("own rubrics, with a finding", own, most=0)
    with (DATA / "llmbar/evaluators.json").open(encoding="utf-8") as file:
        count(figures, "llmbar prompts", json.load(file)["prompts"].values())
    with (DATA / "devai/tasks.jsonl").open(encoding="utf-8") as file:
        tasks = [json.loads(line) for line in file]
    criteria = [each["criteria"] for task in tasks for each in task["requirements"]]
    count(figures, "devai requirements", criteria)
    prompts = set()
    for path in sorted((DATA / "tau2_airline_llm_judges").glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            prompts |= {json.loads(line)["judge_system_prompt"] or "" for line in file}
    count(figures, "tau2 system prompts", sorted(prompts))
    figures.close()


if __name__ == "__main__":
    main()
