"""Renders a report as GitHub-flavoured Markdown, which the Prefect UI shows too.

The UI shows raw HTML escaped and emoji short codes unchanged, so neither is used. Foreign text can
make no link, image, mention, heading or table cell: see `assizes.tasks.reports.formatting`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from assizes.tasks.reports import formatting
from assizes.tasks.reports.formatting import DASH, bullets, code, count, number, plain, table
from assizes.tasks.reports.render.cause_lines import first_causes

# Bytes of the report, at most, as the Prefect UI keeps it in a database; whole blocks are cut.
MAX_BYTES: Final = 95_000
MAX_ROWS: Final = 50  # metrics, skipped judges, settings and cases of one run only, at most each
MAX_MOVED: Final = 25  # cases that got worse, and cases that got better, that are listed at most
MAX_PROMPT_LINES: Final = 40  # lines that differ in the prompts of one judge, at most


def markdown_report(data: Mapping[str, Any]) -> str:
    """The report as Markdown of less than 100 kB; a note says where a longer report was cut."""
    shown_blocks, size = [], 0
    # Whole blocks only: half a table or half an escaped text would render as something else.
    for block in list(_blocks(data)):
        size += len(block.encode()) + 2  # the blank line between two blocks
        if size > MAX_BYTES:
            shown_blocks.append("*Cut here for length; report.html holds the rest.*")
            break
        shown_blocks.append(block)
    return "\n\n".join(shown_blocks) + "\n"


def _blocks(data: Mapping[str, Any]) -> Iterator[str]:
    run, cases = data["run"], data["cases"]
    corrected = data.get("corrected") or {}
    if corrected.get("first"):  # before all else: people say something else than the judge
        yield f"**{plain(corrected['first'], 1000)}**"
    yield plain(data["judged_by"]["line"], 1000)  # first: whatever is cut, the judge is named
    yield f"# Run report: {plain(run['name'])}"
    times = [f"data of {run['day']}"]
    times += [f"begun {run['started_at']}"] if run["started_at"] else []
    times += [f"finished {run['finished_at']}"] if run["finished_at"] else []
    yield " · ".join([code(run["run_id"]), f"{run['trigger']} run", run["status"], *times])
    if run["agents"]:
        yield f"Agent: {', '.join(plain(agent) for agent in run['agents'])}"
    yield from _verdict(data)
    yield from _corrected_lines(corrected)
    yield from _comparison(data["comparison"])
    yield from _metrics(data)
    yield from _problems(data)
    yield from _usage(data)
    yield "## How to get this run again"
    yield (
        f"Save the configuration (in report.html and report.json; hash "
        f"{code(run['config_hash'])}) as `assizes.toml` and run:"
    )
    yield "```sh\n" + "\n".join(data["reproduce"]["commands"]) + "\n```"
    yield "## Cases to read first"
    if not cases["read_first"]:
        yield "There is no case."
    for case in cases["read_first"]:
        yield "\n\n".join(_case(case))
    if left := cases["total"] - len(cases["read_first"]):
        yield f"{formatting.plural(left, 'more case')}: see report.html."


def _corrected_lines(corrected: Mapping[str, Any]) -> Iterator[str]:
    """The numbers that labels of people correct, their slices, and the changes to the baseline."""
    if not corrected:
        return
    yield "## Corrected by labels of people"
    rows = []
    for item in corrected["numbers"]:
        rows.append(_corrected_cells(item["name"], item))
        names = (f"{item['name']} with {part['name']}" for part in item["slices"])
        rows += map(_corrected_cells, names, item["slices"])
    yield table(["Number", "By the judge", "Corrected", "95 % interval", "Labels"], rows, numbers=4)
    yield from _bullets(corrected["changes"])
    if corrected["fell_back"]:
        yield f"The judge's numbers decide: {plain(corrected['fell_back'], 500)}."


def _corrected_cells(name: str, item: Mapping[str, Any]) -> list[str]:
    span = DASH
    if item["low"] is not None:
        span = f"{formatting.share(item['low'])} to {formatting.share(item['high'])}"
    shares = [formatting.share(item.get("raw")), formatting.share(item["value"])]
    return [plain(name), *shares, span, str(item["labels"])]


def gate_cells(dimension: Mapping[str, Any]) -> list[str]:
    """The cells of a gate of the verdict in a table: name, mark, value and what it needs."""
    passed = formatting.gate_mark(dimension["passed"])
    return [dimension["name"], passed, dimension["shown"], dimension["needs"]]


def _verdict(data: Mapping[str, Any]) -> Iterator[str]:
    verdict = data["verdict"]
    yield f"## {verdict['word']}"
    yield plain(verdict["headline"])
    yield from _first_look(data["first_look"])
    yield from first_causes(data)
    yield from _bullets(verdict["cautions"], "Warning: ")
    rows = (
        [*gate_cells(gate), (gate["interval"] or {}).get("shown") or DASH]
        for gate in verdict["dimensions"]
    )
    yield table(["Gate", "", "Value", "Needs", "How sure"], rows, numbers=3)
    yield f"{data['counts']['sentence']} {data['coverage']['sentence']}"
    if data["attribution"]:
        yield f"Judge or agent: {plain(data['attribution']['sentence'], 500)}"
    yield from _bullets(data["calibration"], "Judge compared with people: ")
    if not data["counts"]["reconciles"]:
        yield "**These counts do not add up; trust no share of this report.**"


def _first_look(first: Mapping[str, Any]) -> Iterator[str]:
    """What changed and how sure that is, the other reasons, and the failure code that moved most."""
    yield from _bullets(first["reasons"])
    if first["changes"]:
        rows = (
            [
                *(plain(change["name"]), plain(change["word"])),
                *(plain(change[side]) for side in ("baseline", "candidate")),
                *(plain(change["change"]), plain(change["span"] or DASH)),
                plain(change["limit"] or DASH),
            ]
            for change in first["changes"]
        )
        interval = f"{first['confidence']} interval"
        head = ["What", "Result", "Before", "Now", "Change", interval, "Limit"]
        yield table(head, rows, numbers=5)
        yield plain(f"{first['sure']} {first['moved']}", 500)
    if first["failure_code"]:
        yield f"{code(first['failure_code'])} {plain(first['failure_code_note'], 500)}"


def _bullets(texts: Sequence[str], prefix: str = "") -> Iterator[str]:
    """Foreign texts as a list; nothing where there are none."""
    if texts:
        yield bullets(f"{prefix}{plain(text, 500)}" for text in texts)


def _comparison(compared: Mapping[str, Any] | None) -> Iterator[str]:
    yield "## Comparison with the baseline"
    if compared is None:
        yield "No baseline: nothing to compare with."
        return
    totals = compared["totals"]
    yield (
        f"{formatting.plural(len(compared['reasons']), 'rule')} broken. "
        f"Baseline {code(compared['baseline']['run_id'])}: of "
        f"{formatting.plural(totals['matched'], 'case')} in both, {totals['regressions']} worse, "
        f"{totals['improvements']} better, {totals['unchanged']} unchanged, "
        f"{totals['errors']} with an error."
    )
    names = ("name", "limit", "baseline", "candidate", "change")
    rows = ([rule[name] for name in names] for rule in compared["rules"])
    yield table(["Rule", "Limit", "Baseline", "Candidate", "Change"], rows, numbers=3)
    yield compared["rules_note"]
    notes = [plain(reason, 500) for reason in compared["reasons"]]
    notes += [f"Note: {plain(warning, 500)}" for warning in compared["warnings"]]
    if notes:
        yield bullets(notes)
    yield from _statistics(compared)
    yield from _movers("worse", compared["worse"])
    yield from _movers("better", compared["better"])
    for side in ("baseline", "candidate"):
        only = compared[f"{side}_only"]
        if only["total"]:
            ids = ", ".join(code(case_id) for case_id in only["shown"][:MAX_ROWS])
            more = f" and {only['more']:,} more" if only["more"] else ""
            yield f"Only in the {side} ({only['total']}): {ids}{more}"
    yield from _differences(compared)


def _statistics(compared: Mapping[str, Any]) -> Iterator[str]:
    """The statistical verdict, and the exploratory changes that decide nothing."""
    if compared["mismatches"]:
        yield "### Not judged alike"
        yield from _bullets(compared["mismatches"])
    if (statistics := compared["statistics"]) is None:
        return
    yield f"### By the statistics: {statistics['word']}"
    lines = [measure["line"] for measure in statistics["measures"]]
    # A reason may repeat the line of a measure.
    yield from _bullets([*lines, *(text for text in statistics["reasons"] if text not in lines)])
    yield plain(statistics["note"], 500)
    rows = [
        [
            *(code(change["name"], 80), plain(change["measure"])),
            *(number(change[side], 1) for side in ("baseline", "candidate")),
            *(formatting.signed_number(change["delta"], 1), number(change["q_value"], 4)),
        ]
        for change in statistics["exploratory"]
        if change["moved"]
    ]
    if rows:
        head = ["Moved (exploratory)", "Measure", "Baseline", "Candidate", "Change", "q"]
        yield table(head, rows, numbers=4)


def _movers(word: str, movers: Mapping[str, Any]) -> Iterator[str]:
    if not movers["total"]:
        return
    yield f"### Cases that got {word} ({movers['total']})"
    head = ["Case", "Verdict", "Metrics that moved", "Baseline", "Candidate", "Change"]
    rows = [
        [
            *(code(case["case_id"], 80), case["flip"], plain(case["moved"]) or DASH),
            *(number(case["baseline_score"]), number(case["candidate_score"])),
            formatting.signed_number(case["score_delta"]),
        ]
        for case in movers["shown"][:MAX_MOVED]
    ]
    yield table(head, rows, numbers=3)
    if movers["total"] > len(rows):
        yield f"and {movers['total'] - len(rows):,} more."


def _differences(compared: Mapping[str, Any]) -> Iterator[str]:
    """The settings that differ, and the lines of the judges' prompts that do."""
    if compared["config_diff"]:
        yield "### What differs in the configuration"
        rows = (
            [code(item["field"]), code(item["baseline"], 80), code(item["candidate"], 80)]
            for item in compared["config_diff"][:MAX_ROWS]
        )
        yield table(["Setting", "Baseline", "Candidate"], rows)
    changes = compared["prompt_diff"]
    if changes["note"]:
        yield plain(changes["note"], 2000)
    sides = {"-": "baseline", "+": "candidate"}  # first characters of the lines of a unified diff
    for judge in changes["judges"]:
        lines = [line for line in judge["lines"] if line[:1] in sides]
        cells = [[sides[line[0]], plain(line[1:], 500)] for line in lines]
        yield f"Prompts of {code(judge['judge'])}:"
        yield table(["Run", "Line"], cells[:MAX_PROMPT_LINES])
        if len(cells) > MAX_PROMPT_LINES or judge["more"]:
            yield "report.html shows more lines."


