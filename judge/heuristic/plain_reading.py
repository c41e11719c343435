"""What plain reading of a conversation shows: claims heard before or not, questions, wording.

Signs only, no judgement: the offline judge weighs them. The word lists are English and general; no
tool, task or domain is named. Every pattern runs in linear time over text that nobody has vetted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from assizes.judge.case import Case, Turn
from assizes.judge.evidence.tool_calls import MadeCall, ToolEvidence, canonical_text

LONG_WORDS = 120
"""More words than this in one turn are too many to listen to (about 45 s of speech)."""

_CACHED_TEXTS = 64

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_TOKEN = re.compile(r"\d+(?:\.\d+)?(?!\w)|\w+")
_PLAIN_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_COUNTED = re.compile(r"\d{1,4}[a-z]+")
_SENTENCE_END = re.compile(r"([.?!\n])")
_WORD = re.compile(r"[^\W\d_]{3,}")

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
_FORMATTING = re.compile(
    r"^[ \t]{0,3}(?:[-*•][ \t]|\d{1,3}[.)][ \t]|\#{1,6}[ \t]|\|)|\*\*|`|https?://", re.MULTILINE
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
    """Something specific, and whether it had been heard before that turn: in the system prompt, tool
    descriptions, retrieved passages, tool results or user turns. A sum the agent worked out itself
    had not.

    `tool` is null for a claim in the agent's text, else the tool whose argument held it;
    `after_result` is true when a tool had answered since the user last spoke.
    """

    turn: int
    text: str
    is_grounded: bool
    after_result: bool
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class CaseReading:
    """A case as plain reading shows it: the agent's texts and claims beside its tool evidence."""

    case: Case
    tools: ToolEvidence
    texts: tuple[tuple[int, str], ...]
    claims: tuple[Claim, ...]

    def text_claims(self) -> list[Claim]:
        """The claims in what the agent said."""
        return [claim for claim in self.claims if claim.tool is None]

    def invented_claims(self) -> list[Claim]:
        """Identifiers and long numbers given to a tool that nobody had mentioned."""
        return [claim for claim in self.claims if claim.tool is not None and not claim.is_grounded]


def read_case(case: Case, tools: ToolEvidence) -> CaseReading:
    """Read the conversation once, turn by turn, keeping what has been heard so far."""
    return CaseReading(case, tools, tuple(case.transcript.agent_texts()), tuple(_claims(case)))


def particulars(text: str) -> list[str]:
    """The specific claims of a text, in order and each once: identifiers with a digit, amounts of
    money, numbers of three digits or more. Counts such as `2 bags`, `20th` or `24h` are not.
    """
    flat = _THOUSANDS.sub("", text)
    tokens: dict[str, None] = {}
    for match in _TOKEN.finditer(flat):
        if not _has_digit(match.group()):
            continue
        token = _normal(match.group())
        money = flat[max(0, match.start() - 2) : match.start()].strip()[-1:] in tuple("$€£")
        if _is_specific(token) or (money and _PLAIN_NUMBER.fullmatch(token)):
            tokens[token] = None
    return list(tokens)


@lru_cache(maxsize=_CACHED_TEXTS)
def _shared_values(text: str) -> frozenset[str]:
    """Values of a text that many cases share: the agent's instructions, what its tools are for."""
    return frozenset(values(text))


def values(text: str) -> set[str]:
    """Everything in a text that a claim may rest on: words with a digit, their runs of digits, and
    the last four of a run of seven or more, as numbers of cards and accounts are read out.
    """
    tokens: set[str] = set()
    for word in _words_with_digit(text):
        runs = _PLAIN_NUMBER.findall(word)
        tokens |= {_normal(word), *map(_normal, runs)}
        tokens |= {_normal(run[-4:]) for run in runs if len(run) >= 7 and "." not in run}
    return tokens


def questions(text: str) -> list[str]:
    """The sentences that end in a question mark, comparable with one another."""
    parts = _SENTENCE_END.split(text)
    asked = zip(parts[::2], parts[1::2], strict=False)
    return [_flat(words) for words, end in asked if end == "?" and _WORD.search(words)]


def requests(text: str) -> list[str]:
    """The questions that ask for information, not for a yes; offers of more help are not asked."""
    return [
        asked for asked in questions(text) if _REQUEST.search(asked) and not _CLOSING.search(asked)
    ]


def content_words(text: str) -> set[str]:
    """Words of three letters or more that carry meaning, and values with digits."""
    return {word for word in _WORD.findall(_flat(text)) if word not in _COMMON} | {
        _normal(word) for word in _words_with_digit(text)
    }


def is_refusal(text: str) -> bool:
    """True when a text holds words of refusal or apology."""
    return _REFUSAL.search(_flat(text)) is not None


