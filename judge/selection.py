"""Which of the cases are judged: first filters, then a sample that depends on the case ids alone.

A case is drawn by the hash of its id, so that every night and every machine draws the same cases,
and all repetitions of a case together.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any, Final, Self

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from assizes.judge.case import Case
from assizes.judge.errors import ConfigurationError
from assizes.judge.rows import as_json

LATER_SETTINGS: Final = (
    *("filter", "number", "stratify_by", "per_stratum", "seed", "always"),
    *("since_last", "quiet_minutes", "manifest", "manifest_roots", "databases", "canaries"),
)
"""Settings of [transcripts] that were added after the first version. At their defaults the hash of
the configuration leaves them out, so that runs of older versions keep their hash."""

ALWAYS: Final = "always"
"""The name of the stratum of the cases that are always judged."""

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


class SelectionConfig(BaseModel):
    """The part of [transcripts] that says which cases are judged."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    where: dict[str, str] = Field(
        default_factory=dict, description="keep only cases whose tag, agent or agent_version equals"
    )
    filter: str | None = Field(
        default=None,
        description="SQL over a case's facts: `turn_count > 3 AND tags.channel = 'voice'`",
    )
    sample: float = Field(
        default=1.0, gt=0, le=1, description="share of the cases to judge, stable by case id"
    )
    number: int | None = Field(
        default=None,
        ge=1,
        description="of cases to draw, instead of a share; at least as many as there are strata",
    )
    stratify_by: tuple[str, ...] = Field(
        default=(), description="tags, agent or agent_version: the sample is drawn in each apart"
    )
    per_stratum: int | None = Field(
        default=None, ge=1, description="cases to draw from each stratum, instead of a share"
    )
    seed: int = Field(default=0, ge=0, description="another one draws other cases")
    always: tuple[str, ...] = Field(
        default=(), description="case ids that are judged whatever the sample is"
    )
    limit: int | None = Field(default=None, ge=1, description="judge at most so many cases")
    since_last: bool = Field(
        default=False,
        description="leave out what an earlier run of this name in this store has judged",
    )
    quiet_minutes: float | None = Field(
        default=None,
        gt=0,
        le=525_600,
        description="leave conversations that ended later than so long ago to a later run",
    )
    manifest: bool = Field(
        default=False, description="the uri is a list of objects, and those hold the transcripts"
    )
    manifest_roots: tuple[str, ...] = Field(
        default=(), description="folders and s3:// prefixes it may name besides its own"
    )

    @field_validator("filter")
    @classmethod
    def _check_filter(cls, value: str | None) -> str | None:
        if value is not None:
            check_filter(value)
        return value

    @model_validator(mode="after")
    def _check_one_size(self) -> Self:
        sizes = [self.sample < 1, self.number is not None, self.per_stratum is not None]
        if sum(sizes) > 1:
            raise ValueError("sample, number and per_stratum: give one of the three")
        if self.per_stratum is not None and not self.stratify_by:
            raise ValueError("per_stratum: needs stratify_by")
        if self.stratify_by and not sum(sizes):
            raise ValueError("stratify_by: needs sample, number or per_stratum")
        return self

    @property
    def is_sampled(self) -> bool:
        """Whether a sample is drawn, which needs the ids of all cases before any case is chosen."""
        return self.sample < 1 or self.number is not None or self.per_stratum is not None


