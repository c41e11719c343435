"""ExpertQA: claims of six answering systems, judged by experts for support and correctness."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from assizes.tasks.recorded.reading import Rows, rows_of, set_folder
from assizes.tasks.recorded.values import RecordedSet

NAME: Final = "ExpertQA"
SUPPORTS: Final = ("Complete", "Partial", "Incomplete", "Missing", "N/A", None)
CORRECTNESS: Final = (
    "Definitely correct",
    "Probably correct",
    "Unsure",
    "Likely incorrect",
    "Definitely incorrect",
    None,
)
_WORD: Final = re.compile(r"[a-z0-9]+")


def read(folder: Path) -> RecordedSet:
    """No judge is recorded here: the set holds what experts say, and the floor is measured on it."""
    here = set_folder(folder, "expertqa")
    answers, claims = rows_of(here / "answers.jsonl.gz"), rows_of(here / "claims.jsonl.gz")
    system = {answer["question_id"]: answer["system"] for answer in answers}
    with_text = [claim for claim in claims if claim["evidence_has_text"]]
    task = grounded_claims(folder)
    complete = [claim["support"] == "Complete" for claim in task]
    missing = [claim for claim in claims if claim["support"] == "Missing"]
    figures: dict[str, float | str] = {
        "answers": len(answers),
        "claims": len(claims),
        "claims with evidence text": len(with_text),
        "groundedness: claims": len(task),
        "groundedness: yes": sum(complete),
        "groundedness: share of yes": sum(complete) / len(task),
        "groundedness: AUC of shared words": _auc(
            [shared_words(claim) for claim in task], complete
        ),
        "missing support": len(missing),
        "missing support, still correct": sum(c["correctness"] in CORRECTNESS[:2] for c in missing),
    }
    for name, count in Counter(system.values()).items():
        own = [claim for claim in claims if system[claim["question_id"]] == name]
        text = [claim for claim in own if claim["evidence_has_text"]]
        figures[f"{name}: answers"] = count
        figures[f"{name}: claims"] = len(own)
        figures[f"{name}: claims with evidence text"] = len(text)
        figures[f"{name}: complete with evidence text"] = sum(
            claim["support"] == "Complete" for claim in text
        )
    for word, count in Counter(answer["usefulness"] for answer in answers).items():
        figures[f"usefulness: {word}"] = count
    cells = Counter((claim["support"], claim["correctness"]) for claim in claims)
    supports = Counter(claim["support"] for claim in with_text)
    for support in SUPPORTS:
        row = [str(cells[support, correctness]) for correctness in CORRECTNESS]
        figures[f"support x correctness: {support or 'null'}"] = " ".join(row)
        figures[f"with evidence text: {support or 'null'}"] = supports[support]
    return RecordedSet(NAME, [], figures)


def grounded_claims(folder: Path) -> Rows:
    """Claims with evidence text that an expert called completely, partly or incompletely supported."""
    rows = rows_of(set_folder(folder, "expertqa") / "claims.jsonl.gz")
    return [row for row in rows if row["evidence_has_text"] and row["support"] in SUPPORTS[:3]]


def shared_words(claim: Mapping[str, Any]) -> float:
    """The share, 0..1, of a claim's different words that occur in its evidence."""
    words = set(_WORD.findall(claim["claim"].lower()))
    held = set(_WORD.findall(" ".join(claim["evidence"]).lower()))
    return len(words & held) / max(1, len(words))


def _auc(values: list[float], yes: list[bool]) -> float:
    """The chance that a yes has a higher value than a no; equal values count half."""
    scores, right = np.array(values), np.array(yes)
    above, below = scores[right][:, None], scores[~right][None, :]
    return float(np.mean((above > below) + 0.5 * (above == below)))
