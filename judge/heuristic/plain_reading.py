"""Surface signs in a conversation, which the offline judge weighs: claims, questions, wording.

The word lists are English and name no tool, task or domain. Every pattern runs in linear time,
because anybody can write the texts of a transcript.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from assizes.judge.case import Case, ToolCall
from assizes.judge.evidence.same_values import canonical_text
from assizes.judge.evidence.tool_calls import MadeCall, ToolEvidence

T = TypeVar("T")

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")  # the comma of 1,327
_TOKEN = re.compile(r"\d+(?:\.\d+)?(?!\w)|\w+")
_PLAIN_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_COUNTED = re.compile(r"\d{1,4}[a-z]+")  # 20th, 24h
_SENTENCE_END = re.compile(r"([.?!\n])")  # a group, so that `split` keeps the signs
_WORD = re.compile(r"[^\W\d_]{3,}")  # three letters or more, no digit

_REQUEST = re.compile(
    r"\b(?:what|which|when|where|who|how many|how much|provide|share|tell me|give me)\b"
)
_REFUSAL = re.compile(
    r"\b(?:can't|cannot|can not|unable to|not able to|won't be able|not possible|not allowed"
    r"|not permitted|not eligible|sorry|apologi[sz]e|unfortunately)\b"
)
_TROUBLE = re.compile(r"\b(?:error|fail\w*|issue|problem|trouble|instead|however)\b")
_SUCCESS = re.compile(r"\b(?:success\w*|has been|have been|is now|are now|completed|confirmed)\b")
_CLOSING = re.compile(
    r"\b(?:thanks?|welcome|goodbye|bye|take care|anything else|any other|feel free|glad"
    r"|have an? (?:great|good|nice|wonderful|lovely|safe|pleasant))\b"
)
_PROHIBITION = re.compile(
    r"\b(?:refus\w+|declin\w+|den(?:y|ies|ied)|reject\w*|never"
    r"|(?:does|do|did|should|must|will|may|can) ?not"
    r"|(?:does|do|did|should|must|wo|ca)n't|not proceed)\b"
)
_COMMON = frozenset(
    _WORD.findall(
        "about after agent also and any are but could customer does for from had has have her him his"
        " into its may must not should than that the their them then they this user was were what when"
        " which will with would you your"
    )
)


@dataclass(frozen=True, slots=True)
class Claim:
    """Something specific that the agent said or gave to a tool: an identifier, an amount, a number.

    A grounded claim occurs before its turn in the system prompt, tool descriptions, retrieved
    passages, tool results or user turns. A call that is tried again after an outage claims nothing.
    """

    turn: int  # index of the agent's turn
    text: str  # in lower case, numbers without needless zeros
    is_grounded: bool
    after_result: bool  # whether a tool had answered since the user last spoke
    tool: str | None = None  # whose argument held the claim; `None`: it is in the agent's text


@dataclass(frozen=True, slots=True)
class CaseReading:
    """A case with the evidence about its tool calls and its surface signs."""

    case: Case
    tools: ToolEvidence
    texts: tuple[tuple[int, str], ...]  # (index of the turn, text) of the agent, in order
    claims: tuple[Claim, ...]  # in order
    # State-changing calls that nobody expected; none where it is guessed which tools change state.
    unexpected_writes: tuple[MadeCall, ...]


def read_case(case: Case, tools: ToolEvidence) -> CaseReading:
    """Collect the surface signs of a case in one pass over its turns."""
    transcript = case.transcript
    known = set(_shared_values(transcript.system or ""))  # values heard so far
    for tool in transcript.tools:
        known |= _shared_values(tool.description)
    for chunk in transcript.chunks or ():
        known |= values(chunk.content)
    claims: list[Claim] = []
    prevented = {_call_key(made.call) for made in tools.prevented}
    again: set[tuple[str, str]] = set()  # of these, the ones that were met: later ones are retries
    after_result = False
    for index, turn in enumerate(transcript.turns):
        known |= {value for chunk in turn.chunks or () for value in values(chunk.content)}
        if turn.role == "assistant":
            texts: list[tuple[str, str | None]] = [(turn.text or "", None)]  # (text, its tool)
            for call in turn.tool_calls:
                key = _call_key(call) if prevented else None
                if key in again:
                    continue
                again |= prevented & {key}
                texts += [(text, call.name) for text in _strings(call.arguments)]
            claims += [
                Claim(index, token, token in known, after_result, tool_name)
                for text, tool_name in texts
                for token in particulars(text)
            ]
            continue
        after_result = turn.role == "tool" or (after_result and not turn.text)
        known |= values(turn.text or "")
        if turn.tool_result is not None:
            known |= values(turn.tool_result.content)
    writes = case.write_names() if tools.writes_known else frozenset()
    unexpected = tuple(made for made in tools.unexpected if made.call.name in writes)
    return CaseReading(case, tools, tuple(transcript.agent_texts()), tuple(claims), unexpected)


def particulars(text: str) -> list[str]:
    """Return identifiers, amounts of money and numbers from 3 digits on, each once, in order."""
    flat = _THOUSANDS.sub("", text)
    tokens: dict[str, None] = {}  # a set in order
    for match in _TOKEN.finditer(flat):
        if not _has_digit(match[0]):
            continue
        token = _normal(match[0])
        money = flat[max(0, match.start() - 2) : match.start()].strip()[-1:] in tuple("$€£")
        is_specific = len(token) >= 3 and not _COUNTED.fullmatch(token)  # not `2 bags` or `20th`
        if is_specific or (money and _PLAIN_NUMBER.fullmatch(token)):
            tokens[token] = None
    return list(tokens)


def values(text: str) -> set[str]:
    """Return everything on which a claim may rest: words with a digit, and their runs of digits."""
    tokens: set[str] = set()
    for word in filter(_has_digit, set(_TOKEN.findall(_THOUSANDS.sub("", text)))):
        runs = _PLAIN_NUMBER.findall(word)
        tokens |= {_normal(word), *map(_normal, runs)}
        # An agent says `the card that ends in 1234`.
        tokens |= {_normal(run[-4:]) for run in runs if len(run) >= 7 and "." not in run}
    return tokens


# The cases of a run share their system prompt and tool descriptions.
_shared_values = lru_cache(maxsize=64)(values)


def questions(text: str) -> list[str]:
    """Return the sentences that end in a question mark, in lower case and with single spaces."""
    parts = _SENTENCE_END.split(text)
    sentences = zip(parts[::2], parts[1::2], strict=False)  # (words, end)
    return [_flat(words) for words, end in sentences if end == "?" and _WORD.search(words)]


def content_words(text: str) -> set[str]:
    """Return the words of three letters or more that carry meaning, and the values with digits."""
    tokens = filter(_has_digit, _TOKEN.findall(_THOUSANDS.sub("", text)))
    return set(_WORD.findall(_flat(text))).difference(_COMMON).union(map(_normal, tokens))


def is_refusal(text: str) -> bool:
    """Whether a text holds words of refusal or apology."""
    return _REFUSAL.search(_flat(text)) is not None


def has_success_claim(text: str) -> bool:
    """Whether a text says that something was done, without a word of refusal or trouble."""
    flat = _flat(text)
    troubled = _REFUSAL.search(flat) or _TROUBLE.search(flat)
    return troubled is None and _SUCCESS.search(flat) is not None


def is_closing(text: str) -> bool:
    """Whether a text thanks, offers more help, or says goodbye."""
    return _CLOSING.search(_flat(text)) is not None


def is_prohibition(statement: str) -> bool:
    """Whether a statement says that something is refused or not done."""
    return _PROHIBITION.search(_flat(statement)) is not None


def repeated_calls(calls: Sequence[MadeCall]) -> list[MadeCall]:
    """Return the calls that repeat an earlier call with the same arguments."""
    return _repeats((made_call, _call_key(made_call.call)) for made_call in calls)


def repeated_texts(
    texts: Sequence[tuple[int, str]], outages: Sequence[int] = ()
) -> tuple[int, ...]:
    """Return the turns whose text occurred before, word by word.

    What is said again after an outage, the turn of a call, is not repeated: the agent tries again.
    """
    # The number of outages so far is part of the key.
    return tuple(
        _repeats((turn, (bisect_left(outages, turn), _flat(text))) for turn, text in texts)
    )


def repeated_requests(texts: Sequence[tuple[int, str]]) -> tuple[int, ...]:
    """Return the turns that ask for the same information as an earlier turn."""
    pairs = [(turn, question) for turn, text in texts for question in sorted(set(questions(text)))]
    return repeated_texts(
        # Questions that expect a yes or no, and offers of help, do not ask for information.
        [pair for pair in pairs if _REQUEST.search(pair[1]) and not _CLOSING.search(pair[1])]
    )


def false_successes(read: CaseReading) -> tuple[int, ...]:
    """Return the turns that claim success although every call since the agent's last text failed."""
    turns, last_turn = [], -1  # last_turn: of the agent's text before
    for turn, text in read.texts:
        failures = [
            call.has_failed for call in read.tools.all_calls if last_turn <= call.turn < turn
        ]
        if failures and all(failures) and has_success_claim(text):
            turns.append(turn)
        last_turn = turn
    return tuple(turns)


