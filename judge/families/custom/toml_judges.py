"""Judges that a user writes as TOML files with a `kind`, in the folders of [judge] rubrics."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, model_validator

from assizes.judge.case import Case
from assizes.judge.errors import ConfigurationError
from assizes.judge.families.entry import JudgeEntry, JudgeOptions
from assizes.judge.families.rag import ENTRIES as RAG_ENTRIES
from assizes.judge.families.rag import (
    NEEDS,
    ROLE,
    AnswerJudge,
    Input,
    RetrievalJudge,
    YesNoRubric,
    built_in,
    yes_no_rubrics,
)
from assizes.judge.protocol import Judge, Steps, ask
from assizes.judge.rubrics.guidance import (
    AlignmentRecord,
    Examples,
    Guidelines,
    RubricTable,
    guidance_text,
)
from assizes.judge.rubrics.own_tests import Tests, check_levels
from assizes.judge.rubrics.rubric import (
    BINARY_LEVELS,
    KIND,
    SCORED_LEVELS,
    Level,
    check_parent,
    documents,
    free_name,
    level_line,
    validate_table,
)
from assizes.judge.score import ACCEPTABLE, Scale, Score

MAX_NAME: Final = 63
"""The most characters in the name of a judge."""

RatingScale = Literal["yes_no", "binary", "scored", "labelled"]

_WORDS: Final[Mapping[str, tuple[str, ...]]] = {  # scale -> answers, the best first
    "yes_no": ("yes", "no"),
    "binary": BINARY_LEVELS,
    "scored": SCORED_LEVELS,
}
_SCALES: Final = {"binary": Scale.BINARY, "scored": Scale.SCORED, "labelled": Scale.FRACTION}
_DEFAULT_THRESHOLDS: Final = {"scored": ACCEPTABLE / 5, "labelled": 0.5}  # 0..1, inclusive


class RatedLevel(Level):
    """One possible answer: when to give it, and on a labelled scale its value 0..1."""

    value: float | None = Field(default=None, ge=0, le=1)


class CustomRubric(RubricTable):
    """A judge as a table of a TOML file.

    `needs` names the inputs that a case must have; `shows` names further inputs that are shown
    where the case has them. `levels` says when to give each answer: yes and no, pass and fail, 0 to
    5, or the labels of a labelled scale, each with its `value`. `threshold` is the value 0..1 from
    which a scored or labelled judge passes, inclusive.
    """

    kind: Literal["ANSWER", "RETRIEVAL"]  # of the last answer; of each retrieved chunk (seed 004)
    name: Annotated[str, AfterValidator(free_name)] = Field(max_length=MAX_NAME)
    display_name: str = ""
    description: str = Field(min_length=1)
    question: str = Field(min_length=1)
    notes: str = ""
    needs: list[Input] = Field(default_factory=list)
    shows: list[Input] = Field(default_factory=list)
    scale: RatingScale = "yes_no"
    levels: dict[str, RatedLevel] = Field(default_factory=dict)
    threshold: float | None = Field(default=None, ge=0, le=1)
    guidelines: Guidelines = Field(default_factory=list)
    examples: Examples = Field(default_factory=list)
    alignment: AlignmentRecord | None = None  # where guidelines and examples come from
    tests: Tests = Field(default_factory=list)  # no judge reads them

    @model_validator(mode="after")
    def _check_consistency(self) -> CustomRubric:
        if self.kind == "RETRIEVAL" and self.scale != "yes_no":
            raise ValueError(f"scale {self.scale!r}: a RETRIEVAL judge rates chunks with yes or no")
        self._check_levels()
        check_levels(self.tests, self.words)
        if self.threshold is not None and self.scale not in _DEFAULT_THRESHOLDS:
            raise ValueError(f"threshold: the scale {self.scale!r} passes by its own words")
        return self

    def _check_levels(self) -> None:
        valued = {name for name, level in self.levels.items() if level.value is not None}
        if self.scale == "labelled":
            if len(self.levels) < 2 or valued != set(self.levels):
                raise ValueError("levels: a labelled scale has two or more labels, each with value")
        elif valued:
            raise ValueError(f"levels: only a labelled scale has values, not {self.scale!r}")
        elif self.levels and set(self.levels) != set(_WORDS[self.scale]):
            wanted = ", ".join(_WORDS[self.scale])
            raise ValueError(f"levels {sorted(self.levels)} do not fit the scale, wanted {wanted}")

    @property
    def words(self) -> tuple[str, ...]:
        """The words that the model may answer, as the prompt lists them."""
        return _WORDS.get(self.scale) or tuple(self.levels)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs in `needs`, or without any the usual inputs of this kind of judge."""
        shown: Input = "response" if self.kind == "ANSWER" else "retrieved_context"
        return tuple(self.needs) or ("request", shown)

    def prompt(self) -> str:
        """The judge's own part of the prompt: the question, the levels and the notes."""
        lines = [
            f"- {level_line(word, self.levels[word], with_example=True)}"
            for word in self.words
            if word in self.levels
        ]
        guidance = guidance_text(self.guidelines, self.examples)
        return "\n".join([self.question.strip(), *lines, *filter(None, (self.notes, guidance))])

    def yes_no(self) -> YesNoRubric:
        """This rubric in the form of the built-in yes/no judges."""
        return YesNoRubric(
            name=self.name,
            prompt=self.prompt(),
            display_name=self.display_name,
            aspect=self.description,
            step="response" if self.kind == "ANSWER" else "retrieval",
            inputs=self.inputs,
            optional=tuple(self.shows),
        )


