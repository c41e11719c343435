"""Replaces the values that rules find in a case by placeholders such as `[EMAIL_1]`.

Placeholders are numbered by first use, from 1 in each case, and hold nothing of the value, so that
nothing links the cases of one person (docs/decisions.md, decision 65). Microsoft Presidio can be
added; it finds names and places, which no pattern can recognise.
"""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import BaseModel

from assizes.judge.case import Case
from assizes.judge.config.transcripts import PrivacyConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.privacy.rules import BUILT_IN, SECRETS, VALUE, RedactionRule
from assizes.judge.privacy.secret_masking import process_secret_rules

_WHERE = "[privacy] presidio"


class EntitySpan(NamedTuple):
    """Where an entity stands in a text."""

    start: int  # index of its first character
    end: int  # index after its last character
    kind: str  # such as PERSON; the name in its placeholder


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


@lru_cache(maxsize=2)  # a language model takes seconds to load, and hundreds of MB
def _analyzer(language: str) -> Any:
    try:
        import spacy.util  # an extra, and slow to import
        from presidio_analyzer import AnalyzerEngine
        from presidio_analyzer.nlp_engine import NlpEngineProvider
    except ImportError:
        raise ConfigurationError(
            f"{_WHERE}: Presidio is not installed; install assizes[presidio] and a spaCy model"
        ) from None
    model = _model(language, spacy.util.get_installed_models())
    models = [{"lang_code": language, "model_name": model}]
    provider = NlpEngineProvider(nlp_configuration={"nlp_engine_name": "spacy", "models": models})
    return AnalyzerEngine(nlp_engine=provider.create_engine(), supported_languages=[language])


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


_Value = TypeVar("_Value")

_TELLING: Final = re.compile(
    r"(?i)(?P<name>(?:key|secret|passw(?:or)?d|passphrase|token|authorization"
    r"|(?:phone|tel|mobile|fax)(?:[ _-]?(?:number|no|nr))?))s?$"
)
"""Names of fields that say what their values are, in the singular or the plural."""

_PLACEHOLDER: Final = re.compile(r"\[[A-Z][A-Z0-9_]*_\d+\]")

_LEAST: Final = 10**6
_MOST: Final = 10**19
"""Whole numbers of 7 to 19 digits can be those of telephones and cards; the bound is excluded."""

_KEPT_FIELDS: Final = frozenset({"case_id", "database", "cluster"})
"""Fields that refer to something outside of the case and are not redacted like other texts."""


@dataclass(slots=True)
class Placeholders:
    """The numbers of the placeholders of one case."""

    numbers: dict[str, dict[str, int]] = field(default_factory=dict)  # kind -> value -> 1, 2, ...

    def of(self, kind: str, plain: str) -> str:
        """The placeholder of a value in its normal form: `[EMAIL_2]` for the second address."""
        known = self.numbers.setdefault(kind, {})
        return f"[{kind}_{known.setdefault(plain, len(known) + 1)}]"


@dataclass(frozen=True, slots=True, eq=False)
class Redactor:
    """Applies redaction rules in their order to cases and texts, then the finder to the result."""

    rules: tuple[RedactionRule, ...]
    finder: Finder | None = None

    def redact_case(self, case: Case, placeholders: Placeholders | None = None) -> Case:
        """The case with all of its texts redacted except its id.

        A cluster's name becomes a pseudonym where a rule matches it. Where an SQL statement or a
        call was changed, the case loses its database.
        """
        known = placeholders or Placeholders()
        whole = case.model_dump_json()
        # In lower case by bytes, which is quicker than by characters, and reaches ASCII alone.
        folded = whole.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
        # One search over the whole case: mostly few rules or none can match in it.
        rules = tuple(rule for rule in self.rules if rule.can_be_in(whole, folded))
        left: Case = Redactor(rules, self.finder)._value(case, known)
        update: dict[str, Any] = {}
        if case.cluster is not None and self.redact_text(case.cluster) != case.cluster:
            update["cluster"] = pseudonym(case.cluster)
        # Statements with placeholders would both return no rows, and so seem to agree.
        if case.expected.database is not None and _statements(left) != _statements(case):
            update["expected"] = left.expected.model_copy(update={"database": None})
        return left.model_copy(update=update) if update else left

    def redact_text(self, text: str, placeholders: Placeholders | None = None) -> str:
        """One text redacted, with new placeholders unless those of a case are given."""
        known = placeholders or Placeholders()
        for rule in self.rules:
            if rule.can_find(text):
                text = _apply_rule(rule, text, known)
        if self.finder is None:
            return text
        parts, end = [], 0
        for start, stop, kind in self.finder(text):
            parts += [text[end:start], known.of(kind, text[start:stop].casefold())]
            end = stop
        return "".join([*parts, text[end:]])

    def _value(self, value: _Value, known: Placeholders) -> _Value:
        """The value with its texts redacted; the same object where nothing was hidden."""
        if not self.rules and self.finder is None:
            return value
        if isinstance(value, str):
            return self.redact_text(value, known)  # type: ignore[return-value]  # a text for a text
        if isinstance(value, BaseModel):
            redacted = {
                name: self._value(part, known)
                for name, part in value.__dict__.items()
                if name not in _KEPT_FIELDS and not isinstance(part, int | float)
            }
            update = {
                name: part for name, part in redacted.items() if part is not value.__dict__[name]
            }
            return value.model_copy(update=update) if update else value
        if isinstance(value, dict):
            return self._table(value, known)  # type: ignore[return-value]  # a table for a table
        if isinstance(value, list | tuple):
            return _map_parts(value, lambda part: self._value(part, known))  # type: ignore[no-any-return]
        number = _number(value)
        # A number stays a number unless it is a card, a telephone or the like.
        shown = number and self.redact_text(number, known)
        return value if shown == number else shown  # type: ignore[return-value]

    def _table(self, table: dict[str, Any], known: Placeholders) -> dict[str, Any]:
        redacted = {
            self.redact_text(name, known): self._redacted_part(name, part, known)
            for name, part in table.items()
        }
        return table if redacted == table else redacted

    def _redacted_part(self, name: str, part: Any, known: Placeholders) -> Any:
        """A part of a table, redacted; its name may say what the value is: `{"api_key": ...}`."""
        telling = _TELLING.search(name)
        if telling is None:
            return self._value(part, known)
        if isinstance(part, list | tuple):
            return _map_parts(part, lambda item: self._redacted_part(name, item, known))
        text = part if isinstance(part, str) else _number(part)
        if text is not None:
            # Name and value are searched together, as JSON: some rules need the name beside it.
            before = f'"{name[: telling.end("name")]}": "'
            whole = self.redact_text(f'{before}{text}"', known)
            if whole.startswith(before) and whole.endswith('"'):
                shown = whole[len(before) : -1]
                return part if shown == text else shown
        return self._value(part, known)


