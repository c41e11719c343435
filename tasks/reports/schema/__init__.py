"""The shape of report.json, as pydantic models, and its JSON Schema.

`assizes.tasks.reports.data` builds a report from these models, so every report has exactly the keys
of the schema. The docstrings of the models are descriptions in docs/report.schema.json.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema

from assizes.tasks.reports.schema.report import Report

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class _UntitledSchema(GenerateJsonSchema):
    """Generates a schema without a title for each key, as a title would only repeat the key."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """False for every key."""
        return False


def report_schema() -> dict[str, Any]:
    """The JSON Schema as data; every key of a report is required, and no other key is allowed."""
    schema = Report.model_json_schema(mode="serialization", schema_generator=_UntitledSchema)
    return {"$schema": DIALECT, **schema}


def schema_text() -> str:
    """The JSON Schema as text, as in docs/report.schema.json."""
    return json.dumps(report_schema(), indent=2, sort_keys=True) + "\n"