class Stratum(BaseModel):
    """A group of cases with the same values, and how many of its `cases` were `drawn` at random."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="JSON of the values it has in common")
    cases: int
    drawn: int


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


def facts(case: Case) -> dict[str, Any]:
    """The values that a filter sees of a case: those of `FACTS`, and the `tags`."""
    transcript = case.transcript
    started = transcript.started_at
    return {
        "case_id": case.case_id,
        "repetition": case.repetition,
        "agent": case.agent,
        "agent_version": case.agent_version,
        "status": case.status,
        "cluster": case.cluster,
        "started_at": None if started is None else started.astimezone(UTC).replace(tzinfo=None),
        "duration_ms": transcript.duration_ms,
        "turn_count": len(transcript.turns),
        "call_count": sum(1 for _ in transcript.calls()),
        "char_count": sum(
            len(turn.text or "") + len(turn.tool_result.content if turn.tool_result else "")
            for turn in transcript.turns
        ),
        "cost_usd": transcript.cost_usd(),
        "tags": case.tags,
    }


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


def sample_key(case_id: str, seed: int = 0) -> int:
    """The number by which a case is drawn, from 0 to below 2^64: lower numbers are drawn first."""
    text = case_id if seed == 0 else f"{seed}\n{case_id}"
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest())


def stratum_of(case: Case, by: Sequence[str]) -> str:
    """The name of a case's stratum: JSON of its values for the names in `by`.

    Without names, all cases are in one stratum.
    """
    return stratum_name({"agent": case.agent, "agent_version": case.agent_version}, case.tags, by)


def stratum_name(
    fields: Mapping[str, str | None], tags: Mapping[str, str], by: Sequence[str]
) -> str:
    """The name of the stratum of a case with these fields and tags."""
    return as_json({name: fields[name] if name in fields else tags.get(name) for name in by})


def draw_sample(
    strata: Mapping[str, str], config: SelectionConfig
) -> tuple[frozenset[str], tuple[Stratum, ...]]:
    """The ids of the cases to judge, and how many were drawn from each stratum.

    Args:
        strata: the stratum of every case that may be drawn, by case id.
        config: the size of the sample. At least one case is drawn from each stratum.

    Raises:
        ConfigurationError: when `number` is smaller than the number of strata.
    """
    always = frozenset(config.always) & strata.keys()
    members: defaultdict[str, list[str]] = defaultdict(list)
    for case_id, name in strata.items():
        if case_id not in always:
            members[name].append(case_id)
    # With a plain share each id decides for itself, whatever other cases there are.
    is_plain_share = config.sample < 1 and not config.stratify_by
    taken = _by_share(members, config) if is_plain_share else _by_number(members, config)
    drawn_strata = [
        Stratum(name=name, cases=len(members[name]), drawn=len(taken[name]))
        for name in sorted(members)
    ]
    if always:
        drawn_strata.append(Stratum(name=ALWAYS, cases=len(always), drawn=len(always)))
    return always.union(*taken.values()), tuple(drawn_strata)


def _by_share(members: Mapping[str, list[str]], config: SelectionConfig) -> dict[str, set[str]]:
    bound = config.sample * 2**64
    return {
        name: {case_id for case_id in ids if sample_key(case_id, config.seed) < bound}
        for name, ids in members.items()
    }


def _by_number(members: Mapping[str, list[str]], config: SelectionConfig) -> dict[str, set[str]]:
    wanted = _sizes({name: len(ids) for name, ids in members.items()}, config)
    return {
        name: set(
            heapq.nsmallest(
                wanted[name], ids, key=lambda case_id: (sample_key(case_id, config.seed), case_id)
            )
        )
        for name, ids in members.items()
    }


def _sizes(sizes: Mapping[str, int], config: SelectionConfig) -> dict[str, int]:
    """How many cases to draw from each stratum, by its name."""
    if config.per_stratum is not None:
        return {name: min(size, config.per_stratum) for name, size in sizes.items()}
    if config.number is None:
        return {name: math.ceil(size * config.sample) for name, size in sizes.items()}
    return _share_out(min(config.number, sum(sizes.values())), sizes)


def _share_out(number: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Divide a number of cases among strata in proportion to their sizes, at least one for each.

    Shares are rounded down; the remaining cases go to the strata that lost most by rounding.

    Raises:
        ConfigurationError: when there are more strata than cases to draw.
    """
    if len(sizes) > number:
        raise ConfigurationError(
            f"[transcripts] number: {number} cases cannot be drawn from {len(sizes)} strata, of each "
            "at least one; raise it, or stratify by less"
        )
    whole: dict[str, int] = {}
    left, total = number, sum(sizes.values())
    ordered = sorted(sizes, key=lambda name: (sizes[name], name))
    for name in ordered:
        if left * sizes[name] >= total:
            break
        whole[name] = 1  # its proportional share is below one
        left, total = left - 1, total - sizes[name]
    rest = ordered[len(whole) :]
    by_loss = sorted(rest, key=lambda name: (-(left * sizes[name] % total), name))
    whole |= {name: left * sizes[name] // total for name in rest}
    for name in by_loss[: number - sum(whole.values())]:
        whole[name] += 1
    return whole
