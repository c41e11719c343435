"""What the judge model was asked so far: counts, windows and the tries of each prompt."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from tests.doubles.openai_answer import Answer
from tests.doubles.openai_filler import Json
from tests.doubles.openai_question import Question
from tests.doubles.openai_schedule import Earlier

TIMELINE = 100_000


@dataclass
class Window:
    """What happened in the last `seconds`, and the most that ever did in so long a time."""

    seconds: float
    events: deque[tuple[float, int]] = field(default_factory=deque)
    tokens: int = 0
    peak: int = 0
    peak_tokens: int = 0

    def add(self, now: float, tokens: int) -> None:
        """Note an event of so many tokens."""
        self.forget(now)
        self.events.append((now, tokens))
        self.tokens += tokens
        self.peak = max(self.peak, len(self.events))
        self.peak_tokens = max(self.peak_tokens, self.tokens)

    def forget(self, now: float) -> None:
        """Drop what is older than the window."""
        while self.events and self.events[0][0] <= now - self.seconds:
            self.tokens -= self.events.popleft()[1]


@dataclass
class Tries:
    """The requests that one model had for one prompt."""

    first_cap: int | None
    count: int = 0


class Tally:
    """All that `/reset` forgets. A request keeps to the tally it began with."""

    def __init__(self, window_s: float) -> None:
        self.models: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.bodies: deque[Json] = deque(maxlen=100)
        self.timeline: deque[tuple[float, int]] = deque(maxlen=TIMELINE)
        self.window = Window(window_s)
        self.prompts: set[bytes] = set()
        self.paid: set[tuple[str, bytes]] = set()
        self.tries: dict[tuple[str, bytes], Tries] = {}
        self.in_flight = 0
        self.peak = 0
        self.first_at: float | None = None
        self.last_at: float | None = None
        self.system: str | None = None

    def receive(self, question: Question, now: float) -> None:
        """Note a request over HTTP."""
        self.models[question.model] += 1
        self.bodies.append(question.body)
        self.first_at = now if self.first_at is None else self.first_at
        self.last_at = now
        if self.system is not None and self.system != question.system:
            self.counts["systems"] += 1
        self.system = question.system
        self.note_prompt(question)

    def note_prompt(self, question: Question) -> None:
        """Note what was asked, over HTTP or as a line of a batch."""
        if question.prompt not in self.prompts:
            self.prompts.add(question.prompt)
        elif not question.complained:
            self.counts["repeats"] += 1

    def decide(self, tokens: int, now: float, *, accepted: bool) -> None:
        """Note what the limits said to a request of so many tokens."""
        self.window.add(now, tokens)
        self.timeline.append((now, int(accepted)))
        self.counts["refused"] += not accepted

    def earlier(self, question: Question) -> Earlier:
        """What was asked before this request, which is counted herewith."""
        tries = self.tries.setdefault((question.model, question.prompt), Tries(question.cap))
        earlier = Earlier(tries.count, tries.first_cap, self.asked[question.model])
        tries.count += 1
        self.asked[question.model] += 1
        return earlier

    def begin(self) -> None:
        """Note that a request is being answered."""
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)

    def bill(self, question: Question, answer: Answer, name: str = "answered") -> None:
        """Note a completion that went out whole."""
        if answer.output_tokens is None:
            return
        self.counts[name] += 1
        self.counts["input_tokens"] += question.input_tokens
        self.counts["output_tokens"] += answer.output_tokens
        key = (question.model, question.prompt)
        if key not in self.paid:
            self.paid.add(key)
        elif not question.complained:
            self.counts["paid_again"] += 1

    def stats(self) -> Json:
        """Counts by name; times are those of `time.monotonic`."""
        return {
            "requests": self.models.total(),
            "models": self.models,
            "peak": self.peak,
            "peak_window": self.window.peak,
            "peak_window_tokens": self.window.peak_tokens,
            "prompts": len(self.prompts),
            "first_at": self.first_at,
            "last_at": self.last_at,
            **{name: self.counts[name] for name in COUNTED},
        }


COUNTED = (
    "answered",
    "refused",
    "repeats",
    "paid_again",
    "systems",
    "disconnects",
    "input_tokens",
    "output_tokens",
    "batches",
    "batch_lines",
    "batch_answered",
    "batch_repeats",
)
