"""Which fault the n-th request of a prompt meets, chosen by the end of the model's name.

A name of `FAULTS` or `status-NNN` fails always; `flaky-FAULT-N` and `retry-after-VALUE-N` fail the
first N requests of a prompt (always, without N) and then answer well. `flaky-truncated` also
answers well as soon as a request allows twice the tokens of the prompt's first one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from tests.doubles.openai_faults import FAULTS
from tests.doubles.openai_question import Question

FINGERPRINT_REQUESTS = 5
"""How many requests `fingerprint-change` answers with the first fingerprint."""


@dataclass(frozen=True)
class Earlier:
    """What was asked before a request.

    Attributes:
        tries: requests of this prompt, to this model, before this one.
        first_cap: most tokens that the first of them allowed.
        model: requests of this model before this one.
    """

    tries: int
    first_cap: int | None
    model: int


Schedule = Callable[[Question, Earlier], str | None]
"""The name of the fault that a request meets; None: it is answered well."""

PERMANENT = ("refuse", "context", "invalid")
OF_ANSWERS = (
    "html200",
    "error200",
    "empty",
    "no-choices",
    "invalid",
    "fenced",
    "prose",
    "truncated",
)
OF_TRANSPORT = ("retry-after-0.05", "500", "502html", "529", "reset", "cut")
TRANSIENT = OF_TRANSPORT + OF_ANSWERS
FLAKY11 = ("invalid", "truncated", "empty", "500")


FLAKY_HANG_S = 30.0


def _any_of(names: Iterable[str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))


NAMED = rf"{_any_of(FAULTS)}|status-\d{{3}}"
# A bare number at the end of a name is a version or a date, no fault.
ALWAYS = rf"{_any_of(name for name in FAULTS if not name.isdigit())}|status-\d{{3}}"
END = r"(?:^|[^a-z0-9])(?:{})$"
BEHAVIOUR = re.compile(
    END.format(
        rf"flaky-(?P<flaky>{NAMED})(?:-(?P<flaky_times>\d+))?"
        r"|(?P<hinted>retry-after-(?:-?[\d.]+|junk|date|far|ms))(?:-(?P<hinted_times>\d+))?"
        r"|(?P<special>storm|storm-transient|flaky11|fingerprint-change|invalid-once|hard-cases)"
        rf"|(?P<always>{ALWAYS})"
    )
)
MISSPELT = re.compile(r"(?:^|[^a-z0-9])(?:flaky|retry-after)-")


@lru_cache(maxsize=1024)
def schedule_of(model: str) -> Schedule | None:
    """The behaviour that a model's name asks for; None for a model that always answers well.

    Raises:
        ValueError: the name asks for a fault that is not known.
    """
    found = BEHAVIOUR.search(model)
    if not found:
        if MISSPELT.search(model):
            raise ValueError(f"no fault is known for the model name {model!r}")
        return None
    if special := found["special"]:
        return SPECIALS[special]
    if flaky := found["flaky"]:
        return _flaky(flaky, found["flaky_times"])
    return _first(found["hinted"] or found["always"], found["hinted_times"])


def _first(name: str, times: str | None) -> Schedule:
    """This fault for the first requests of a prompt; for all of them where no number is given."""
    most = int(times) if times else math.inf
    return lambda question, earlier: name if earlier.tries < most else None


def _flaky(name: str, times: str | None) -> Schedule:
    if name == "hang":
        return _first(f"hang-{FLAKY_HANG_S}", times)
    schedule = _first(name, times)
    if name != "truncated":
        return schedule

    def truncated(question: Question, earlier: Earlier) -> str | None:
        return None if _allows_more(question, earlier) else schedule(question, earlier)

    return truncated


def _allows_more(question: Question, earlier: Earlier) -> bool:
    return bool(earlier.first_cap and question.cap and question.cap >= 2 * earlier.first_cap)


def _storm(question: Question, earlier: Earlier) -> str | None:
    """A fifth of the prompts fail: 5 % of those for good, 2 % hang, the others once or twice."""
    if question.share(0) >= 0.2:
        return None
    kind = question.share(1)
    if kind < 0.05:
        return _one_of(PERMANENT, question)
    if kind >= 0.98:
        return f"hang-{FLAKY_HANG_S}" if earlier.tries == 0 else None
    name = _one_of(TRANSIENT, question)
    times = 2 if name in OF_TRANSPORT and question.share(3) < 0.25 else 1
    return name if earlier.tries < times else None


def _storm_transient(question: Question, earlier: Earlier) -> str | None:
    """A fifth of the prompts fail once, without a hang: the second request is answered well."""
    failing = question.share(0) < 0.2 and earlier.tries == 0
    return _one_of(TRANSIENT, question) if failing else None


def _flaky11(question: Question, earlier: Earlier) -> str | None:
    failing = question.share(0) < 0.11 and earlier.tries == 0
    return _one_of(FLAKY11, question) if failing else None


def _one_of(names: tuple[str, ...], question: Question) -> str:
    return names[int(question.share(2) * len(names))]


def _hard_cases(question: Question, earlier: Earlier) -> str | None:
    """What holds the words "hard case" fails once and is then rated a level lower."""
    if "hard case" not in question.user:
        return None
    return "500" if earlier.tries == 0 else "lower"


def _fingerprint_change(question: Question, earlier: Earlier) -> str | None:
    return "fp-a" if earlier.model < FINGERPRINT_REQUESTS else "fp-b"


SPECIALS: dict[str, Schedule] = {
    "storm": _storm,
    "storm-transient": _storm_transient,
    "flaky11": _flaky11,
    "fingerprint-change": _fingerprint_change,
    "invalid-once": _first("invalid", "1"),
    "hard-cases": _hard_cases,
}
