"""Quotes in the reasons of judges: recorded reasons, planted quotes, and what looking them up costs.

    python -m benchmarks.quotes

Recorded: the reasons of the four tau2 judge prompts and of LLMBar's explaining evaluators are held
against what these judges read; with the texts of another pair no quote should be held. Planted: sentences
of real turns are quoted as they stand, cut, with small edits, paraphrased, with another number or
negation, or from another conversation.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from assizes.judge.quotes.finding import claimed_quotes
from assizes.judge.quotes.sources import QuoteSources, unsupported_quotes
from benchmarks.figures import DATA, Figures

PROMPTS = (
    *("customer_outcome_v1", "policy_chain_of_thought_v1"),
    *("policy_conversation_v1", "quick_triage_v1"),
)
SENTENCES = 4_000
"""The sentences that are planted, each in every way."""

MARKS = (("\u201c", "\u201d"), ('"', '"'), ("\u00ab", "\u00bb"), ("\u201e", "\u201c"), ("'", "'"))
FILLERS = ("really", "also", "now", "then", "just")
SAME = {
    **{"i": "we", "you": "the customer", "your": "their", "can": "am able to", "please": "kindly"},
    **{"would": "will", "like": "want", "need": "require", "help": "assist", "have": "possess"},
    **{"is": "appears to be", "are": "seem to be", "the": "that", "a": "some", "to": "in order to"},
    **{
        "was": "had been",
        "for": "on behalf of",
        "with": "using",
        "and": "as well as",
        "it": "this",
    },
    **{"flight": "trip", "reservation": "booking", "cancel": "call off", "change": "alter"},
}
"""Other words for frequent ones: a paraphrase replaces all that it can."""


def lines(path: str) -> Iterator[Any]:
    """The JSON values of a file of a data set, one a line."""
    with gzip.open(DATA / path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def texts_in(value: Any, skipped: Sequence[str] = ()) -> Iterator[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in skipped:
                yield from texts_in(item, skipped)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item, skipped)


def recorded(figures: Figures) -> None:
    """The share of recorded reasons that quote what is not there."""
    for prompt in PROMPTS:
        replies = [
            (
                reasons(row["judge_response"]),
                [row["judge_prompt"], row["judge_system_prompt"] or ""],
            )
            for row in lines(f"tau2_airline_llm_judges/{prompt}.jsonl.gz")
        ]
        count(figures, f"tau2 {prompt}", replies)
    pairs = [json.loads(line) for line in (DATA / "llmbar/pairs.jsonl").open(encoding="utf-8")]
    prompts = (DATA / "llmbar/evaluators.json").read_text(encoding="utf-8")
    texts = [[pair["input"], pair["output_1"], pair["output_2"], prompts] for pair in pairs]
    explained: dict[str, list[tuple[list[str], int]]] = {}
    for row in lines("llmbar/replies.jsonl.gz"):
        if row["kind"] == "comparison" and row["evaluator"].endswith(("/CoT", "/Swap")):
            explained.setdefault(row["evaluator"], []).append(([row["reply"]], row["pair"]))
    for evaluator, replies in sorted(explained.items()):
        count(figures, f"llmbar {evaluator}", [(said, texts[at]) for said, at in replies])
    shifted = [
        (said, texts[(at + 7) % len(texts)]) for each in explained.values() for said, at in each
    ]
    quoting, missing = counted(shifted)
    figures.add("llmbar, texts of another pair, caught", missing / quoting, least=0.95)


def reasons(reply: str) -> list[str]:
    """The reasons in a reply of a tau2 judge: its justification, issues and their evidence."""
    whole = re.search(r"\{.*\}", reply, re.DOTALL)
    try:
        return list(texts_in(json.loads(whole[0]), ("verdict",))) if whole else [reply]
    except ValueError:
        return [reply]


def counted(replies: Iterable[tuple[Sequence[str], Sequence[str]]]) -> tuple[int, int]:
    """The replies that quote at all, and those that quote what is not there."""
    quoting = missing = 0
    for said, read in replies:
        quotes = [quote for text in said for quote in claimed_quotes(text)]
        quoting += bool(quotes)
        missing += bool(unsupported_quotes(quotes, [QuoteSources(read)]))
    return quoting, missing


def count(figures: Figures, name: str, replies: Sequence[tuple[list[str], list[str]]]) -> None:
    """Add the counts of one judge to the figures."""
    quoting, missing = counted(replies)
    print(f"{name}: {len(replies)} replies, {quoting} quote, {missing} quote what is not there")
    figures.add(f"{name}, share unsupported", missing / len(replies))


def conversations() -> list[list[str]]:
    """The turns of the real conversations of all sets that hold any."""
    found: list[list[str]] = []
    for path in sorted((DATA / "tau2_airline").glob("*.json.gz")):
        for run in json.loads(gzip.decompress(path.read_bytes()))["simulations"]:
            found += [[text for turn in run["messages"] for text in texts_in(turn.get("content"))]]
    for path in sorted((DATA / "tau_bench_airline").glob("*.gz")):
        body = gzip.decompress(path.read_bytes())
        rows = json.loads(body) if body[:1] == b"[" else map(json.loads, body.splitlines())
        found += [
            [t for turn in row.get("traj", ()) for t in texts_in(turn.get("content"))]
            for row in rows
        ]
    found += [list(texts_in(row)) for row in lines("who_and_when/algorithm_generated.jsonl.gz")]
    found += [list(texts_in(row)) for row in lines("expertqa/answers.jsonl.gz")]
    found += [list(texts_in(row)) for row in lines("xstest/completions.jsonl.gz")]
    for name in ("begin_dev_tc", "begin_dev_wow"):
        with gzip.open(DATA / f"begin/{name}.tsv.gz", "rt", encoding="utf-8") as file:
            found += [list(row) for row in csv.reader(file, delimiter="\t")]
    return [[text for text in turns if text] for turns in found if any(turns)]


def sentences(turns: Sequence[str]) -> list[str]:
    """Sentences of 5 to 40 words without marks of quotation."""
    cut = (part.strip() for text in turns for part in re.split(r"(?<=[.!?])\s+|\n+", text))
    return [
        part
        for part in cut
        if 5 <= len(part.split()) <= 40
        and not re.search("[\"'{}<>=_\\[\u2018-\u201e\u00ab\u00bb`|]", part)
    ]


def as_it_stands(sentence: str, _: random.Random) -> str:
    """The sentence itself."""
    return sentence


def cut_out(sentence: str, rng: random.Random) -> str:
    """At least four words of the sentence."""
    words = sentence.split()
    length = rng.randint(4, len(words))
    start = rng.randint(0, len(words) - length)
    return " ".join(words[start : start + length])


def restyled(sentence: str, _: random.Random) -> str:
    """The sentence in bold capitals."""
    return f"**{sentence.upper().rstrip('.!?')}**".replace(" ", "  ")


def with_ellipsis(sentence: str, _: random.Random) -> str:
    """The first and the last third of the sentence."""
    words = sentence.split()
    third = len(words) // 3
    return f"{' '.join(words[:third])} ... {' '.join(words[-third:])}"


def one_word_added(sentence: str, rng: random.Random) -> str:
    """The sentence with a filler."""
    words = sentence.split()
    words.insert(rng.randint(1, len(words) - 1), rng.choice(FILLERS))
    return " ".join(words)


def one_word_left_out(sentence: str, rng: random.Random) -> str:
    """The sentence without one of its words that is neither a number nor a negation."""
    words = sentence.split()
    # A number or a negation left out is no small edit.
    small = [i for i, word in enumerate(words) if word.isalpha() and not _weighs(word)]
    if small:
        del words[rng.choice(small)]
    return " ".join(words)


def _weighs(word: str) -> bool:
    return word.casefold() in {
        "not",
        "no",
        "never",
        "cannot",
        "none",
        "nor",
        "without",
        "two",
        "three",
    }


def paraphrased(sentence: str, rng: random.Random) -> str:
    """The sentence in other words, its second half first."""
    words = [SAME.get(word.casefold(), word) for word in sentence.split()]
    half = len(words) // 2
    return " ".join((*words[half:], rng.choice(FILLERS), *words[:half]))


def other_number(sentence: str, _: random.Random) -> str:
    """The sentence with another number in it."""
    return re.sub(r"\d", lambda digit: str((int(digit[0]) + 3) % 10), sentence, count=1)


def negated(sentence: str, _: random.Random) -> str:
    """The sentence with its first verb negated."""
    return re.sub(r"\b(is|are|was|can|will|do|have|would)\b(?! not)", r"\1 not", sentence, count=1)


HELD: dict[str, Callable[[str, random.Random], str]] = {
    "as it stands": as_it_stands,
    "cut out": cut_out,
    "restyled": restyled,
    "with an ellipsis": with_ellipsis,
    "a word added": one_word_added,
    "a word left out": one_word_left_out,
}
NOT_HELD: dict[str, Callable[[str, random.Random], str]] = {
    "paraphrased": paraphrased,
    "another number": other_number,
    "negated": negated,
    "of another conversation": as_it_stands,
}


def planted(figures: Figures) -> None:
    """Catch and false-alarm rates of planted quotes."""
    rng = random.Random(7)
    everything = conversations()
    pool = [(at, each) for at, turns in enumerate(everything) for each in sentences(turns)]
    drawn = rng.sample(pool, SENTENCES)
    held = [QuoteSources(turns) for turns in everything]
    figures.add("conversations", len(everything))
    figures.add("sentences planted", len(drawn))
    for name, change in (HELD | NOT_HELD).items():
        counts: Counter[str] = Counter()
        for at, sentence in drawn:
            quote = change(sentence, rng)
            if name in ("another number", "negated", "paraphrased") and quote == sentence:
                continue
            source = held[at]
            if name == "of another conversation":
                source = held[(at + 1 + rng.randrange(len(held) - 1)) % len(held)]
            opening, closing = rng.choice(MARKS)
            quotes = claimed_quotes(
                f"In its answer the agent wrote {opening}{quote}{closing} to the user."
            )
            counts["asked"] += 1
            counts["seen"] += bool(quotes)
            counts["flagged"] += bool(unsupported_quotes(quotes, [source]))
        share = counts["flagged"] / counts["asked"]
        print(f"{name}: {counts['asked']} planted, {counts['seen']} seen as quotes")
        if name in HELD:
            figures.add(f"false alarms, {name}", share, most=0.02)
        else:
            figures.add(f"caught, {name}", share, least=0.9)


def cost(figures: Figures) -> None:
    """CPU milliseconds a case: reasons without marks, with quotes that stand there, and made up."""
    everything = sorted(conversations(), key=lambda turns: -sum(map(len, turns)))[:300]
    figures.add("characters a case", sum(len(t) for turns in everything for t in turns) / 300)
    bare = "The agent kept to the policy and told the user what would happen next. " * 4
    for name, quote in (
        ("no mark", lambda _: bare),
        (
            "quote as it stands",
            lambda turns: f"{bare} It wrote \u201c{(sentences(turns) or ['none'])[0]}\u201d.",
        ),
        (
            "quote made up",
            lambda _: f"{bare} It wrote \u201cthe moon is made of very old cheese\u201d.",
        ),
    ):
        texts = [quote(turns) for turns in everything]
        begun = time.process_time()
        for reason, turns in zip(texts, everything, strict=True):
            source = QuoteSources(turns)
            for _ in range(9):  # metrics
                if quotes := claimed_quotes(reason):
                    unsupported_quotes(quotes, [source])
        figures.add(
            f"ms a case, nine findings, {name}", (time.process_time() - begun) / 300 * 1000, most=20
        )


def main() -> None:
    """Measure and print."""
    figures = Figures()
    recorded(figures)
    planted(figures)
    cost(figures)
    figures.close()


if __name__ == "__main__":
    main()
