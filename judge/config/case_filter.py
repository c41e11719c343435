"""The filter of [transcripts]: a condition in SQL on the facts of one case."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

_PLACE: Final = "place"
_TAG: Final = re.compile(r"\btags\.(\w+)")
_QUOTED: Final = re.compile(r"'(?:[^']|'')*'")
_CODE: Final = re.compile(rf"{_QUOTED.pattern}|{_TAG.pattern}")
# Aggregates and subqueries: a filter decides on one case and must not depend on the others.
_OF_MANY: Final = re.compile(
    r"\b(?:over|select)\b|\b(?:avg|count|first|last|max|median|min|quantile\w*|std\w*|sum|var\w*"
    r"|row_number|(?:dense_)?rank|lag|lead|corr|covar\w*|(?:array|string)_agg)(?=\s*\()",
    re.IGNORECASE,
)

FACTS: Final[dict[str, Any]] = {
    "case_id": pl.String,
    "repetition": pl.Int64,
    "agent": pl.String,
    "agent_version": pl.String,
    "status": pl.String,
    "cluster": pl.String,
    "started_at": pl.Datetime("us"),
    "duration_ms": pl.Float64,
    "turn_count": pl.Int64,
    "call_count": pl.Int64,
    "char_count": pl.Int64,
    "cost_usd": pl.Float64,
}
"""The columns that a filter can use, besides `tags.NAME`, with their types. `started_at` is in UTC;
`char_count` counts the characters of all texts and tool results."""


def check_filter(text: str) -> None:
    """Check that a filter is a condition on a single case.

    Raises:
        ValueError: when the text is no condition, or names a column that a case does not have.
    """
    words = _QUOTED.sub("''", text)
    if (match := _OF_MANY.search(words)) is not None:
        raise ValueError(f"{match[0]!r} is about more than one case")
    try:
        filter_mask([], text)
    except pl.exceptions.PolarsError as error:
        message = re.split(r"[\n;]", str(error).strip())[0]
        known = ", ".join((*FACTS, "tags.NAME"))
        raise ValueError(f"no condition on a case: {message}; a case has {known}") from None


def filter_mask(rows: Sequence[Mapping[str, Any]], text: str) -> list[bool]:
    """Whether the filter keeps each case, in the order of `rows`.

    A condition on a value that is not known (SQL NULL) does not keep the case.

    Args:
        rows: the `facts` of each case.
        text: the filter, an SQL condition.
    """
    names = sorted(set(_TAG.findall(_QUOTED.sub("''", text))))
    condition = _CODE.sub(lambda part: part[0] if part[0][0] == "'" else f'"{part[0]}"', text)
    schema = {_PLACE: pl.Int64, **FACTS, **{f"tags.{name}": pl.String for name in names}}
    shown = [
        {_PLACE: place, **row, **{f"tags.{name}": row["tags"].get(name) for name in names}}
        for place, row in enumerate(rows)
    ]
    cases = pl.DataFrame(shown, schema=schema, orient="row")
    selected_rows = pl.SQLContext(cases=cases, eager=True).execute(
        f"SELECT {_PLACE} FROM cases WHERE ({condition})"
    )
    places = set(selected_rows[_PLACE])
    return [place in places for place in range(len(rows))]
