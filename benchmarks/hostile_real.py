"""Real texts that no attack stands in, and how often each family takes one for an attack.

Every distinct text of every data set is put before the flags as if a user had said it, where
nothing is excused as a quotation. What the recorded judges of some sets wrote is among them.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
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
    raw, name = path.read_bytes(), path.name
    if name.endswith(".gz"):
        raw, name = gzip.decompress(raw), name.removesuffix(".gz")
    try:
        text = raw.decode()
    except UnicodeDecodeError:  # a database
        return
    ending = Path(name).suffix
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


def precision(figures: Figures, step: int) -> None:
    """Of each family: attacks and real texts that it notices, and holds a pass by."""
    if not (DATA / "README.md").exists():
        figures.missing("real_texts", "real_held")
        return
    real = list(real_texts())[::step]
    per_set: dict[str, Counter[str]] = defaultdict(Counter)
    of_real = [(data_set, flags_of(text)) for data_set, text in real]
    for data_set, found in of_real:
        per_set[data_set].update(
            texts=1, noticed=bool(found), held=any(flag.holds for flag in found)
        )
    of_attacks = [flags_of(text) for part in ("open", "held_out") for text in attacks(part)[::step]]
    print_families(of_attacks, [found for _, found in of_real])
    for data_set, counts in per_set.items():
        print(f"{data_set:<34}" + "".join(f" {counts[key]:>7} {key}" for key in _OF_A_SET))
    figures.add("real_texts", len(real), least=5_000 / step)
    figures.add("real_noticed", sum(counts["noticed"] for counts in per_set.values()))
    figures.add("real_held", sum(counts["held"] for counts in per_set.values()), most=0)


_OF_A_SET: Final = ("texts", "noticed", "held")


def print_families(
    of_attacks: Iterable[tuple[Flag, ...]], of_real: Iterable[tuple[Flag, ...]]
) -> None:
    """Print a line for each family: what it notices and holds, of attacks and of real texts."""
    columns = []
    for lists in (of_attacks, of_real):
        every = [flag for found in lists for flag in found]
        columns.append(Counter(flag.name for flag in every))
        columns.append(Counter(flag.name for flag in every if flag.holds))
    can_hold = {f"{INJECTION}{family.name}": family.can_hold for family in families()}
    names = [*can_hold, *sorted({name for column in columns for name in column} - can_hold.keys())]
    print(f"{'family':<34} attacks: noticed    held | real: noticed    held | precision of holding")
    for name in names:
        noticed, held, real_noticed, real_held = (column[name] for column in columns)
        every = held + real_held
        share = (
            f"{held / every:.3f}" if every else "-" if can_hold.get(name, True) else "only notices"
        )
        print(f"{name:<34} {noticed:>16} {held:>7} | {real_noticed:>13} {real_held:>7} | {share}")
