"""document_recall of a plain BM25 ranking over a bank's knowledge base, through the judge."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final

from assizes.judge.case import Case, Chunk, Expected, ExpectedDocument, Transcript, Turn
from assizes.judge.families.deterministic import DocumentRecall
from assizes.judge.hearing import Hearing
from benchmarks.figures import DATA, Figures

KNOWN: Final = {5: 0.109, 10: 0.170, 20: 0.229, 50: 0.386}
"""Mean recall of such a ranking, measured elsewhere, by the number of documents retrieved. How that
one cut texts into words is not known, hence `NEAR`."""

NEAR: Final = 0.02
K1: Final = 1.5
B: Final = 0.75

EPSILON: Final = 0.25

_WORD: Final = re.compile(r"[a-z0-9]+")


class BM25:
    """Okapi BM25 over words: idf = ln((N - n + 0.5) / (n + 0.5)).

    For words in over half of the texts that would be negative; they get a quarter of the mean idf.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(_WORD.findall(text.lower())) for text in texts]
        self.lengths = [one.total() for one in counts]
        self.average = sum(self.lengths) / len(texts)
        self.places: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for place, one in enumerate(counts):
            for word, count in one.items():
                self.places[word].append((place, count))
        total = len(texts)
        idf = {w: math.log((total - len(h) + 0.5) / (len(h) + 0.5)) for w, h in self.places.items()}
        floor = EPSILON * math.fsum(idf.values()) / len(idf)
        self.idf = {word: value if value >= 0 else floor for word, value in idf.items()}

    def ranking(self, query: str) -> list[int]:
        """The places of all texts, the best first."""
        scores = [0.0] * len(self.lengths)
        for word in _WORD.findall(query.lower()):
            for place, count in self.places.get(word, ()):
                stretch = 1 - B + B * self.lengths[place] / self.average
                scores[place] += self.idf[word] * count * (K1 + 1) / (count + K1 * stretch)
        return sorted(range(len(scores)), key=lambda place: (-scores[place], place))


def main() -> None:
    """Rank the documents for each task; judge the first 5, 10, 20 and 50 of them."""
    folder = DATA / "tau3_banking_kb"
    with gzip.open(folder / "documents.jsonl.gz", "rt", encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    with gzip.open(folder / "tasks_dev.json.gz", "rt", encoding="utf-8") as file:
        tasks = [task for task in json.load(file) if task["required_documents"]]
    index = BM25([f"{one['title']}\n{one['content']}" for one in documents])
    rankings = [index.ranking(task["user_scenario"]["instructions"]) for task in tasks]
    figures = Figures()
    figures.add("documents", len(documents))
    figures.add("tasks", len(tasks))
    for depth, known in KNOWN.items():
        recalls = [
            _recall(task, [documents[place] for place in ranking[:depth]])
            for task, ranking in zip(tasks, rankings, strict=True)
        ]
        recall = math.fsum(recalls) / len(recalls)
        figures.add(f"recall_at_{depth}", recall)
        figures.add(f"recall_at_{depth}_off_by", abs(recall - known), most=NEAR)
    figures.close()


def _recall(task: dict[str, Any], retrieved: Sequence[dict[str, Any]]) -> float:
    request = Turn(role="user", text=task["user_scenario"]["instructions"])
    chunks = tuple(Chunk(content=one["content"], doc_uri=one["id"]) for one in retrieved)
    expected = tuple(ExpectedDocument(doc_uri=uri) for uri in task["required_documents"])
    case = Case(
        case_id=task["id"],
        transcript=Transcript(turns=(request,), chunks=chunks),
        expected=Expected(retrieved_context=expected),
    )
    (score,) = Hearing(DocumentRecall(), case).scores
    assert score.value is not None
    return score.value


if __name__ == "__main__":
    main()
