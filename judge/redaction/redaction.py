"""Replaces the values that rules find in a case by placeholders such as `[EMAIL_1]`.

Within a case the same value has the same placeholder. Placeholders are numbered in the order of
their first use, from 1 in each case, and hold nothing of the value, so that nothing links the cases
of one person.
"""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from assizes.judge.case import Case
from assizes.judge.config.privacy import PrivacyConfig
from assizes.judge.privacy.rules import BUILT_IN, SECRETS, VALUE, RedactionRule
from assizes.judge.privacy.secret_masking import process_secret_rules
from assizes.judge.redaction.presidio import Finder, presidio_finder

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


class Placeholders:
    """The numbers of the placeholders of one case, by kind and value."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[str, int]] = {}

    def of(self, kind: str, plain: str) -> str:
        """The placeholder of a value: `[EMAIL_2]` is that of the second e-mail address of the case.

        Args:
            kind: the kind of the rule.
            plain: the value in its normal form.
        """
        known = self._numbers.setdefault(kind, {})
        return f"[{kind}_{known.setdefault(plain, len(known) + 1)}]"


class Redactor:
    """Applies redaction rules to cases and texts; without rules it changes nothing."""

    def __init__(self, rules: tuple[RedactionRule, ...], finder: Finder | None = None) -> None:
        """Rules are applied in their order, then the finder is applied to the redacted text."""
        self.rules = rules
        self.finder = finder

    def redact_case(self, case: Case, placeholders: Placeholders | None = None) -> Case:
        """The case with all of its texts redacted except its id.

        The name of the cluster becomes a pseudonym where a rule matches it. Where an SQL statement
        or a tool call was changed, the case loses its database: with placeholders in them, the
        expected and the actual statement would both return no rows and so seem to agree.
        """
        known = placeholders or Placeholders()
        left: Case = self._relevant_redactor(case)._value(case, known)
        update: dict[str, Any] = {}
        if case.cluster is not None and self.redact_text(case.cluster) != case.cluster:
            update["cluster"] = pseudonym(case.cluster)
        if case.expected.database is not None and _statements(left) != _statements(case):
            update["expected"] = left.expected.model_copy(update={"database": None})
        return left.model_copy(update=update) if update else left

    def _relevant_redactor(self, case: Case) -> Redactor:
        """A redactor with only the rules that can match in this case, mostly few or none."""
        whole = case.model_dump_json()
        data = whole.encode("utf-8", "surrogatepass")
        folded = data.lower()
        rules = tuple(rule for rule in self.rules if rule.can_be_in(whole, data, folded))
        return Redactor(rules, self.finder)

    def redact_text(self, text: str, placeholders: Placeholders | None = None) -> str:
        """One text redacted, with new placeholders unless those of a case are given."""
        known = placeholders or Placeholders()
        for rule in self.rules:
            if rule.can_find(text):
                text = _apply_rule(rule, text, known)
        return self._hide_entities(text, known) if self.finder else text

    def _hide_entities(self, text: str, known: Placeholders) -> str:
        parts, end = [], 0
        for start, stop, kind in self.finder(text) if self.finder else ():
            value = known.of(kind, text[start:stop].casefold())
            parts += [text[end:start], value]
            end = stop
        return "".join([*parts, text[end:]])

    def _value(self, value: _Value, known: Placeholders) -> _Value:
        """The value with its texts redacted; the same object where nothing was hidden."""
        if not self.rules and self.finder is None:
            return value
        if isinstance(value, str):
            return self.redact_text(value, known)  # type: ignore[return-value]  # a text for a text
        if isinstance(value, BaseModel):
            update = self._changed_parts(
                {
                    name: part
                    for name, part in value.__dict__.items()
                    if name not in _KEPT_FIELDS and not isinstance(part, int | float)
                },
                known,
            )
            return value.model_copy(update=update) if update else value
        if isinstance(value, dict):
            return self._table(value, known)  # type: ignore[return-value]  # a table for a table
        if isinstance(value, list | tuple):
            return _map_parts(value, lambda part: self._value(part, known))  # type: ignore[no-any-return]
        number = _number(value)
        shown = number and self.redact_text(number, known)
        return value if shown == number else shown  # type: ignore[return-value]

    def _changed_parts(self, parts: Mapping[str, Any], known: Placeholders) -> dict[str, Any]:
        redacted = {name: self._value(part, known) for name, part in parts.items()}
        return {name: part for name, part in redacted.items() if part is not parts[name]}

    def _table(self, table: dict[str, Any], known: Placeholders) -> dict[str, Any]:
        redacted = {
            self.redact_text(name, known): self._redacted_part(name, part, known)
            for name, part in table.items()
        }
        return table if redacted == table else redacted

    def _redacted_part(self, name: str, part: Any, known: Placeholders) -> Any:
        """A part of a table, redacted; its name may say what the value is: `{"api_key": "..."}`."""
        telling = _TELLING.search(name)
        if telling is None:
            return self._value(part, known)
        if isinstance(part, list | tuple):
            return _map_parts(part, lambda item: self._redacted_part(name, item, known))
        text = part if isinstance(part, str) else _number(part)
        if text is not None:
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
    """The text with placeholders for the values that one rule finds.

    A match may reach into the next value, so the search continues where the value ends. An empty
    value hides nothing.
    """
    group = VALUE if VALUE in rule.pattern.groupindex else 0
    parts, done, at = [], 0, 0
    while at <= len(text) and (match := rule.pattern.search(text, at)) is not None:
        candidate, start = match[group] or "", match.start(group)
        value = None if _PLACEHOLDER.match(candidate) else rule.find_value(candidate)
        end = start + len(value) if value else _search_end(rule, candidate, match)
        at = max(at + 1, end)
        if value:
            parts += [text[done:start], known.of(rule.kind, rule.plain(value))]
            done = end
    return "".join([*parts, text[done:]]) if done else text


def _search_end(rule: RedactionRule, candidate: str, match: re.Match[str]) -> int:
    """Where the search continues after a candidate that is no value."""
    blank = candidate.find(" ") if rule.retries_after_blank else -1
    return match.end() if blank < 0 else match.start() + blank


def _statements(case: Case) -> tuple[object, ...]:
    """The SQL statement and the calls of a case that could be run on its database."""
    calls = tuple((call.arguments, call.raw) for _, call in case.transcript.calls())
    return case.expected.sql, calls


def pseudonym(name: str) -> str:
    """A hash in place of a name, the same for the same name.

    The hash has no key, so whoever guesses the name can confirm the guess.
    """
    return f"cluster-{hashlib.blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


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
