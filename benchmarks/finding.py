"""Finding things among 100,000 cases: search, filters, orders, deep pages, CSV, over HTTP.

    python -m benchmarks.finding [--cases 100000]

Conversations are written, planned and indexed by the product; their rows are made up, as judging
is not what is measured. Words are drawn as often as in real conversations, in four languages, and
no sentence comes twice. A real `assizes serve` is asked by one client in turn.

Of each kind of request stand there: `first`, when nothing that only this kind needs has been read
yet, then p50 and p95 of 40 further requests, each search for other words than the one before. The
first search of a server that was just started stands beside them (`cold server`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from assizes.judge.case import Case
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.rows import SHARD_TABLES, as_json, frame
from assizes.judge.score import LABELS
from assizes.tasks.finding.build_index import build_index
from assizes.tasks.intake.plan import Shard
from assizes.tasks.intake.shards import plan_intake, read_shard
from assizes.tasks.sources.spool import Spool
from assizes.tasks.store import RunRecord, Store, open_store
from assizes.tasks.store.search_files import index_path
from benchmarks.corpus import base_cases
from benchmarks.figures import Figures, p95
from benchmarks.serving import served

TIMES = 40
GOAL_S = 0.5
SHARD = 1000
RUN = "found-000000000000"
METRICS = ("tone", "accuracy", "tool_routing")
CODES = ("wrong_tool", "rude", "wrong_fact")
TOOLS = ("find_order", "refund_order", "cancel_order", "search_policy")
OTHER_TEXTS = {
    "de": "der die das und nicht ich Sie wir Bestellung Rückgabe Erstattung Paket Lieferung "
    "verspätet bitte heute morgen Konto Rechnung kündigen Ärger Größe schön für zurück",
    "es": "el la que de no pedido devolución reembolso paquete tarde por favor hoy mañana cuenta "
    "factura cancelar señor también dónde cuándo envío",
    "zh": " ".join(
        "我你的是不了在有人这中大来上个国到说们为子和退款订单包裹今天明天取消账户发票谢"
    ),
}
OTHER_WORDS = {language: text.split() for language, text in OTHER_TEXTS.items()}


@cache
def vocabulary() -> Counter[str]:
    """The English words of real conversations, and how often each occurs."""
    return Counter(
        word
        for case in base_cases()
        for turn in case.transcript.turns
        for word in (turn.text or "").split()
    )


def searches(number: int) -> dict[str, str]:
    """A search of each kind, with other words for each number."""
    common = [word for word, _ in vocabulary().most_common(400) if word.isalpha()]
    german, chinese = OTHER_WORDS["de"], OTHER_WORDS["zh"]
    place = number % 40
    return {
        "one rare word": f"ref{50_021 + 997 * number:08d}",
        "two words": f"{common[40 + place]} {common[120 + place]}",
        "a common word": common[place % 10],
        "a phrase": f'"{common[place % 12]} {common[20 + place]}"',
        "a beginning": f"{common[40 + place][:3]}*",
        "German": f"{german[place % len(german)]} {german[(place * 7 + 3) % len(german)]}",
        "Chinese": chinese[place % len(chinese)] + chinese[(place * 5 + 1) % len(chinese)],
        "a reason": f"justification{777 + 997 * number % 50_000:07d}",
        "nothing": f"nosuchword{number}anywhere",
    }


def texts(seed: int) -> Iterator[str]:
    """Sentences without end, no two of them equal."""
    draw = random.Random(seed)
    counts = vocabulary()
    english, sums = list(counts), list(accumulate(counts.values()))
    number = 0
    while True:
        number += 1
        language = draw.choices(("en", "de", "es", "zh"), (7, 1, 1, 1))[0]
        if language == "en":
            words = draw.choices(english, cum_weights=sums, k=draw.randint(8, 40))
        else:
            words = draw.choices(OTHER_WORDS[language], k=draw.randint(8, 40))
        text = ("" if language == "zh" else " ").join(words)
        yield f"{text} ref{number:08d}."


def write_transcripts(folder: Path, cases: int) -> int:
    """Native records of six turns each; returns the bytes written."""
    said, size = texts(1), 0
    folder.mkdir()
    for first in range(0, cases, 10_000):
        with (folder / f"cases-{first:08d}.jsonl").open("w", encoding="utf-8") as file:
            for number in range(first, min(first + 10_000, cases)):
                turns = [
                    {"role": ("user", "assistant")[place % 2], "text": next(said)}
                    for place in range(6)
                ]
                record = {
                    "case_id": f"case-{number:08d}",
                    "agent_version": f"v{number % 3}",
                    "tags": {"channel": ("chat", "mail")[number % 2], "customer": str(number % 97)},
                    "transcript": {"turns": turns},
                }
                size += file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return size


def fill(store: Store, folder: Path) -> None:
    """Store a complete run about the transcripts in a folder, with made-up rows."""
    config = RunConfig.model_validate(
        {"name": "found", "transcripts": {"uri": f"{folder}/*.jsonl"}}
    )
    transcripts: TranscriptsConfig = config.transcripts
    began = datetime(2026, 3, 1, tzinfo=UTC)
    with Spool.of(transcripts) as spool:
        plan = plan_intake(transcripts, SHARD, spool)
        bodies = plan.as_dict()["shards"]
        run = RunRecord(
            *(RUN, "found", "adhoc", "running", config.model_dump(mode="json"), "0"),
            *("offline/lexical", began),
            plan={"shards": bodies, "due": plan.due},
        )
        store.begin(run)
        total = 0
        for body in bodies:
            shard = Shard.from_dict(body)
            cases = [
                (record.position, record.case)
                for record in read_shard(shard, transcripts, spool)
                if record.case is not None
            ]
            frames = {name: frame(name, []) for name in SHARD_TABLES}
            frames["cases"] = frame("cases", [_case_row(body["uri"], *each) for each in cases])
            frames["scores"] = frame("scores", [row for _, case in cases for row in _scores(case)])
            store.commit_shard(RUN, shard.shard_id, frames, {"judged": len(cases)})
            total += len(cases)
    counts = {"read": total, "judged": total}
    final = replace(run, status="complete", finished_at=began, counts=counts, summary={})
    store.finish(final, frame("run_metrics", []))


def _number(case: Case) -> int:
    return int(case.case_id.removeprefix("case-"))


def _case_row(uri: str, position: int, case: Case) -> dict[str, Any]:
    number = _number(case)
    score = (number * 7919 % 10_000) / 100
    return {
        "run_id": RUN,
        **{"case_id": case.case_id, "repetition": 0, "transcript_uri": uri, "position": position},
        "transcript_hash": case.content_hash(),
        "agent_version": case.agent_version,
        "tags": as_json(case.tags),
        "started_at": datetime(2026, 2, 28, tzinfo=UTC) + timedelta(seconds=number),
        **{"overall_score": score, "passed": score >= 50, "gate": "overall_score"},
        "summary": f"{score:.0f} of 100, lowest {METRICS[number % 3]}",
        **{"status": "judged", "turn_count": 6, "agent_latency_ms": float(number * 31 % 5000)},
        "tools": [TOOLS[number % 4]],
        "flags": ["speaks_to_judge"] if number % 50 == 0 else [],
    }


def _scores(case: Case) -> Iterator[dict[str, Any]]:
    number = _number(case)
    for place, metric in enumerate(METRICS):
        level = (number * 31 + place * 17) % 6
        why = f"justification{number:07d} turn {place}: {(case.transcript.turns[place].text or '')[:90]}"
        yield {
            **{"run_id": RUN, "case_id": case.case_id, "repetition": 0, "judge": "conversation"},
            **{"metric": metric, "part": "", "value": level / 5, "raw": float(level)},
            **{"label": LABELS[level], "passed": level >= 3, "status": "scored"},
            "failure_code": None if level >= 3 else CODES[place],
            "details": as_json({"justification": why}),
        }


def main() -> None:
    """Measure, print, and end with one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument(
        "--store", choices=("duckdb", "lake"), nargs="*", default=["duckdb", "lake"]
    )
    given = parser.parse_args()
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="assizes-finding-") as name:
        folder = Path(name)
        os.environ["ASSIZES_HOME"] = str(folder / "home")
        figures.add("transcripts MB", write_transcripts(folder / "in", given.cases) / 1e6)
        for kind in given.store:
            uri = f"duckdb:///{folder}/s.duckdb" if kind == "duckdb" else f"{folder}/lake"
            with open_store(StoreConfig(uri=uri), writing=True) as store:
                fill(store, folder / "in")
            _measure(figures, kind, uri, given.cases)
    figures.close()


