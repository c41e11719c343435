"""Transcripts in which no sentence comes twice, made from a seed: nothing cached by text is free.

A transcript is a service conversation in one of six languages: what user and agent say, tool calls
with nested arguments, results as JSON, lists and tables in Markdown, names and numbers of its own.
The same number and seed make the same transcript, in any process and any order. Some 0.4 ms each.
"""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

CHARS: Final = 6_100
"""Characters of the turns of a transcript, as JSON and on average."""

_OVERSHOOT: Final = 700
"""Characters by which the last exchange of a transcript goes beyond the wanted length, on average."""

SENTENCES: Final = 1_000
"""The most sentences of one transcript: each has a serial number of its own."""

_WORDS: Final = Path(__file__).with_name("varied_words.toml")
_SLOT: Final = re.compile(r"\{([a-z]+)\}")
_ONSETS: Final = ("b", "br", "d", "f", "g", "gr", "h", "k", "l", "m", "n", "p", "r", "s", "st", "t")
_RHYMES: Final = ("a", "an", "ar", "e", "el", "en", "er", "i", "in", "o", "ol", "or", "u", "und")
_ENDS: Final = ("berg", "dale", "ford", "ham", "ini", "ley", "ova", "sen", "son", "stein", "ton")
_TOOLS: Final = ("get", "find", "update", "cancel", "list", "create", "check", "refund")
_THINGS: Final = ("order", "booking", "invoice", "shipment", "account", "contract", "ticket")
_STATES: Final = ("confirmed", "pending", "shipped", "on_hold", "refunded", "cancelled", "open")
_LETTERS: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"

_PLAIN: Final = str.maketrans({"’": "'", "—": "-", "🙂": None})  # noqa: RUF001  # typography

Record = dict[str, Any]


@lru_cache(maxsize=1)
def _languages() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(_WORDS.read_text("utf-8"))


@dataclass
class Words:
    """Draws the words of one transcript; serial numbers keep its sentences apart from all others."""

    draw: random.Random
    lists: Mapping[str, Any]
    serial: int
    plain: bool = False  # typed without curly quotes, dashes and emoji
    turn: int = 0
    fillers: dict[str, Callable[[], str]] = field(init=False)

    def __post_init__(self) -> None:
        names = ("name", "place", "product", "code", "amount", "date", "time", "count", "mail")
        self.fillers = {name: getattr(self, name) for name in names}
        self.fillers |= {"turn": lambda: str(self.turn)}
        for name in ("item", "trait"):
            self.fillers[name] = lambda name=name: self.pick(self.lists[name])

    def pick(self, among: Any) -> Any:
        """One of a list: quicker than `Random.choice`."""
        return among[int(self.draw.random() * len(among))]

    def sentence(self, kind: str) -> str:
        """A sentence of a kind, such as `user`."""
        text, slots = _template(self.pick(self.lists[kind]), self.plain)
        return text % tuple([self.fillers[slot]() for slot in slots])

    def next(self) -> int:
        """A number below 10^9 that no other transcript of the seed has; neighbours lie far apart."""
        self.serial += 1
        return self.serial * 387_420_489 % 1_000_000_007

    def word(self) -> str:
        """A made-up word of two syllables."""
        pick = self.pick
        return f"{pick(_ONSETS)}{pick(_RHYMES)}{pick(_ONSETS)}{pick(_RHYMES)}"

    def name(self) -> str:
        """A first and a last name."""
        return f"{self.word().capitalize()} {self.word().capitalize()}{self.pick(_ENDS)}"

    def place(self) -> str:
        """A town."""
        return f"{self.word().capitalize()}{self.pick(_ENDS)}"

    def product(self) -> str:
        """A product with its model number."""
        return f"{self.word().capitalize()} {self.pick(_LETTERS)}{int(self.draw.random() * 9000)}"

    def code(self) -> str:
        """A booking code that comes once."""
        number, letters = self.next(), []
        for _ in range(6):
            number, at = divmod(number, 32)
            letters.append(_LETTERS[at])
        return f"{''.join(letters)}-{self.pick(_LETTERS)}{self.pick(_LETTERS)}"

    def amount(self) -> str:
        """An amount of money that comes once."""
        whole, cents = divmod(self.next(), 100)
        return f"{whole:,}.{cents:02d} {self.pick(('EUR', 'USD', 'CHF', 'GBP'))}"

    def date(self) -> str:
        """A day."""
        draw = self.draw.random
        return f"20{20 + int(draw() * 9)}-{1 + int(draw() * 12):02d}-{1 + int(draw() * 28):02d}"

    def time(self) -> str:
        """A time of the day."""
        return f"{int(self.draw.random() * 24)}:{int(self.draw.random() * 60):02d}"

    def count(self) -> str:
        """A number from 2 to 91."""
        return str(2 + int(self.draw.random() * 90))

    def mail(self) -> str:
        """An address."""
        return f"{self.word()}.{self.word()}@{self.word()}.example"


