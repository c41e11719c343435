"""A model that names causes: `namer` names each one, and finds the two causes of every pair the same."""

from __future__ import annotations

import json
import re

from tests.doubles.openai_aligning import ID_LINE
from tests.doubles.openai_answer import Answer, completed, completion
from tests.doubles.openai_question import Question

NAMING = re.compile(r"\bnamer$")
PAIR = re.compile(r"Pair (\d+), first group")
REASON = re.compile(r"^1\. (.+)$", re.MULTILINE)


def naming(question: Question) -> Answer:
    """The answer of such a model: the name is the last three words of the first reason."""
    own: dict[str, object]
    if pairs := PAIR.findall(question.user):
        own = {
            "pairs": [
                {"pair": int(number), "first": [1], "second": [1], "same": True} for number in pairs
            ]
        }
    else:
        first = REASON.search(question.user)
        words = first[1].lower().strip(".").split() if first else ["nothing"]
        name = " ".join(words[-3:])
        own = {"reasons": [1], "name": name, "sentence": f"What goes wrong is {name}."}
    own_id = ID_LINE.search(question.user)
    reply = {"reply_id": own_id[1] if own_id else "", **own}
    return completion(completed(question, json.dumps(reply)))