def _measure(figures: Figures, kind: str, uri: str, cases: int) -> None:
    began = time.perf_counter()
    assert build_index(StoreConfig(uri=uri), RUN)
    took = time.perf_counter() - began
    figures.add(f"{kind}: index s", took)
    figures.add(f"{kind}: index cases/s", cases / took)
    figures.add(f"{kind}: index MB", index_path(uri, RUN).stat().st_size / 1e6)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures.add(f"{kind}: peak MB, index and benchmark", peak)
    first_search = f"/runs/{RUN}/cases?{urlencode({'q': 'the'})}"
    with served(uri, warm=False) as url:
        figures.add(f"{kind}: search, cold server s", _asked_s(url + first_search), most=GOAL_S)
    with served(uri, first=f"/runs/{RUN}/cases?limit=1") as url:
        for name in _requests(cases, 0):
            addresses = [
                f"{url}/runs/{RUN}/cases?{urlencode(_requests(cases, number)[name])}"
                for number in range(TIMES + 1)
            ]
            _add(figures, f"{kind}: {name}", addresses)
        began = time.perf_counter()
        with urllib.request.urlopen(f"{url}/runs/{RUN}/cases.csv") as answer:
            lines = sum(1 for _ in answer) - 1
        figures.add(f"{kind}: CSV rows/s", lines / (time.perf_counter() - began))
        assert lines == cases, lines
    # The highest of the servers so far: that of the DuckDB file comes first.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    figures.add(f"{kind}: peak MB, server", peak)


