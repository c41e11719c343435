"""[runner.vertex]: where batches of Vertex AI keep their requests and replies."""

from __future__ import annotations

import re
from typing import Final

from pydantic import Field, field_validator

from assizes.judge.config import ConfigTable

MOST_URI_CHARS: Final = 900
"""The most characters of a URI; the names of a part's objects are added, and 1,024 are allowed."""

_URI: Final = re.compile(r"gs://[a-z0-9][-._a-z0-9]{1,220}[a-z0-9](/[-!_*'().a-zA-Z0-9]+)*/?")


class VertexConfig(ConfigTable):
    """[runner.vertex]: the bucket of batches of Vertex AI."""

    uri: str | None = Field(
        default=None,
        description="Where requests are put and replies are left for a batch of Vertex AI, as "
        "`gs://bucket/prefix`. The objects hold texts of transcripts; they are deleted once the "
        "replies are stored. Needed for batches of `vertex_ai/` models.",
    )

    @field_validator("uri")
    @classmethod
    def _is_bucket(cls, value: str | None) -> str | None:
        if value is not None and not (len(value) <= MOST_URI_CHARS and _URI.fullmatch(value)):
            raise ValueError(
                "accepted: gs://bucket/prefix, of letters, digits and -!_*'(). in at most "
                f"{MOST_URI_CHARS} characters"
            )
        return value
