"""Judges of pairs: `fair` follows the content, `placed-30` the place in 30 % of the asks.

Both prefer the side that holds the word `right`, and say tie where both sides hold it or neither does.
"""

from __future__ import annotations

import hashlib
import json
import re

from tests.doubles.openai_answer import Answer, completed, completion
from tests.doubles.openai_question import Question

PAIRS = re.compile(r"\b(fair|placed-(\d+))$")
ID_LINE = re.compile(r"^Reply id: (\d+)\s*\Z", re.MULTILINE)
SIDE = re.compile(r"<data: (First|Second): [^>]*>\n(.*?)\n</?(?=data)", re.DOTALL)


def comparing(question: Question) -> Answer:
    """The answer of such a model to a question."""
    model = PAIRS.search(question.model)
    assert model is not None
    sides: dict[str, str] = {"First": "", "Second": ""}
    for name, text in SIDE.findall(question.user):
        sides[name] += text
    right = [name for name, text in sides.items() if "right" in text]
    better = right[0].lower() if len(right) == 1 else "tie"
    # The same prompt is always answered alike, as with temperature 0.
    draw = int(hashlib.sha256(question.user.encode()).hexdigest()[:8], 16) % 100
    if model[2] and draw < int(model[2]):
        better = "first"
    own_id = ID_LINE.search(question.user)
    own = {"rationale": f"{better} it is", "better": better}
    reply = {"reply_id": own_id[1] if own_id else "", **own}
    return completion(completed(question, json.dumps(reply)))
