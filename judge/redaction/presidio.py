"""Presidio behind the same seam: names and places, which no rule can tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from assizes.judge.errors import ConfigurationError

_WHERE = "[privacy] presidio"


def presidio_finder(
    entities: Sequence[str], language: str
) -> Callable[[str], list[tuple[int, int, str]]]:
    """Finds entities; of two that overlap the longer one.

    Raises:
        ConfigurationError: Presidio or its language model is not installed, or an entity is
            unknown to it.
    """
    analyzer = _analyzer(language)
    known = analyzer.get_supported_entities(language)
    for entity in entities:
        if entity not in known:
            raise ConfigurationError.unknown("entity", entity, sorted(known), _WHERE)

    def find_entities(text: str) -> list[tuple[int, int, str]]:
        results = analyzer.analyze(text=text, language=language, entities=list(entities))
        spans = sorted(
            (result.start - result.end, result.start, result.end, result.entity_type)
            for result in results
        )
        return without_overlaps([(start, end, kind) for _, start, end, kind in spans])

    return find_entities


def without_overlaps(spans: Sequence[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """The spans in order of the text, without those that overlap one given before them."""
    taken: list[tuple[int, int, str]] = []
    for start, end, kind in spans:
        if all(end <= other or start >= stop for other, stop, _ in taken):
            taken.append((start, end, kind))
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
    """The largest installed model of a language; Presidio itself would try to download one."""
    sizes = ("lg", "md", "sm", "trf")
    of_language = [name for name in installed if name.startswith(f"{language}_")]
    if not of_language:
        raise ConfigurationError(
            f"{_WHERE}: no spaCy model for language {language!r} is installed; "
            f"python -m spacy download {language}_core_web_lg"
        )
    return min(of_language, key=lambda name: sizes.index(name[-2:]) if name[-2:] in sizes else 9)
