"""The text of a first configuration: what a look at the transcripts found, with comments."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from assizes.judge.case import Case, Expected
from assizes.judge.catalog import CONVERSATION, JUDGES, resolve_judges
from assizes.judge.config.judging import OFFLINE_MODEL, JudgeConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.families.deterministic import REWARD
from assizes.tasks.intake.sample import TranscriptSample

_SPEAKERS_SHOWN: Final = 12
_COMMENT_COLUMN: Final = 36  # where comments behind settings begin

_TEMPLATE: Final = """\
# Assizes: what to judge, by whom, and what counts as worse. `assizes doctor` checks this file.
name = "nightly"

[transcripts]
{transcripts}

[privacy]
redact = ["secret"]                 # before judge and store; also "email", "phone", "card", "iban"

[judge]
{judge}

[limits]
max_in_flight = 32                  # model calls at once; 1 to 4 for a model on your own machine
timeout_s = 120.0                   # seconds that one call may take
# budget_usd = 5.0                  # a run ends when it has spent this

[thresholds]
# A run passes when its mean score and its share of passed cases both reach these.
metrics_pass_threshold = 80.0       # mean overall score of all cases, 0-100
cases_pass_threshold = 100.0        # passed cases in percent; a case that could not be judged fails
min_coverage = 0.95                 # share of the scores that must be there, else: inconclusive

[comparison]
baseline = "latest"                 # the run before, of the same name; or a run id
# A run is a regression when it is worse than its baseline by more than one of these.
max_pass_rate_drop = 0.0            # drop of the pass rate; 0.02 or "2%": two points
max_avg_score_drop = 5.0            # drop of the mean score, in points of 0-100
max_latency_increase_pct = 0.2      # increase of the agent's latency; 0.2 or "20%"
mode = "both"                       # "rules": those above decide; "statistics": tests decide;
                                    # "both": the rules decide, the tests are shown
margin = 2.0                        # for the tests: smallest drop that matters, in points

[store]
uri = "duckdb:///assizes.duckdb"    # or a folder, or s3://bucket/prefix, for Parquet

