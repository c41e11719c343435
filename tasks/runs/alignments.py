"""What an alignment reads of a stored run: labelled cases, costs, anchors, and earlier tries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import polars as pl

from assizes.judge.alignment.labelled_cases import LabelledCase
from assizes.judge.calibration.labelled import ItemKey, PeopleGrades, pass_mark
from assizes.judge.case import Case
from assizes.judge.config.gates import STORE_LABELS, CalibrationConfig
from assizes.judge.config.judging import Price
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError, DataError, Inconclusive
from assizes.judge.labels.current import settled_labels
from assizes.judge.prompts.prompt_texts import rendered_transcript
from assizes.judge.rows import as_json
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runs.anchor_runs import nearest_anchor_run
from assizes.tasks.runs.calibrations import labels_of, rated_items_of_run
from assizes.tasks.runs.item_facts import item_facts
from assizes.tasks.runs.labels.label_scales import known_levels
from assizes.tasks.runs.labels.people_labels import labels_of_run
from assizes.tasks.runs.stored_cases import run_config, sent_and_shown_cases
from assizes.tasks.store import RunRecord, Store

MAX_ANCHORS: Final = 100
"""The most anchors that are judged by a new rubric."""

TRIED: Final = "alignment"
"""The kind of the rows of table annotations that say which text was tried on held-out labels."""

_EXCERPT_CHARS: Final = 1_200
"""Characters of a conversation that a proposer and a rubric may show, at most."""

_CUT: Final = "\n[...]\n"
_KEY: Final = ("case_id", "repetition")


class LabelledMetric(NamedTuple):
    """The labelled cases of a metric in a run."""

    judge: str  # name of the judge
    items: list[LabelledCase]
    labels_hash: str
    labelled_until: str  # day; empty: unknown
    unread: int  # labelled cases whose transcript is gone or has changed


def labelled_metric(
    store: Store, record: RunRecord, metric: str, config: CalibrationConfig
) -> LabelledMetric:
    """The labelled cases of a metric, with the judge's verdicts and reasons, read again.

    Raises:
        ConfigurationError: the labels cannot be read, or none is about the metric.
        Inconclusive: not one labelled case can be read again.
    """
    source = labels_of(config, store, record)
    if metric not in source.labels:
        raise ConfigurationError.unknown("metric", metric, source.labels, f"labels {source.where}")
    labels = source.labels[metric]
    grades, rated = rated_items_of_run(store, record, metric, labels, config)
    mark = _mark(labels, known_levels(store, record.run_id, metric, config), config)
    if mark is None:
        raise ConfigurationError(
            f"labels of {metric!r} neither pass nor fail; set [calibration] pass_from"
        )
    facts = item_facts(store, record.run_id, grades.judge, metric, rated)
    chances, until = _chances(store, record.run_id, metric, config)
    cases = _cases(store, record, [(item.case_id, item.repetition or 0) for item in rated])
    items, unread = [], 0
    for item in rated:
        key = (item.case_id, item.repetition or 0)
        people = item.settled_grade(ordered=config.scale == "ordinal")
        # If some labels have a chance, only these count, as in corrected numbers.
        if people is None or item.missing or (chances and key not in chances):
            continue
        pair = cases.get(key)
        if pair is None:
            unread += 1
            continue
        fact = facts.get((item.case_id, item.repetition))
        items.append(
            LabelledCase(
                case=pair[0],
                excerpt=excerpt(pair[1]),
                cluster=item.cluster,
                people=people >= mark,
                judge=None if item.judged is None else item.judged >= mark,
                weight=1 / chances[key] if chances else 1.0,
                reason=fact.reason if fact else "",
                note="; ".join(item.notes.values()),
            )
        )
    if not items:
        raise Inconclusive(f"not one labelled case of run {record.run_id} can be read again")
    return LabelledMetric(grades.judge, items, source.digest, until, unread)


def excerpt(case: Case) -> str:
    """The beginning and the end of a conversation, at most 1,200 characters."""
    text = rendered_transcript(case.transcript)
    if len(text) <= _EXCERPT_CHARS:
        return text
    half = (_EXCERPT_CHARS - len(_CUT)) // 2
    return f"{text[:half]}{_CUT}{text[-half:]}"


def _chances(
    store: Store, run_id: str, metric: str, config: CalibrationConfig
) -> tuple[dict[tuple[str, int], float], str]:
    """The chance with which each case was drawn to be labelled, and the day of the last label."""
    if config.labels != STORE_LABELS:
        return {}, ""
    of_metric = (pl.col("run_id") == run_id) & (pl.col("metric") == metric)
    until = labels_of_run(store, run_id).filter(of_metric)["at"].max()
    labels, queues = (store.people.rows(name).filter(of_metric) for name in ("labels", "queues"))
    settled = settled_labels(labels, queues)
    drawn = settled.filter((pl.col("probability") > 0) & (pl.col("probability") <= 1))
    pairs = drawn.select(*_KEY, "probability").rows()
    day = until.date().isoformat() if isinstance(until, datetime) else ""
    return {(case_id, repetition): chance for case_id, repetition, chance in pairs}, day


def _cases(
    store: Store, record: RunRecord, keys: Sequence[tuple[str, int]]
) -> dict[tuple[str, int], tuple[Case, Case]]:
    """The cases as judges were sent them and as people see them; those that are gone are missing."""
    ids = pl.lit(pl.Series([case_id for case_id, _ in keys], dtype=pl.String).implode())
    rows = collect_rows(store.scan(record.run_id, "cases").filter(pl.col("case_id").is_in(ids)))
    wanted = set(keys)
    chosen = [
        row
        for row in rows.sort(*_KEY).iter_rows(named=True)
        if (row["case_id"], row["repetition"]) in wanted
    ]
    pairs = sent_and_shown_cases(record, chosen)
    return {
        (row["case_id"], row["repetition"]): pair
        for row, pair in zip(chosen, pairs, strict=True)
        if not isinstance(pair, DataError)
    }


def usd_per_case(
    store: Store, run_id: str, judge: str, prices: Mapping[str, Price | None], added_tokens: int
) -> float | None:
    """What judging a case again costs, by the tokens of the run's asks and so many tokens more.

    `None` where tokens or prices are not known.
    """
    asks = store.scan(run_id, "asks").filter(pl.col("judge") == judge)
    columns = (*_KEY, "model", "input_tokens", "output_tokens")
    rows = collect_rows(asks.select(*columns))
    cases = rows.select(*_KEY).n_unique()
    total = 0.0
    for row in rows.iter_rows(named=True):
        price = prices.get(row["model"])
        if price is None or row["input_tokens"] is None or row["output_tokens"] is None:
            return None
        total += price.cost_usd(row["input_tokens"] + added_tokens, row["output_tokens"])
    return total / cases if cases else None


class Anchors(NamedTuple):
    """Anchors that the judge judged as it is; the lists are in the same order."""

    run_id: str
    cases: list[Case]
    values: list[float]  # 0..1
    people: list[bool | None]  # whether the label passes; None: there is none
    passed: list[bool | None]  # the judge's verdict, where there is a label


def judged_anchors(
    store: Store, record: RunRecord, judge: str, metric: str, config: RunConfig
) -> Anchors | None:
    """The anchors of the nearest anchor run of this judge, with their labels; `None` without one.

    Raises:
        ConfigurationError: `[anchors] labels` cannot be read.
    """
    nearest = nearest_anchor_run(store, record)
    if nearest is None:
        return None
    run = store.run(nearest.run_id)  # with its plan, without which no case can be read again
    is_of_metric = (
        (pl.col("judge") == judge) & (pl.col("metric") == metric) & (pl.col("part") == "")
    )
    scores = store.scan(run.run_id, "scores").filter(is_of_metric).drop_nulls("value")
    rows = collect_rows(scores.select(*_KEY, "value").sort(*_KEY)).head(MAX_ANCHORS).rows()
    values = {(case_id, repetition): value for case_id, repetition, value in rows}
    cases = _cases(store, run, list(values))
    labels = _anchor_labels(store, run, metric, config)
    pairs = [labels.get(key, (None, None)) for key in cases]
    return Anchors(
        run.run_id,
        [cases[key][0] for key in cases],
        [values[key] for key in cases],
        [people for people, _ in pairs],
        [passed for _, passed in pairs],
    )


def _anchor_labels(
    store: Store, run: RunRecord, metric: str, config: RunConfig
) -> dict[tuple[str, int], tuple[bool, bool | None]]:
    """Whether people pass each labelled anchor, and whether the judge did.

    The labels are those of `[anchors] labels`, read as a calibration by the anchor run reads them,
    else those that people gave the anchor run in the store. Labels of other metrics count for nothing.
    """
    uri = config.anchors.labels
    if uri is None and metric not in labels_of_run(store, run.run_id)["metric"]:
        return {}
    own = {
        "labels": uri or STORE_LABELS,
        "judgements": None,
        "storage_options": config.calibration.storage_options,  # secrets are not stored with a run
    }
    # Not the settings of the alignment, whose metric is the one that is aligned: a file without a
    # column for the metric holds labels of the whole verdict, if the run did not say otherwise.
    settings = run_config(run).calibration.model_copy(update=own)
    labels = labels_of(settings, store, run).labels.get(metric)
    if not labels:
        return {}
    mark = _mark(labels, known_levels(store, run.run_id, metric, settings), settings)
    if mark is None:
        return {}
    _, rated = rated_items_of_run(store, run, metric, labels, settings)
    passes = {}
    for item in rated:
        people = item.settled_grade(ordered=settings.scale == "ordinal")
        if people is not None and not item.missing:
            passed = None if item.judged is None else item.judged >= mark
            passes[item.case_id, item.repetition or 0] = (people >= mark, passed)
    return passes


def _mark(
    labels: Mapping[ItemKey, PeopleGrades], known: frozenset[float], config: CalibrationConfig
) -> float | None:
    """The lowest grade that passes, on a scale with the `known` levels; `None`: it is not known."""
    levels = known.union(*(people.given for people in labels.values()))
    return pass_mark(config.levels or sorted(levels), config)


def held_out_use(store: Store, run_id: str, held_out: str, text_hash: str) -> int:
    """Which use of held-out labels this is, from 1; the same text again is the same use."""
    tried = _tried(store, run_id, held_out)
    return tried.index(text_hash) + 1 if text_hash in tried else len(tried) + 1


def note_use(store: Store, run_id: str, metric: str, held_out: str, text_hash: str) -> None:
    """Store that held-out labels are used for a text, before the verdict on it is known."""
    if text_hash in _tried(store, run_id, held_out):
        return
    row = {
        "annotation_id": f"align-{held_out}-{text_hash}",
        "run_id": run_id,
        "case_id": "",
        "repetition": 0,
        "kind": TRIED,
        "turn": None,
        "metric": metric,
        "value": None,
        "text": as_json({"held_out": held_out, "rubric": text_hash}),
        "author": "assizes align",
        "at": datetime.now(UTC),
        "supersedes": None,
    }
    store.people.add("annotations", [row])


def _tried(store: Store, run_id: str, held_out: str) -> list[str]:
    """The hashes of the rubrics that held-out labels have tried, in order of time."""
    rows = store.people.rows("annotations")
    of_run = rows.filter((pl.col("run_id") == run_id) & (pl.col("kind") == TRIED))
    texts = map(json.loads, of_run.sort("at", maintain_order=True)["text"])
    return list(dict.fromkeys(text["rubric"] for text in texts if text["held_out"] == held_out))
