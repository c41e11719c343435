"""Real texts that no attack stands in, and how often each family takes one for an attack.

Every distinct text of every data set is put before the flags as if a user had said it, where
nothing is excused as a quotation. What the recorded judges of some sets wrote is among them.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from assizes.judge.case import Case
from assizes.judge.injection.families import INJECTION, Flag, families, flags
from benchmarks.figures import DATA, Figures
from benchmarks.hostile_texts import attacks

SHORTEST: Final = 20
"""Shorter texts are ids, names and labels."""

_SEPARATORS: Final = {".csv": ",", ".tsv": "\t"}


def real_texts(folder: Path = DATA) -> Iterator[tuple[str, str]]:
    """Yield each distinct text of the data sets with the name of its set."""
    for data_set in sorted(path for path in folder.iterdir() if path.is_dir()):
        seen: set[str] = set()
        for path in sorted(path for path in data_set.rglob("*") if path.is_file()):
            for text in _texts_of(path):
                if len(text) >= SHORTEST and text not in seen:
                    seen.add(text)
                    yield data_set.name, text


def _texts_of(path: Path) -> Iterator[str]:
    is_packed = path.suffix == ".gz"
    ending = path.with_suffix("").suffix if is_packed else path.suffix
    try:
        text = (gzip.decompress if is_packed else bytes)(path.read_bytes()).decode()
    except UnicodeDecodeError:  # a database
        return
    if ending == ".json":
        yield from _strings(json.loads(text))
    elif ending == ".jsonl":
        for line in filter(str.strip, text.splitlines()):
            yield from _strings(json.loads(line))
    elif ending in _SEPARATORS:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=_SEPARATORS[ending])
        yield from (cell for row in rows for cell in row)
    else:
        yield text


def _strings(value: Any) -> Iterator[str]:
    """Yield the texts in nested data, and those of data that stand in a text as JSON."""
    if isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _strings(member)
    elif isinstance(value, str):
        yield value
        if value[:1] in ("{", "["):
            try:
                yield from _strings(json.loads(value))
            except ValueError:
                return


def flags_of(text: str) -> tuple[Flag, ...]:
    """The flags of a case in which a user says nothing but this text."""
    turns = [{"role": "user", "text": text}, {"role": "assistant", "text": "I see."}]
    return flags(Case.model_validate({"case_id": "text", "transcript": {"turns": turns}}))


def is_held(signs: Iterable[Flag]) -> bool:
    """Whether a flag among these holds a pass."""
    return any(sign.holds for sign in signs)


def precision(figures: Figures, step: int) -> None:
    """Of each family: attacks and real texts that it notices, and holds a pass by."""
    if not (DATA / "README.md").exists():
        figures.missing("real_texts", "real_held")
        return
    real = [(data_set, flags_of(text)) for data_set, text in list(real_texts())[::step]]
    print_families(
        [flags_of(text) for part in ("open", "held_out") for text in attacks(part)[::step]],
        [signs for _, signs in real],
    )
    for data_set, of_set in groupby(real, key=lambda pair: pair[0]):
        signs_of = [signs for _, signs in of_set]
        noticed, held = sum(map(bool, signs_of)), sum(map(is_held, signs_of))
        print(f"{data_set:<34} {len(signs_of):>10} texts {noticed:>7} noticed {held:>7} held")
    figures.add("real_texts", len(real), least=5_000 / step)
    figures.add("real_noticed", sum(bool(signs) for _, signs in real))
    figures.add("real_held", sum(is_held(signs) for _, signs in real), most=0)


def print_families(
    of_attacks: Sequence[tuple[Flag, ...]], of_real: Sequence[tuple[Flag, ...]]
) -> None:
    """Print a line for each family: its recall and its precision, of noticing and of holding."""
    counts = [
        Counter(sign.name for signs in lists for sign in signs if sign.holds or not holding)
        for holding in (False, True)
        for lists in (of_attacks, of_real)
    ]
    names = [f"{INJECTION}{family.name}" for family in families()]
    names += sorted(set().union(*counts) - set(names))
    head = f"of {len(of_attacks)} attacks, {len(of_real)} real texts"
    print(f"{head:<34} noticed: of both, precision | held: of both, precision")
    for name in names:
        noticed, wrongly_noticed, held, wrongly_held = (count[name] for count in counts)
        print(f"{name:<34} {_cells(noticed, wrongly_noticed)} | {_cells(held, wrongly_held)}")


def _cells(right: int, wrong: int) -> str:
    share = f"{right / (right + wrong):.3f}" if right + wrong else "-"
    return f"{right:>7} {wrong:>7} {share:>9}"