[report]
uri = "reports"
"""

_READING_VERBS: Final = (
    "get list find search look lookup read fetch query check show view describe calculate compute "
    "think count retrieve validate verify is has browse estimate recommend preview track"
)
_READING_NOUNS: Final = (
    "lookup search list info status details calculator retriever retrieval history"
)
_CHANGING_VERBS: Final = (
    "add apply assign buy cancel change close confirm create delete enable disable insert modify move "
    "pay place post put remove reset send set submit suspend resume toggle update upsert write"
)
"""Words that begin the name of a tool; none of them is a noun too, as in `order_status`."""

_HAND_OVER: Final = frozenset({"human", "humans"})  # transfer_to_human changes no data
_NO_EXPECTATION: Final = {"writes", "arguments_match", "database", "trajectory_match", "probes"}
"""Fields of `Expected` that say how others are checked."""

_ANSWER_JUDGES: Final = ("relevance_to_query", "safety")  # need a question and its answer only
_PASSAGE_JUDGES: Final = ("groundedness", "chunk_relevance")
_ON_REQUEST: Final = ("answer_completeness", "run_criteria")
"""Judges that ask about what `correctness` and `answer_criteria` judge already."""


@dataclass(frozen=True, slots=True)
class Starter:
    """What a first configuration is written from."""

    uri: str  # as the user wrote it, with its place for a day
    sample: TranscriptSample
    model: str | None = None  # `None`: the offline baseline
    api_base: str | None = None
    endpoint_url: str | None = None  # of an S3 store other than AWS

    def text(self) -> str:
        """The configuration file."""
        return _TEMPLATE.format(
            transcripts="\n".join(self._transcripts()), judge="\n".join(self._judge())
        )

    def _transcripts(self) -> Iterable[str]:
        sample = self.sample
        place = "file, folder, glob or s3:// URI"
        if "{date" in self.uri:
            place = "{date} is filled in by run --date, nightly and backfill"
        yield _line(f"uri = {toml_string(self.uri)}", place)
        if sample.days is not None:
            yield "# One day for each run, for run --date, nightly and backfill:"
            yield f"# uri = {toml_string(sample.days.uri)}"
        if self.endpoint_url is not None:
            yield f"storage_options = {_toml_value({'endpoint_url': self.endpoint_url})}"
        format_ = sample.formats[0] if len(sample.formats) == 1 else "auto"
        yield _line(f'format = "{"auto" if sample.columns else format_}"', self._seen())
        yield _line('# where = { channel = "voice" }', "only cases with this tag or agent")
        yield _line("# sample = 0.2", "judge this share of the cases; or number = 200")
        yield "# filter = \"turn_count > 3 AND tags.channel = 'voice'\""
        yield from writes_lines(sample.cases)
        if sample.columns is not None:
            yield from self._columns()

    def _seen(self) -> str:
        cases = self.sample.cases
        empty = Expected()
        counts = Counter(
            name
            for case in cases
            for name in Expected.model_fields.keys() - _NO_EXPECTATION
            if getattr(case.expected, name) != getattr(empty, name)
        )
        known = [
            f"{count} with expected {name.replace('_', ' ')}"
            for name, count in sorted(counts.items())
        ]
        seen = f"seen: {len(cases)} cases ({', '.join(self.sample.formats)})"
        return ", ".join([seen, *(known or ["none with expected values"])])

    def _columns(self) -> Iterable[str]:
        columns = self.sample.columns
        assert columns is not None
        yield ""
        yield "# Guessed from the names of the columns and from their cells: please check."
        yield "[transcripts.columns]"
        fields = type(columns).model_fields
        if columns.id is None:
            yield _line('# id = "..."', f"{fields['id'].description}; else a hash of its content")
        for name, value in columns.model_dump(exclude_defaults=True).items():
            what = (fields[name].description or "").partition(":")[0]
            yield _line(f"{name} = {_toml_value(value)}", what)
        if self.sample.speakers:
            place = "in place of the line above" if columns.roles else "and take the # away"
            yield f"# Nobody knows these words for speakers. Say who each is, {place}:"
            roles = dict.fromkeys(self.sample.speakers[:_SPEAKERS_SHOWN], "user")
            yield f"# roles = {_toml_value({**roles, **columns.roles})}"
        if self.sample.unused:
            unused = ", ".join(toml_string(name) for name in self.sample.unused)
            yield from _comment(f"not read: {unused}; tags = [...] keeps columns as tags")

    def _judge(self) -> Iterable[str]:
        if self.model is None:
            yield '# The offline baseline needs no key. A language model: "openai/gpt-4.1" with the key in'
            yield '# OPENAI_API_KEY, or "ollama/llama3.1" with the api_base of its server.'
        yield f"model = {toml_string(self.model or OFFLINE_MODEL)}"
        if self.api_base is not None:
            yield _line(f"api_base = {toml_string(self.api_base)}", "the model's server")
        else:
            yield _line(
                '# api_base = "http://localhost:11434"', "where a model of your own answers"
            )
        chosen, others = chosen_judges(self.sample)
        yield f"judges = {_toml_value(list(chosen))}"
        if fitting := [f"{name} {count}" for name, count in chosen.items() if name != CONVERSATION]:
            count = len(self.sample.cases)
            yield from _comment(f"Cases, of {count}, with what a judge needs: {', '.join(fitting)}")
        further = f"others that fit: {', '.join(others)}; " if others else ""
        yield from _comment(f"{further}`assizes judges` lists and explains all")
        yield _line("pass_threshold = 75.0", "overall score, 0-100, of a case without outcomes")
        yield "# A case may hold text that dictates its verdict to the judge, or forges a reply. A pass of"
        yield '# such a case is counted apart and not as passed ("apart"), or as a pass ("count").'
        yield 'flagged_passes = "apart"'
        if CONVERSATION in chosen:
            yield '# metrics = ["tool_routing", { metric = "task_completion", weight = 0.5 }]'


def _line(setting: str, comment: str) -> str:
    return f"{setting:<{_COMMENT_COLUMN - 1}} # {comment}"


def _comment(text: str) -> Iterable[str]:
    """A text as comments of at most 100 characters a line."""
    return textwrap.wrap(text, 98, initial_indent="# ", subsequent_indent="# ")


def chosen_judges(sample: TranscriptSample) -> tuple[dict[str, int], list[str]]:
    """The judges for what the data hold, with the number of cases each fits, and further ones."""
    every = resolve_judges(JudgeConfig(judges=tuple(JUDGES))).judges
    fits = {j.name: sum(j.missing(case) is None for case in sample.cases) for j in every}
    chosen = {CONVERSATION: fits[CONVERSATION]}
    columns = sample.columns
    is_answers = columns is not None and columns.request is not None and not columns.joins_rows
    if is_answers or sample.formats == ("agent_evaluation",):
        chosen = {name: fits[name] for name in _ANSWER_JUDGES if fits[name]} or chosen
        if count := sum(case.transcript.agent_usage() is not None for case in sample.cases):
            chosen["agent_usage"] = count
    if any(call for case in sample.cases for call in case.transcript.calls()):
        chosen = {CONVERSATION: fits[CONVERSATION]} | chosen
    if not any(REWARD in case.labels for case in sample.cases):
        fits.pop("recorded")  # its score is the reward; other labels are parts of it
    by_data = [name for name, entry in JUDGES.items() if entry.needs_ground_truth]
    for name in (*by_data, *_PASSAGE_JUDGES):
        if fits.get(name) and name not in _ON_REQUEST:
            chosen[name] = fits[name]
    further = (*_ON_REQUEST, *_ANSWER_JUDGES)
    return chosen, [name for name in further if fits[name] and name not in chosen]


def writes_lines(cases: Sequence[Case]) -> list[str]:
    """The setting `writes` as a comment, with the tools that may change state.

    Where a case says itself which tools change state, none is named. Tools that only read by their
    names are left out.
    """
    used = Counter(call.name for case in cases for _, call in case.transcript.calls())
    known = any(
        case.expected.writes is not None or any(t.writes is not None for t in case.transcript.tools)
        for case in cases
    )
    if not used or known:
        return [_line("# writes = []", "tools that change state, where cases do not say")]
    changing = sorted(name for name in used if not only_reads(name))
    reading = sorted(used.keys() - changing)
    lines = [
        "# Keep the tools that change state; the offline judge and the evidence compare these:",
        f"# writes = {_toml_value(changing)}",
    ]
    if reading:
        lines += _comment(
            f"left out, for their names say that they read: {', '.join(map(toml_string, reading))}"
        )
    return lines


def only_reads(tool: str) -> bool:
    """Whether a tool reads and changes nothing, as far as its name says."""
    bare = re.split(r"__|[./:]", tool)[-1]  # without the server of an MCP tool
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", bare)]
    if not words or words[0] in _READING_VERBS.split() or not _HAND_OVER.isdisjoint(words):
        return bool(words)
    return words[0] not in _CHANGING_VERBS.split() and words[-1] in _READING_NOUNS.split()


def toml_string(text: str) -> str:
    """A text as a one-line TOML string; `ConfigurationError` for a lone surrogate."""
    if any("\ud800" <= char <= "\udfff" for char in text):  # in names of files that are no UTF-8
        raise ConfigurationError(
            f"{text!r} is no UTF-8 and cannot be written into a configuration; give another name"
        )
    # JSON's escapes are TOML's too, so no name in a transcript ends the string and adds a setting.
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{toml_string(key)} = {_toml_value(item)}" for key, item in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    return toml_string(str(value))