class GradedOptions(JudgeOptions):
    """The table [judge.options.NAME] of a scored or labelled judge.

    Without a `threshold` here the threshold of the judge's file applies.
    """

    threshold: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="The value from which a case passes. Not set: the threshold of the judge's file.",
    )


class GradedJudge(AnswerJudge):
    """Rates the last answer on a scale of its own: pass and fail, 0 to 5, or labels."""

    version = "1"

    def __init__(self, rubric: CustomRubric, threshold: float | None = None) -> None:
        """Promise one metric with the rubric's name; `threshold`, 0..1, overrides the rubric's."""
        super().__init__(rubric.yes_no())
        self.custom = rubric
        thresholds = (threshold, rubric.threshold, _DEFAULT_THRESHOLDS.get(rubric.scale))
        self.threshold = next((value for value in thresholds if value is not None), None)
        words = ", ".join(f'"{word}"' for word in rubric.words)
        reply = (
            "# Reply\nOne JSON object, nothing else, with these keys in this order:\n"
            "- rationale: one to three sentences, before the rating\n"
            f"- rating: one of {words}, nothing else"
        )
        self.system = "\n\n".join([ROLE, f"# Question\n{rubric.prompt()}", reply])
        kind = "percentage" if rubric.scale == "binary" else "average"
        self.metric = replace(
            self.metric,
            scale=_SCALES[rubric.scale],
            rubric_hash=hashlib.sha256(self.system.encode()).hexdigest()[:16],
            run_names=(f"response/llm_judged/{rubric.name}/rating/{kind}",),
        )
        self.metrics = (self.metric,)

    def judge(self, case: Case) -> Steps[list[Score]]:
        """One ask, with the prompt of a yes/no judge and the words of the rubric's scale."""
        prompt, evidence = self.prompt_and_evidence(case)
        answer = yield from ask(prompt, graded_reply(self.custom.words), evidence)
        reply = answer.model_dump()
        word, details = reply["rating"], {"rationale": reply["rationale"]}
        if self.custom.scale == "binary":
            passed = word == BINARY_LEVELS[0]
            return [Score.of(self.metric, 5.0 * passed, passed=passed, details=details)]
        if self.custom.scale == "scored":
            score = Score.of(self.metric, int(word), details=details)
        else:
            value = self.custom.levels[word].value
            score = replace(Score.of(self.metric, value or 0.0, details=details), label=word)
        value = round(score.value or 0.0, 9)
        return [replace(score, passed=value >= round(self.threshold or 0.0, 9))]


