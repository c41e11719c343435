"""A small judge that is unsure of hard cases, and a large one that knows: `unsure` and `knowing`.

A transcript says what it is: `[good easy]`, `[bad easy]`, `[good hard]` or `[bad hard]`. The large
model marks the good ones with 5 and the others with 1. The small one does the same where it is easy;
where it is hard it says 3, the lowest acceptable mark, whatever the case is worth.
"""

from __future__ import annotations

import re

from tests.doubles.openai_answer import Answer, completed, completion
from tests.doubles.openai_question import Question

CASCADE = re.compile(r"\b(unsure|knowing)$")
WORTH = re.compile(r"\[(good|bad) (easy|hard)\]")


def cascading(question: Question) -> Answer:
    """The answer of such a model to a question."""
    is_small = question.model.endswith("unsure")
    worth = WORTH.search(question.user)
    assert worth is not None, "a transcript says what it is worth"
    mark = 5 if worth[1] == "good" else 1
    if is_small and worth[2] == "hard":
        mark = 3
    return completion(completed(question, question.answer(mark)))
