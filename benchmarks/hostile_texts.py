"""The corpora of `benchmarks.hostile`: attacks, disguised as they say, and honest conversations."""

from __future__ import annotations

import base64
import codecs
import random
import re
import tomllib
import urllib.parse
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "hostile_corpus"

_LEET: Final = str.maketrans("aeiost", "431057")
_LOOKALIKES: Final = str.maketrans("aceopxyiAEOPCTM", "асеорхуіАЕОРСТМ")  # noqa: RUF001  # that is the point
_SLOT: Final = re.compile(r"\{([a-z]+)\}")

DISGUISES: Final[Mapping[str, Callable[[str], str]]] = {
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "leet": lambda text: text.translate(_LEET),
    "spaced": lambda text: "   ".join(" ".join(word) for word in text.split()),
    "homoglyph": lambda text: text.translate(_LOOKALIKES),
    "zero_width": "\u200b".join,
    "tags": lambda text: "Thanks!" + "".join(chr(0xE0000 + ord(one)) for one in text),
    "reversed": lambda text: text[::-1],
    "url": urllib.parse.quote,
    "fullwidth": lambda text: "".join(
        chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in text
    ),
    "bidi": lambda text: f"\u202e{text[::-1]}\u202c",
}


@lru_cache(maxsize=2)
def attacks(part: str) -> tuple[str, ...]:
    """The attacks of a part, `open` or `held_out`, as they are put into transcripts."""
    found = tomllib.loads((FOLDER / f"{part}.toml").read_text("utf-8"))["attack"]
    return tuple(DISGUISES[one["as"]](one["text"]) if "as" in one else one["text"] for one in found)


def honest(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Native records of as many different conversations about grading, prompts and JSON."""
    data = tomllib.loads((FOLDER / "benign.toml").read_text("utf-8"))
    draw = random.Random(seed)
    seen: dict[str, dict[str, Any]] = {}
    while len(seen) < count:
        turns = _conversation(data, draw)
        record = {"case_id": f"honest-{len(seen)}", "transcript": {"turns": turns}}
        seen.setdefault(str(turns), record)
    return list(seen.values())


def _conversation(data: Mapping[str, Any], draw: random.Random) -> list[dict[str, Any]]:
    def filled(text: str) -> str:
        return _SLOT.sub(lambda slot: draw.choice(data["slots"].get(slot[1], [slot[0]])), text)

    turns: list[dict[str, Any]] = []
    for number, topic in enumerate(draw.sample(data["topic"], draw.randint(1, 3))):
        turns.append({"role": "user", "text": filled(draw.choice(topic["user"]))})
        if draw.random() < 0.5:
            call = {"name": filled("{tool}"), "arguments": {"about": filled("{subject}")}}
            call["id"] = f"call_{number}"
            turns.append({"role": "assistant", "tool_calls": [call]})
            content = filled(draw.choice(topic["result"]))
            told = {"content": content, "call_id": f"call_{number}"}
            turns.append({"role": "tool", "tool_result": told})
        turns.append({"role": "assistant", "text": filled(draw.choice(topic["agent"]))})
    return turns
