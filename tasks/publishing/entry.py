"""One finding about one case, as it is sent to another place: its content, target and ids."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from assizes.judge.rows import as_json
from assizes.tasks.publishing.deliveries import DeliveryState, State

Kind = Literal["score", "verdict", "cause", "label"]
Annotator = Literal["LLM", "CODE", "HUMAN"]

PREFIX: Final = "assizes."
"""How all keys of metadata and attributes of this program begin."""

ID_KEY: Final = f"{PREFIX}delivery_id"
"""The key of metadata or attributes under which the other side keeps our id."""

HASH_KEY: Final = f"{PREFIX}content_hash"
"""The key of metadata under which the other side keeps the hash of what was sent."""

_NAMESPACE: Final = uuid.UUID("5c1b8a3e-54a0-5f0e-9d0c-2f4f6a1d7b90")  # of the ids below


@dataclass(frozen=True, slots=True)
class TraceTarget:
    """What a finding is about, by the ids of the other side; an id that is None is not known."""

    trace_id: str | None = None
    span_id: str | None = None  # with `trace_id`
    session_id: str | None = None
    response_id: str | None = None  # of the model's answer

    def as_json(self) -> str:
        """The known ids as JSON, as column `target` holds them."""
        names = ("trace_id", "span_id", "session_id", "response_id")
        return as_json({name: value for name in names if (value := getattr(self, name))})


def traces_of(case: Mapping[str, Any]) -> list[str]:
    """The ids of the traces from which a case was read, in the order of its turns."""
    places = case.get("turn_spans") or []
    return list(dict.fromkeys(trace for p in places if (trace := p.rpartition("/")[0])))


def turn_target(
    case: Mapping[str, Any], turns: Sequence[int], target: TraceTarget
) -> TraceTarget | None:
    """The span of the turn that a finding is about.

    None where the finding is about no turn or about several, where no span of the turn is known, or
    where the target of the case is a span already or a trace of which the case was not read.
    """
    places = case.get("turn_spans") or []
    if len(set(turns)) != 1 or target.span_id or not 0 <= turns[0] < len(places):
        return None
    trace_id, _, span_id = places[turns[0]].rpartition("/")
    is_own = target.trace_id is None or target.trace_id in traces_of(case)
    if not (trace_id and span_id and is_own):
        return None
    return TraceTarget(trace_id=trace_id, span_id=span_id, response_id=target.response_id)


def target_of(text: str) -> TraceTarget:
    """The target that column `target` of table deliveries holds."""
    return TraceTarget(**json.loads(text))


@dataclass(frozen=True, slots=True)
class PublishedFinding:
    """A score, a verdict, a cause or a label of one case; a failed one has an error and no value."""

    run_id: str
    case_id: str
    repetition: int
    kind: Kind
    name: str
    annotator: Annotator
    source: str  # the judge and its model, or the rater
    at: datetime  # aware; the same whenever the run is sent
    value: float | None = None  # 0..1
    label: str | None = None
    error: str | None = None  # a code, where the judge gave no score
    explanation: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    turns: tuple[int, ...] = ()  # that the finding is about; they decide where it is shown
    part: str = ""  # `turn:3`: is sent only where the span of its turn is known

    def content_hash(self) -> str:
        """The first 16 hex digits of the SHA-256 over everything that the other side shows."""
        names = ("name", "annotator", "source", "value", "label", "error", "explanation")
        body = {name: getattr(self, name) for name in names} | {"metadata": dict(self.metadata)}
        return hashlib.sha256(as_json(body).encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Parcel:
    """A finding on its way: where it goes, and what is known of earlier attempts."""

    finding: PublishedFinding
    target: TraceTarget
    destination: str
    before: DeliveryState | None = None  # None: nothing was ever sent

    @property
    def delivery_id(self) -> str:
        """The id of the finding at its destination: the same for each attempt, whatever its content."""
        about = self.finding
        key = [about.run_id, about.case_id, about.repetition, about.kind, about.name]
        who = about.source if about.kind == "label" else about.metadata.get(f"{PREFIX}judge", "")
        part = [about.part] if about.part else []
        return str(uuid.uuid5(_NAMESPACE, as_json([*key, who, self.destination, *part])))

    @property
    def may_have_arrived(self) -> bool:
        """Whether an attempt was made whose answer nobody knows."""
        return self.before is not None and self.before.state == "sending"

    @property
    def remote_id(self) -> str:
        """The id that the other side gave to an earlier attempt; empty: none is known."""
        return self.before.remote_id if self.before is not None else ""

    def metadata(self) -> dict[str, str]:
        """The metadata of the finding with our own id and the hash of the content."""
        ids = {ID_KEY: self.delivery_id, HASH_KEY: self.finding.content_hash()}
        return {**self.finding.metadata, **ids}

    def row(self, state: State, remote_id: str = "", detail: str = "") -> dict[str, Any]:
        """A row of table deliveries."""
        about = self.finding
        return {
            "delivery_id": self.delivery_id,
            "case_id": about.case_id,
            "repetition": about.repetition,
            "destination": self.destination,
            "kind": about.kind,
            "name": about.name,
            "target": self.target.as_json(),
            "content_hash": about.content_hash(),
            "state": state,
            "remote_id": remote_id,
            "detail": detail,
        }


@dataclass(frozen=True, slots=True)
class DeliveryAnswer:
    """What became of one parcel, or of the deletion of one delivery."""

    state: State  # `sending`: not known
    remote_id: str = ""
    detail: str = ""  # why it was refused; one line


@dataclass(frozen=True, slots=True)
class LabelThere:
    """A label as it stands in a trace store."""

    remote_id: str
    target: TraceTarget  # of which one id is enough
    name: str
    value: float | str | bool | None
    rater: str
    note: str
    at: datetime  # when it was last changed; aware
