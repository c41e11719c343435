"""`make bench-align`: a planted bias of a judge is mended on held-out labels; noise is not written.

Texts and labels are real: completions of XSTest (a refusal is wrong), outputs of LLMBar (the one
that people prefer is right). The judge and the proposer are scripted models that read the real
prompts: the judge repeats the label with some errors and a bias, and gives the bias up where a
guideline in its prompt speaks of it; the proposer names what its wrong cases have in common, and now
and then something useless. With shuffled labels there is nothing to find.

    python -m benchmarks.align [--seeds 20] [--shuffled 100]
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import hashlib
import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from assizes.judge.alignment.gate import HeldOutResult, try_held_out
from assizes.judge.alignment.labelled_cases import LabelledCase, divide
from assizes.judge.alignment.proposer import (
    PROPOSER,
    GuidelinesReply,
    ModelProposer,
    ProposalTask,
)
from assizes.judge.alignment.rejudging import Rejudging, judge_of, rubric_hash, rubric_text
from assizes.judge.alignment.rubric_files import RubricFile
from assizes.judge.alignment.search import Guidance, Search, Variant, choose
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.engine.hearings import Engine
from assizes.judge.families.rag import RatingEvidence
from assizes.judge.formats.readers.agent_evaluation import row_case
from assizes.judge.models.model import FREE, Completion
from assizes.judge.protocol import Ask
from assizes.judge.rubrics.guidance import AlignmentRecord, Guideline
from benchmarks.figures import DATA, Figures

CASES: Final = 160
HELD_OUT: Final = 0.4
FOLDS: Final = 4
NOISE: Final = 0.08
"""Share of the verdicts in which the scripted judge errs without a pattern."""

BIASED: Final = 0.9
"""Share of the cases of the bias on which the biased judge errs."""

USELESS: Final = 0.25
"""Share of the proposals that say nothing of use."""

VARIANTS: Final = (Variant(True, 0), Variant(False, 4), Variant(True, 4))
METRIC: Final = "helpful"
RUBRIC: Final = """kind = "ANSWER"
name = "helpful"
description = "Does the response do what was asked?"
question = "Does the response do what the request asks for?"
"""
REFUSAL: Final = re.compile(
    r"\b(cannot|can't|can not|unable to|not able to|sorry|apologi[sz]e)\b", re.I
)


@dataclass(frozen=True)
class Text:
    """A real answer with its label."""

    key: str
    cluster: str
    request: str
    response: str
    passes: bool


def xstest() -> list[Text]:
    """Completions of three models; full compliance passes."""
    with gzip.open(DATA / "xstest" / "completions.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        Text(
            f"{row['model']}-{row['id']}",
            row["id"],
            row["prompt"],
            row["completion"],
            row["final_label"] == "1_full_compliance",
        )
        for row in rows
        if row["completion"].strip()
    ]


def llmbar() -> list[Text]:
    """Both outputs of each pair; the one that people prefer passes."""
    with (DATA / "llmbar" / "pairs.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        Text(
            f"p{row['pair']}-{n}",
            f"p{row['pair']}",
            row["input"],
            row[f"output_{n}"],
            row["label"] == n,
        )
        for row in rows
        for n in (1, 2)
        if row[f"output_{n}"].strip()
    ]


def draw(*parts: object) -> float:
    """A number 0..1 that follows from these parts."""
    digest = hashlib.sha256("\x00".join(map(str, parts)).encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8]) / 2**64


class ScriptedJudge:
    """The judge: the label with errors, and a bias that a guideline in the prompt takes away."""

    name = "scripted/judge"
    provider = "scripted"
    cache_key = None
    price = FREE

    def __init__(self, seed: int, bias: str, texts: Mapping[str, Text], long: int) -> None:
        self.seed, self.bias, self.texts, self.long = seed, bias, texts, long

    def tokens(self, ask: Ask[Any], cap: int = 1) -> tuple[int, int]:
        """No tokens count here."""
        return 0, 0

    def is_biased_about(self, text: Text) -> bool:
        """Whether the bias concerns an answer."""
        if self.bias == "fails_long":
            return len(text.response) > self.long
        return not text.passes

    def verdict(self, text: Text, system: str) -> bool:
        """The verdict on an answer under a system prompt."""
        right = text.passes != (draw(self.seed, text.key, "noise") < NOISE)
        guidelines = system.partition("Guidelines, which")[2].casefold()
        word = "length" if self.bias == "fails_long" else "refus"
        is_biased = self.is_biased_about(text) and word not in guidelines
        if is_biased and draw(self.seed, text.key, "bias") < BIASED:
            return self.bias == "passes_refusals"
        changed = "people judged" in system.casefold() or "polite" in guidelines
        if changed and draw(self.seed, text.key, hash_of(system)) < 0.05:  # any other prompt
            return not right
        return right

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """Rate the answer of the ask, as its real prompt says."""
        assert isinstance(ask.evidence, RatingEvidence)
        text = self.texts[f"{ask.evidence.request}\x00{ask.evidence.response}"]
        rating = "yes" if self.verdict(text, ask.prompt.system) else "no"
        reply = {"reply_id": ask.reply_id, "rationale": "as scripted", "rating": rating}
        return Completion(json.dumps(reply), self.name, 10, 5, cost_usd=0.0, reply_id=ask.reply_id)

    async def aclose(self) -> None:
        """Nothing is open."""


def hash_of(text: str) -> str:
    """A short digest."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


