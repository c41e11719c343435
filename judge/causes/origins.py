"""Where a cause appears: the versions, prompts, tags and tools whose cases show it more often."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from assizes.judge.causes.presence import JudgedCases
from assizes.judge.statistics.effects import Effect, benjamini_hochberg, unpaired_effect
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.intervals import MIN_CLUSTERS, CountedSample, Sample

LABEL_COLUMNS: Final = ("agent", "agent_version", "system_prompt_hash", "tags", "tools")
"""The columns of table cases that say under which circumstances a case was recorded."""

MAX_VALUES: Final = 20
"""The most values of a label: one with more is an id. Of tags and tools so many are looked at."""

MAX_CAUSES: Final = 20
"""The most causes that are crossed: those that the most cases show."""

MAX_NAMED: Final = 3
"""The most circumstances that a cause names."""

_FIELDS: Final = LABEL_COLUMNS[:3]


class Circumstance(NamedTuple):
    """Cases that share something: `agent_version`, `tags.NAME`, `tool` and so on with a value."""

    field: str
    value: str
    holds: np.ndarray  # of booleans: for each case, in the order of `JudgedCases.ids`


def circumstances(cases: pl.DataFrame, ids: pl.Series) -> list[Circumstance]:
    """What some cases have in common and others lack.

    Args:
        cases: judged rows of table cases, with `case_id` and `LABEL_COLUMNS`.
        ids: the sorted ids of these cases.
    """
    firsts = cases.group_by("case_id").agg(pl.col(LABEL_COLUMNS).first())
    ordered = pl.DataFrame({"case_id": ids}).join(
        firsts, on="case_id", how="left", maintain_order="left"
    )
    labels = {field: ordered[field] for field in _FIELDS} | _tags(ordered["tags"])
    found = [
        Circumstance(field, str(value), (values == value).fill_null(value=False).to_numpy())
        for field, values in labels.items()
        if 2 <= values.drop_nulls().n_unique() <= MAX_VALUES
        for value in values.drop_nulls().unique().sort()
    ]
    return found + list(_tools(ordered["tools"]))


def related(
    cases: JudgedCases, failures: pl.DataFrame, known: list[Circumstance], alpha: float
) -> dict[str, list[dict[str, Any]]]:
    """For each cause the circumstances in which it is more frequent, the surest first.

    The share of cases that show the cause is compared between the cases of a circumstance and all
    others, as two samples with their clusters. The p-values of all causes and all circumstances are
    corrected together (Benjamini and Hochberg), as those of slices. A side of fewer than
    `MIN_CLUSTERS` clusters is not compared.

    Args:
        cases: the judged cases of a run.
        failures: with the columns `case_id`, `repetition` and `cause_id`.
        known: the circumstances.
        alpha: the share of runs, 0..1, in which a cause names one although there is no relation.
    """
    by_cause = failures.drop_nulls("cause_id").partition_by("cause_id", as_dict=True)
    largest = sorted(by_cause, key=lambda key: (-by_cause[key]["case_id"].n_unique(), key))
    tested = [
        (str(cause_id), effect, row)
        for (cause_id,) in largest[:MAX_CAUSES]
        for effect, row in _contrasts(cases.presence(by_cause[cause_id,]), known, alpha)
    ]
    corrected = benjamini_hochberg([effect.p_value for _, effect, _ in tested])
    rows: dict[str, list[dict[str, Any]]] = {}
    for (cause_id, effect, row), q_value in zip(tested, corrected, strict=True):
        if q_value <= alpha and effect.delta > 0:
            more = {"delta": rounded_value(effect.delta), "q_value": rounded_value(q_value)}
            rows.setdefault(cause_id, []).append(row | more)
    return {
        cause_id: sorted(each, key=lambda row: (row["q_value"], -row["delta"]))[:MAX_NAMED]
        for cause_id, each in rows.items()
    }


def origin_line(row: Mapping[str, Any]) -> str:
    """A circumstance in words, as `agent_version 14: 9 of 40 cases of it, 0 of 160 others`."""
    return (
        f"{row['field']} {row['value']}: {row['cases']} of {row['of']} cases of it, "
        f"{row['other_cases']} of {row['other_of']} others"
    )


def _contrasts(
    presence: Sample, known: list[Circumstance], alpha: float
) -> Iterator[tuple[Effect, dict[str, Any]]]:
    shown = np.flatnonzero(presence.values)
    is_alone = presence.clusters == presence.size
    for field, value, holds in known:
        sides = [_side(presence, each, shown, is_alone=is_alone) for each in (~holds, holds)]
        if min(side.clusters for side in sides) < MIN_CLUSTERS:
            continue
        others, own = sides
        effect = unpaired_effect(others, own, 1 - alpha, share=True)
        cases = int(holds[shown].sum())
        counts = {"cases": cases, "of": own.size}
        other_counts = {"other_cases": shown.size - cases, "other_of": others.size}
        yield effect, {"field": field, "value": value, **counts, **other_counts}


def _side(
    presence: Sample, holds: np.ndarray, shown: np.ndarray, *, is_alone: bool
) -> Sample | CountedSample:
    """The presence of a cause in some cases; of independent cases counts, which are faster."""
    if not is_alone:
        return Sample(presence.values[holds], presence.codes[holds])
    values, times = np.unique(presence.values[shown[holds[shown]]], return_counts=True)
    absent = int(holds.sum()) - int(times.sum())
    return CountedSample(np.append(values, 0.0), np.append(times, absent).astype(np.float64))


def _tags(texts: pl.Series) -> dict[str, pl.Series]:
    """The values of the most frequent tags, by `tags.NAME`; `texts` are JSON objects."""
    parsed = {text: json.loads(text) for text in texts.unique().drop_nulls()}
    names = sorted({name for tags in parsed.values() for name in tags})[:MAX_VALUES]
    return {
        f"tags.{name}": texts.replace_strict(
            {text: tags.get(name) for text, tags in parsed.items()},
            default=None,
            return_dtype=pl.String,
        )
        for name in names
    }


def _tools(tools: pl.Series) -> Iterator[Circumstance]:
    """The tools that the most cases called, where not all cases called them."""
    counts = tools.explode().drop_nulls().value_counts(sort=True, name="cases")
    ranked = counts.sort("cases", tools.name, descending=[True, False]).head(MAX_VALUES)
    for name in ranked[tools.name]:
        yield Circumstance(
            "tool", name, tools.list.contains(name).fill_null(value=False).to_numpy()
        )
