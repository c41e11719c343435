"""Recall and precision of the built-in privacy rules on a synthetic set, seeded.

    python -m benchmarks.privacy [--texts 4000] [--json]

Every text is a sentence with one thing that should be hidden, in one of the ways people write it,
or with a decoy that should not: order numbers, dates, amounts, hashes. Some ways are written out
(`ada at example dot com`): the rules are known to miss them, and they count as missed. So does what
is hidden in part. The last line is the CPU that hiding takes in conversations that hold no secret.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import string
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from assizes.judge.config.transcripts import PrivacyConfig
from assizes.judge.formats import FORMATS
from assizes.judge.redaction.redaction import FULL_REDACTOR, redactor
from benchmarks.varied_texts import varied_records

SEED: Final = 9
Made = Callable[[random.Random], str]


def _chars(rng: random.Random, alphabet: str, count: int) -> str:
    return "".join(rng.choice(alphabet) for _ in range(count))


_ALNUM: Final = string.ascii_letters + string.digits
_HEX: Final = "0123456789abcdef"
_NAMES: Final = ("ada", "björn", "mary.jane", "o.neill", "li_wei", "sam-99", "José", "a.b.c")
_HOSTS: Final = ("example.com", "mail.example.co.uk", "firma-gmbh.de", "x.io", "uni.edu.au")


def _digits(rng: random.Random, count: int) -> str:
    return _chars(rng, string.digits, count)


def _luhn(rng: random.Random, prefix: str, size: int) -> str:
    body = prefix + _digits(rng, size - len(prefix) - 1)
    total = 0
    for place, char in enumerate(reversed(body)):
        digit = int(char) * (2 if place % 2 == 0 else 1)
        total += digit - 9 if digit > 9 else digit
    return body + str(-total % 10)


def _card(rng: random.Random) -> str:
    prefix, size = rng.choice((("4", 16), ("51", 16), ("2221", 16), ("37", 15), ("6011", 16)))
    number = _luhn(rng, prefix, size)
    cut = rng.choice(("", " ", "-"))
    written = cut.join(number[at : at + 4] for at in range(0, size, 4))
    expiry = f"{rng.randint(1, 12):02d}/{rng.randint(26, 35)}"
    behind = ("", "", "", "", f" {expiry}", f" {_digits(rng, 3)}", f"-{_digits(rng, 3)}")
    before = ("", "", "", "", f"{expiry} ", f"{_digits(rng, 3)} ")
    return f"{rng.choice(before)}{written}{rng.choice(behind)}"


def _iban(rng: random.Random) -> str:
    country, size, letters = rng.choice(
        (("DE", 22, 0), ("GB", 22, 4), ("FR", 27, 0), ("NL", 18, 4))
    )
    body = _chars(rng, string.ascii_uppercase, letters) + _digits(rng, size - 4 - letters)
    number = "".join(str(int(char, 36)) for char in f"{body}{country}00")
    whole = f"{country}{98 - int(number) % 97:02d}{body}"
    if rng.random() < 0.5:
        return whole
    return " ".join(whole[at : at + 4] for at in range(0, size, 4))


def _secret(rng: random.Random) -> str:
    value = _chars(rng, _ALNUM, 40)
    digits = f"{value}7"
    return rng.choice(
        (
            f"sk-{digits}",
            f"sk-proj-{digits}",
            f"sk-ant-api03-{digits}",
            f"AKIA{_chars(rng, string.ascii_uppercase + string.digits, 16)}",
            f"ghp_{value[:36]}",
            f"AIza{value[:35]}",
            f"xoxb-{_digits(rng, 12)}-{value[:24]}",
            f"eyJ{value[:20]}.eyJ{value[:30]}.{value}",
            f"postgresql://app:{value[:12]}9@db.internal:5432/main",
            f'"aws_secret_access_key": "{digits}"',
            f"api_key={digits[10:]}",
            f"Authorization: Bearer {digits}",
            f"-----BEGIN PRIVATE KEY-----\n{value}\n{value}\n-----END PRIVATE KEY-----",
            f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{value[:16]}\n\n"
            f"{value}\n-----END RSA PRIVATE KEY-----",
            f"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\n{value}\n"
            f"-----END PGP PRIVATE KEY BLOCK-----",
            f'"token": "{value}7"',
            f"password: {value[:8]}!1",
            f"my password is {value[:8]}1",
            f"my password: {_chars(rng, string.ascii_lowercase, 10)}",  # known to be missed
        )
    )


def _email(rng: random.Random) -> str:
    name, host = rng.choice(_NAMES), rng.choice(_HOSTS)
    written = (f"{name}@{host}", f"{name}+tag@{host}", f"<{name}@{host}>", f"{name.upper()}@{host}")
    if rng.random() < 0.05:
        return f"{name} at {host.replace('.', ' dot ')}"  # known to be missed
    return rng.choice(written)


def _phone(rng: random.Random) -> str:
    area, middle, end = f"{rng.randint(201, 989)}", f"{rng.randint(200, 999)}", _digits(rng, 4)
    if rng.random() < 0.05:
        return f"five five five, {middle}, {end}"  # known to be missed
    return rng.choice(
        (
            f"+1 {area} {middle} {end}",
            f"+1-{area}-{middle}-{end}",
            f"({area}) {middle}-{end}",
            f"{area}-{middle}-{end}",
            f"{area}.{middle}.{end}",
            f"+44 20 7946 {end}",
            f"+49 (0)30 {_digits(rng, 4)} {end}",
            f"+33 6 {_digits(rng, 2)} {_digits(rng, 2)} {_digits(rng, 2)} {_digits(rng, 2)}",
            f"0171-{_digits(rng, 7)}",
            f"030 {_digits(rng, 8)}",
            f"phone number is {area}{middle}{end}",
            f'"phone": "{area}{middle}{end}"',
            f"+{rng.randint(30, 99)}{_digits(rng, 9)}",
        )
    )


def _decoy(rng: random.Random) -> str:
    year, month, day = rng.randint(2019, 2027), rng.randint(1, 12), rng.randint(1, 28)
    return rng.choice(
        (
            f"order #W{_digits(rng, 7)}",
            f"reservation {_chars(rng, string.ascii_uppercase + string.digits, 6)}",
            f"{year}-{month:02d}-{day:02d} {rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}",
            f"{day:02d}.{month:02d}.{year}",
            f"${rng.randint(1, 9)},{_digits(rng, 3)}.{_digits(rng, 2)}",
            f"item {_digits(rng, 10)}",
            f"tracking number {_digits(rng, 12)}",
            f"sha {_chars(rng, _HEX, 40)}",
            f"id {_chars(rng, _HEX, 8)}-{_chars(rng, _HEX, 4)}-4{_chars(rng, _HEX, 3)}-a{_chars(rng, _HEX, 3)}-{_chars(rng, _HEX, 12)}",
            f"version {rng.randint(1, 9)}.{rng.randint(0, 99)}.{rng.randint(0, 999)}",
            f"flight HAT{_digits(rng, 3)} at {rng.randint(1, 12)}:{rng.randint(10, 59)}",
            f"scikit-learn {rng.randint(0, 3)}, @mention number {rng.randint(1, 99)}",
            f"the password is hidden, ask for a token {rng.randint(1, 9)} times",
            f"https://example.com/a/b?page={rng.randint(1, 99)}",
            f"timestamp {_digits(rng, 10)}",
            f"coordinates {rng.randint(10, 80)}.{_digits(rng, 6)}, {rng.randint(10, 99)}.{_digits(rng, 6)}",
        )
    )


KINDS: Final[dict[str, Made]] = {
    "SECRET": _secret,
    "EMAIL": _email,
    "PHONE": _phone,
    "CARD": _card,
    "IBAN": _iban,
}
_LONG: Final = re.compile(r"[A-Za-z0-9]{8,}")
FRAMES: Final = (
    "Sure, it is {}, thanks.",
    "{}",
    "Please note: {}. Anything else?",
    '{{"note": "{}", "ok": true}}',
    "We talked about {} yesterday\nand that was it.",
)


def _left(thing: str, shown: str) -> bool:
    """Whether a thing, or a long part of it that holds a digit, is still to be seen."""
    parts = [part for part in _LONG.findall(thing) if re.search(r"\d", part)]
    return thing in shown or any(part in shown for part in parts)


def measured(texts: int, seed: int = SEED) -> dict[str, dict[str, Any]]:
    """By kind: how many there were, recall, and precision over things and decoys of all kinds."""
    rng = random.Random(seed)
    there: Counter[str] = Counter()
    hit: Counter[str] = Counter()
    false: Counter[str] = Counter()
    for number in range(texts):
        kind = "DECOY" if number % 2 else rng.choice(list(KINDS))
        thing = _decoy(rng) if kind == "DECOY" else KINDS[kind](rng)
        shown = FULL_REDACTOR.redact_text(rng.choice(FRAMES).replace("{}", thing))
        found = {name for name in KINDS if f"[{name}_1]" in shown}
        there[kind] += 1
        hit[kind] += kind in found and not _left(thing, shown)
        false.update(found - {kind})
    return {
        kind: {
            "things": there[kind],
            "recall": round(hit[kind] / there[kind], 4),
            "precision": round(hit[kind] / (hit[kind] + false[kind]), 4),
        }
        for kind in KINDS
    } | {"decoys": {"things": there["DECOY"], "hidden": sum(false.values())}}


def cost_ms(cases: int) -> dict[str, float]:
    """The CPU, in ms, of hiding secrets and of hiding all kinds in a varied case of 6 kB: the least of three rounds."""
    read = FORMATS["native"].case
    lines = [json.dumps(record, ensure_ascii=False).encode() for record in varied_records(cases)]
    found = {}
    for name, hiding in (("secrets", redactor(PrivacyConfig())), ("all", FULL_REDACTOR)):
        rounds = []
        for _ in range(3):
            fresh = [read(line) for line in lines]  # nothing of a round before is kept by a case
            begun = time.process_time()
            for case in fresh:
                hiding.redact_case(case)
            rounds.append(1000 * (time.process_time() - begun) / cases)
        found[name] = round(min(rounds), 3)
    return found


def main() -> None:
    """Print one line a kind, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=4000)
    parser.add_argument("--json", action="store_true", dest="as_json")
    given = parser.parse_args()
    found = measured(given.texts) | {"ms of CPU a case": cost_ms(400)}
    if given.as_json:
        print(json.dumps(found))
        return
    for kind, figures in found.items():
        print(f"{kind:<16}", "  ".join(f"{name} {value}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