def _metrics(data: Mapping[str, Any]) -> Iterator[str]:
    yield "## Metrics"
    if not data["metrics"]:
        yield "No metric was scored."
        return
    shown = data["metrics"][:MAX_ROWS]
    for family in data["families"]:
        if rows := [metric for metric in shown if metric["family"] == family["family"]]:
            if len(data["families"]) > 1:
                yield f"### {family['title']}"
                yield plain(family["meaning"])
            yield _family_table(family["family"], rows, compared=data["comparison"] is not None)
    if data["tiers"]:
        tiers = []
        for tier in data["tiers"]:
            interval = tier["interval"] and tier["interval"]["shown"]
            more = f" ({interval})" if interval else ""
            tiers.append(f"{plain(tier['tier'])} {number(tier['score'])}{more}")
        yield f"Tiers, of 100: {', '.join(tiers)}."
    if data["published"]:
        yield "### Published numbers"
        numbers = (
            [code(item["name"], 120), number(item["value"], 4)] for item in data["published"]
        )
        yield table(["Name", "Value"], numbers, numbers=1)
    yield from _skipped_judges(data["skipped"])


def _family_table(family: str, metrics: Sequence[Mapping[str, Any]], *, compared: bool) -> str:
    """The metrics of one family; those of the conversation have a tier and a weight in addition."""
    has_weights = family == "conversation"
    rows = []
    for metric in metrics:
        # The last character of `0-5` or `0-1` is the best value.
        unit = f" of {metric['unit'][-1]}" if metric["unit"] and metric["mean"] is not None else ""
        spread = plain(formatting.labels(metric["labels"]))
        weight = DASH if metric["weight"] is None else f"{metric['weight'] * 100:.1f} %"
        own = [metric["tier"] or DASH, spread, weight]
        rows.append(
            [
                code(metric["metric"], 80),
                *(own if has_weights else [spread, formatting.share(metric["pass_rate"])]),
                number(metric["mean"]) + unit,
                *([formatting.signed_number(metric["delta"])] if compared else []),
                *(count(metric[name]) for name in ("scored", "failed", "skipped")),
            ]
        )
    own_head = ["Tier", "Labels", "Weight"] if has_weights else ["Labels", "Passed"]
    change = ["Change"] if compared else []
    head = ["Metric", *own_head, "Mean", *change, "Scored", "Failed", "Skipped"]
    return table(head, rows, numbers=5 + len(change))


