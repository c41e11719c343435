"""[ground_truth]: expected values that stand in a file of their own, joined by case id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from assizes.judge.case import Case, Expected
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.parsing import schema_error, strict_json

_TEXTS: Final = frozenset(
    {"response", "response_quality", "database", "chart_type", "trajectory_match"}
)
"""Fields that hold one text: what looks like JSON there is none."""

_LISTS: Final = frozenset({"outcomes", "said", "writes", "facts"})
"""Fields that hold texts: a single one need not be put into a list."""


def truth_of(row: Mapping[str, Any], columns: Mapping[str, str]) -> Expected:
    """The expected values of one row; an empty cell says nothing.

    Args:
        row: cells by column; a text that begins as JSON is read as JSON where the value is none.
        columns: by the name of the value.

    Raises:
        DataError: `schema` or `json`; the detail names the column.
    """
    values: dict[str, Any] = {}
    for name, column in columns.items():
        cell = row.get(column)
        if cell is not None and cell != "":
            values[name] = _value(name, column, cell)
    try:
        return Expected.model_validate(values)
    except ValidationError as error:
        raise schema_error(error) from None


def add_ground_truth(case: Case, truth: Expected) -> Case:
    """The case with the given values in place of its own of these names."""
    update = {name: getattr(truth, name) for name in truth.model_fields_set}
    if "facts" in update and "response" not in update:
        update["response"] = None
    if "response" in update and "facts" not in update:
        update["facts"] = ()
    return case.model_copy(update={"expected": case.expected.model_copy(update=update)})


def _value(name: str, column: str, cell: Any) -> Any:
    if not isinstance(cell, str) or name in _TEXTS:
        return cell
    if cell.lstrip()[:1] in ("[", "{"):
        try:
            return strict_json(cell.encode("utf-8", "surrogatepass"))
        except DataError as error:
            raise DataError(error.code, f"column {column!r}: {error.detail}") from None
    if name == "has_chart" and cell.strip().lower() in ("true", "false"):
        return cell.strip().lower() == "true"
    return [cell] if name in _LISTS else cell