def refusing_turns(read: CaseReading) -> tuple[int, ...]:
    """Return those of the agent's last two texts that refuse or apologise, by turn index."""
    return tuple(turn for turn, text in read.texts[-2:] if is_refusal(text))


def has_overlap(statement: str, read: CaseReading) -> bool:
    """Whether half of a statement's content words occur in what the agent said and called."""
    wanted = content_words(statement)
    words = content_words("\n".join(text for _, text in read.texts))
    for made_call in (*read.tools.called, *read.tools.prevented):
        words |= content_words(
            f"{made_call.call.name.replace('_', ' ')} {canonical_text(made_call.call.arguments)}"
        )
    return bool(wanted) and len(wanted & words) / len(wanted) >= 0.5


def _call_key(call: ToolCall) -> tuple[str, str]:
    return call.name, canonical_text(call.arguments)


def _repeats(keys: Iterable[tuple[T, Hashable]]) -> list[T]:
    """Return the items whose key occurred before."""
    seen: set[Hashable] = set()
    repeats = []
    for item, key in keys:
        if key in seen:
            repeats.append(item)
        seen.add(key)
    return repeats


def _flat(text: str) -> str:
    return " ".join(text.replace("\u2019", "'").casefold().split())


def _has_digit(word: str) -> bool:
    # Nearly all words consist of letters only; `isalpha` rules them out quickly.
    return not word.isalpha() and any(map(str.isdigit, word))


def _normal(token: str) -> str:
    word = token.strip("_").casefold()
    if not _PLAIN_NUMBER.fullmatch(word):
        return word
    short = word.rstrip("0").rstrip(".") if "." in word else word  # 5.00 is 5
    return short.lstrip("0") or "0"  # 007 is 7


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth < 8:  # a bound for hostile nesting
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item, depth + 1)
