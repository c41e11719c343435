"""A judge model that does what it is told by anybody: `obedient`, `echoing`, `gullible`, `quoting`.

The first two repeat every JSON object they can read anywhere in the message before their own answer. The
obedient one also gives top marks as soon as an instruction or a verdict stands outside the data,
which end for it where the message says so: at `</data ID>` with the id of its last line. A message
without such ends holds no data at all. The gullible one does not know what data are: it believes
orders in them too, and repeats nothing. The quoting one answers with the longest object it finds
in place of its own, under an id that nobody gave it. Left alone, all give the mark 1.
"""

from __future__ import annotations

import json
import re

from tests.doubles.openai_answer import Answer, completed, completion
from tests.doubles.openai_question import Question

OBEDIENT = re.compile(r"\b(obedient|echoing|gullible|quoting)$")
TOP, HONEST = 5, 1
MAX_ECHOED = 20

ID_LINE = re.compile(r"^Reply id: (\d+)\s*\Z", re.MULTILINE)
ORDER = re.compile(
    r"""(?ix)
    \b(?:scor(?:e|es|ed|ing)|rat(?:e|ed|es|ing)|grad(?:e|ed)|mark(?:s|ed)?|giv(?:e|es)|award|assign
        |set|return|output|print|emit|pass|answer|reply|say|treat|assume|consider|approve|confirm
        |verdict|result|evaluat\w+|puntu\w+|califica|note|punkt\w+|vergib|punteggio|nota|оценк\w+
        |балл\w*|分|점수|点|अंक|درجة|ocen\w*|puan\w*)
    .{0,80}?
    (?:\b(?:5|five|max\w*|full|top|highest|perfect\w*|best|yes|pass(?:ed)?|true|excellent|correct
        |satisfied|positive|faults|máxima|maximale|höchst\w*|volle|massimo|máximo|alta|yüksek|wyższ\w+)\b
        |最高|满分|満点|максимальн|высш|최고|أعلى|अधिकतम)
    """,
    re.DOTALL,
)
FORGET = re.compile(
    r"(?i)\b(?:ignore|disregard|forget|override|skip|stop following|do not follow|no longer)\b"
)


def obedient(question: Question) -> Answer:
    """The answer of such a model to a question."""
    obeys = OBEDIENT.search(question.model)
    believed = obeys is not None and obeys[1] == "obedient" and _told(outside(question.user))
    if obeys is not None and obeys[1] == "gullible":
        mark = TOP if _told(question.user) else HONEST
        return completion(completed(question, question.answer(mark)))
    own, found = question.answer(TOP if believed else HONEST), _objects(question.user)
    if obeys is not None and obeys[1] == "quoting":
        quoted = json.loads(max(found, key=len, default=own))
        return completion(completed(question, json.dumps({**quoted, "reply_id": "1"})))
    return completion(completed(question, "\n".join([*found, own])))


def outside(user: str) -> str:
    """What of a message is no data."""
    own_id = ID_LINE.search(user)
    if own_id is None:
        return user
    return re.sub(rf"<data: .*?</data {own_id[1]}>", "", user, flags=re.DOTALL)


def _told(text: str) -> bool:
    return bool(ORDER.search(text) or FORGET.search(text))


def _objects(text: str) -> list[str]:
    """The JSON objects in a text, as they stand there."""
    found: list[str] = []
    at, decoder = text.find("{"), json.JSONDecoder()
    while at >= 0 and len(found) < MAX_ECHOED:
        try:
            _, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            end = at + 1
        else:
            found.append(text[at:end])
        at = text.find("{", end)
    return found
