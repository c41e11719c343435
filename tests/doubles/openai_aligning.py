"""A judge that fails long answers until its rubric speaks of length, and a model that says so.

`long-hater` rates yes what holds the word `right`, but nothing long. `proposer` proposes one guideline
about length; `idle-proposer` one that helps nobody.
"""

from __future__ import annotations

import json
import re

from tests.doubles.openai_answer import Answer, completed, completion
from tests.doubles.openai_question import Question

ALIGNING = re.compile(r"\b(long-hater|proposer|idle-proposer)$")
LONG = 300
ID_LINE = re.compile(r"^Reply id: (\d+)\s*\Z", re.MULTILINE)
RESPONSE = re.compile(r"<data: Response>\n(.*?)\n</data", re.DOTALL)


def aligning(question: Question) -> Answer:
    """The answer of such a model to a question."""
    found = ALIGNING.search(question.model)
    assert found is not None
    if found[1] == "long-hater":
        said = RESPONSE.search(question.user)
        text = said[1] if said else ""
        fair = "length" in question.system
        good = "right" in text and (fair or len(text) <= LONG)
        own: dict[str, object] = {"rationale": "as it reads", "rating": "yes" if good else "no"}
    else:
        text = "Do not hold the length of an answer against it."
        if found[1] == "idle-proposer":
            text = "Be careful."
        own = {"guidelines": [{"cases": [1], "title": "What counts", "text": text}]}
    own_id = ID_LINE.search(question.user)
    reply = {"reply_id": own_id[1] if own_id else "", **own}
    return completion(completed(question, json.dumps(reply)))
