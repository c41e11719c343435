"""The table of beginners' mistakes (`mistakes.toml`), and the files that some of them need."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MINIMAL: Final = '[transcripts]\nuri = "t.jsonl"\n'

FILES: Final[Mapping[str, str]] = {  # in the folder of every mistake, beside three good transcripts
    "assizes.toml": MINIMAL,
    "quotes.toml": "[transcripts]\nuri = t.jsonl\n",
    "twice.toml": MINIMAL + "[transcripts]\nlimit = 3\n",
    "settings.yaml": "transcripts:\n  uri: t.jsonl\n",
    "singular.toml": '[transcript]\nuri = "t.jsonl"\n',
    "metrics.toml": MINIMAL + '[judge]\nmetrics = "tool_routing"\n',
    "key.toml": MINIMAL + '[judge]\napi_key = "sk-1"\n',
    "url.toml": MINIMAL + '[store]\nuri = "s3://user:word@bucket/x"\n',
    "name.toml": 'name = "My Nightly"\n' + MINIMAL,
    "percent.toml": MINIMAL + "[thresholds]\nmin_coverage = 95\n",
    "zone.toml": MINIMAL + '[nightly]\ntime_zone = "CET+1"\n',
    "rubrics.toml": MINIMAL + '[judge]\nrubrics = ["rubrics"]\n',
    "own.toml": MINIMAL + '[judge]\njudges = ["my_judges:polite"]\n',
    "options.toml": MINIMAL + "[judge.options.safety]\nthreshold = 1\n",
    "where.toml": MINIMAL + 'where = "channel = voice"\n',
    "filter.toml": MINIMAL + 'filter = "turns > 3"\n',
    "list.toml": '[transcripts]\nuri = ["a.jsonl", "b.jsonl"]\n',
    "line.toml": 'transcripts = "t.jsonl"\n',
    "backslash.toml": '[transcripts]\nuri = "C:\\users\\me"\n',
    "brackets.toml": MINIMAL + '[[judge]]\nmodel = "openai/gpt-4.1"\n',
    "nothing.toml": "",
    "settings.json": '{"transcripts": {"uri": "t.jsonl"}}',
    "talk.txt": "User: Hi\nAgent: Hello\n",
    "prices.csv": "id,price\n1,2\n",
    "talk.csv": "ticket,speaker,words\n1,user,Hi\n1,agent,Hello\n",
    "empty.jsonl": "",
    "broken.jsonl": '{"messages": [{"role": "usr", "content": "hi"}]}\nno json\n{"messages": 5}\n',
    "bad.duckdb": "some text, and no database" * 100,
    "bare/note.txt": "no transcript",
}


@dataclass(frozen=True)
class Mistake:
    what: str
    typed: str  # after `assizes`
    gets: str  # all of stderr, without `assizes: ` in front and the line end
    code: int = 2
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str = "."  # below that of the files; "/": the folder above, without a configuration


_TABLE: Final = Path(__file__).with_name("mistakes.toml").read_text(encoding="utf-8")

MISTAKES: Final = tuple(Mistake(**row) for row in tomllib.loads(_TABLE)["mistake"])
