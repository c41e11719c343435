"""[transcripts], [ground_truth], [privacy]: which cases are judged, and what is known and shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

import polars as pl
from pydantic import AfterValidator, Field, field_validator, model_validator

from assizes.judge.case import Expected
from assizes.judge.config import ConfigTable
from assizes.judge.config.columns import TranscriptColumns

FormatName = Literal[
    "auto",
    "native",
    "tau_bench",
    "tau2",
    "agent_evaluation",
    "openai_chat",
    "openai_logs",
    "anthropic",
    "otel",
    "langfuse",
    "mlflow",
    "inspect_ai",
    "atif",
]
"""The values of `[transcripts] format`; `auto` recognises the format by its content. They stand
apart from the readers, so that settings import no reader.
"""


_PLACE: Final = "place"  # column with the number of the row
_TAG: Final = re.compile(r"\btags\.(\w+)")
_QUOTED: Final = re.compile(r"'(?:[^']|'')*'")  # an SQL string; '' is a quote in it
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


def check_filter(text: str) -> str:
    """Check that a filter is a condition on a single case, and return the filter.

    Raises:
        ValueError: when the text is no condition, or names a column that a case does not have.
    """
    words = _QUOTED.sub("''", text)  # a word inside of a string is no function
    if (match := _OF_MANY.search(words)) is not None:
        raise ValueError(f"{match[0]!r} is about more than one case")
    try:
        filter_mask([], text)  # over no rows: Polars checks names and types all the same
    except pl.exceptions.PolarsError as error:
        message = re.split(r"[\n;]", str(error).strip())[0]
        known = ", ".join((*FACTS, "tags.NAME"))
        raise ValueError(f"no condition on a case: {message}; a case has {known}") from None
    return text


def filter_mask(rows: Sequence[Mapping[str, Any]], text: str) -> list[bool]:
    """Whether the filter keeps each case, in the order of `rows`, the `facts` of each case.

    A condition on a value that is not known (SQL NULL) does not keep the case.
    """
    names = sorted(set(_TAG.findall(_QUOTED.sub("''", text))))
    # "tags.NAME" in quotes is one column; without them it is column NAME of a table `tags`.
    condition = _CODE.sub(lambda part: part[0] if part[0][0] == "'" else f'"{part[0]}"', text)
    schema = {_PLACE: pl.Int64, **FACTS, **{f"tags.{name}": pl.String for name in names}}
    shown = [
        {_PLACE: place, **row, **{f"tags.{name}": row["tags"].get(name) for name in names}}
        for place, row in enumerate(rows)
    ]
    cases = pl.DataFrame(shown, schema=schema, orient="row")
    # In brackets, so that a clause after the condition, such as LIMIT, does not parse; the line end
    # keeps a comment in the condition from hiding the closing bracket.
    query = f"SELECT {_PLACE} FROM cases WHERE ({condition}\n)"
    places = set(pl.SQLContext(cases=cases, eager=True).execute(query)[_PLACE])
    return [place in places for place in range(len(rows))]


FIELDS: Final = tuple(Expected.model_fields)
"""Names of the expected values that a row can give."""


class GroundTruthConfig(ConfigTable):
    """[ground_truth]: a JSONL, CSV or Parquet file with a row for each case."""

    uri: str | None = Field(default=None, description="a file, or an s3:// URI of one")
    key: str = Field(default="case_id", min_length=1, description="column of the case id")
    columns: dict[str, str] = Field(
        default_factory=dict,
        description="column of an expected value, by the name that formats.md gives the value; "
        "empty: columns of these names",
    )
    unmatched: Literal["count", "refuse"] = Field(
        default="count", description="what a row is that names no case: counted, or a fault"
    )
    storage_options: dict[str, Any] = Field(
        default_factory=dict, description="for the file system, e.g. endpoint_url; no secrets"
    )

    @field_validator("columns")
    @classmethod
    def _are_expected(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name not in FIELDS:
                raise ValueError(f"{name!r} is no expected value; there are {', '.join(FIELDS)}")
        return value


Kind = Literal["secret", "email", "phone", "card", "iban"]
"""The kinds of data that the built-in rules find."""


class OwnRule(ConfigTable):
    """[[privacy.rules]]: a regular expression, and the name of the placeholder for its matches."""

    name: str = Field(
        pattern=r"^[A-Z][A-Z0-9_]{0,30}$", description="of the placeholder: ORDER gives [ORDER_1]"
    )
    pattern: str = Field(description="as Python's `re`; a group named `value` is hidden alone")

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            matches_nothing = re.match(value, "")
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from None
        if matches_nothing:  # a placeholder between all characters of every text
            raise ValueError("matches the empty text, so it would match everywhere")
        return value


class PrivacyConfig(ConfigTable):
    """[privacy]: secrets are hidden by default; personal data are hidden where configured."""

    redact: tuple[Kind, ...] = Field(
        default=("secret",), description="kinds that the built-in rules find and hide"
    )
    send: Literal["redacted", "raw"] = Field(
        default="redacted",
        description="what models are shown; raw: all but secrets, and only rows are redacted",
    )
    rules: tuple[OwnRule, ...] = Field(default=(), description="own rules, tried before the others")
    presidio: tuple[str, ...] = Field(
        default=(), description="entities of Presidio, e.g. PERSON; needs the extra `presidio`"
    )
    language: str = Field(default="en", description="of the texts, for Presidio")


LATER_SETTINGS: Final = (
    *("filter", "number", "stratify_by", "per_stratum", "seed", "always"),
    *("since_last", "quiet_minutes", "manifest", "manifest_roots", "databases", "canaries"),
    "columns",
)
"""Settings of [transcripts] that were added after the first version. At their defaults the hash of
the configuration leaves them out, so that runs of older versions keep their hash."""


class SelectionConfig(ConfigTable):
    """The part of [transcripts] that says which cases are judged."""

    where: dict[str, str] = Field(
        default_factory=dict, description="keep only cases whose tag, agent or agent_version equals"
    )
    filter: Annotated[str, AfterValidator(check_filter)] | None = Field(
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


class RerunConfig(ConfigTable):
    """[transcripts] again: only the cases that an earlier run left; `retry-rejected` sets it."""

    run: str = Field(description="id of the earlier run")
    only: Literal["quarantined", "errored"]  # records not read, or cases not judged


class TranscriptsConfig(SelectionConfig):
    """[transcripts]: where conversations come from and which of them are judged."""

    uri: str = Field(description="a file, a folder, a glob, or an s3:// URI of either")
    format: FormatName = "auto"
    columns: TranscriptColumns | None = Field(
        default=None,
        description="[transcripts.columns]: which column of a table (CSV, TSV, Parquet, rows of JSON) "
        "holds what; null: the records have a format of their own",
    )
    writes: tuple[str, ...] | None = Field(
        default=None, description="tools that change state, for cases that do not say so"
    )
    redact: str | None = Field(
        default=None,
        description="module:function, Case -> Case, before anything is judged, stored or sent",
    )
    agent: str | None = Field(default=None, description="agent name for cases without one")
    agent_version: str | None = Field(default=None, description="version for cases without one")
    max_record_mb: float = Field(
        default=16.0,
        gt=0,
        description="of one line, or one record of a document; 1 MB = 2^20 bytes",
    )
    max_turns: int = Field(default=5000, ge=1, description="of one conversation")
    max_document_mb: float = Field(
        default=40.0, gt=0, description="of an object that is one JSON document, such as tau2"
    )
    max_object_mb: float = Field(
        default=16_384.0, gt=0, description="of an object once unpacked or fetched"
    )
    salvage: bool = Field(
        default=False, description="judge the whole lines in front of where a packed object breaks"
    )
    databases: str | None = Field(
        default=None, description="folder of the databases that cases name; null: the current one"
    )
    again: RerunConfig | None = Field(
        default=None, description="only what an earlier run could not read, or could not judge"
    )
    canaries: bool = Field(
        default=False, description="an attack of ours in each case; [calibration] canaries sets it"
    )
    storage_options: dict[str, Any] = Field(
        default_factory=dict, description="for the file system, e.g. endpoint_url; no secrets"
    )

    @model_validator(mode="after")
    def _columns_are_the_format(self) -> Self:
        if self.columns is not None and self.format != "auto":
            raise ValueError(
                f"columns: tell how a table is read, format = {self.format!r} something else; "
                "leave one of the two out"
            )
        return self
