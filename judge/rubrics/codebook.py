"""A codebook: the failure codes that a team owns, in a TOML file that people edit.

`assizes causes codebook` writes it from the causes of a run, and the conversation judge offers its
codes as `failure_code`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, Field, model_validator

from assizes.judge.case import Case, Transcript, Turn
from assizes.judge.errors import ConfigurationError
from assizes.judge.injection.families import flags
from assizes.judge.prompts.prompt_texts import neutralise
from assizes.judge.rubrics.guidance import RubricTable
from assizes.judge.rubrics.rubric import toml_table, validate_table
from assizes.judge.score import UNSPECIFIED_FAILURE

MAX_CODES: Final = 50
"""The most codes of a codebook: the definition of each is paid for in every ask."""

OTHER: Final = "other"
"""The failure code where none of a codebook fits."""

NAME_CHARS: Final = 80
DEFINITION_CHARS: Final = 500
NOTE_CHARS: Final = 300
"""The most characters of a name, of a definition, and of a note or an example."""

MAX_EXAMPLES: Final = 5
"""The most examples of a code; the judge reads the first one."""

_CODE: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_CODE_CHARS: Final = 60
_RESERVED: Final = frozenset({OTHER, UNSPECIFIED_FAILURE, "null", "none", "na", "n_a"})

_HEADING: Final = """\
# The failure codes of a team. Edit the texts and delete what is no failure; the judge reads them
# where an assizes.toml says
#     [judge.options.conversation]
#     codebook = "{name}"
# `assizes causes codebook` appends codes for new causes and changes nothing that stands here.
# A cause whose id stands in `causes` of a code, or below, gets no code of its own.
ignored_causes = []
"""


def _free_code(code: str) -> str:
    if not _CODE.fullmatch(code) or len(code) > _CODE_CHARS:
        raise ValueError(
            f"a code is snake_case, at most {_CODE_CHARS} characters, e.g. 'wrong_sum'"
        )
    if code in _RESERVED:
        raise ValueError("this code is reserved; choose another")
    return code


Note = Annotated[str, Field(max_length=NOTE_CHARS)]


class Code(RubricTable):
    """One failure code: its definition, what counts and what does not, and quoted examples."""

    code: Annotated[str, AfterValidator(_free_code)]
    name: str = Field(min_length=1, max_length=NAME_CHARS)
    definition: str = Field(min_length=1, max_length=DEFINITION_CHARS)
    include: Note = ""  # what counts, too
    exclude: Note = ""  # what does not count
    examples: list[Note] = Field(default_factory=list, max_length=MAX_EXAMPLES)  # judges' reasons
    causes: list[str] = Field(default_factory=list)  # ids of the causes that the code stands for


class Codebook(RubricTable):
    """The failure codes of a team."""

    ignored_causes: list[str] = Field(default_factory=list)
    codes: list[Code] = Field(default_factory=list, max_length=MAX_CODES)

    @model_validator(mode="after")
    def _codes_differ(self) -> Codebook:
        names = [code.code for code in self.codes]
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"the code {doubled[0]!r} stands there twice")
        return self

    @property
    def known_causes(self) -> frozenset[str]:
        """The ids of the causes that have a code, or are to have none."""
        return frozenset(self.ignored_causes).union(*(code.causes for code in self.codes))

    @property
    def names(self) -> frozenset[str]:
        """What the judge may give as `failure_code`."""
        return frozenset(code.code for code in self.codes) | {OTHER}

    def section(self) -> str:
        """The codes for a judge's prompt."""
        lines = "\n".join(map(_prompt_line, self.codes))
        return f"# Failure codes\n{lines}\n- {OTHER}: none of these"

    def text_hash(self) -> str:
        """Eight hex digits that change with what the judge reads."""
        return hashlib.sha256(self.section().encode("utf-8", "surrogatepass")).hexdigest()[:8]


def parse_codebook(text: str, where: str) -> Codebook:
    """A codebook from TOML text; error messages name `where`, its file.

    Raises:
        ConfigurationError: when the text is not TOML or not a codebook.
    """
    return validate_table(Codebook, toml_table(text, where), where)


def read_codebook(path: str) -> Codebook:
    """The codebook of a file for a judge, which needs at least one code.

    Raises:
        ConfigurationError: when the file cannot be read or is not a codebook.
    """
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"codebook {path}: cannot be read: {error}") from error
    book = parse_codebook(text, path)
    if not book.codes:
        raise ConfigurationError(f"{path}: codes: a codebook for a judge has at least one code")
    return book


def new_codebook_text(name: str) -> str:
    """The beginning of a codebook file with this name, without codes."""
    return _HEADING.format(name=name)


def code_text(code: Code) -> str:
    """A code as the TOML text that is appended to a codebook."""
    values = code.model_dump(exclude={"examples"})
    lines = [f"{key} = {_toml(value)}" for key, value in values.items() if key != "causes"]
    examples = "".join(f"  {_toml(example)},\n" for example in code.examples)
    lines += [f"examples = [\n{examples}]", f"causes = {_toml(code.causes)}"]
    return "\n".join(["", "[[codes]]", *lines, ""])


def code_name(name: str, cause_id: str, taken: Iterable[str]) -> str:
    """A code for the name of a cause, which none of `taken` is; `cause_<id>` for no Latin letters."""
    words = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[: _CODE_CHARS - 4].strip("_")
    code = words if _CODE.fullmatch(words) and words not in _RESERVED else f"cause_{cause_id}"
    names, number, free = set(taken), 1, code
    while free in names:
        number += 1
        free = f"{code}_{number}"
    return free


def quotable(reasons: Sequence[str], most: int = MAX_EXAMPLES) -> list[str]:
    """The first different reasons as examples: cut, and without those that address a judge."""
    kept: list[str] = []
    for reason in reasons:
        text = " ".join(neutralise(reason).split())[:NOTE_CHARS]
        if text and text not in kept and not _addresses_judge(text):
            kept.append(text)
        if len(kept) == most:
            break
    return kept


def _addresses_judge(text: str) -> bool:
    # A reason may repeat what a conversation says to its judge, and this file goes to all asks.
    said = Case(case_id="code", transcript=Transcript(turns=(Turn(role="user", text=text),)))
    return any(flag.holds for flag in flags(said))


def _prompt_line(code: Code) -> str:
    notes = [("Also", code.include), ("Not", code.exclude), ("E.g.", "".join(code.examples[:1]))]
    parts = [code.definition, *(f"{word}: {note}" for word, note in notes if note)]
    return " ".join([f"- {code.code}:", *(" ".join(neutralise(part).split()) for part in parts)])


def _toml(value: str | list[str]) -> str:
    # JSON is TOML here, except for the character 127 and halves of surrogate pairs.
    if isinstance(value, str):
        value = value.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
