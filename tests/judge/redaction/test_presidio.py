"""Names and places found by Presidio; a fake analyzer and a fake spaCy model take its place."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from assizes.judge.config.transcripts import PrivacyConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.redaction import redaction
from assizes.judge.redaction.redaction import redactor
from tests.builders import case, user

WORDS = {"Ada": "PERSON", "Ada Lovelace": "PERSON", "Lovelace": "LOCATION", "London": "LOCATION"}


class Analyzer:
    """Finds listed words, overlapping ones too, as the real one may."""

    def __init__(self, nlp_engine, supported_languages):
        self.model = nlp_engine
        self.languages = supported_languages

    def get_supported_entities(self, language):
        return sorted({*WORDS.values(), "DATE_TIME"})

    def analyze(self, text, language, entities):
        return [
            SimpleNamespace(start=at, end=at + len(word), entity_type=kind)
            for word, kind in WORDS.items()
            if kind in entities and (at := text.find(word)) >= 0
        ]


class Provider:
    def __init__(self, nlp_configuration):
        (self.model,) = nlp_configuration["models"]

    def create_engine(self):
        return self.model["model_name"]


@pytest.fixture
def installed(monkeypatch):
    """spaCy models that are there; more may be put in."""
    models = ["en_core_web_sm", "en_core_web_lg", "de_core_news_trf", "en_custom"]
    modules = {
        "spacy": {},
        "spacy.util": {"get_installed_models": lambda: models},
        "presidio_analyzer": {"AnalyzerEngine": Analyzer},
        "presidio_analyzer.nlp_engine": {"NlpEngineProvider": Provider},
    }
    for name, held in modules.items():
        module = ModuleType(name)
        module.__dict__.update(held)
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["spacy"].util = sys.modules["spacy.util"]
    redaction._analyzer.cache_clear()
    yield models
    redaction._analyzer.cache_clear()


def config(*entities, language="en"):
    return PrivacyConfig(presidio=entities, language=language)


def test_names_and_places_are_hidden_the_longer_find_first_and_alike_everywhere(installed):
    talk = case(user("Ada Lovelace of London"), user("To London, says ada lovelace? Ada Lovelace."))
    hidden = redactor(config("PERSON", "LOCATION")).redact_case(talk)
    assert [turn.text for turn in hidden.transcript.turns] == [
        "[PERSON_1] of [LOCATION_1]",
        "To [LOCATION_1], says ada lovelace? [PERSON_1].",
    ]


def test_entities_that_were_not_asked_for_stay(installed):
    assert (
        redactor(config("LOCATION")).redact_text("Ada Lovelace of Paris")
        == "Ada [LOCATION_1] of Paris"
    )


@pytest.mark.parametrize(
    ("language", "model"), [("en", "en_core_web_lg"), ("de", "de_core_news_trf")]
)
def test_the_largest_model_of_the_language_is_taken(installed, language, model):
    assert redaction._analyzer(language).model == model


def test_a_model_of_no_known_size_is_better_than_none(installed):
    installed[:] = ["en_custom"]
    assert redaction._analyzer("en").model == "en_custom"


def test_a_language_without_a_model_is_refused_with_the_way_to_one(installed):
    with pytest.raises(ConfigurationError, match="no spaCy model for language 'fr' is installed"):
        redactor(config("PERSON", language="fr"))


def test_an_entity_that_presidio_does_not_know_is_refused_with_those_it_knows(installed):
    with pytest.raises(ConfigurationError, match=r"(?s)PERSN.*LOCATION.*PERSON"):
        redactor(config("PERSN"))