def entries(folders: Sequence[str], taken_names: Mapping[str, str]) -> dict[str, JudgeEntry]:
    """The catalogue entries of the judges in rubric folders, by name, in the order of their files.

    An aligned judge, one with a table `[alignment]`, takes the place of the judge of its name.

    Raises:
        ConfigurationError: for an invalid file, for a name that is in `taken_names`, and for an
            aligned judge whose parent is another text.
    """
    judge_entries: dict[str, JudgeEntry] = {}
    earlier: dict[str, CustomRubric] = {}
    holders = dict(taken_names)  # name -> what has it
    for where, table in documents(folders):
        if KIND not in table:
            continue
        rubric = validate_table(CustomRubric, table, where)
        name = rubric.name
        replaced = earlier.get(name)
        if rubric.alignment is not None and replaced is not None:
            check_parent(rubric.alignment, own_judge(replaced).metric.rubric_hash, where)
        elif rubric.alignment is not None and name in yes_no_rubrics():
            check_parent(rubric.alignment, built_in(name).metric.rubric_hash, where)
            judge_entries[name] = _aligned_entry(rubric)
            continue
        elif name in holders:
            raise ConfigurationError(
                f"{where}: judge name {name!r} is already taken "
                f"({holders[name]}); choose another name"
            )
        holders[name] = where
        earlier[name] = rubric
        judge_entries[name] = _entry(rubric)
    return judge_entries


def own_judge(rubric: CustomRubric, threshold: float | None = None) -> AnswerJudge | RetrievalJudge:
    """The judge that a file defines; `threshold`, 0..1, is that of its options."""
    if rubric.kind == "RETRIEVAL":
        return RetrievalJudge(rubric.yes_no())
    if rubric.scale == "yes_no":
        return AnswerJudge(rubric.yes_no())
    return GradedJudge(rubric, threshold)


def aligned_built_in(rubric: CustomRubric) -> AnswerJudge | RetrievalJudge:
    """The built-in yes/no judge of this name, with the texts of an aligned rubric."""
    texts = {"prompt": rubric.prompt()}
    wanted = yes_no_rubrics()[rubric.name].model_copy(update=texts)
    return RetrievalJudge(wanted) if rubric.kind == "RETRIEVAL" else AnswerJudge(wanted)


def _aligned_entry(rubric: CustomRubric) -> JudgeEntry:
    # The inputs and published names stay those of the built-in judge.
    built_in_entry = RAG_ENTRIES[rubric.name]
    return replace(built_in_entry, create_judge=lambda _options, _: aligned_built_in(rubric))


def _entry(rubric: CustomRubric) -> JudgeEntry:

    def create_judge(options: JudgeOptions, _: object) -> Judge:
        return own_judge(rubric, getattr(options, "threshold", None))

    graded = rubric.scale in _DEFAULT_THRESHOLDS
    return JudgeEntry(
        description=rubric.description,
        needs=tuple(NEEDS[name] for name in rubric.inputs),
        needs_ground_truth="expected_response" in rubric.inputs,
        create_judge=create_judge,
        options=GradedOptions if graded else JudgeOptions,
        offline=False,  # no rule of ours can read a user's question
    )


class _GradedReply(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rationale: str


@functools.lru_cache(maxsize=256)
def graded_reply(words: tuple[str, ...]) -> type[BaseModel]:
    """The pydantic model of a reply: a rationale, then one of these words as the rating."""
    rating: Any = Literal[words]  # the words are known at run time only
    return create_model("GradedReply", __base__=_GradedReply, rating=(rating, ...))
