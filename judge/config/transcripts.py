"""[transcripts], [ground_truth], [privacy]: which cases are judged, and what is known and shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

import polars as pl
from pydantic import AfterValidator, Field, field_validator, model_validator

from assizes.judge.case import Expected
from assizes.judge.config import ConfigTable, StorageOptions
from assizes.judge.config.columns import TranscriptColumns
from assizes.judge.config.traces import NOT_COUNTED, TracesConfig, as_otel

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
    "who_and_when",
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

    uri: str | None = Field(
        default=None,
        description="A JSONL, CSV or Parquet file with a row for each case, or an `s3://` URI of one. "
        "Not set: expected values come with the transcripts.",
    )
    key: str = Field(default="case_id", min_length=1, description="The column with the case id.")
    columns: dict[str, str] = Field(
        default_factory=dict,
        description="The column of each expected value, by the value's name. Empty: the columns have "
        "the names of the values.",
    )
    unmatched: Literal["count", "refuse"] = Field(
        default="count",
        description="What happens with a row that names no case: `count` counts it, `refuse` ends the "
        "command with an error.",
    )
    storage_options: StorageOptions = Field(default_factory=dict)

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
        pattern="^[A-Z][A-Z0-9_]{0,30}$",
        description="The name of the placeholder: `ORDER` gives `[ORDER_1]`.",
    )
    pattern: str = Field(
        description="A regular expression of Python's `re`. Where it has a group named `value`, only "
        "that group is hidden."
    )

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
        default=("secret",), description="The kinds of data that the built-in rules find and hide."
    )
    send: Literal["redacted", "raw"] = Field(
        default="redacted",
        description="What models are shown. `redacted`: the same as the rows hold. `raw`: everything "
        "except secrets, and only rows are redacted.",
    )
    rules: tuple[OwnRule, ...] = Field(
        default=(),
        description="Your own rules, in tables `[[privacy.rules]]`. They are tried before the "
        "built-in rules.",
    )
    presidio: tuple[str, ...] = Field(
        default=(),
        description="Entities that Presidio finds, such as `PERSON`. They need the extra "
        "`assizes[presidio]`.",
    )
    language: str = Field(default="en", description="The language of the texts, for Presidio.")


LATER_SETTINGS: Final = (
    *("filter", "number", "stratify_by", "per_stratum", "seed", "always"),
    *("since_last", "quiet_minutes", "manifest", "manifest_roots", "databases", "canaries"),
    *("columns", "traces"),
)
"""Settings of [transcripts] that were added after the first version. At their defaults the hash of
the configuration leaves them out, so that runs of older versions keep their hash."""


class SelectionConfig(ConfigTable):
    """The part of [transcripts] that says which cases are judged."""

    where: dict[str, str] = Field(
        default_factory=dict,
        description="Only cases are kept whose tag, `agent` or `agent_version` has this value.",
    )
    filter: Annotated[str, AfterValidator(check_filter)] | None = Field(
        default=None,
        description="Only cases are kept that meet this SQL condition on their facts: `turn_count > 3 "
        "AND tags.channel = 'voice'`.",
    )
    sample: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="The share of the cases that are judged. The choice depends on the case id only.",
    )
    number: int | None = Field(
        default=None,
        ge=1,
        description="The number of cases to draw, instead of a share. It must be at least the number "
        "of strata.",
    )
    stratify_by: tuple[str, ...] = Field(
        default=(),
        description="Tags, `agent` or `agent_version`: a sample is drawn within each of their values.",
    )
    per_stratum: int | None = Field(
        default=None,
        ge=1,
        description="The number of cases to draw from each stratum, instead of a share.",
    )
    seed: int = Field(default=0, ge=0, description="Another seed draws other cases.")
    always: tuple[str, ...] = Field(
        default=(), description="Ids of cases that are judged whatever the sample is."
    )
    limit: int | None = Field(default=None, ge=1, le=10**9, description="The most cases judged.")
    since_last: bool = Field(
        default=False,
        description="Leave out cases that an earlier run of this name in this store has judged.",
    )
    quiet_minutes: float | None = Field(
        default=None,
        gt=0,
        le=525600,
        description="Leave conversations that ended less than so many minutes ago to a later run.",
    )
    manifest: bool = Field(
        default=False, description="The `uri` is a list of objects, and those hold the transcripts."
    )
    manifest_roots: tuple[str, ...] = Field(
        default=(),
        description="Folders and `s3://` prefixes that the list may name besides its own.",
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

    run: str = Field(description="The id of the earlier run.")
    only: Literal["quarantined", "errored"] = Field(
        description="Which part of the earlier run is judged: records that could not be read, or "
        "cases that could not be judged."
    )


class TranscriptsConfig(SelectionConfig):
    """[transcripts]: where conversations come from and which of them are judged."""

    uri: str = Field(
        description="Where the transcripts are: a file, a folder, a glob, or an `s3://` URI of "
        "either. `{date:%Y-%m-%d}` stands for the day of the run. Or a trace store: "
        "`langfuse://project`, `mlflow://experiment`, `phoenix://project`; `otlp-file://path` is a path "
        'with `format = "otel"`.'
    )
    format: FormatName = Field(
        default="auto",
        description="The format of the transcripts. `auto` recognises it by the content.",
    )
    columns: TranscriptColumns | None = Field(
        default=None,
        description="Which column of a table (CSV, TSV, Parquet, rows of JSON) holds what. Not set: "
        "the records have a format of their own.",
    )
    writes: tuple[str, ...] | None = Field(
        default=None,
        description="The names of tools that change state, for cases that do not say so themselves. "
        "Not set: it is not known.",
    )
    redact: str | None = Field(
        default=None,
        description="A function of your own, as `module:function`. Every case passes it before "
        "anything is judged, stored or sent.",
    )
    agent: str | None = Field(
        default=None, description="The name of the agent, for cases without one."
    )
    agent_version: str | None = Field(
        default=None, description="The version of the agent, for cases without one."
    )
    max_record_mb: float = Field(
        default=16.0,
        gt=0,
        description="The largest line, or record of a document, in MB of 2^20 bytes.",
    )
    max_turns: int = Field(default=5000, ge=1, description="The most turns of one conversation.")
    max_document_mb: float = Field(
        default=40.0,
        gt=0,
        description="The largest object that is one JSON document, such as tau2, in MB of 2^20 bytes.",
    )
    max_object_mb: float = Field(
        default=16384.0,
        gt=0,
        description="The largest object once it is unpacked or fetched, in MB of 2^20 bytes.",
    )
    salvage: bool | None = Field(
        default=None,
        description="Judge the whole lines before the place where a packed object (gzip, zstd) is "
        "broken. Not set: yes, unless lines are pieces of conversations, of which some could lack "
        "their end. `true`: also then. `false`: never; a broken object is one reject.",
    )
    databases: str | None = Field(
        default=None,
        description="The folder of the databases that cases name. Not set: the current folder.",
    )
    again: RerunConfig | None = Field(
        default=None,
        description="Only what an earlier run could not read or could not judge. Commands set it; it "
        "is not meant for files.",
    )
    canaries: bool = Field(
        default=False,
        description="Plant an attack in each case. `[calibration] canaries` sets it; it is not meant "
        "for files.",
    )
    traces: TracesConfig | None = Field(
        default=None, description="Which traces of a trace store are read. Not set: all."
    )
    storage_options: StorageOptions = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _as_otel(cls, value: Any) -> Any:
        return as_otel(value)

    @model_validator(mode="after")
    def _columns_are_the_format(self) -> Self:
        if self.columns is not None and self.format != "auto":
            raise ValueError(
                f"columns: tell how a table is read, format = {self.format!r} something else; "
                "leave one of the two out"
            )
        return self

    @property
    def trace_settings(self) -> TracesConfig:
        """The settings of `[transcripts.traces]`, or their defaults."""
        return self.traces or TracesConfig()

    def counted(self) -> dict[str, Any]:
        """The settings as JSON values, without those that cannot change a result.

        A setting of `LATER_SETTINGS` is in it only where it is set, so that a run of an older
        version can be continued.
        """
        body, unset = (
            each.model_dump(
                mode="json", exclude={"storage_options": True, "traces": set(NOT_COUNTED)}
            )
            for each in (
                self.model_copy(update={"traces": self.trace_settings}),
                TranscriptsConfig(uri="", traces=TracesConfig()),
            )
        )
        # Older versions salvaged nothing by default: the default counts as it did.
        body["salvage"] = {None: False, True: True, False: "nothing"}[self.salvage]
        return {
            name: value
            for name, value in body.items()
            if name not in LATER_SETTINGS or value != unset[name]
        }
