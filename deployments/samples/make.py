"""Write the bundled transcripts: `ASSIZES_DATA=FOLDER python -m assizes.deployments.samples.make`.

FOLDER holds the file `SOURCE`; SOURCE.md says where that file comes from.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from assizes.deployments.samples import FILE
from assizes.judge.case import Case
from assizes.judge.evidence.tool_calls import tool_evidence
from assizes.judge.formats import FORMATS, native_line

SOURCE = Path("tau2_airline") / "claude-sonnet-4.5.json.gz"  # below FOLDER, see SOURCE.md
SIZE = 40
"""Cases in the bundled file."""

WRITES = (
    "book_reservation",
    "cancel_reservation",
    "send_certificate",
    "update_reservation_baggages",
    "update_reservation_flights",
    "update_reservation_passengers",
)
"""The tools of this data set that change a booking or pay money; the other tools look something up,
calculate, or transfer the customer to a person."""


def choose_cases(document: bytes) -> list[Case]:
    """Choose `SIZE` cases of a tau2 result file, in its order.

    Chosen are all whose successful state-changing calls equal the expected calls, then others.
    """
    tau2 = FORMATS["tau2"]
    cases = [_trim_case(tau2.case(record)) for record in tau2.records(document)]
    matching = [tool_evidence(case).write_match is True for case in cases]
    others = [index for index, matches in enumerate(matching) if not matches]
    left_out = set(others[max(0, SIZE - sum(matching)) :])  # the last of the file
    return [case for index, case in enumerate(cases) if index not in left_out][:SIZE]


def _trim_case(case: Case) -> Case:
    expected = case.expected.model_copy(update={"writes": WRITES})
    return case.model_copy(update={"expected": expected, "agent_version": "v1", "metadata": {}})


def write_sample(data: Path, file: Path) -> None:
    """Write the chosen cases of `SOURCE` in `data` as gzip lines; same input, same bytes."""
    document = gzip.decompress((data / SOURCE).read_bytes())
    lines = b"".join(native_line(case) for case in choose_cases(document))
    file.write_bytes(gzip.compress(lines, 9, mtime=0))  # a time would change the bytes


if __name__ == "__main__":
    write_sample(Path(os.environ["ASSIZES_DATA"]), Path(__file__).with_name(FILE))
