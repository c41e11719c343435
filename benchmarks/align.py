"""`make bench-align`: a planted bias of a judge is mended on held-out labels; noise is not written.

Texts and labels are real: completions of XSTest (a refusal is wrong), outputs of LLMBar (the one
that people prefer is right), requirements of DevAI (those that are met). The judge and the proposer
are scripted models that read the real prompts. The judge says what a recorded judge said of that
text, or repeats the label with some errors; on top of it has a bias, and gives the bias up where a
guideline in its prompt speaks of it. The proposer names what its wrong cases have in common, and now
and then something useless. With shuffled labels there is nothing to find.

A judge whose bias is found is not always shown to be mended: a verdict needs enough labels. The share
of trials that tried the right guideline on held-out labels (`tried_right`) is therefore given beside
the share that was written (`mended`). The judge of DevAI is aligned with 160 labels and with 480.

    python -m benchmarks.align [--seeds 20] [--shuffled 100] [--first 0] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import multiprocessing
import random
import re
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, Final, NamedTuple

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
from benchmarks.align_texts import Text, are_there, texts_of
from benchmarks.figures import Figures

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
REASON: Final = "\n\nReason of the judge:"
RUBRIC: Final = """kind = "ANSWER"
name = "helpful"
description = "Does the response do what was asked?"
question = "Does the response do what the request asks for?"
"""
REFUSAL: Final = re.compile(
    r"\b(cannot|can't|can not|unable to|not able to|sorry|apologi[sz]e)\b", re.I
)


class Setting(NamedTuple):
    """A judge with a planted bias, over one set of texts."""

    name: str
    source: str
    bias: str
    is_recorded: bool  # the judge without the bias is a recorded one, else the label with noise
    cases: int = 160  # labels
    least: float | None = 0.9  # of the seeds, mended


SETTINGS: Final = (
    Setting("fails_long", "llmbar GPT-4/Vanilla", "fails_long", is_recorded=False),
    Setting("passes_refusals", "xstest", "passes_refusals", is_recorded=False),
    Setting("llmbar_gpt4", "llmbar GPT-4/Vanilla", "fails_long", is_recorded=True),
    Setting("xstest_gpt4", "xstest", "passes_refusals", is_recorded=True),
    # 55 tasks are all that there are, so about 22 clusters are held out. With 160 labels that is three
    # labels each, too few for a goal; with 480 it is nine.
    Setting("devai_agent", "devai", "fails_long", is_recorded=True, cases=480),
    Setting("devai_agent_160", "devai", "fails_long", is_recorded=True, least=None),
    # One recorded verdict in five is wrong here: what is left to mend is near what labels can show.
    Setting("llmbar_chatgpt", "llmbar ChatGPT/Vanilla", "fails_long", is_recorded=True, least=None),
)


def draw(*parts: object) -> float:
    """A number 0..1 that follows from these parts."""
    digest = hashlib.sha256("\x00".join(map(str, parts)).encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8]) / 2**64


class ScriptedJudge:
    """The judge: recorded verdicts, or the label with errors, and a bias that a guideline takes away."""

    name = "scripted/judge"
    provider = "scripted"
    cache_key = None
    price = FREE

    def __init__(self, seed: int, setting: Setting, texts: Mapping[str, Text], long: int) -> None:
        self.seed, self.bias, self.texts, self.long = seed, setting.bias, texts, long
        self.is_recorded = setting.is_recorded

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
        own = text.passes != (draw(self.seed, text.key, "noise") < NOISE)
        own = text.recorded if self.is_recorded else own
        guidelines = system.partition("Guidelines, which")[2].casefold()
        word = "length" if self.bias == "fails_long" else "refus"
        is_biased = self.is_biased_about(text) and word not in guidelines
        if is_biased and draw(self.seed, text.key, "bias") < BIASED:
            return self.bias == "passes_refusals"
        changed = "people judged" in system.casefold() or "polite" in guidelines
        if changed and draw(self.seed, text.key, hash_of(system)) < 0.05:  # any other prompt
            return not own
        return own

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
        bodies = [(people, body.partition(REASON)[0]) for people, body in wrong]
        long = sum(people == "pass" and len(body) > min(self.long, 1000) for people, body in bodies)
        refusals = sum(people == "fail" and bool(REFUSAL.search(body)) for people, body in bodies)
        title, text = "Polite words", "A polite answer is not better for it."
        if draw(self.seed, hash_of(ask.prompt.user)) >= USELESS:
            if long >= refusals:
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


async def trial(seed: int, setting: Setting, *, shuffled: bool) -> Trial:
    """Align a biased judge once, over cases drawn by the seed."""
    rng = random.Random(f"{seed} {setting.bias}")
    drawn = rng.sample(texts_of(setting.source), setting.cases)
    labels = [text.passes for text in drawn]
    if shuffled:
        rng.shuffle(labels)
    long = sorted(len(text.response) for text in drawn)[setting.cases // 2]
    texts = {f"{text.request}\x00{text.response}": text for text in drawn}
    model = ScriptedJudge(seed, setting, texts, long)
    proposer = ScriptedProposer(seed, setting, texts, long)
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


def trial_of(setting: Setting, shuffled: bool, seed: int) -> Trial:
    """One trial, in a process of its own."""
    return asyncio.run(trial(seed, setting, shuffled=shuffled))


def measure(figures: Figures, setting: Setting, trials: list[Trial], noise: list[Trial]) -> None:
    """The figures of one judge; `noise` are the trials with shuffled labels."""
    word = "Length" if setting.bias == "fails_long" else "Refusals"
    right = [each for each in trials if each.held_out and word in each.guidelines]
    figures.add(f"{setting.name}_tried_right_share", len(right) / len(trials))
    mended = [each for each in right if each.is_written]
    figures.add(f"{setting.name}_mended_share", len(mended) / len(trials), least=setting.least)
    # Of all of them: the mean over those that were written is too high where few were.
    gains = [each.held_out.gain for each in right if each.held_out]
    figures.add(f"{setting.name}_gain_points", 100 * fmean(gains) if gains else 0.0)
    unwritten = sum(not each.is_written for each in noise)
    figures.add(f"{setting.name}_shuffled_unwritten_share", unwritten / len(noise), least=0.95)
    tried = sum(each.held_out is not None for each in noise)
    figures.add(f"{setting.name}_shuffled_tried_share", tried / len(noise))


def main(seeds: int, shuffled: int, first: int, only: list[str] | None) -> None:
    """All trials, and the figures that the goals are held against."""
    figures = Figures()
    settings = [each for each in SETTINGS if only is None or each.name in only]
    if not are_there():
        figures.missing(*(setting.name for setting in settings))
        figures.close()
        return
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        for setting in settings:
            planted, noise = (
                list(pool.map(partial(trial_of, setting, which), range(first, first + times)))
                for which, times in ((False, seeds), (True, shuffled))
            )
            measure(figures, setting, planted, noise)
    figures.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="trials for each bias")
    parser.add_argument("--shuffled", type=int, default=100, help="trials with shuffled labels")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    names = [setting.name for setting in SETTINGS]
    parser.add_argument("--only", nargs="+", choices=names, help="only these judges; else all")
    options = parser.parse_args()
    main(options.seeds, options.shuffled, options.first, options.only)
