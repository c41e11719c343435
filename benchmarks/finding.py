"""Finding things among 100,000 cases: search, filters, orders, deep pages, CSV, over HTTP.

    python -m benchmarks.finding [--cases 100000]

Conversations are written, planned and indexed by the product; their rows are made up, as judging
is not what is measured. Words are drawn as often as in real conversations, in four languages, and
no sentence comes twice. A real `assizes serve` is asked by one client in turn.
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
from benchmarks.figures import Figures
from benchmarks.serving import served

TIMES = 20
SHARD = 1000
RUN = "found-000000000000"
METRICS = ("tone", "accuracy", "tool_routing")
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
QUERIES = {
    "one rare word": "ref00050021",
    "two words": "refund policy",
    "a common word": "the",
    "a phrase": '"refund policy"',
    "a beginning": "cancel*",
    "German": "verspätet Erstattung",
    "Chinese": "退款",
    "a reason": "justification0000777",
    "nothing": "nosuchwordanywhere",
}


def texts(seed: int) -> Iterator[str]:
    """Sentences without end, no two of them equal."""
    draw = random.Random(seed)
    counts = Counter(
        word
        for case in base_cases()
        for turn in case.transcript.turns
        for word in (turn.text or "").split()
    )
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
            "failure_code": None if level >= 3 else ("wrong_tool", "rude", "wrong_fact")[place],
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
    with served(uri, first=f"/runs/{RUN}/cases?limit=1") as url:
        lists = {f"search, {name}": {"q": text} for name, text in QUERIES.items()}
        lists |= {
            "search, filter and order": {"q": "the", "tag": "channel=mail", "sort": "-case_id"},
            "filter, metric and level": {"metric": "tone", "level": "poor"},
            "filter, code": {"failure_code": "rude"},
            "filter, tag, tool and flag": {
                **{"tag": "customer=7", "tool": TOOLS[2], "flag": "speaks_to_judge"}
            },
            "order": {"sort": "-agent_latency_ms"},
            "last page": {"offset": str(cases - 50)},
            "last page of a search": {"q": "the", "offset": str(max(0, cases // 2))},
        }
        for name, query in lists.items():
            _add(figures, f"{kind}: {name}", f"{url}/runs/{RUN}/cases?{urlencode(query)}")
        began = time.perf_counter()
        with urllib.request.urlopen(f"{url}/runs/{RUN}/cases.csv") as answer:
            lines = sum(1 for _ in answer) - 1
        figures.add(f"{kind}: CSV rows/s", lines / (time.perf_counter() - began))
        assert lines == cases, lines


def _add(figures: Figures, name: str, url: str) -> None:
    took = [_asked_s(url) for _ in range(TIMES)]
    goal = 0.5 if "search" in name else None
    figures.add(f"{name}, first s", took[0], most=goal)
    figures.add(f"{name}, p50 s", statistics.median(took))
    figures.add(f"{name}, p95 s", sorted(took)[int(TIMES * 0.95)], most=goal)


def _asked_s(url: str) -> float:
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=120) as answer:
        answer.read()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
