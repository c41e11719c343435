"""The catalogue entries of seed 004: six yes/no judges, document recall, and the agent's usage."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Final

from assizes.judge.families.entry import JudgeEntry
from assizes.judge.families.rag.judges import AnswerJudge, RetrievalJudge, YesNoRubric
from assizes.judge.families.rag.measures import DOCUMENT_RECALL, AgentUsage, DocumentRecall

CHUNK_RELEVANCE: Final = "chunk_relevance"


@functools.cache
def yes_no_rubrics() -> Mapping[str, YesNoRubric]:
    """The rubrics of the built-in yes/no judges by name, in the order of `rag.toml`."""
    text = (resources.files("assizes.judge.families.rag") / "rag.toml").read_text("utf-8")
    rubrics = [YesNoRubric.model_validate(table) for table in tomllib.loads(text)["judge"]]
    return {rubric.name: rubric for rubric in rubrics}


def built_in(name: str) -> AnswerJudge | RetrievalJudge:
    """The built-in yes/no judge with this name."""
    rubric = yes_no_rubrics()[name]
    return RetrievalJudge(rubric) if name == CHUNK_RELEVANCE else AnswerJudge(rubric)


def _entry(rubric: YesNoRubric) -> JudgeEntry:
    metric = built_in(rubric.name).metric
    return JudgeEntry(
        description=f"{rubric.step.title()} step, yes or no: {rubric.aspect}",
        needs=metric.needs,
        needs_ground_truth=metric.needs_ground_truth,
        create_judge=lambda _options, _rubrics: built_in(rubric.name),
    )


ENTRIES: Final[Mapping[str, JudgeEntry]] = {
    **{name: _entry(rubric) for name, rubric in yes_no_rubrics().items()},
    DocumentRecall.name: JudgeEntry(
        description="Retrieval step, no model: How many of the documents known to be relevant did "
        "the retriever find?",
        needs=DOCUMENT_RECALL.needs,
        needs_ground_truth=True,
        create_judge=lambda _options, _rubrics: DocumentRecall(),
        asks=False,
    ),
    AgentUsage.name: JudgeEntry(
        description="Tokens and seconds that the agent took, read from the transcript; asks no model.",
        needs=("transcript",),
        needs_ground_truth=False,
        create_judge=lambda _options, _rubrics: AgentUsage(),
        asks=False,
    ),
}
"""The catalogue entries of this family, by name."""
