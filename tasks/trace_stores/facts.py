"""What the filters of [transcripts.traces] look at: tags, versions and scores of a conversation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from assizes.judge.config.traces import TracesConfig
from assizes.tasks.trace_stores.address import StoreKind
from assizes.tasks.trace_stores.reading import object_of

_VERSIONS: Final = ("gen_ai.agent.version", "service.version")


@dataclass
class TraceFacts:
    """The facts of one conversation."""

    tags: set[str] = field(default_factory=set)
    versions: set[str] = field(default_factory=set)
    scores: dict[str, list[float]] = field(default_factory=dict)

    def add_score(self, name: Any, value: Any) -> None:
        """Add a score, if the value is a number or a truth value."""
        if isinstance(value, bool | int | float):
            self.scores.setdefault(str(name), []).append(float(value))


def is_wanted(kind: StoreKind, values: Iterable[dict[str, Any]], config: TracesConfig) -> bool:
    """Whether the filters keep the conversation that consists of some pieces."""
    if not (config.tags or config.version or config.scores):
        return True
    facts = TraceFacts()
    for value in values:
        _ADDERS[kind](value, facts)
    return (
        facts.tags.issuperset(config.tags)
        and (config.version is None or config.version in facts.versions)
        and config.keeps_scores(facts.scores)
    )


def _add_langfuse(value: dict[str, Any], facts: TraceFacts) -> None:
    tags = value.get("tags")
    facts.tags.update(map(str, tags if isinstance(tags, list) else ()))
    if environment := value.get("environment"):
        facts.tags.add(f"environment={environment}")
    facts.versions.update(str(value[name]) for name in ("version", "release") if value.get(name))
    scores = value.get("scores")
    for row in (value, *(scores if isinstance(scores, list) else ())):
        if isinstance(row, dict) and "dataType" in row:
            facts.add_score(row.get("name"), row.get("value"))


def _add_mlflow(value: dict[str, Any], facts: TraceFacts) -> None:
    info = object_of(value.get("info"))
    facts.tags.update(f"{name}={text}" for name, text in object_of(info.get("tags")).items())
    metadata = object_of(info.get("trace_metadata"))
    versions = (metadata.get("mlflow.modelId"), metadata.get("mlflow.source.git.commit"))
    facts.versions.update(str(version) for version in versions if version)
    assessments = info.get("assessments")
    for row in assessments if isinstance(assessments, list) else []:
        if row.get("valid", True):
            score = object_of(row.get("feedback")).get("value")
            facts.add_score(row.get("assessment_name"), score)


def _add_phoenix(value: dict[str, Any], facts: TraceFacts) -> None:
    attributes = object_of(value.get("attributes"))
    facts.tags.update(_phoenix_tags(attributes))
    facts.versions.update(str(attributes[name]) for name in _VERSIONS if attributes.get(name))
    for event in value.get("events") or ():
        result = object_of(event.get("attributes"))
        if "gen_ai.evaluation.name" in result:
            score = result.get("gen_ai.evaluation.score.value")
            facts.add_score(result["gen_ai.evaluation.name"], score)


def _phoenix_tags(attributes: dict[str, Any]) -> Iterator[str]:
    """The words of `tag.tags` of OpenInference, and the values of `metadata`, as `name=value`."""
    for name, value in attributes.items():
        if name == "tag.tags" or name.startswith("tag.tags."):
            yield from map(str, value if isinstance(value, list) else [value])
        elif name.startswith("metadata."):
            yield f"{name.removeprefix('metadata.')}={value}"
    written = attributes.get("metadata")
    if isinstance(written, str):
        try:
            written = json.loads(written)
        except ValueError:
            return
    yield from (f"{name}={value}" for name, value in object_of(written).items())


_ADDERS: Final[dict[StoreKind, Callable[[dict[str, Any], TraceFacts], None]]] = {
    "langfuse": _add_langfuse,
    "mlflow": _add_mlflow,
    "phoenix": _add_phoenix,
}
