"""What people send and get over HTTP: labels, annotations, and queues of cases to label."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from assizes.deployments.options import RUN_NAMES
from assizes.deployments.web.sessions import NAME_CHARS, person_name
from assizes.judge.config.gates import VERDICT

TEXT_CHARS: Final = 4000
"""Characters of a note, a comment or a reason of a person, at most."""

MAX_SECONDS: Final = 86_400.0
"""Seconds taken for an answer, at most; the desk states no time where it was longer."""

MAX_TAGS: Final = 20
TAG_CHARS: Final = 64


def _checked_name(text: str) -> str:
    if not (name := person_name(text)):
        raise ValueError(f"a name has 1 to {NAME_CHARS} letters, digits and blanks")
    return name


def tag_set(text: str) -> set[str]:
    """The tags of a text in which commas separate them."""
    return {" ".join(tag.split()) for tag in text.split(",")} - {""}


def checked_tags(text: str) -> str:
    """Tags, separated by commas, in one form: sorted, each once.

    Raises:
        ValueError: there are too many of them, or one is too long.
    """
    tags = sorted(tag_set(text))
    if len(tags) > MAX_TAGS or any(len(tag) > TAG_CHARS for tag in tags):
        raise ValueError(f"at most {MAX_TAGS} tags of {TAG_CHARS} characters")
    return ", ".join(tags)


PersonName = Annotated[
    str, Field(min_length=1, max_length=NAME_CHARS), AfterValidator(_checked_name)
]
RunName = Annotated[str, Field(min_length=1, max_length=160, description=RUN_NAMES)]
CaseName = Annotated[str, Field(min_length=1, max_length=512)]
MetricName = Annotated[str, Field(min_length=1, max_length=200, description="or `verdict`")]
Repetition = Annotated[int, Field(ge=0, le=2**31 - 1)]  # Int32 in the store
RowId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
QueueName = Annotated[str, Field(max_length=128)]
PersonText = Annotated[str, Field(max_length=TEXT_CHARS)]
Role = Literal["rater", "adjudicator"]


class _PeopleBody(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class LabelBody(_PeopleBody):
    """A label of a person, a case that the person skipped, or a label that is withdrawn."""

    run: RunName
    case_id: CaseName
    repetition: Repetition = 0
    metric: MetricName = VERDICT
    rater: PersonName
    role: Role = "rater"
    kind: Literal["label", "skip", "withdrawn"] = "label"
    value: float | None = Field(
        default=None, ge=0, le=1, description="1 pass, 0 fail, or a level as in `scores.value`"
    )
    note: PersonText = ""
    seconds: float | None = Field(default=None, ge=0, le=MAX_SECONDS, description="time taken")
    blind: bool = Field(default=False, description="the judge's score was hidden until the answer")
    queue_id: QueueName = ""
    label_id: RowId | None = Field(default=None, description="the same id again writes nothing")

    @model_validator(mode="after")
    def _fits(self) -> LabelBody:
        if (self.kind == "label") != (self.value is not None):
            raise ValueError("a label has a value, and nothing else has one")
        if self.metric == VERDICT and self.value not in (None, 0, 1):
            raise ValueError("a verdict is 1 (pass) or 0 (fail)")
        return self


FINDING_KINDS: Final = ("finding_wrong", "code")
"""The kinds of annotations that are about a finding."""

_CODE: Final = re.compile(r"[a-z0-9_]{0,64}")


class AnnotationBody(_PeopleBody):
    """What a person says about a case or a run; it changes no score."""

    run: RunName
    case_id: str = Field(default="", max_length=512, description="empty: the run itself")
    repetition: Repetition = 0
    kind: Literal[
        "comment", "override", "finding_wrong", "code", "note", "tags", "view", "withdrawn"
    ]
    turn: int | None = Field(default=None, ge=0, le=2**31 - 1, description="from 0")
    metric: str = Field(
        default="", max_length=200, description="of the finding that is wrong or coded"
    )
    value: Literal[0, 1] | None = Field(default=None, description="of an override: 1 pass, 0 fail")
    text: PersonText = Field(default="", description="of a code: the code; empty: no fault")
    author: PersonName
    supersedes: RowId | None = Field(default=None, description="the annotation that it replaces")
    annotation_id: RowId | None = Field(
        default=None, description="the same id again writes nothing"
    )
    seen: PersonText | None = Field(
        default=None,
        description="the tags that the author saw; what others changed since then stays",
    )

    @model_validator(mode="after")
    def _fits(self) -> AnnotationBody:
        if (self.kind == "override") != (self.value is not None):
            raise ValueError("an override has a value, and nothing else has one")
        if self.kind in ("note", "tags", "view") and self.case_id:
            raise ValueError("notes, tags and views are about a run; case_id stays empty")
        if self.kind in ("comment", "override", "finding_wrong", "code") and not self.case_id:
            raise ValueError(f"kind {self.kind} is about a case; give its case_id")
        if self.turn is not None and not self.case_id:
            raise ValueError("a turn is one of a case; give its case_id")
        if self.kind in FINDING_KINDS and not self.metric:
            raise ValueError("a finding that is wrong or coded has a metric")
        if self.kind == "withdrawn" and self.supersedes is None:
            raise ValueError("what is withdrawn has an annotation_id; give it as supersedes")
        if self.kind == "comment" and not self.text.strip():
            raise ValueError("a comment has a text")
        return self

    @model_validator(mode="after")
    def _has_fitting_text(self) -> AnnotationBody:
        if self.kind == "code" and not _CODE.fullmatch(self.text):
            raise ValueError("a failure code has a-z, 0-9 and _, at most 64 of them")
        if self.kind == "tags":
            checked_tags(self.text)
        elif self.seen is not None:
            raise ValueError("only an edit of tags says which ones its author saw")
        return self


class LabelRow(BaseModel):
    """A row of table labels."""

    label_id: str
    run_id: str
    case_id: str
    repetition: int
    metric: str
    rater: str
    role: str
    kind: str = Field(description="label, skip, withdrawn")
    value: float | None
    note: str
    at: datetime  # UTC
    seconds: float | None
    blind: bool
    shown: str = Field(description="JSON: what was shown before the answer")
    probability: float | None = Field(
        description="with which its queue drew the case; null: answered outside a queue"
    )
    queue_id: str
    supersedes: str | None


class AnnotationRow(BaseModel):
    """A row of table annotations."""

    annotation_id: str
    run_id: str
    case_id: str
    repetition: int | None
    kind: str
    turn: int | None
    metric: str
    value: float | None
    text: str
    author: str
    at: datetime  # UTC
    supersedes: str | None


class QueueRow(BaseModel):
    """A row of table queues: a case that was drawn to be labelled."""

    queue_id: str
    position: int
    run_id: str
    metric: str
    case_id: str
    repetition: int
    part: str = Field(description="random, informative, flip")
    reason: str
    stratum: str
    probability: float | None
    at: datetime  # UTC
    drawn_by: str


class _RowQuery(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    run: RunName | None = None
    limit: int = Field(default=100, ge=1, le=10_000)
    offset: int = Field(default=0, ge=0, le=2**31)

    def filters(self) -> dict[str, Any]:
        """The columns that have to hold a value."""
        chosen = self.model_dump(exclude={"run", "limit", "offset", "current"}, exclude_none=True)
        return {name: value for name, value in chosen.items() if value != ""}


class LabelQuery(_RowQuery):
    """Which labels; what is left out matches any."""

    case_id: CaseName | None = None
    metric: MetricName | None = None
    rater: str | None = Field(default=None, max_length=NAME_CHARS)
    role: Role | None = None
    queue_id: QueueName | None = None
    current: bool = Field(default=False, description="without what was corrected or withdrawn")


class AnnotationQuery(_RowQuery):
    """Which annotations; what is left out matches any."""

    case_id: str | None = Field(default=None, max_length=512)
    kind: str | None = Field(default=None, max_length=32)
    author: str | None = Field(default=None, max_length=NAME_CHARS)
    current: bool = Field(default=False, description="without what was replaced or withdrawn")


class QueueQuery(_RowQuery):
    """Which queues; what is left out matches any."""

    queue_id: QueueName | None = None
    metric: MetricName | None = None


class DeskQuery(BaseModel):
    """What the desk shows; empty fields of a form are left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: RunName = "latest"
    metric: MetricName = VERDICT
    queue: QueueName = ""
    rater: str = Field(default="", max_length=4 * NAME_CHARS)
    case: CaseName | None = None
    repetition: Repetition = 0
    blind: bool = True


class ChosenName(DeskQuery):
    """The name that a person chose, and the list of cases to show then."""

    role: Role = "rater"


class Press(BaseModel):
    """One answer at the desk, as its form sends it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    run: RunName
    metric: MetricName
    queue: QueueName = ""
    rater: PersonName
    case: CaseName
    repetition: Repetition = 0
    blind: bool = True
    note: PersonText = ""
    answer: Literal["skip", "undo"] | Annotated[float, Field(ge=0, le=1)]
    began: float = Field(default=0.0, description="when the case was shown, as Unix time")
    label_id: RowId
    undoes: str = Field(default="", max_length=128, description="the label that Undo withdraws")
