"""[transcripts.traces]: which traces of a trace store are read, and where copies of them are kept."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from assizes.judge.case import Moment
from assizes.judge.config import ConfigTable

_BOUND: Final = re.compile(r"(<=|>=|<|>|=)\s*(-?[0-9]{1,15}(?:\.[0-9]{1,15})?)")
NOT_COUNTED: Final = frozenset({"copies", "use"})
"""Settings that cannot change a result: the place of the copies, and whether the server is asked."""


def _is_bound(text: str) -> str:
    if not _BOUND.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is no bound; write < 0.5, <= 0.5, > 0.5, >= 0.5 or = 1")
    return text.strip()


ScoreBound = Annotated[str, AfterValidator(_is_bound)]


class TracesConfig(ConfigTable):
    """[transcripts.traces]: filters of traces, for a `uri` of Langfuse, MLflow or Phoenix."""

    since: Moment | None = Field(
        default=None,
        description="Only traces that began at this time or later. A time without a zone is in UTC.",
    )
    until: Moment | None = Field(
        default=None, description="Only traces that began before this time."
    )
    tags: tuple[str, ...] = Field(
        default=(),
        description="Only conversations with all of these tags: a tag of Langfuse, else `name=value`.",
    )
    version: str | None = Field(
        default=None, description="Only conversations with this version (or release) of the agent."
    )
    scores: dict[str, ScoreBound] = Field(
        default_factory=dict,
        description="Only conversations whose score of that name keeps a bound, as in "
        '`{ quality = "< 0.5" }`. A conversation without such a score is left out.',
    )
    copies: str = Field(
        default=".assizes/traces",
        min_length=1,
        description="The folder where copies of the traces are kept. A run is resumed and its cases "
        "are shown from them.",
    )
    use: Literal["server", "copies"] = Field(
        default="server",
        description="`server`: the server is asked. `copies`: what was read before with the same "
        "filters is judged, and no server is asked.",
    )

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise ValueError(f"since {self.since} is not before until {self.until}")
        return self

    def keeps_scores(self, scores: dict[str, list[float]]) -> bool:
        """Whether, for each bound, at least one of the scores of its name keeps the bound."""
        return all(
            any(_keeps(value, bound) for value in scores.get(name, ()))
            for name, bound in self.scores.items()
        )


def _keeps(value: float, bound: str) -> bool:
    match = _BOUND.fullmatch(bound)
    if match is None:  # the settings were checked
        return False
    sign, limit = match[1], float(match[2])
    return {
        "<": value < limit,
        "<=": value <= limit,
        ">": value > limit,
        ">=": value >= limit,
        "=": value == limit,
    }[sign]


OTLP_FILE: Final = "otlp-file://"


def as_otel(value: Any) -> Any:
    """The settings of [transcripts], with a URI of OpenTelemetry files as a path and its format.

    Raises:
        ValueError: the settings name another format.
    """
    uri = value.get("uri") if isinstance(value, dict) else None
    if not isinstance(uri, str) or not uri.startswith(OTLP_FILE):
        return value
    if value.get("format", "otel") not in ("auto", "otel"):
        raise ValueError(f"format: {OTLP_FILE} is otel; leave the format out")
    return {**value, "uri": uri.removeprefix(OTLP_FILE), "format": "otel"}
