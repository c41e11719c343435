"""Microsoft Presidio as an optional finder of names and places, which no pattern can recognise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from assizes.judge.errors import ConfigurationError

_WHERE = "[privacy] presidio"


class EntitySpan(NamedTuple):
    """Where an entity stands in a text, `start` included and `end` not, and of which kind it is."""

    start: int
    end: int
    kind: str


Finder = Callable[[str], list[EntitySpan]]
"""Finds the entities of a text, in order and without overlaps."""


def presidio_finder(entities: Sequence[str], language: str) -> Finder:
    """A function that finds these entities; of two that overlap it finds the longer one.

    Raises:
        ConfigurationError: when Presidio or its language model is not installed, or Presidio does
            not know an entity.
    """
    analyzer = _analyzer(language)
    known = analyzer.get_supported_entities(language)
    for entity in entities:
        if entity not in known:
            raise ConfigurationError.unknown("entity", entity, sorted(known), _WHERE)

    def find_entities(text: str) -> list[EntitySpan]:
        results = analyzer.analyze(text=text, language=language, entities=list(entities))
        spans = [EntitySpan(result.start, result.end, result.entity_type) for result in results]
        return without_overlaps(sorted(spans, key=lambda span: (span.start - span.end, span)))

    return find_entities


def without_overlaps(spans: Sequence[EntitySpan]) -> list[EntitySpan]:
    """The spans in the order of the text, without those that overlap an earlier one in the list."""
    taken: list[EntitySpan] = []
    for span in spans:
        if all(span.end <= other.start or span.start >= other.end for other in taken):
            taken.append(span)
    return sorted(taken)


@lru_cache(maxsize=2)
def _analyzer(language: str) -> Any:
    try:
        import spacy.util
        from presidio_analyzer import AnalyzerEngine
        from presidio_analyzer.nlp_engine import NlpEngineProvider
    except ImportError:
        raise ConfigurationError(
            f"{_WHERE}: Presidio is not installed; install assizes[presidio] and a spaCy model"
        ) from None
    model = _model(language, spacy.util.get_installed_models())
    engine = NlpEngineProvider(
        nlp_configuration={
            "nlp_engine_name": "spacy",
            "models": [{"lang_code": language, "model_name": model}],
        }
    ).create_engine()
    return AnalyzerEngine(nlp_engine=engine, supported_languages=[language])


def _model(language: str, installed: Sequence[str]) -> str:
    """The largest installed spaCy model of a language; Presidio itself would download one."""
    sizes = ("lg", "md", "sm", "trf")
    of_language = [name for name in installed if name.startswith(f"{language}_")]
    if not of_language:
        raise ConfigurationError(
            f"{_WHERE}: no spaCy model for language {language!r} is installed; "
            f"python -m spacy download {language}_core_web_lg"
        )
    return min(of_language, key=lambda name: sizes.index(name[-2:]) if name[-2:] in sizes else 9)