class ScriptedProposer(ScriptedJudge):
    """The proposer: reads the sections of its prompt, and names what the wrong cases share."""

    name = "scripted/proposer"

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """Propose one guideline."""
        assert ask.reply is GuidelinesReply
        wrong = re.findall(
            r"<data: Wrong case \d+: people say (\w+),[^>]*>\n(.*?)\n</data>", ask.prompt.user, re.S
        )
        long = [len(body) > min(self.long, 1000) for people, body in wrong if people == "pass"]
        refusals = [bool(REFUSAL.search(body)) for people, body in wrong if people == "fail"]
        title, text = "Polite words", "A polite answer is not better for it."
        if draw(self.seed, hash_of(ask.prompt.user)) >= USELESS:
            if len(long) >= len(refusals):
                title, text = "Length", "Do not hold the length of an answer against it."
            else:
                title, text = "Refusals", "An answer that refuses does not do what was asked."
        guideline = {"cases": [1], "title": title, "text": text}
        reply = {"reply_id": ask.reply_id, "guidelines": [guideline]}
        return Completion(json.dumps(reply), self.name, 10, 5, cost_usd=0.0, reply_id=ask.reply_id)


@dataclass(frozen=True)
class Trial:
    """One alignment: what came of it, and which words its guidelines hold."""

    held_out: HeldOutResult | None
    guidelines: str

    @property
    def is_written(self) -> bool:
        """Whether the rubric would be written."""
        return self.held_out is not None and self.held_out.is_better


def history_of(parent: str, proposer: str) -> AlignmentRecord:
    """The table `[alignment]` of a text that is tried."""
    return AlignmentRecord(
        parent=parent,
        version=1,
        metric=METRIC,
        run="bench",
        labels="-",
        proposer=proposer,
        held_out="-",
        held_out_uses=1,
        result="-",
    )


async def trial(seed: int, bias: str, source: list[Text], *, shuffled: bool) -> Trial:
    """Align a biased judge once, over cases drawn by the seed."""
    rng = random.Random(f"{seed} {bias}")
    drawn = rng.sample(source, CASES)
    labels = [text.passes for text in drawn]
    if shuffled:
        rng.shuffle(labels)
    long = sorted(len(text.response) for text in drawn)[CASES // 2]
    texts = {f"{text.request}\x00{text.response}": text for text in drawn}
    model = ScriptedJudge(seed, bias, texts, long)
    proposer = ScriptedProposer(seed, bias, texts, long)
    limits = LimitsConfig(max_in_flight=64)
    engine = Engine(model, limits, models={PROPOSER: proposer})
    rejudging = Rejudging(engine, METRIC, lambda _: None)
    base = RubricFile(METRIC, RUBRIC, None)
    config = JudgeConfig(model="openai/scripted", judges=[METRIC])
    judge = judge_of(config, base, METRIC)
    cases = [
        row_case({"request_id": text.key, "request": text.request, "response": text.response})
        for text in drawn
    ]
    scores = await rejudging.scores(judge, cases)
    items = [
        LabelledCase(
            case, text.response[:1200], text.cluster, label, score.passed, reason="as scripted"
        )
        for case, text, label, score in zip(cases, drawn, labels, scores, strict=True)
    ]
    record = history_of(rubric_hash(judge, METRIC), proposer.name)

    async def propose(task: ProposalTask) -> list[Guideline]:
        return await rejudging.proposal(ModelProposer(proposer.name), task)

    async def rejudge(guidance: Guidance, those: Any) -> list[bool | None]:
        text = base.with_guidance(guidance.guidelines, guidance.examples, record)
        return await rejudging.verdicts(judge_of(config, text, METRIC), those)

    division = divide(items, HELD_OUT, FOLDS, str(seed))
    search = Search(METRIC, rubric_text(judge, METRIC), 5, VARIANTS, propose, rejudge)
    choice = await choose(search, division)
    if choice.guidance.is_empty:
        return Trial(None, "")
    result = try_held_out(division.held_out, await rejudge(choice.guidance, division.held_out), 1)
    return Trial(result, " ".join(item.title for item in choice.guidance.guidelines))


async def main(seeds: int, shuffled: int) -> None:
    """All trials, and the figures that the goals are held against."""
    figures = Figures()
    if not (DATA / "xstest").is_dir() or not (DATA / "llmbar").is_dir():
        figures.missing("fails_long", "passes_refusals", "shuffled")
        figures.close()
        return
    sources = {"fails_long": llmbar(), "passes_refusals": xstest()}
    for bias, source in sources.items():
        word = "Length" if bias == "fails_long" else "Refusals"
        trials = [await trial(seed, bias, source, shuffled=False) for seed in range(seeds)]
        mended = [each for each in trials if each.is_written and word in each.guidelines]
        figures.add(f"{bias}_mended_share", len(mended) / seeds, least=0.9)
        gains = [each.held_out.gain for each in mended if each.held_out]
        figures.add(f"{bias}_gain_points", 100 * fmean(gains) if gains else 0.0)
        noise = [await trial(seed, bias, source, shuffled=True) for seed in range(shuffled)]
        unwritten = sum(not each.is_written for each in noise)
        figures.add(f"{bias}_shuffled_unwritten_share", unwritten / shuffled, least=0.95)
        figures.add(
            f"{bias}_shuffled_tried_share",
            sum(each.held_out is not None for each in noise) / shuffled,
        )
    figures.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="trials for each bias")
    parser.add_argument("--shuffled", type=int, default=100, help="trials with shuffled labels")
    options = parser.parse_args()
    asyncio.run(main(options.seeds, options.shuffled))
