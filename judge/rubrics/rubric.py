"""Rubrics: the texts by which conversation metrics are scored, stored in TOML files.

The nine built-in rubrics are in `judge/rubrics`; folders of users add others. A file with a
`kind` is not a metric but a judge (`assizes.judge.families.custom.toml_judges`).
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from assizes.judge.errors import ConfigurationError
from assizes.judge.rubrics.guidance import (
    ALIGNMENT,
    AlignmentRecord,
    Examples,
    Guidelines,
    RubricTable,
    guidance_text,
)
from assizes.judge.rubrics.own_tests import Tests, check_levels
from assizes.judge.rubrics.table_faults import table_fault
from assizes.judge.score import Metric, Scale, Tier

BUILT_IN: Final = (
    "tool_routing",
    "parameter_extraction",
    "result_interpretation",
    "grounding_fidelity",
    "instruction_compliance",
    "information_gathering",
    "conversation_management",
    "response_delivery",
    "task_completion",
)
"""The built-in metrics in their published order; each has a file in `judge/rubrics`."""

OUTCOMES: Final = "expected_outcomes"
"""The metric of a case's expected outcomes; no rubric may have this name."""

SCORED_LEVELS: Final = ("5", "4", "3", "2", "1", "0")
BINARY_LEVELS: Final = ("pass", "fail")
_LEVELS: Final = {"scored": SCORED_LEVELS, "binary": BINARY_LEVELS}
"""The levels of each type of score, from best to worst."""

KIND: Final = "kind"
"""The key that makes a file of a rubric folder a judge instead of a metric."""

# A name becomes a field of a reply model.
_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def free_name(name: str) -> str:
    """Check that a metric may have a name, and return the name.

    Raises:
        ValueError: when the name is not snake_case, too long or reserved.
    """
    if not _SNAKE_CASE.fullmatch(name) or len(name) > 64:
        raise ValueError("a name is snake_case, at most 64 characters, e.g. 'tone_of_voice'")
    # A reply model has one field per metric, and pydantic owns some names.
    if name == OUTCOMES or hasattr(BaseModel, name):
        raise ValueError("this name is reserved; choose another")
    return name


T = TypeVar("T", bound=RubricTable)


class Level(RubricTable):
    """One level of a rubric: the criteria for giving it, and a short invented example."""

    criteria: str = Field(min_length=1)
    example: str = ""


class Rubric(RubricTable):
    """How one conversation metric is scored.

    `levels` has the keys 0 to 5 for a scored metric, pass and fail for a binary metric. A metric
    with `default_weight` 0 must be given a weight when it is chosen. `prompt_examples` names the
    levels whose example the judge is shown; `None` means all levels. The built-in rubrics show only
    level 3, the lowest level without a failure: all fifty examples would add some 400 tokens to
    every ask.
    """

    name: Annotated[str, AfterValidator(free_name)]
    display_name: str = Field(min_length=1)
    description: str = Field(min_length=1)
    tier: Tier
    score_type: Literal["scored", "binary"]
    default_weight: float = Field(ge=0)  # share in the overall score before normalisation
    include_in_defaults: bool = False  # judged where a run chooses no metrics
    notes: str = ""  # stands after the levels in the prompt
    levels: dict[str, Level]  # key of the level -> its text
    prompt_examples: list[str] | None = None  # keys of levels
    guidelines: Guidelines = Field(default_factory=list)
    examples: Examples = Field(default_factory=list)
    alignment: AlignmentRecord | None = None  # where guidelines and examples come from
    tests: Tests = Field(default_factory=list)  # no judge reads them

    @model_validator(mode="after")
    def _check_levels(self) -> Rubric:
        wanted = _LEVELS[self.score_type]
        if set(self.levels) != set(wanted):
            raise ValueError(
                f"levels {sorted(self.levels)} do not fit score_type {self.score_type!r}, "
                f"which has {sorted(wanted)}"
            )
        if stray := set(self.prompt_examples or ()) - set(wanted):
            raise ValueError(f"prompt_examples {sorted(stray)} are not levels {sorted(wanted)}")
        if self.include_in_defaults and self.default_weight == 0:
            raise ValueError("include_in_defaults needs a default_weight above 0")
        check_levels(self.tests, wanted)
        return self


def _levels_text(rubric: Rubric, shown: Collection[str]) -> str:
    lines = [
        level_line(key, rubric.levels[key], with_example=key in shown)
        for key in _LEVELS[rubric.score_type]
    ]
    guidance = guidance_text(rubric.guidelines, rubric.examples)
    return "\n".join([*lines, *filter(None, (rubric.notes, guidance))])


def rubric_section(rubric: Rubric) -> str:
    """The rubric for a judge's prompt: every level, with the examples of `prompt_examples` only."""
    scale = "" if rubric.score_type == "scored" else " (pass/fail)"
    shown = rubric.levels if rubric.prompt_examples is None else rubric.prompt_examples
    return f"## {rubric.name}{scale}\n{rubric.description}\n{_levels_text(rubric, shown)}"


def level_line(key: str, level: Level, *, with_example: bool) -> str:
    """One level as a line: its key, its criteria and, where wanted, its example."""
    shown = f" E.g. {level.example}" if with_example and level.example else ""
    return f"{key}: {level.criteria}{shown}"


