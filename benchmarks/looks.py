"""Looks: what the judge `run_criteria` reads of long runs, beside reading them whole.

    python -m benchmarks.looks

Runs of 10, 50 and 130 steps are made of the steps of Who&When (several agents, web pages, code).
In each, sentences are planted that settle its criteria, between two sentences of a turn, in other
words than the criterion has. One criterion needs two sentences: the first names an order, the
second says what came of it. Ten more sentences are about the same places and things, and settle
nothing. Half of the criteria hold. The model is a script: it knows the
criteria and the prompts, not the places. It searches for the words of each criterion, reads the
turns that it is shown, follows an order's code, and answers by a rule over the texts that it saw.
The same rule over the whole run says what reading it whole gives. Neither says anything about a
model.
"""

from __future__ import annotations

import json
import random
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from assizes.judge.case import Case, Expected, Transcript, Turn
from assizes.judge.config.judging import estimated_tokens
from assizes.judge.families.run_criteria.judge import RunCriteriaJudge, RunCriteriaOptions
from assizes.judge.families.run_criteria.looks import CriteriaLook
from assizes.judge.hearing import Hearing
from assizes.judge.models.model import ScriptedModel
from assizes.judge.prompts.prompt_texts import rendered_transcript
from assizes.judge.protocol import Ask
from assizes.judge.statistics.intervals import wilson, z_of
from benchmarks.diagnosis import LENGTHS, read_cases
from benchmarks.figures import Figures

RUNS = 60
"""Runs of each length."""
CODE = re.compile(r"\b[A-Z]{2}-\d{4}\b")
CUSTOMERS = ("Adela", "Bruno", "Carla", "Dmitri", "Esther", "Fatima", "Gustav", "Henrik")

CITIES = ("Lisbon", "Oslo", "Turin", "Ghent", "Malmo", "Porto", "Graz", "Lyon")
ITEMS = ("invoice", "ticket", "parcel", "booking", "refund", "subscription", "warranty", "licence")
NUMBERS = ("four", "seven", "nine", "twelve", "fifteen", "twenty", "thirty", "forty")

TEMPLATES = (
    (
        "The customer is informed that the {item} for {city} takes {number} working days.",
        "I have told them: expect {number} working days until the {item} to {city} is done.",
    ),
    (
        "The {item} of the {city} office was cancelled because {number} signatures were missing.",
        "Status: cancelled. Cause: {number} missing signatures on the {item} ({city} office).",
    ),
    (
        "The agent checks the {item} in the {city} archive before it reports {number} errors.",
        "Archive {city}, {item} checked; the report lists {number} errors.",
    ),
    (
        "The {item} sent to {city} weighs {number} kilograms.",
        "Weighing log {city}: {item}, {number} kilograms, sent.",
    ),
)
"""A criterion, and the sentence of the run that settles it: other words in another order."""


CHAIN = (
    "Of the order of customer {customer}, {number} pieces were delivered.",
    "Customer {customer} placed the order {code}.",
    "Warehouse slip {code}: {number} units went out.",
)
"""A criterion, and the two sentences that settle it together."""

DECOYS = (
    "Note on {city}: the {other} came {number} days late.",
    "The {item} to {elsewhere}: {number} copies were printed.",
)


@dataclass(frozen=True)
class Needle:
    """A criterion, the sentences planted for it, and whether it holds."""

    criterion: str
    sentences: tuple[str, ...]
    cores: tuple[
        str, ...
    ]  # of each sentence, the part that decides: from its first name to the last
    holds: bool


def main() -> None:
    """Measure, print, and end with one line of JSON."""
    figures = Figures()
    sources = [case.transcript.turns for case in read_cases()]
    longest = statistics.median(
        _tokens(rendered_transcript(_run(sources, LENGTHS[-1], seed)[0].transcript))
        for seed in range(RUNS)
    )
    figures.add("tokens whole, longest, median", longest)
    for steps in LENGTHS:
        _measure(figures, sources, steps, longest)
    _bound(figures, sources)
    figures.close()