def _requests(cases: int, number: int) -> dict[str, dict[str, str]]:
    """A request of each kind; those with the same number look for the same words."""
    lists = {f"search, {name}": {"q": text} for name, text in searches(number).items()}
    common = {"q": lists["search, a common word"]["q"]}
    level = LABELS[number % len(LABELS)]
    return lists | {
        "search, filter and order": {**common, "tag": "channel=mail", "sort": "-case_id"},
        "search, metric and level": {**common, "metric": METRICS[number % 3], "level": level},
        "last page of a search": {**common, "offset": str(max(0, cases // 2 - 50 * number))},
        "filter, metric and level": {"metric": METRICS[(number + 1) % 3], "level": level},
        "filter, code": {"failure_code": CODES[number % 3]},
        "filter, tag, tool and flag": {
            **{"tag": f"customer={number % 97}", "tool": TOOLS[number % 4]},
            "flag": "speaks_to_judge",
        },
        "order": {"sort": ("-agent_latency_ms", "turn_count", "-case_id")[number % 3]},
        "last page": {"offset": str(cases - 50 * (number + 1))},
    }


def _add(figures: Figures, name: str, addresses: list[str]) -> None:
    took = [_asked_s(url) for url in addresses]
    goal = GOAL_S if "search" in name else None
    figures.add(f"{name}, first s", took[0], most=goal)
    figures.add(f"{name}, p50 s", statistics.median(took[1:]))
    figures.add(f"{name}, p95 s", p95(took[1:]), most=goal)


def _asked_s(url: str) -> float:
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=120) as answer:
        answer.read()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
