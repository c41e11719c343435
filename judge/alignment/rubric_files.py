"""The rubric of a metric as TOML: where it stands, and the same text with guidelines and examples."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assizes.judge.errors import ConfigurationError
from assizes.judge.families.custom.toml_judges import CustomRubric
from assizes.judge.families.rag import YesNoRubric, built_in, yes_no_rubrics
from assizes.judge.rubrics.guidance import (
    ALIGNMENT,
    MAX_EXAMPLES,
    MAX_GUIDELINES,
    AlignmentRecord,
    Guideline,
    JudgedExample,
    RubricTable,
)
from assizes.judge.rubrics.rubric import (
    BUILT_IN,
    KIND,
    Rubric,
    built_in_text,
    documents,
    toml_table,
    validate_table,
)

MAX_FILE_BYTES: Final = 256 * 1024
"""The largest rubric file that is read to be tried."""

_SECTION: Final = re.compile(r"^\[alignment\][^\n]*\n(?:(?!\[).*(?:\n|\Z))*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RubricFile:
    """The rubric of a metric as it is: its TOML text, and the file it stands in."""

    metric: str
    text: str
    path: Path | None  # None: built in

    @property
    def table(self) -> Rubric | CustomRubric:
        """The text, read and checked."""
        return parse_any(self.text, str(self.path or "built in"))

    def with_guidance(
        self,
        guidelines: Sequence[Guideline],
        examples: Sequence[JudgedExample],
        record: AlignmentRecord,
    ) -> RubricFile:
        """The same text with more guidelines and examples at its end; comments of people stay."""
        kept = _SECTION.sub("", self.text).rstrip("\n")
        blocks = [_block("[[guidelines]]", item) for item in guidelines]
        blocks += [_block("[[examples]]", item) for item in examples]
        blocks.append(_block(f"[{ALIGNMENT}]", record))
        changed = RubricFile(self.metric, "\n\n".join([kept, *blocks]) + "\n", self.path)
        _ = changed.table  # what is written must be what is read
        return changed

    def with_record(self, record: AlignmentRecord) -> RubricFile:
        """The same text with another table `[alignment]`."""
        return self.with_guidance([], [], record)


def room(table: Rubric | CustomRubric) -> tuple[int, int]:
    """How many guidelines and examples a rubric may still get."""
    return MAX_GUIDELINES - len(table.guidelines), MAX_EXAMPLES - len(table.examples)


def parse_any(text: str, where: str) -> Rubric | CustomRubric:
    """A rubric of a metric or of a judge from TOML text; messages name `where`.

    Raises:
        ConfigurationError: the text is not TOML, or no rubric.
    """
    table = toml_table(text, where)
    if KIND in table:
        return validate_table(CustomRubric, table, where)
    return validate_table(Rubric, table, where)


def read_rubric_file(path: Path) -> RubricFile:
    """A rubric file, such as one that `align` wrote and a person edited.

    Raises:
        ConfigurationError: the file cannot be read, is too large, or holds no rubric.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigurationError(f"{path}: a rubric has at most {MAX_FILE_BYTES:,} bytes")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from error
    return RubricFile(parse_any(text, str(path)).name, text, path)


def rubric_file(metric: str, folders: Sequence[str]) -> RubricFile:
    """The rubric that judges a metric now.

    Raises:
        ConfigurationError: the metric has no rubric that guidelines could be added to.
    """
    own = [where for where, table in documents(folders) if table.get("name") == metric]
    if own:  # the last one holds
        path = Path(own[-1])
        return RubricFile(metric, path.read_text("utf-8"), path)
    if metric in BUILT_IN:
        return RubricFile(metric, built_in_text(metric), None)
    if metric in yes_no_rubrics():
        return RubricFile(metric, _yes_no_text(yes_no_rubrics()[metric]), None)
    known = sorted({*BUILT_IN, *yes_no_rubrics()})
    raise ConfigurationError(
        f"--metric {metric!r} has no rubric to align; those that have: {', '.join(known)}, and the "
        "files of [judge] rubrics"
    )


def diff(old: RubricFile, new: RubricFile, name: str) -> str:
    """The unified diff of two rubrics, as text."""
    lines = difflib.unified_diff(
        old.text.splitlines(), new.text.splitlines(), f"a/{name}", f"b/{name}", lineterm=""
    )
    return "\n".join(lines)


def _yes_no_text(rubric: YesNoRubric) -> str:
    kind = "ANSWER" if rubric.step == "response" and rubric.name in _ANSWERS else "RETRIEVAL"
    rows: dict[str, Any] = {
        KIND: kind,
        "name": rubric.name,
        "description": rubric.aspect or rubric.name,
        "needs": list(rubric.inputs),
        "shows": list(rubric.optional),
    }
    head = "\n".join(f"{key} = {_value(value)}" for key, value in rows.items())
    question = rubric.prompt.strip().replace("\\", "\\\\").replace('"""', '""\\"')
    return f'{head}\nquestion = """\n{question}"""\n'


_ANSWERS: Final = frozenset(
    name for name in yes_no_rubrics() if built_in(name).metric.scale.value == "yes_no"
)
"""The built-in yes/no judges that rate an answer and not each chunk."""


def _block(heading: str, table: RubricTable) -> str:
    rows = table.model_dump(mode="json").items()
    return "\n".join([heading, *(f"{key} = {_value(value)}" for key, value in rows)])


def _value(value: Any) -> str:
    """A TOML value; JSON writes strings, lists and numbers as TOML reads them."""
    if isinstance(value, str):
        value = "".join(
            char for char in value if char != "\x7f" and not "\ud800" <= char <= "\udfff"
        )
    return json.dumps(value, ensure_ascii=False)