def _run(sources: Sequence[Sequence[Turn]], steps: int, seed: int) -> tuple[Case, list[Needle]]:
    """A run of so many steps with its needles, the same for the same seed."""
    draw = random.Random(f"{steps} {seed}")
    turns = list(draw.choice(sources))
    while len(turns) < steps:
        turns += draw.choice(sources)[1:]
    turns = turns[:steps]
    needles, decoys = _needles(draw)
    planted = [sentence for needle in needles for sentence in needle.sentences]
    places = draw.sample(range(1, steps), len(planted))
    for place, sentence in zip(places, planted, strict=True):
        turns[place] = _planted(turns[place], sentence, draw)
    free = [place for place in range(1, steps) if place not in places]
    for sentence in decoys:
        place = draw.choice(free)
        turns[place] = _planted(turns[place], sentence, draw)
    case = Case(
        case_id=f"{steps}-{seed}",
        transcript=Transcript(turns=tuple(turns)),
        expected=Expected(acceptance_criteria=tuple(needle.criterion for needle in needles)),
    )
    return case, needles


def _needles(draw: random.Random) -> tuple[list[Needle], list[str]]:
    """The needles of a run, and the sentences that settle nothing."""
    cities, items = draw.sample(CITIES, len(CITIES)), draw.sample(ITEMS, len(ITEMS))
    needles, decoys = list[Needle](), list[str]()
    for index, (criterion, sentence) in enumerate(TEMPLATES):
        names = {"city": cities[index], "item": items[index]}
        others = {"elsewhere": cities[index + 4], "other": items[index + 4]}
        right, said, holds = _numbers(draw)
        facts = {**names, "number": said}
        planted, core = sentence.format(**facts), _core(sentence, facts)
        due = criterion.format(**names, number=right)
        needles.append(Needle(due, (planted,), (core,), holds))
        decoys += [decoy.format(**names, **others, number=draw.choice(NUMBERS)) for decoy in DECOYS]
    right, said, holds = _numbers(draw)
    customer, other = draw.sample(CUSTOMERS, 2)
    code, foreign = (f"{letters}-{draw.randrange(1000, 10_000)}" for letters in ("QX", "QZ"))
    criterion, first, second = CHAIN
    facts = {"customer": customer, "code": code, "number": said}
    planted_two = (first.format(**facts), second.format(**facts))
    cores = (_core(first, facts), _core(second, facts))
    due = criterion.format(customer=customer, number=right)
    needles.append(Needle(due, planted_two, cores, holds))
    decoys.append(first.format(customer=other, code=foreign))
    decoys.append(second.format(code=foreign, number=draw.choice(NUMBERS)))
    return needles, decoys


def _core(template: str, facts: Mapping[str, str]) -> str:
    """The part of a sentence from the first to the last of the facts that stand in it."""
    text = template.format(**facts)
    places = [(text.index(f), text.index(f) + len(f)) for f in facts.values() if f in text]
    return text[min(start for start, _ in places) : max(end for _, end in places)]


def _numbers(draw: random.Random) -> tuple[str, str, bool]:
    """The number of a criterion, the number in the run, and whether they are the same."""
    right, wrong = draw.sample(NUMBERS, 2)
    holds = draw.random() < 0.5
    return right, right if holds else wrong, holds


def _planted(turn: Turn, sentence: str, draw: random.Random) -> Turn:
    """The turn with a sentence between two of its sentences."""
    parts = re.split(r"(?<=[.\n])", turn.text or "")
    place = draw.randrange(len(parts) + 1)
    text = "".join([*parts[:place], f" {sentence} ", *parts[place:]])
    return turn.model_copy(update={"text": text})


