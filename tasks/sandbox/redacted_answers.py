"""What probes show, redacted like the case that declares them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from assizes.judge.config.transcripts import PrivacyConfig
from assizes.judge.protocol import FileText, NoReply, QueryResult
from assizes.judge.redaction import redaction


class AnswerRedactor:
    """Hides in the answers to probes what a run hides in its cases before models see them.

    The placeholders are numbered anew in each text: `[EMAIL_1]` is not the one of the case.
    """

    def __init__(self, privacy: PrivacyConfig) -> None:
        self._privacy = privacy

    def redact(self, answer: QueryResult | FileText | NoReply) -> QueryResult | FileText | NoReply:
        """The answer with its texts redacted."""
        if isinstance(answer, FileText):
            return replace(answer, text=self._redactor.redact_text(answer.text))
        if isinstance(answer, NoReply):
            return answer
        tables = [
            replace(table, rows=tuple(tuple(map(self._cell, row)) for row in table.rows))
            for table in answer.tables
        ]
        return QueryResult(tuple(tables))

    def _cell(self, value: Any) -> Any:
        if isinstance(value, bool | float | None):
            return value
        shown = self._redactor.redact_text(str(value))
        return value if shown == str(value) else shown

    @cached_property
    def _redactor(self) -> redaction.Redactor:  # made late: few runs have probes
        if self._privacy.send == "raw":
            return redaction.secrets_only(self._privacy)
        return redaction.redactor(self._privacy)
