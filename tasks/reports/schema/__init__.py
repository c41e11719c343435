"""The JSON Schema of report.json: what a program that reads it may rely on.

A key that the report has and the schema has not is a defect, and so is one that is missing.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema

from assizes.tasks.reports.schema.report import Report

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class _UntitledSchema(GenerateJsonSchema):
    """Without a title for each key, which only says the key again."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never."""
        return False


def report_schema() -> dict[str, Any]:
    """The schema as data; every key is required, and no other is allowed."""
    schema = Report.model_json_schema(mode="serialization", schema_generator=_UntitledSchema)
    return {"$schema": DIALECT, **schema}


def schema_text() -> str:
    """The schema as it lies in docs/report.schema.json."""
    return json.dumps(report_schema(), indent=2, sort_keys=True) + "\n"