def _skipped_judges(skipped: Mapping[str, Any]) -> Iterator[str]:
    if skipped["shown"]:
        yield "### Judges that did not apply"
        rows = (
            [
                code(skip["judge"], 80),
                ", ".join(plain(name, 60) for name in skip["metrics"][:12]) or DASH,
                plain(skip["reason"]),
                count(skip["count"]),
            ]
            for skip in skipped["shown"][:MAX_ROWS]
        )
        yield table(["Judge", "Metrics", "Why", "Cases"], rows, numbers=1)
        if left := len(skipped["shown"][MAX_ROWS:]) + skipped["more"]:
            yield f"and {formatting.plural(left, 'more reason')}."


def _problems(data: Mapping[str, Any]) -> Iterator[str]:
    """The failure codes and root causes, and what could not be judged."""
    yield "## Failures"
    failures = [
        [
            code(failure["code"], 80),
            ", ".join(plain(metric["name"], 60) for metric in failure["metrics"][:8]),
            count(failure["count"]),
        ]
        for failure in data["failure_codes"]["shown"][:20]
    ]
    head = ["Failure code", "Metrics", "Times"]
    yield table(head, failures, numbers=1) if failures else "No failure code was given."
    causes = [
        [code(cause["name"], 80), plain(cause["suggested_fix"]), count(cause["count"])]
        for cause in data["root_causes"][:20]
    ]
    if causes:
        yield table(["Root cause of failed cases", "Suggested fix", "Cases"], causes, numbers=1)
    errors = data["cases"]["errors"][:20]
    lines = [plain(warning, 500) for warning in data["warnings"]]
    lines += [
        f"{plain(entry['error'])}: {formatting.plural(entry['count'], 'time')}"
        for entry in data["ask_errors"]
    ]
    lines += [f"{code(case['case_id'], 80)}: {plain(case['error'])}" for case in errors]
    yield "## Errors and warnings"
    yield bullets(lines) if lines else "None."
    if left := len(data["cases"]["errors"]) - len(errors) + data["cases"]["more_errors"]:
        yield f"and {formatting.plural(left, 'more case')} without a verdict."