def _measure(
    figures: Figures, sources: Sequence[Sequence[Turn]], steps: int, longest: float
) -> None:
    spent, whole, shown, right, right_whole, looks = [], [], 0, 0, 0, []
    unfounded = due_reads = in_full = count = 0
    for seed in range(RUNS):
        case, needles = _run(sources, steps, seed)
        hearing = Hearing(RunCriteriaJudge(), case)
        tokens, prompts = 0, list[str]()
        while hearing.asks:
            (ask,) = hearing.asks
            assert isinstance(ask, Ask)
            tokens += ScriptedModel([]).tokens(ask)[0]
            prompts.append(ask.prompt.user)
            hearing.answer([ask.reply.model_validate_json(json.dumps(_reply(ask)))])
        spent.append(tokens)
        looks.append(len(prompts))
        text = rendered_transcript(case.transcript)
        whole.append(_tokens(text))
        read = " ".join(" ".join(prompts).split())
        parts = {score.part: score for score in hearing.scores if score.part}
        for index, needle in enumerate(needles):
            count += 1
            shown += sum(core in read for core in needle.cores)
            in_full += sum(sentence in read for sentence in needle.sentences)
            due_reads += len(needle.sentences)
            score = parts[f"criterion:{index}"]
            due = "yes" if needle.holds else "no"
            right += score.status == "scored" and score.details["holds"] == due
            unfounded += score.details.get("unfounded_quotes", 0)
            verdict, _ = _verdict(needle.criterion, text)
            right_whole += verdict == due
    name = f"{steps} steps"
    figures.add(f"{name}: tokens, median", statistics.median(spent))
    figures.add(f"{name}: tokens whole, median", statistics.median(whole))
    figures.add(f"{name}: most tokens / longest whole", max(spent) / longest, most=0.25)
    figures.add(f"{name}: looks, mean", statistics.mean(looks))
    figures.add(f"{name}: needles read", shown / due_reads, least=0.95)
    figures.add(f"{name}: whole sentences read", in_full / due_reads)
    figures.add(f"{name}: accuracy, looks", right / count)
    figures.add(f"{name}: accuracy, whole", right_whole / count)
    figures.add(f"{name}: quotes that stand nowhere", unfounded, most=0)
    interval = wilson(shown / due_reads, due_reads, z_of(0.95))
    print(f"    {shown} of {due_reads} needles read, 95 % {interval.low:.3f}..{interval.high:.3f}")


def _tokens(text: str) -> int:
    """The tokens of one prompt that shows a text whole, in the estimate of the product."""
    return estimated_tokens(text)


# The scripted model: it sees a prompt and nothing else.


def _section(user: str, heading: str) -> str:
    match = re.search(rf"<data: {heading}[^>]*>\n(.*?)\n</data>", user, re.DOTALL)
    return match.group(1) if match else ""


def _reply(ask: Ask[Any]) -> dict[str, Any]:
    """Search for the words of each open criterion, read what was cut, then answer."""
    user = ask.prompt.user
    lines = re.findall(r"^(\d+)\. (.*)$", _section(user, "Criteria"), re.MULTILINE)
    criteria = {int(number): text for number, text in lines if "(settled: " not in text}
    excerpts = _section(user, "What you asked for")
    # The lines that name a search repeat the words of its criterion: they are no evidence.
    read = re.sub(r'^search ".*$', "[-]", excerpts, flags=re.MULTILINE)
    visible = f"{_section(user, 'Run')}\n{read}"
    findings, left = [], list[int]()
    is_last = not issubclass(ask.reply, CriteriaLook)
    for number, criterion in criteria.items():
        verdict, quote = _verdict(criterion, visible)
        if verdict == "not_shown" and not is_last:
            left.append(number)
            continue
        reason = f"read: {quote}" if quote else "nothing was found"
        quotes = [quote] if quote else []
        finding = {"criterion": number, "reason": reason, "quotes": quotes, "holds": verdict}
        findings.append(finding)
    reply: dict[str, Any] = {"reasoning": "Some are settled.", "findings": findings}
    if is_last:
        return reply
    spans = list[dict[str, int]]()
    if excerpts:  # searched already: the turns of the excerpts, in full
        turns = list(dict.fromkeys(int(n) for n in re.findall(r"^\[(\d+)\]", excerpts, re.M)))
        spans = [{"first": turn, "last": turn} for turn in turns[:6]] if left else []
    searches = [_order(criteria[number], visible) or _words(criteria[number]) for number in left]
    more = {"search": searches[:6], "read": spans, "tools": [], "agents": [], "probes": []}
    return {**reply, **more}


