"""The judge tables as one document: rows, published figures beside ours, and what is not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from assizes.tasks.recorded.own_judges import NOT_ASKED
from assizes.tasks.recorded.published import NOT_HERE, PublishedFigure, compared_figures
from assizes.tasks.recorded.sets import read_sets
from assizes.tasks.recorded.table import WorthRow, worth_row
from assizes.tasks.recorded.values import JudgedItems


class Missing(BaseModel):
    """A figure or a judge that is not in the tables, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    what: str
    reason: str


class JudgeTables(BaseModel):
    """What recorded judges are worth, by set and judge."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: tuple[WorthRow, ...]
    figures: tuple[PublishedFigure, ...] = Field(description="published figures beside ours")
    not_reproduced: tuple[Missing, ...] = Field(description="published figures without ours")
    not_asked: tuple[Missing, ...] = Field(description="judges of the product that were not asked")

    @property
    def different(self) -> list[PublishedFigure]:
        """The published figures that do not come out again."""
        return [figure for figure in self.figures if not figure.is_equal]

    @property
    def datasets(self) -> list[str]:
        """The names of the sets, in their order."""
        return list(dict.fromkeys(figure.dataset for figure in self.figures))


def judge_tables(folder: Path, own: Iterable[JudgedItems] = ()) -> JudgeTables:
    """Compute the tables of every set below a folder; `own` are the product's judges on the items.

    Raises:
        ConfigurationError: a set is missing, or one of its files cannot be read.
    """
    sets = read_sets(folder)
    order = {recorded.name: place for place, recorded in enumerate(sets)}
    judged = [items for recorded in sets for items in recorded.judged]
    judged += own
    judged.sort(key=lambda items: order[items.dataset])  # stable: own judges stand last in a set
    return JudgeTables(
        rows=tuple(worth_row(items) for items in judged),
        figures=tuple(figure for recorded in sets for figure in compared_figures(recorded)),
        not_reproduced=_missing(NOT_HERE),
        not_asked=_missing(NOT_ASKED),
    )


def _missing(entries: Sequence[tuple[str, str, str]]) -> tuple[Missing, ...]:
    return tuple(Missing(dataset=name, what=what, reason=why) for name, what, why in entries)
