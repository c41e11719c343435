"""Renders a report as GitHub-flavoured Markdown, which the Prefect UI shows too.

The UI shows raw HTML escaped and emoji short codes unchanged, so neither is used. Foreign text can
make no link, image, mention, heading or table cell: see `assizes.tasks.reports.markdown_text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from assizes.tasks.reports import formatting
from assizes.tasks.reports.markdown_text import Block, bullets, code, plain, table
from assizes.tasks.reports.render.markdown_comparison import comparison_blocks

MAX_BYTES: Final = 95_000
"""Bytes of the report, at most, as the Prefect UI keeps it in a database; whole blocks are cut."""

MAX_ROWS: Final = 50
"""Rows of the table of metrics and of the table of skipped judges, at most."""

_SPENT: Final = ("asks", "calls", "input_tokens", "output_tokens")


def markdown_report(data: Mapping[str, Any]) -> str:
    """The report as Markdown of less than 100 kB; a note says where a longer report was cut."""
    shown_blocks, size = [], 0
    blocks = list(_blocks(data))
    for block in blocks:
        size += len(block.encode()) + 2
        if size > MAX_BYTES:
            shown_blocks.append("*Cut here for length; report.html holds the rest.*")
            break
        shown_blocks.append(block)
    return "\n\n".join(shown_blocks) + "\n"


def _blocks(data: Mapping[str, Any]) -> Iterator[Block]:
    run = data["run"]
    yield plain(data["judged_by"]["line"], 1000)
    yield f"# Run report: {plain(run['name'])}"
    times = [f"begun {run['started_at']}"] if run["started_at"] else []
    times += [f"finished {run['finished_at']}"] if run["finished_at"] else []
    yield " · ".join([code(run["run_id"]), f"{run['trigger']} run", run["status"], *times])
    if run["agents"]:
        yield f"Agent: {', '.join(plain(agent) for agent in run['agents'])}"
    yield from _verdict(data)
    yield from comparison_blocks(data["comparison"])
    yield from _metrics(data)
    yield from _failures(data)
    yield from _problems(data)
    yield from _usage(data)
    yield from _reproduce(data)
    yield from _read_first(data)


def _verdict(data: Mapping[str, Any]) -> Iterator[Block]:
    verdict = data["verdict"]
    yield f"## {verdict['word']}"
    yield plain(verdict["headline"])
    if verdict["reasons"]:
        yield bullets(plain(reason, 500) for reason in verdict["reasons"])
    if verdict["cautions"]:
        yield bullets(f"Warning: {plain(caution, 500)}" for caution in verdict["cautions"])
    yield table(
        ["Gate", "", "Value", "Needs", "How sure"],
        [
            [
                dimension["name"],
                formatting.gate_mark(dimension["passed"]),
                dimension["shown"],
                dimension["needs"],
                _interval_text(dimension),
            ]
            for dimension in verdict["dimensions"]
        ],
        numbers=3,
    )
    yield f"{data['counts']['sentence']} {data['coverage']['sentence']}"
    if data["attribution"]:
        yield f"Judge or agent: {plain(data['attribution']['sentence'], 500)}"
    if data["calibration"]:
        yield bullets(f"Judge beside people: {plain(line, 500)}" for line in data["calibration"])
    if not data["counts"]["reconciles"]:
        yield "**These counts do not add up; trust no share of this report.**"


def _interval_text(entry: Mapping[str, Any]) -> str:
    return (entry["interval"] and entry["interval"]["shown"]) or formatting.DASH


def _metrics(data: Mapping[str, Any]) -> Iterator[Block]:
    yield "## Metrics"
    if not data["metrics"]:
        yield "No metric was scored."
        return
    compared = data["comparison"] is not None
    shown = data["metrics"][:MAX_ROWS]
    for family in data["families"]:
        rows = [metric for metric in shown if metric["family"] == family["family"]]
        if rows:
            yield from _family(family, rows, alone=len(data["families"]) == 1, compared=compared)
    if data["tiers"]:
        yield f"Tiers, of 100: {', '.join(_tier(tier) for tier in data['tiers'])}."
    yield from _published_numbers(data["published"])
    yield from _skipped_judges(data["skipped"])


def _tier(tier: Mapping[str, Any]) -> str:
    interval_text = (
        f" ({_interval_text(tier)})" if tier["interval"] and tier["interval"]["shown"] else ""
    )
    return f"{plain(tier['tier'])} {formatting.number(tier['score'])}{interval_text}"


def _family(
    family: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, alone: bool, compared: bool
) -> Iterator[Block]:
    """The table of the metrics of one family.

    Metrics of the conversation have a tier and a weight, the others a share of passed cases.

    Args:
        family: the family.
        rows: the metrics of the family.
        alone: whether this is the only family, which then needs no heading.
        compared: whether there is a baseline, and so a column for the change.
    """
    if not alone:
        yield f"### {family['title']}"
        yield plain(family["meaning"])
    of_conversation = family["family"] == "conversation"
    own = ["Tier", "Labels", "Weight"] if of_conversation else ["Labels", "Passed"]
    change = ["Change"] if compared else []
    yield table(
        ["Metric", *own, "Mean", *change, "Scored", "Failed", "Skipped"],
        [_metric_row(row, has_weights=of_conversation, compared=compared) for row in rows],
        numbers=5 + len(change),
    )


def _metric_row(metric: Mapping[str, Any], *, has_weights: bool, compared: bool) -> list[str]:
    unit = f" of {metric['unit'][-1]}" if metric["unit"] and metric["mean"] is not None else ""
    labels = plain(formatting.labels(metric["labels"]))
    weight = formatting.DASH if metric["weight"] is None else f"{metric['weight'] * 100:.1f} %"
    return [
        code(metric["metric"], 80),
        *([metric["tier"] or formatting.DASH, labels, weight] if has_weights else []),
        *([] if has_weights else [labels, formatting.share(metric["pass_rate"])]),
        formatting.number(metric["mean"]) + unit,
        *([formatting.signed_number(metric["delta"])] if compared else []),
        formatting.count(metric["scored"]),
        formatting.count(metric["failed"]),
        formatting.count(metric["skipped"]),
    ]


def _published_numbers(numbers: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    if numbers:
        yield "### Published numbers"
        yield table(
            ["Name", "Value"],
            [[code(item["name"], 120), formatting.number(item["value"], 4)] for item in numbers],
            numbers=1,
        )


def _skipped_judges(skipped: Mapping[str, Any]) -> Iterator[Block]:
    if not skipped["shown"]:
        return
    yield "### Judges that did not apply"
    yield table(
        ["Judge", "Metrics", "Why", "Cases"],
        [
            [
                code(skip["judge"], 80),
                ", ".join(plain(name, 60) for name in skip["metrics"][:12]) or formatting.DASH,
                plain(skip["reason"]),
                formatting.count(skip["count"]),
            ]
            for skip in skipped["shown"][:MAX_ROWS]
        ],
        numbers=1,
    )
    if left := len(skipped["shown"][MAX_ROWS:]) + skipped["more"]:
        yield f"and {formatting.plural(left, 'more reason')}."


def _failures(data: Mapping[str, Any]) -> Iterator[Block]:
    codes = data["failure_codes"]["shown"][:20]
    yield "## Failures"
    if not codes:
        yield "No failure code was given."
    else:
        yield table(
            ["Failure code", "Metrics", "Times"],
            [
                [
                    code(failure["code"], 80),
                    ", ".join(plain(metric["name"], 60) for metric in failure["metrics"][:8]),
                    formatting.count(failure["count"]),
                ]
                for failure in codes
            ],
            numbers=1,
        )
    if data["root_causes"]:
        yield table(
            ["Root cause of failed cases", "Suggested fix", "Cases"],
            [
                [
                    code(cause["name"], 80),
                    plain(cause["suggested_fix"]),
                    formatting.count(cause["count"]),
                ]
                for cause in data["root_causes"][:20]
            ],
            numbers=1,
        )


def _problems(data: Mapping[str, Any]) -> Iterator[Block]:
    errors, ask_errors = data["cases"]["errors"][:20], data["ask_errors"]
    lines = [plain(warning, 500) for warning in data["warnings"]]
    lines += [
        f"{plain(entry['error'])}: {formatting.plural(entry['count'], 'time')}"
        for entry in ask_errors
    ]
    lines += [f"{code(case['case_id'], 80)}: {plain(case['error'])}" for case in errors]
    left = len(data["cases"]["errors"]) - len(errors) + data["cases"]["more_errors"]
    yield "## Errors and warnings"
    yield bullets(lines) if lines else "None."
    if left:
        yield f"and {formatting.plural(left, 'more case')} without a verdict."


def _usage(data: Mapping[str, Any]) -> Iterator[Block]:
    yield "## Time and money"
    for group in data["usage"]:
        yield table(
            [group["title"], ""],
            [[fact["name"], plain(fact["value"])] for fact in group["facts"]],
            numbers=1,
        )
    if len(data["judges"]) > 1:
        yield table(
            ["Judge", "Questions", "Calls", "Tokens in", "Tokens out", "Cost"],
            [
                [
                    code(judge["judge"], 80),
                    *(formatting.count(judge[name]) for name in _SPENT),
                    plain(formatting.money(judge["cost_usd"])),
                ]
                for judge in data["judges"]
            ],
            numbers=5,
        )


def _reproduce(data: Mapping[str, Any]) -> Iterator[Block]:
    yield "## How to get this run again"
    yield (
        f"Save the configuration (in report.html and report.json; hash "
        f"{code(data['run']['config_hash'])}) as `assizes.toml` and run:"
    )
    yield "```sh\n" + "\n".join(data["reproduce"]["commands"]) + "\n```"


def _read_first(data: Mapping[str, Any]) -> Iterator[Block]:
    cases = data["cases"]
    yield "## Cases to read first"
    if not cases["read_first"]:
        yield "There is no case."
    for case in cases["read_first"]:
        yield "\n\n".join(_case(case))
    left = cases["total"] - len(cases["read_first"])
    if left:
        yield f"{formatting.plural(left, 'more case')}: see report.html."


def _case(case: Mapping[str, Any]) -> Iterator[str]:
    word = formatting.mark(case["passed"]) if case["status"] == "judged" else case["status"]
    repetition = f", repetition {case['repetition']}" if case["repetition"] else ""
    changed = {"regression": ", ▼ worse", "improvement": ", ▲ better"}.get(case["change"], "")
    yield f"### {code(case['case_id'], 80)}{repetition}: {word}{changed}"
    yield plain(case["summary"] or "no verdict", 500)
    if case["root_cause"]:
        fix = f". {plain(case['suggested_fix'], 500)}" if case["suggested_fix"] else ""
        yield f"Root cause: {code(case['root_cause'], 80)}{fix}"
    if case["outcomes"]:
        yield bullets(
            f"{formatting.outcome_mark(outcome['passed'])} {plain(outcome['statement'])}: "
            f"{plain(outcome['justification'] or 'no justification was given')}"
            for outcome in case["outcomes"]
        )
    if case["findings"]:
        yield table(
            ["Metric", "Finding", "Justification", "Failure code", "Turns"],
            [
                [
                    code(f"{finding['metric']} {finding['part']}".strip(), 80),
                    plain(finding["shown"]),
                    plain(finding["justification"]) or formatting.DASH,
                    code(finding["failure_code"], 60)
                    if finding["failure_code"]
                    else formatting.DASH,
                    formatting.turns(finding["turns"]),
                ]
                for finding in case["findings"][:12]
            ],
        )
