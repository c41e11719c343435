"""[ground_truth]: expected values in a separate file, joined to the cases by case id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from assizes.judge.case import Case, Expected
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.parsing import schema_error, strict_json

_TEXTS: Final = {"response", "response_quality", "database", "chart_type"} | {
    "trajectory_match",
    "arguments_match",
}
"""Fields that hold one text: their cells are never read as JSON, whatever they look like."""

_LISTS: Final = {"outcomes", "said", "writes", "facts"}
"""Fields that hold a list of texts: a cell with a single text counts as a list of one."""


def truth_of(row: Mapping[str, Any], columns: Mapping[str, str]) -> Expected:
    """The expected values of one row; `columns` gives the column of each value by its name.

    Raises:
        DataError: with the code `schema` or `json`; the detail names the field or the column.
    """
    values = {
        name: _value(name, column, cell)
        for name, column in columns.items()
        if (cell := row.get(column)) is not None and cell != ""  # an empty cell gives no value
    }
    try:
        return Expected.model_validate(values)
    except ValidationError as error:
        raise schema_error(error) from None


def native_truth(row: Mapping[str, Any]) -> Expected:
    """The expected values of a line of the native format; the line may have none.

    Raises:
        DataError: with the code `schema`; the detail names the field.
    """
    try:
        return Expected.model_validate(row.get("expected", {}))
    except ValidationError as error:
        raise schema_error(error) from None


def add_ground_truth(case: Case, truth: Expected) -> Case:
    """The case with these expected values in place of its own values of the same name."""
    update = {name: getattr(truth, name) for name in truth.model_fields_set}
    # Copies are not validated: of `facts` and `response`, which exclude each other, one goes.
    if "facts" in update and "response" not in update:
        update["response"] = None
    if "response" in update and "facts" not in update:
        update["facts"] = ()
    return case.model_copy(update={"expected": case.expected.model_copy(update=update)})


def _value(name: str, column: str, cell: Any) -> Any:
    if not isinstance(cell, str) or name in _TEXTS:
        return cell  # numbers and lists, as Parquet and JSON have them
    if cell.lstrip()[:1] in ("[", "{"):
        try:
            return strict_json(cell.encode("utf-8", "surrogatepass"))
        except DataError as error:
            raise DataError(error.code, f"column {column!r}: {error.detail}") from None
    if name == "has_chart" and cell.strip().lower() in ("true", "false"):
        return cell.strip().lower() == "true"
    return [cell] if name in _LISTS else cell
