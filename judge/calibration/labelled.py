"""Grades of people and judges: read from the rows of a file, as numbers, and several as one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, create_model

from assizes.judge.config.gates import VERDICT, CalibrationConfig
from assizes.judge.errors import ConfigurationError, ModelError
from assizes.judge.prompts.reply import parse_reply
from assizes.judge.score import ACCEPTABLE

WORDS: Final[Mapping[str, float]] = {
    **dict.fromkeys(("pass", "passed", "yes", "true"), 1.0),
    **dict.fromkeys(("fail", "failed", "no", "false"), 0.0),
}
"""The grades of words that need no entry in [calibration.words]."""

NOTE_COLUMN: Final = "note"
"""The column of a label file with what a rater wrote beside the label; a file may lack it."""

ROLE_COLUMN: Final = "role"
"""The column of a label file with the role of the person; a file may lack it."""

ADJUDICATOR: Final = "adjudicator"
"""The role of the person who settles what raters answered differently."""

MAX_NOTE_CHARS: Final = 4_000
"""Characters of a note that are kept, at most."""


@dataclass(frozen=True, slots=True)
class RatedItem:
    """One item that people graded, with the judge's grade."""

    case_id: str
    cluster: str  # cases that were sampled together; else the id of the case
    people: Mapping[str, float] = field(default_factory=dict)  # rater -> grade
    judged: float | None = None  # None: no answer, or one that is not a grade
    missing: bool = False  # the judge was not asked, so the item counts nowhere
    repetition: int | None = None  # of the case; None: the labels name none
    notes: Mapping[str, str] = field(default_factory=dict)  # rater -> what they wrote
    settled: float | None = None  # by an adjudicator, whose grade wins; None: by nobody

    @property
    def given(self) -> set[float]:
        """Every grade that people gave the item, that of an adjudicator too."""
        return _given(self.people, self.settled)

    def settled_grade(self, *, ordered: bool) -> float | None:
        """The grade on which people settled; `None` if they are divided (see `agreed_grade`)."""
        return _settled_grade(self.people, self.settled, ordered=ordered)


def _given(people: Mapping[str, float], settled: float | None) -> set[float]:
    return {*people.values(), *([] if settled is None else [settled])}


def _settled_grade(
    people: Mapping[str, float], settled: float | None, *, ordered: bool
) -> float | None:
    return agreed_grade(list(people.values()), ordered=ordered) if settled is None else settled


def parse_grade(value: object, config: CalibrationConfig) -> float | None:
    """Read a grade as a number; `None` for a value that is none of the words and levels."""
    number = _number(value, config)
    if number is None or config.levels is None:
        return number
    # Never the nearest level, unless `clip` asks for it (docs/decisions.md, decision 43).
    if config.clip:
        number = min(max(number, min(config.levels)), max(config.levels))
    return number if number in config.levels else None


def vocabulary(config: CalibrationConfig) -> dict[str, float]:
    """The grade of each word that a grade may be written as, in lower case."""
    return {**WORDS, **{word.casefold(): grade for word, grade in config.words.items()}}


