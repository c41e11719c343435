"""[transcripts]: where conversations come from, and bounds on what is read."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from assizes.judge.config.format_names import FormatName
from assizes.judge.config.selection import SelectionConfig
from assizes.judge.config.table import ConfigTable


class RerunConfig(ConfigTable):
    """[transcripts] again: only the cases that an earlier run left; `assizes requeue` sets it."""

    run: str = Field(description="id of the earlier run")
    only: Literal["quarantined", "errored"]


class TranscriptsConfig(SelectionConfig):
    """[transcripts]: where conversations come from and which of them are judged."""

    uri: str = Field(description="a file, a folder, a glob, or an s3:// URI of either")
    format: FormatName = "auto"
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
