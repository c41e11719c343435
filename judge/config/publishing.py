"""[publish]: where the scores of a run are sent, and what of them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from assizes.judge.config import ConfigTable

Published = Literal["scores", "verdicts", "reasons", "causes", "labels"]
"""What can be sent of a run."""

SCHEMES = ("langfuse", "mlflow", "phoenix", "otlp")
"""The kinds of place that take scores."""


class PublishConfig(ConfigTable):
    """[publish]: where scores are sent, what of them, and whether after every run.

    No setting of this table changes a result, so none is part of the id of a run.
    """

    to: str | None = Field(
        default=None,
        description="Where scores are sent: `langfuse://project`, `mlflow://experiment`, "
        "`phoenix://project`, or `otlp`. Not set: where the transcripts were read from.",
    )
    after_run: bool = Field(
        default=False,
        description="Send after every run, once its report is written. A failure is logged and "
        "changes no outcome; `assizes publish RUN` goes on with it.",
    )
    include: tuple[Published, ...] = Field(
        default=("scores", "verdicts"),
        min_length=1,
        description="What is sent. `scores` and `verdicts` are numbers, fixed words and hashes. "
        "`reasons` are sentences of judges and notes of raters, which can quote a conversation; "
        "`causes` are the names of causes; `labels` are the labels of people, with their names.",
    )

    @field_validator("to")
    @classmethod
    def _is_known(cls, value: str | None) -> str | None:
        if value is not None and value.partition("://")[0] not in SCHEMES:
            accepted = "langfuse://project, mlflow://experiment, phoenix://project, otlp"
            raise ValueError(f"accepted: {accepted}")
        return value
