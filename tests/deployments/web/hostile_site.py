"""A server over a store of hostile runs, and a browser that lists what is active in its pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

from playwright.sync_api import Page

from assizes.judge.config.run import StoreConfig
from assizes.judge.formats import native_line
from assizes.tasks.store import open_store
from tests.builders import agent, call, case, result, user
from tests.command import ROOT, assizes
from tests.deployments.web.browser import running_browser
from tests.deployments.web.conftest import serving
from tests.hostile import XSS
from tests.tasks.reports.sample import Said, run
from tests.tasks.stored_runs import put

TOML = """
name = "hostile"
[transcripts]
uri = "in"
[store]
uri = "duckdb:///s.duckdb"
"""
ACTIVE = """
async ([urls, ours, status]) => {
  const bad = [];
  const at = (url, what) => bad.push(`${url}: ${what.slice(0, 200)}`);
  for (const url of urls) {
    const answer = await fetch(url);
    const type = answer.headers.get("content-type");
    const text = await answer.text();
    if (!type.startsWith("text/html") || (status && answer.status !== status)) at(url, `${answer.status} ${type}`);
    const page = new DOMParser().parseFromString(text, "text/html");
    const scripts = [...page.querySelectorAll("script")];
    if (scripts.length !== 1 || scripts[0].textContent !== ours) at(url, "a script");
    for (const element of page.querySelectorAll("*")) {
      const name = element.localName;
      const html = element.outerHTML;
      if (/^(iframe|frame|frameset|object|embed|applet|base|link|svg|math|template|audio|video|track|portal)$/.test(name))
        at(url, html);
      for (const { name: key, value } of element.attributes) {
        if (key.startsWith("on") || key === "srcdoc" || key === "formaction" || key === "ping") at(url, html);
        if (["href", "src", "action", "srcset", "data-progress"].includes(key)) {
          const target = new URL(value, location.origin);
          const drawn = value.startsWith("data:image/svg+xml;base64,") && /^(img|source)$/.test(name);
          if (target.origin !== location.origin && !drawn) at(url, html);
        }
        if (key === "style" && !/^(width: [\\d.]+%|left: [\\d.]+%|flex: \\d+)$/.test(value)) at(url, html);
      }
    }
  }
  return bad;
}
"""


@dataclass(frozen=True)
class Hostile:
    """A server over a store of two hostile runs.

    Attributes:
        url: of the server.
        said: id of the run whose transcripts hold the payloads.
        judged: id of the run whose verdicts hold the payloads.
    """

    url: str
    said: str
    judged: str


def transcript(payload: str) -> bytes:
    """A transcript with a payload in every field that its author controls."""
    whole = case(
        user(payload),
        agent(payload, calls=[call(payload, **{payload or "x": payload, "nested": [payload]})]),
        result(payload, name=payload, is_error=True),
        agent(f"Done. {payload}"),
        case_id=payload,
        agent=payload,
        agent_version=payload,
        cluster=payload,
        tags={payload: payload, "domain": payload},
        metadata={payload: payload},
    )
    return native_line(whole)


def verdicts() -> list[Said]:
    """Verdicts with a payload in every field that a judge or a provider controls."""
    judged = [
        Said(
            payload,
            (1, 2),
            done=False,
            outcomes=((payload, False, payload),),
            code=payload,
            why=payload,
            agent=payload,
            tags={"domain": payload},
            tools=(payload,),
        )
        for payload in XSS
    ]
    return [*judged, *(Said(f"lost {text}", (0, 0), error=f"timeout: {text}") for text in XSS[:40])]


@contextmanager
def hostile_site(folder: Path, prefect_server: str) -> Iterator[Hostile]:
    """Judge hostile transcripts, store a run of hostile verdicts beside them, and serve both runs."""
    (folder / "in").mkdir()
    (folder / "in" / "t.jsonl").write_bytes(b"".join(map(transcript, XSS)))
    (folder / "assizes.toml").write_text(TOML)
    done = assizes("run", "--json", cwd=folder, env={"PREFECT_API_URL": prefect_server})
    assert done.code in (0, 1), done
    outcome = json.loads(done.out)
    assert outcome["summary"]["counts"]["judged"] == len(XSS)
    # No id, tag or tool name became the name of a file.
    names = {path.name for path in folder.rglob("*")}
    assert [name for name in names if not re.fullmatch(r"[\w.=-]+", name)] == []
    with open_store(StoreConfig(uri=f"duckdb:///{folder}/s.duckdb"), writing=True) as store:
        judged = put(store, run(verdicts(), judge={"model": f"openai/{XSS[0]}"}))
    with serving(folder, store=None, PREFECT_API_URL="") as url:
        yield Hostile(url, outcome["run_id"], judged)


@dataclass(frozen=True)
class Tab:
    """A page, the URLs it requested, and the messages of the dialogs it opened."""

    page: Page
    asked: list[str]
    dialogs: list[str]


@contextmanager
def opened_tab(url: str) -> Iterator[Tab]:
    """Open a page in a browser of its own, which is closed when the block ends."""
    with running_browser() as browser:
        page = browser.new_page()
        tab = Tab(page, [], [])
        page.on("request", lambda request: tab.asked.append(request.url))
        page.on("dialog", lambda dialog: (tab.dialogs.append(dialog.message), dialog.dismiss()))
        page.goto(url)
        yield tab


def active_parts(
    tab: Tab, urls: list[str], status: int | None = 200, script_file: str = "page.js"
) -> list[str]:
    """The active elements of pages as a browser parses them, and responses that are no such page."""
    script = (ROOT / "tasks/reports/templates" / script_file).read_text("utf-8")
    alarms: list[str] = tab.page.evaluate(ACTIVE, [urls, script, status])
    return alarms


def listed_pages(hostile: Hostile) -> list[str]:
    both = (hostile.said, hostile.judged)
    pages = ["/", "/view/trends", "/view/compare"]
    pages += [
        f"/view/compare?{urlencode({'baseline': a, 'candidate': b})}" for a, b in (both, both[::-1])
    ]
    return pages + [
        f"/view/runs/{run_id}{more}" for run_id in both for more in ("", "/cases?limit=1000")
    ]


def of_each(hostile: Hostile) -> list[tuple[str, str]]:
    """Pairs of a run id and a payload; the payloads go to the two runs in turn."""
    return [((hostile.said, hostile.judged)[place % 2], text) for place, text in enumerate(XSS)]


def case_pages(hostile: Hostile) -> list[str]:
    return [
        f"/view/runs/{run_id}/cases/{quote(text, safe='')}" for run_id, text in of_each(hostile)
    ]


def pair_pages(hostile: Hostile) -> list[str]:
    """The pages of the cases of both runs side by side; one of the runs has no transcripts."""
    runs = ((hostile.said, hostile.judged), (hostile.said, hostile.said))
    asked = (
        {"baseline": runs[place % 2][0], "candidate": runs[place % 2][1], "case": text}
        for place, text in enumerate(XSS)
    )
    return [f"/view/compare/case?{urlencode(query)}" for query in asked]


def reflecting(hostile: Hostile) -> list[str]:
    """Paths of requests that hold a payload themselves, which a page could reflect."""
    paths = []
    cases = f"/view/runs/{hostile.judged}/cases"
    for place, text in enumerate(XSS):
        asked: list[tuple[str, dict[str, str]]] = [
            ("/", {"name": text[:60]}),
            (cases, {"search": text}),
            (cases, {"failure_code": text, "root_cause": text}),
            ("/view/compare", {"baseline": text, "candidate": text}),
            ("/view/explain", {"run": text, "case": text, "metric": text}),
            ("/view/explain", {"run": hostile.judged, "case": XSS[0], "metric": text}),
            ("/view/trends", {"name": text}),
            ("/view/compare/case", {"baseline": text, "candidate": text, "case": text}),
            ("/view/calibration", {"metric": text, "search": text, "code": text}),
        ]
        whole = [f"{root}?{urlencode(query)}" for root, query in asked]
        whole.append(f"/view/runs/{quote(text, safe='')}")
        paths.append(whole[place % len(whole)])
    return paths


def score_pages(hostile: Hostile) -> list[str]:
    asked = (
        {"run": run_id, "case": text, "metric": "tool_routing"} for run_id, text in of_each(hostile)
    )
    return [f"/view/explain?{urlencode(query)}" for query in asked]