def _usage(data: Mapping[str, Any]) -> Iterator[str]:
    yield "## Time and money"
    for group in data["usage"]:
        facts = ([fact["name"], plain(fact["value"])] for fact in group["facts"])
        yield table([group["title"], ""], facts, numbers=1)
    if len(data["judges"]) > 1:  # of one judge the table before says it all
        spent = ("asks", "calls", "input_tokens", "output_tokens")
        rows = (
            [
                code(judge["judge"], 80),
                *(count(judge[name]) for name in spent),
                plain(formatting.money(judge["cost_usd"])),
            ]
            for judge in data["judges"]
        )
        head = ["Judge", "Questions", "Calls", "Tokens in", "Tokens out", "Cost"]
        yield table(head, rows, numbers=5)


def _case(case: Mapping[str, Any]) -> Iterator[str]:
    word = formatting.mark(case["passed"]) if case["status"] == "judged" else case["status"]
    repetition = f", repetition {case['repetition']}" if case["repetition"] else ""
    changed = {"regression": ", ▼ worse", "improvement": ", ▲ better"}.get(case["change"], "")
    yield f"### {code(case['case_id'], 80)}{repetition}: {word}{changed}"
    yield plain(case["summary"] or "no verdict", 500)
    if reason := case["reason"]:
        expected = f" Expected: {plain(reason['expected'], 500)}" if reason["expected"] else ""
        yield f"{code(reason['metric'], 80)}: {plain(reason['text'], 500)}{expected}"
    if case["root_cause"]:
        yield f"Root cause: {code(case['root_cause'], 80)}"
    if case["suggested_fix"]:
        yield f"Try: {plain(case['suggested_fix'], 500)}"
    if case["outcomes"]:
        yield bullets(
            f"{formatting.mark(outcome['passed'])[0]} {plain(outcome['statement'])}: "
            f"{plain(outcome['justification'] or 'no justification was given')}"
            for outcome in case["outcomes"]
        )
    if case["findings"]:
        rows = (
            [
                code(f"{finding['metric']} {finding['part']}".strip(), 80),
                plain(finding["shown"]),
                plain(finding["justification"]) or DASH,
                code(finding["failure_code"], 60) if finding["failure_code"] else DASH,
                ", ".join(map(str, finding["turns"])) or DASH,
            ]
            for finding in case["findings"][:12]
        )
        yield table(["Metric", "Finding", "Justification", "Failure code", "Turns"], rows)
