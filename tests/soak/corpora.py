"""Random corpora with planted faults, and whether every record of each is accounted for.

What must come of a corpus is worked out here from what was planted, not from how it is read.
"""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import Inconclusive
from assizes.tasks.intake.plan import Plan
from assizes.tasks.intake.shards import plan_intake, read_shard
from assizes.tasks.sources.spool import Spool
from tests.tasks.intake.intake_files import line

CAP_BYTES = 2048
NAMES = [f"case-{number}" for number in range(12)]
TEXTS = ("One.", "Two.")

GOOD = {(name, said): line(name, said) for name in NAMES for said in TEXTS}
PLAIN = GOOD["case-0", "One."]
BAD = {
    "json": [PLAIN[:-7], b"plain text", b"{", b'{"a": NaN}', b"[1, 2"],
    "encoding": [PLAIN.replace(b"One.", b"\xff"), b"\x00\x00"],
    "duplicate_key": [PLAIN.replace(b'"case_id"', b'"case_id":"z","case_id"')],
    "too_deep": [b"[" * 1000 + b"]" * 1000],
    "too_large": [b"x" * (CAP_BYTES + 1), line("big", "y" * 5000)],
    "schema": [b'{"case_id": 7}', b"null", b"[]", PLAIN.replace(b'"user"', b'"boss"')],
    "schema_version": [PLAIN.replace(b"{", b'{"schema_version": 9, ', 1)],
}
BLANK = (b"", b"  ", b"\t")


@dataclass
class Planted:
    """A corpus: its files, and what is in those that can be read."""

    rng: random.Random
    good: list[tuple[str, str]] = field(default_factory=list)
    bad: Counter[str] = field(default_factory=Counter)
    objects: Counter[str] = field(default_factory=Counter)

    def file(self, folder: Path, number: int, *, salvage: bool) -> None:
        """One more file, at times with a fault of its own."""
        lines = [self._line() for _ in range(self.rng.randrange(11))]
        ends = self.rng.choice([b"\n", b"\r\n"])
        content = b"".join(body + ends for _, _, body in lines)
        if self.rng.random() < 0.2:
            content = content.removesuffix(ends)
        kind = self.rng.choice(["plain"] * 5 + ["gzip"] * 3 + ["cut", "cut", "sum", "wide"])
        path = folder / f"{number}.jsonl{'' if kind in ('plain', 'wide') else '.gz'}"
        read, code = lines, ""
        if kind in ("cut", "sum"):
            packed = gzip.compress(content, mtime=0)
            broken = packed[: self.rng.randrange(2, len(packed))]
            broken = broken if kind == "cut" else packed[:-8] + b"\1\2\3\4" + packed[-4:]
            path.write_bytes(broken)
            whole = _decoded(broken if kind == "cut" else packed)
            kept = whole[: whole.rfind(b"\n") + 1].count(b"\n") if salvage else 0
            read, code = lines[:kept], "gzip_corrupt"
        elif kind == "wide" and any(body.strip() for *_, body in lines[:1]):
            text = "".join(GOOD[key].decode() + "\n" for key in GOOD)
            path.write_bytes(text.encode("utf-16"))
            read, code = [], "encoding"
        else:
            path.write_bytes(content if path.suffix == ".jsonl" else gzip.compress(content))
        self._note(read, code)

    def _note(self, read: list[tuple[str, object, bytes]], code: str) -> None:
        self.good += [key for kind, key, _ in read if kind == "good"]  # type: ignore[misc]  # the key of a good line
        self.bad.update(str(key) for kind, key, _ in read if kind == "bad")
        self.objects["listed"] += 1
        records = any(kind != "blank" for kind, *_ in read)
        if code:
            self.bad[code] += 1
        whole = bool(code) and not records
        self.objects["rejected" if whole else "read" if records else "empty"] += 1

    def _line(self) -> tuple[str, object, bytes]:
        draw = self.rng.random()
        if draw < 0.6:
            key = (self.rng.choice(NAMES), self.rng.choice(TEXTS[:1] * 5 + TEXTS))
            return "good", key, GOOD[key]
        if draw < 0.7:
            return "blank", None, self.rng.choice(BLANK)
        code = self.rng.choice(sorted(BAD))
        return "bad", code, self.rng.choice(BAD[code])


def _decoded(packed: bytes) -> bytes:
    return zlib.decompressobj(31).decompress(packed)


def planned(wanted: TranscriptsConfig, shard_size: int) -> tuple[Plan | str, Counter[str]]:
    """The plan, or why there is none; and what its shards hold, by case id or code."""
    found: Counter[str] = Counter()
    with Spool.of(wanted) as spool:
        try:
            plan = plan_intake(wanted, shard_size, spool)
        except Inconclusive as nothing:
            return str(nothing), found
        for shard in Plan.from_dict(json.loads(json.dumps(plan.as_dict()))).shards:
            counts = Counter[str]()
            for record in read_shard(shard, wanted, spool):
                name = record.case.case_id if record.case else record.reject and record.reject.code
                counts["judged" if record.case else "quarantined"] += 1
                found[str(name)] += 1
            shard.check(counts)
    plan.check()
    return plan, found


@dataclass(frozen=True)
class Held:
    """One corpus after it was read: what is wrong, in words, and how many records went where."""

    wrong: tuple[str, ...]
    judged: int = 0
    quarantined: int = 0


def held(folder: Path, seed: int) -> Held:
    """Plant a corpus, read it, and hold what came of it against what was planted."""
    rng = random.Random(seed)  # not for secrets
    folder.mkdir()
    salvage = rng.random() < 0.5
    planted = Planted(rng)
    for number in range(rng.randrange(1, 4)):
        planted.file(folder, number, salvage=salvage)
    wanted = TranscriptsConfig(
        uri=str(folder), format="native", salvage=salvage, max_record_mb=CAP_BYTES / 2**20
    )
    plan, found = planned(wanted, rng.randrange(1, 5))
    return _held(planted, plan, found)


def _held(planted: Planted, plan: Plan | str, found: Counter[str]) -> Held:
    variants = Counter(name for name, _ in set(planted.good))
    once = {name for name, several in variants.items() if several == 1}
    conflicts = sum(several for several in variants.values() if several > 1)
    reasons = planted.bad + Counter({"id_conflict": conflicts})
    if isinstance(plan, str):
        total = len(planted.good) + planted.bad.total()
        said = f": {total} records read, {reasons.total()} rejected" in plan
        return Held(() if said and not once else (plan,))
    pairs = {
        "records": (found, Counter(once) + reasons),
        "reasons": (plan.reasons, dict(sorted(reasons.items()))),
        "duplicates": (plan.duplicates, len(planted.good) - len(set(planted.good))),
        "objects": (plan.objects, {**dict.fromkeys(plan.objects, 0), **planted.objects}),
    }
    wrong = tuple(f"{what}: {a}, wanted {b}" for what, (a, b) in pairs.items() if a != b)
    return Held(wrong, plan.due, plan.rejected)