def metric_of(rubric: Rubric) -> Metric:
    """The metric that a rubric defines, with its hash and, for a person, its whole text."""
    return Metric(
        name=rubric.name,
        scale=Scale(rubric.score_type),
        display_name=rubric.display_name,
        description=rubric.description,
        tier=rubric.tier,
        default_weight=rubric.default_weight,
        include_in_defaults=rubric.include_in_defaults,
        rubric=_levels_text(rubric, rubric.levels),
        rubric_hash=rubric.content_hash(),
    )


def rubrics(folders: Sequence[str] = ()) -> tuple[Rubric, ...]:
    """The built-in rubrics in their published order, then those of the folders, by folder and file name.

    An aligned rubric, one with a table `[alignment]`, takes the place of the rubric of its name.

    Raises:
        ConfigurationError: for a folder or file that cannot be used, for a name used twice, and for
            an aligned rubric whose parent is another text.
    """
    by_name = {rubric.name: (rubric, "built in") for rubric in built_in_rubrics()}
    for where, table in documents(folders):
        if KIND in table:  # a judge, which another loader reads
            continue
        rubric = validate_table(Rubric, table, where)
        if rubric.name in by_name and rubric.alignment is not None:
            check_parent(rubric.alignment, by_name[rubric.name][0].content_hash(), where)
        elif rubric.name in by_name:
            raise ConfigurationError(
                f"{where}: metric name {rubric.name!r} is already taken "
                f"({by_name[rubric.name][1]}); choose another name"
            )
        by_name[rubric.name] = (rubric, where)
    return tuple(rubric for rubric, _ in by_name.values())


def is_aligned(table: Mapping[str, Any]) -> bool:
    """Whether the table of a rubric file says that `assizes align` made it from another rubric."""
    return ALIGNMENT in table


def check_parent(record: AlignmentRecord, parent_hash: str, where: str) -> None:
    """Check that an aligned rubric replaces the text from which it was made.

    Raises:
        ConfigurationError: when that text is another one by now.
    """
    if record.parent != parent_hash:
        raise ConfigurationError(
            f"{where}: aligned from rubric {record.parent}, but {record.metric!r} has the text "
            f"{parent_hash} by now; run `assizes align` again, or take the file out of the folder"
        )


@functools.cache
def built_in_rubrics() -> tuple[Rubric, ...]:
    """The nine built-in rubrics."""
    return tuple(map(_stored_rubric, BUILT_IN))


@functools.cache
def chat_rubric() -> Rubric:
    """The rubric of `response_delivery` for a conversation that is read, not heard."""
    return _stored_rubric("response_delivery_chat")


def chat_version(rubric: Rubric) -> Rubric:
    """The rubric as it holds for a conversation that is read; most are the same there."""
    chat = chat_rubric()
    if rubric.name != chat.name:
        return rubric
    # What people said of the metric holds for both of its texts.
    return chat.model_copy(update={"guidelines": rubric.guidelines, "examples": rubric.examples})


def built_in_text(name: str) -> str:
    """The TOML text of a built-in rubric, by the name of its file."""
    return (resources.files("assizes.judge.rubrics") / f"{name}.toml").read_text("utf-8")


def _stored_rubric(file: str) -> Rubric:
    return parse_rubric(built_in_text(file), file)


def parse_rubric(text: str, where: str) -> Rubric:
    """A rubric from TOML text; error messages name `where`, its file.

    Raises:
        ConfigurationError: when the text is not TOML or not a rubric.
    """
    return validate_table(Rubric, toml_table(text, where), where)


def documents(folders: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Every TOML file of the folders, by folder and file name: its path and its parsed table.

    Raises:
        ConfigurationError: for a folder without such files, and a file that cannot be read.
    """
    paths: list[Path] = []
    for folder in folders:
        if not Path(folder).is_dir():
            raise ConfigurationError(
                f"[judge] rubrics: {folder!r} is not a folder; give the folder "
                "of your rubric files, or leave it out"
            )
        files = sorted(Path(folder).glob("*.toml"))  # file systems list in any order
        if not files:
            raise ConfigurationError(f"[judge] rubrics: no .toml file in folder {folder!r}")
        paths += files
    tables: list[tuple[str, dict[str, Any]]] = []
    for path in paths:
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path}: cannot be read: {error}") from error
        tables.append((str(path), toml_table(text, str(path))))
    return tables


def validate_table(model: type[T], table: Mapping[str, Any], where: str) -> T:
    """A table of a file, validated as an object of `model`; error messages name `where`, its file.

    Raises:
        ConfigurationError: when the table does not fit; the message names field and value.
    """
    try:
        return model.model_validate(table)
    except ValidationError as error:
        # One fault at a time: later ones often follow from it.
        raise ConfigurationError(f"{where}: {table_fault(model, error)}") from error


def toml_table(text: str, where: str) -> dict[str, Any]:
    """TOML text as a table; error messages name `where`, its file.

    Raises:
        ConfigurationError: when the text is not TOML.
    """
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for a number with too many digits
        raise ConfigurationError(f"{where}: not TOML: {error}") from error