def _number(value: object, config: CalibrationConfig) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool | int | float):
        return float(value) if math.isfinite(value) else None  # no NaN, no infinity
    text = str(value).strip().casefold()
    if (word := vocabulary(config).get(text)) is not None:
        return word
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def agreed_grade(grades: Sequence[float], *, ordered: bool) -> float | None:
    """The grade of more than half of the people, else their median; `None` if they are divided."""
    if not grades:
        return None
    grade, times = Counter(grades).most_common(1)[0]
    if 2 * times > len(grades):
        return grade
    # The median is one of the grades only for an odd number; unordered grades have none.
    return sorted(grades)[len(grades) // 2] if ordered and len(grades) % 2 else None


def pass_mark(levels: Sequence[float], config: CalibrationConfig) -> float | None:
    """The lowest grade that passes; `None` where it is not known."""
    if config.pass_from is not None or config.scale == "nominal" or not levels:
        return config.pass_from
    if set(levels) <= {0.0, 1.0}:  # pass or fail, yes or no
        return 1.0
    # ACCEPTABLE is a level of scales that end at 4 or 5.
    return float(ACCEPTABLE) if ACCEPTABLE < max(levels) <= 5 else None


Row = Mapping[str, Any]
"""A row of a file, by the names of its columns."""


class ItemKey(NamedTuple):
    """A graded item: a case, or one repetition of a case."""

    case_id: str
    repetition: int | None  # None: the file names no repetition


@dataclass
class PeopleGrades:
    """The grades and notes of one item by rater, and its cluster where the file names one."""

    cluster: str | None = None
    grades: dict[str, float] = field(default_factory=dict)  # rater -> grade
    notes: dict[str, str] = field(default_factory=dict)  # rater -> what they wrote beside it
    settled: float | None = None  # the grade of an adjudicator

    def add(self, rater: str, grade: float, role: str | None, at: str) -> None:
        """Add the grade of a person; `at` is where it stands, for error messages.

        Raises:
            ConfigurationError: the rater, or an adjudicator, gave another grade before.
        """
        if role == ADJUDICATOR:
            former, self.settled = self.settled, grade
        else:
            former = self.grades.setdefault(rater, grade)
        if former not in (None, grade):
            raise ConfigurationError(
                f"{at}: {rater!r} gave this another grade above; a rater has one grade a case"
            )

    @property
    def given(self) -> set[float]:
        """Every grade that people gave the item, that of an adjudicator too."""
        return _given(self.grades, self.settled)

    def settled_grade(self, *, ordered: bool) -> float | None:
        """The grade on which people settled; `None` if they are divided (see `agreed_grade`)."""
        return _settled_grade(self.grades, self.settled, ordered=ordered)


def labels_by_metric(
    rows: Iterable[Row],
    config: CalibrationConfig,
    where: str,
    read_case: Callable[[str], str] = str.strip,
) -> dict[str, dict[ItemKey, PeopleGrades]]:
    """Read the grades that people gave, by metric; an empty cell is no grade.

    `where` is the name of the file, for error messages. `read_case` makes the id of a case of its
    cell, as `case_reader` does for the cases of a run.

    Raises:
        ConfigurationError: for a missing column, a label that is no grade, two grades of one rater
            for one item, or a file without any label.
    """
    columns, people_by_metric = config.columns, dict[str, dict[ItemKey, PeopleGrades]]()
    for number, row in enumerate(rows, 1):
        at = f"{where}, row {number}"
        metric = str(row.get(columns.metric) or config.metric or VERDICT)
        people = people_by_metric.setdefault(metric, {}).setdefault(
            _item_key(row, config, at, read_case), PeopleGrades()
        )
        people.cluster = _text(row.get(columns.cluster)) or people.cluster
        for column in columns.label:
            grade = _label(row, column, config, at)
            if grade is None:
                continue
            # Several label columns are one rater each; a single one may name the rater in each row.
            rater = column if len(columns.label) > 1 else _text(row.get(columns.rater)) or column
            people.add(rater, grade, _text(row.get(ROLE_COLUMN)), at)
            if note := _text(row.get(NOTE_COLUMN)):
                people.notes[rater] = note[:MAX_NOTE_CHARS]
    if not any(people.given for things in people_by_metric.values() for people in things.values()):
        raise ConfigurationError(f"{where}: holds no label")
    return people_by_metric


def judgements(rows: Iterable[Row], config: CalibrationConfig, where: str) -> dict[ItemKey, Any]:
    """Read the judge's grade of each item; `None` for an answer that is not a grade.

    `where` is the name of the file, for error messages.

    Raises:
        ConfigurationError: for a missing column, or an item that was judged twice.
    """
    grades: dict[ItemKey, float | None] = {}
    column = config.columns.reply or config.columns.judge
    # A schema of one field, so that replies are read here as the engine reads them.
    words: Any = Literal[tuple(vocabulary(config))]
    fields: dict[str, Any] = {config.columns.verdict: (words, ...)}
    reply: type[BaseModel] = create_model("Reply", **fields)
    for number, row in enumerate(rows, 1):
        at = f"{where}, row {number}"
        item_key = _item_key(row, config, at)
        if item_key in grades:
            raise ConfigurationError(f"{at}: case {item_key.case_id!r} is judged twice")
        cell = _cell(row, column, at)
        if config.columns.reply is not None:
            try:
                (cell,) = parse_reply(str(cell), reply).reply.model_dump().values()
            except ModelError:  # the parser finds no verdict that is allowed
                cell = None
        grades[item_key] = parse_grade(cell, config)
    return grades


def _label(row: Row, column: str, config: CalibrationConfig, at: str) -> float | None:
    cell = _cell(row, column, at)
    if _text(cell) is None:
        return None
    grade = parse_grade(cell, config)
    if grade is None:
        words = ", ".join(vocabulary(config))
        levels = "" if config.levels is None else f" among {', '.join(map(str, config.levels))}"
        raise ConfigurationError(
            f"{at}: {column} {str(cell)[:40]!r} is no grade; accepted: a number{levels}, {words}, "
            "and what [calibration.words] adds"
        )
    return grade


def _item_key(
    row: Row, config: CalibrationConfig, at: str, read_case: Callable[[str], str] = str.strip
) -> ItemKey:
    cell = _cell(row, config.columns.case, at)
    case_id = "" if cell is None else read_case(str(cell))
    if not case_id:
        raise ConfigurationError(f"{at}: {config.columns.case} is empty")
    repetition = _text(row.get(config.columns.repetition))
    if repetition is not None and not repetition.isdecimal():
        raise ConfigurationError(f"{at}: repetition {repetition!r}; accepted: 0, 1, 2, ...")
    return ItemKey(case_id, None if repetition is None else int(repetition))


def _cell(row: Row, column: str, at: str) -> Any:
    if column not in row:
        raise ConfigurationError(
            f"{at}: no column {column!r}; there are {', '.join(map(str, row))}; "
            "[calibration.columns] or --column names them"
        )
    return row[column]


def _text(cell: Any) -> str | None:
    return None if cell is None else str(cell).strip() or None