def has_success_claim(text: str) -> bool:
    """True when a text says that something was done, without a word of trouble."""
    flat = _flat(text)
    troubled = _REFUSAL.search(flat) or _TROUBLE.search(flat)
    return troubled is None and _SUCCESS.search(flat) is not None


def is_closing(text: str) -> bool:
    """True when a text thanks, offers more help, or says goodbye."""
    return _CLOSING.search(_flat(text)) is not None


def is_prohibition(statement: str) -> bool:
    """True when a statement says that something is refused or not done."""
    return _PROHIBITION.search(_flat(statement)) is not None


def repeated_calls(calls: Sequence[MadeCall]) -> list[MadeCall]:
    """Calls made before with the same arguments."""
    seen: set[tuple[str, str]] = set()
    repeats = []
    for made_call in calls:
        key = (made_call.call.name, canonical_text(made_call.call.arguments))
        repeats += [made_call] if key in seen else []
        seen.add(key)
    return repeats


def unexpected_writes(tools: ToolEvidence) -> list[MadeCall]:
    """State-changing calls beyond the expected; none where their names were only guessed."""
    if not tools.writes_known:
        return []
    writes = {id(made_call) for made_call in tools.done_writes}
    return [made_call for made_call in tools.unexpected if id(made_call) in writes]


def repeated_texts(texts: Sequence[tuple[int, str]]) -> tuple[int, ...]:
    """Turns whose text occurred before, word by word."""
    seen: set[str] = set()
    repeats = []
    for turn, text in texts:
        flat = _flat(text)
        repeats += [turn] if flat in seen else []
        seen.add(flat)
    return tuple(repeats)


def repeated_requests(texts: Sequence[tuple[int, str]]) -> tuple[int, ...]:
    """Turns that put a request for information a second time."""
    return repeated_texts(
        [(turn, asked) for turn, text in texts for asked in sorted(set(requests(text)))]
    )


def false_successes(read: CaseReading) -> tuple[int, ...]:
    """Turns that claim success although every call since the agent spoke before them failed."""
    made = [*read.tools.called, *read.tools.failed]
    false, since = [], -1
    for turn, text in read.texts:
        failed = [made_call.has_failed for made_call in made if since <= made_call.turn < turn]
        if failed and all(failed) and has_success_claim(text):
            false.append(turn)
        since = turn
    return tuple(false)


def is_formatted(text: str) -> bool:
    """True for what cannot be spoken: lists, headings, bold, code, tables, links."""
    return _FORMATTING.search(text) is not None


def is_long(text: str) -> bool:
    """True for a turn of more than 120 words."""
    return len(text.split()) > LONG_WORDS


def _flat(text: str) -> str:
    return " ".join(text.replace("\u2019", "'").casefold().split())


def _words_with_digit(text: str) -> Iterator[str]:
    """Each once, in no order."""
    return filter(_has_digit, set(_TOKEN.findall(_THOUSANDS.sub("", text))))


def _has_digit(word: str) -> bool:
    # Nearly all words are letters only, and are told from the others at once.
    return not word.isalpha() and any(map(str.isdigit, word))


def _normal(token: str) -> str:
    word = token.strip("_").casefold()
    if not _PLAIN_NUMBER.fullmatch(word):
        return word
    short = word.rstrip("0").rstrip(".") if "." in word else word
    return short.lstrip("0") or "0"


def _is_specific(token: str) -> bool:
    return len(token) >= 3 and not _COUNTED.fullmatch(token)


def _claims(case: Case) -> Iterator[Claim]:
    known_values = _background(case)
    after_result = False
    for index, turn in enumerate(case.transcript.turns):
        if turn.role == "assistant":
            yield from _claims_of(index, turn, known_values, after_result=after_result)
            continue
        after_result = turn.role == "tool" or (after_result and not turn.text)
        known_values |= values(turn.text or "")
        if turn.tool_result is not None:
            known_values |= values(turn.tool_result.content)


def _background(case: Case) -> set[str]:
    transcript = case.transcript
    known = set(_shared_values(transcript.system or ""))
    for tool in transcript.tools:
        known |= _shared_values(tool.description)
    for chunk in transcript.chunks or ():
        known |= values(chunk.content)
    return known


def _claims_of(
    index: int, turn: Turn, known_values: set[str], *, after_result: bool
) -> Iterator[Claim]:
    for token in particulars(turn.text or ""):
        yield Claim(index, token, token in known_values, after_result)
    for call in turn.tool_calls:
        for text in _strings(call.arguments):
            for token in particulars(text):
                yield Claim(index, token, token in known_values, after_result, call.name)


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth < 8:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item, depth + 1)
