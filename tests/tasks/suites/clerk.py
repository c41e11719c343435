"""A clerk who answers questions about flights, is sometimes rude, and sometimes adds up wrongly."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import assizes
from assizes.judge.case import Case, Expected
from assizes.judge.config.run import RunConfig
from assizes.judge.formats import native_line
from assizes.judge.score import Metric, Score
from tests.builders import agent, case, user

RUDE = "You should have read the page, you fool."
RUDE_AGAIN = "Only a fool would ask me that."
WRONG = "10 and 10 is 30."
JUDGES = ("tests.tasks.suites.clerk:manners", "tests.tasks.suites.clerk:sums")


def manners(case: Case) -> list[Score]:
    """Whether the clerk is polite; the reason says what was said."""
    texts = [text for _, text in case.transcript.agent_texts() if "fool" in text]
    reason = f"The tone of the agent is rude and impatient: '{texts[0]}'" if texts else ""
    return [Score("manners", value=float(not texts), passed=not texts, reason=reason)]


def sums(case: Case) -> list[Score]:
    """Whether the clerk adds up correctly."""
    is_wrong = any("is 30" in text for _, text in case.transcript.agent_texts())
    reason = "The sum of the prices is wrong." if is_wrong else ""
    return [Score("sums", value=float(not is_wrong), passed=not is_wrong, reason=reason)]


def lenient_manners(case: Case) -> list[Score]:
    """A judge of manners that has lost its ears."""
    return [Score("manners", value=1.0, passed=True)]


manners.metrics = (Metric("manners", gate="judges"),)  # type: ignore[attr-defined]
lenient_manners.metrics = manners.metrics  # type: ignore[attr-defined]
sums.metrics = (Metric("sums", gate="judges"),)  # type: ignore[attr-defined]


def conversation(number: int, said: str, price: str, version: str, **rest: Any) -> Case:
    return case(
        user(f"How do I change flight {number}?"),
        agent(said),
        user("And what does it cost?"),
        agent(price),
        case_id=f"c{number:02}",
        agent="clerk",
        agent_version=version,
        **{"expected": Expected(outcomes=("The price was told.",)), **rest},
    )


def write_day(
    file: Path,
    version: str,
    *,
    rude: Collection[int] = (),
    wrong: Collection[int] = (),
    cases: Collection[int] = range(12),
    words: str = RUDE,
) -> Path:
    """Write a conversation for each case; in some of them the clerk is rude or wrong."""
    lines = [
        native_line(
            conversation(
                number,
                words if number in rude else "I will gladly show you.",
                WRONG if number in wrong else "10 and 10 is 20.",
                version,
            )
        )
        for number in cases
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(lines))
    return file


def tables(folder: Path, store: str, transcripts: Path, **more: Any) -> dict[str, Any]:
    """The configuration of a run over these transcripts."""
    return {
        "name": "clerk",
        "transcripts": {"uri": str(transcripts)},
        "judge": {"judges": list(JUDGES)},
        "store": {"uri": store},
        "cache": {"uri": f"{folder}/cache"},
        "report": {"uri": f"{folder}/reports"},
        "limits": {"ledger": f"{folder}/ledger.db"},
        **more,
    }


def judged(folder: Path, store: str, transcripts: Path, **more: Any) -> str:
    """Judge transcripts in this process; returns the id of the run."""
    config = RunConfig.model_validate(tables(folder, store, transcripts, **more))
    return assizes.evaluate(config).run_id