def _words(criterion: str) -> str:
    """The words of a criterion that a reader would search for: the long ones and the names."""
    words = re.findall(r"\w+", criterion)
    return " ".join(word for word in words if len(word) > 4 or word[0].isupper())


def _verdict(criterion: str, text: str) -> tuple[str, str]:
    """What a careful reader says of a criterion by a text, and the sentence that he quotes.

    A sentence settles a criterion if it holds most of its words, its number or another one.
    """
    wanted = _stems(criterion)
    number = wanted.intersection(_stems(" ".join(NUMBERS)))
    anchor = next(each for each in (*CITIES, *CUSTOMERS) if each in criterion)
    least = 0.5
    if anchor in CUSTOMERS:
        code = _order(criterion, text)
        if code is None:
            return "not_shown", ""
        anchor, wanted, least = code, {"units", *number}, 1.0
    best, sentence = 0.0, ""
    for piece in _pieces(text, anchor):
        stems = _stems(piece)
        share = len((wanted - number) & stems) / len(wanted - number)
        if share > best and stems.intersection(_stems(" ".join(NUMBERS))):
            best, sentence = share, piece
    if best < least:
        return "not_shown", ""
    return ("yes" if number <= _stems(sentence) else "no"), sentence


def _order(criterion: str, text: str) -> str | None:
    """The code of the order that a criterion asks about, where the text names it."""
    customer = next((each for each in CUSTOMERS if each in criterion), None)
    if customer is None:
        return None
    match = re.search(rf"{customer} placed the order ({CODE.pattern})", " ".join(text.split()))
    return match.group(1) if match else None


def _pieces(text: str, anchor: str) -> list[str]:
    """Windows around a name, each of one turn and without a gap."""
    turns = re.split(r"^\[[-\d]+\]", text, flags=re.MULTILINE)
    texts = chain.from_iterable(re.split(r"\s\.\.\.(?:\s|$)", turn) for turn in turns)
    flat = (" ".join(each.split()) for each in texts if anchor in each)
    return [
        piece
        for each in flat
        for match in re.finditer(anchor, each)
        for piece in _around(each, match.start())
    ]


def _around(flat: str, place: int) -> list[str]:
    return [
        flat[max(0, place - left) : place + right].strip()
        for left in range(0, 105, 15)
        for right in (30, 60, 90)
    ]


def _stems(text: str) -> set[str]:
    return {word[:6] for word in re.findall(r"\w+", text.casefold()) if len(word) > 3}


def _bound(figures: Figures, sources: Sequence[Sequence[Turn]]) -> None:
    """The most that any model can make the judge spend: it asks for all it may, and settles none."""
    most = 0
    for seed in range(20):
        case, _ = _run(sources, LENGTHS[-1], seed)
        hearing = Hearing(RunCriteriaJudge(), case)
        tokens = 0
        while hearing.asks:
            (ask,) = hearing.asks
            assert isinstance(ask, Ask)
            tokens += ScriptedModel([]).tokens(ask)[0]
            greedy: dict[str, Any] = {"reasoning": "x" * 5000, "findings": []}
            if issubclass(ask.reply, CriteriaLook):
                spans = [{"first": start, "last": start + 40} for start in range(0, 240, 40)]
                greedy |= {"search": ["the"] * 6, "read": spans, "probes": []}
                greedy |= {"tools": ["x"] * 3, "agents": ["y"] * 3}
            hearing.answer([ask.reply.model_validate_json(json.dumps(greedy))])
        most = max(most, tokens)
    figures.add("greedy model: most tokens", most, most=RunCriteriaOptions().max_tokens * 1.1)


if __name__ == "__main__":
    main()
