"""How the causes of failures are found."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from assizes.judge.config import ConfigTable


class CausesConfig(ConfigTable):
    """[causes]: how failures are grouped into causes."""

    space: Literal["words", "sentences"] = Field(
        default="words",
        description="What makes two reasons alike. `words`: the words that they share. `sentences`: "
        "also what they mean, by a small model on this machine; needs the extra "
        "`assizes[sentences]`. No score, verdict or run id depends on it.",
    )
    in_ci: bool = Field(
        default=False,
        description="`assizes ci` also looks for the causes of the failures, and names them in its "
        "summary and comment. It takes some seconds.",
    )