def _number(value: Any) -> str | None:
    """The digits of a whole number that can be that of a card or a telephone, else `None`."""
    if not isinstance(value, int | float) or not _LEAST <= value < _MOST:
        return None
    return str(int(value)) if value == int(value) else None


def _map_parts(parts: list[Any] | tuple[Any, ...], convert: Callable[[Any], Any]) -> Any:
    """The parts converted one by one; the same object where no part changed."""
    new = [convert(part) for part in parts]
    return parts if all(map(operator.is_, new, parts)) else type(parts)(new)


def _apply_rule(rule: RedactionRule, text: str, known: Placeholders) -> str:
    """The text with placeholders for the values that one rule finds."""
    group = VALUE if VALUE in rule.pattern.groupindex else 0
    parts, done, at = [], 0, 0  # done: up to here the text is in `parts`
    while at <= len(text) and (match := rule.pattern.search(text, at)) is not None:
        candidate, start = match[group] or "", match.start(group)
        value = None if _PLACEHOLDER.match(candidate) else rule.find_value(candidate)
        end = match.end()
        if value:  # an empty value hides nothing
            end = start + len(value)  # the match may reach into the next value
            parts += [text[done:start], known.of(rule.kind, rule.plain(value))]
            done = end
        elif rule.retries_after_blank and " " in candidate:  # e.g. `12 4111 1111 1111 1111`
            end = match.start() + candidate.index(" ")
        at = max(at + 1, end)  # an empty match must not be found again
    return "".join([*parts, text[done:]]) if done else text


def _statements(case: Case) -> tuple[object, ...]:
    """The SQL statement and the calls of a case that could be run on its database."""
    calls = tuple((call.arguments, call.raw) for _, call in case.transcript.calls())
    return case.expected.sql, calls


def pseudonym(name: str) -> str:
    """A hash without a key in place of a name: whoever guesses the name can confirm the guess."""
    data = name.encode("utf-8", "surrogatepass")
    return f"cluster-{hashlib.blake2b(data, digest_size=8).hexdigest()}"


def redactor(config: PrivacyConfig) -> Redactor:
    """The redactor of a configuration, which also always hides the secrets of this process.

    Raises:
        ConfigurationError: when Presidio is configured and cannot be used.
    """
    own = tuple(RedactionRule(rule.name, re.compile(rule.pattern)) for rule in config.rules)
    built_in = tuple(
        rule for kind, rules in BUILT_IN.items() if kind in config.redact for rule in rules
    )
    finder = presidio_finder(config.presidio, config.language) if config.presidio else None
    return Redactor((*process_secret_rules(), *own, *built_in), finder)


def secrets_only(config: PrivacyConfig) -> Redactor:
    """The redactor for `send = "raw"`: judge models see everything except secrets."""
    return Redactor((*process_secret_rules(), *(SECRETS if "secret" in config.redact else ())))


FULL_REDACTOR: Final = Redactor(tuple(rule for rules in BUILT_IN.values() for rule in rules))
"""The redactor with all built-in rules, for excerpts of records that could not be parsed."""