@cache
def _template(template: str, plain: bool) -> tuple[str, tuple[str, ...]]:
    """A template as a format for `%`, and the names of its slots in order."""
    template = template.translate(_PLAIN) if plain else template
    return _SLOT.sub("%s", template.replace("%", "%%")), tuple(_SLOT.findall(template))


@lru_cache(maxsize=1)
def _shares() -> tuple[str, ...]:
    """Each language as often as its share says."""
    return tuple(name for name, lists in _languages().items() for _ in range(lists.get("share", 0)))


def varied_record(number: int, seed: int = 1, chars: int = CHARS) -> Record:
    """The native record of one case with a transcript of about so many characters.

    It expects outcomes and a tool call, so that nine metrics are due.
    """
    draw = random.Random(f"{seed}.{number}")
    name = _shares()[int(draw.random() * len(_shares()))]
    words = Words(draw, _languages()[name], number * SENTENCES, plain=draw.random() < 0.5)
    turns: list[Record] = []
    length = 0
    while length < chars - _OVERSHOOT and len(turns) < SENTENCES // 8:
        exchange = _exchange(words, len(turns))
        length += sum(len(json.dumps(turn, ensure_ascii=False)) for turn in exchange)
        turns += exchange
    calls = [call for turn in turns for call in turn.get("tool_calls", ())][:1]
    return {
        "case_id": f"case-{number}",
        "transcript": {"turns": turns},
        "expected": {
            "outcomes": [words.sentence("agent"), words.sentence("agent")],
            "tool_calls": [
                {"name": call["name"], "arguments": call["arguments"]} for call in calls
            ],
        },
        "agent": "service-desk",
        "agent_version": "7",
        "tags": {"language": name},
    }


def judge_words(draw: random.Random) -> Words:
    """Words for what a judge says: sentences of the kind `reason`."""
    return Words(draw, _languages()["judge"], draw.getrandbits(40), turn=int(draw.random() * 20))


def varied_records(count: int, seed: int = 1, chars: int = CHARS) -> Iterator[Record]:
    """Yield as many different records."""
    return (varied_record(number, seed, chars) for number in range(count))


def write_varied(file: Path, count: int, seed: int = 1, chars: int = CHARS) -> None:
    """Write as many records as JSON lines, one at a time."""
    with file.open("w", encoding="utf-8") as lines:
        for record in varied_records(count, seed, chars):
            lines.write(f"{json.dumps(record, ensure_ascii=False)}\n")


def _exchange(words: Words, index: int) -> list[Record]:
    """What the user says and the agent answers; four times of five it calls a tool first."""
    said = [words.sentence("user") for _ in range(1 + int(words.draw.random() * 3))]
    turns: list[Record] = [{"role": "user", "text": " ".join(said)}]
    if words.draw.random() < 0.8:
        call = {
            "id": f"call_{index}_{words.code()}",
            "name": f"{words.pick(_TOOLS)}_{words.pick(_THINGS)}",
            "arguments": _arguments(words),
        }
        turns.append({"role": "assistant", "text": words.sentence("agent"), "tool_calls": [call]})
        result = {"content": _result(words), "call_id": call["id"], "name": call["name"]}
        turns.append({"role": "tool", "tool_result": result})
    turns.append({"role": "assistant", "text": _answer(words)})
    return turns


def _arguments(words: Words) -> Record:
    given: Record = {"reference": words.code(), "limit": int(words.draw.random() * 50)}
    if words.draw.random() < 0.5:
        given["filter"] = {"after": words.date(), "places": [words.place(), words.place()]}
    if words.draw.random() < 0.3:
        given["query"] = words.sentence("user")
    return given


def _result(words: Words) -> str:
    """What a tool answers: a JSON object with one to four entries, compact or indented."""
    entries = [
        {
            "id": words.code(),
            "status": words.pick(_STATES),
            "holder": {"name": words.name(), "email": words.mail(), "city": words.place()},
            "total": words.next() / 100,
            "updated_at": f"{words.date()}T{words.time()}:00Z",
            "paid": words.draw.random() < 0.5,
            "note": words.sentence("agent") if words.draw.random() < 0.4 else None,
        }
        for _ in range(1 + int(words.draw.random() * 4))
    ]
    found = {
        "count": len(entries),
        "results": entries,
        "request": f"{words.draw.getrandbits(96):x}",
    }
    indent = 2 if words.draw.random() < 0.3 else None
    return json.dumps(found, ensure_ascii=False, indent=indent)


def _answer(words: Words) -> str:
    """What the agent says: sentences, and now and then a list or a table in Markdown."""
    text = " ".join(words.sentence("agent") for _ in range(1 + int(words.draw.random() * 3)))
    form = words.draw.random()
    if form < 0.2:
        points = (f"- **{words.code()}**: {words.sentence('agent')}" for _ in range(3))
        return "\n".join((text, "", *points))
    if form < 0.3:
        rows = (f"| {words.code()} | {words.place()} | {words.amount()} |" for _ in range(3))
        return "\n".join((text, "", "| no | where | price |", "|---|---|---|", *rows))
    return text
