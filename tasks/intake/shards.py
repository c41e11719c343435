"""From transcript objects to shards (planning), and from a shard back to its cases (judging).

Planning reads every record once and gives it a fate: judged, duplicate, rejected or not selected.
Only the fates and some offsets are kept, never the transcripts, so a plan stays small however large
the run is. Reading a shard gives back exactly what the plan promised for it, record by record.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, Final

from assizes.judge.case import Case
from assizes.judge.config.transcripts import SelectionConfig, TranscriptsConfig
from assizes.judge.errors import DataError
from assizes.judge.evidence.tool_calls import NO_TOOL_TRACE
from assizes.judge.rows import as_json
from assizes.judge.selection import Stratum, draw_sample
from assizes.judge.summary.run_intervals import PopulationNumber
from assizes.tasks.intake import plan as plans
from assizes.tasks.intake.preprocessing import DEFAULT_PREPROCESSOR, CasePreprocessor
from assizes.tasks.intake.reader import TranscriptReader, excerpt_of, sha256_of
from assizes.tasks.intake.record_joining import check_manifest_digest
from assizes.tasks.intake.run_sources import expand, selected_sources
from assizes.tasks.intake.scan import Scan, ScannedObject
from assizes.tasks.intake.waves import ShardCut, Wave, wave_cuts
from assizes.tasks.sources.spool import Spool

_PASSED_FATES: Final = {plans.JUDGED_BEFORE: "judged_before", plans.NOT_QUIET: "not_quiet"}
"""The keys of `Plan.passed`, by fate."""


@dataclass(frozen=True)
class ShardRecord:
    """One record of a shard: a case, or the reason why the record is no case."""

    position: int  # in the object, from 0; blank lines are not counted
    case: Case | None  # as the judges see it; `None` for a reject
    reject: DataError | None  # `None` for a case
    excerpt: str  # how a rejected record begins, at most 80 printable characters
    offset: int | None = None  # first byte of a rejected line, unpacked; `None` in a document
    sha256: str | None = None  # of the bytes of a reject; `None` for a whole object


def plan_intake(
    config: TranscriptsConfig,
    shard_size: int,
    spool: Spool,
    *,
    date: dt.date | None = None,
    on_progress: Callable[[int], None] | None = None,
    policy: plans.ScanPolicy = plans.DEFAULT_SCAN_POLICY,
) -> plans.Plan:
    """Read every record once and cut the records that are to be judged into shards.

    A shard has at most `shard_size` cases. `date` fills the date placeholders of the URI, and
    `on_progress` is called with the number of records read so far, about every thousand. The
    preprocessor of `policy` must be that with which the shards will be read.

    Raises:
        ConfigurationError: the transcripts cannot be reached, or ground truth names no case.
        NothingDue: `no_data`, nothing is left to judge.
        Unreconciled: a record has no fate, or two.
    """
    scan = Scan(config, TranscriptReader(config, spool), policy, on_progress)
    for source in selected_sources(config, date, policy, spool):
        scan.read(source)
    scan.resolve_duplicates()
    # The sample is drawn after duplicates are known, so that no copy takes a place in it.
    plan = _plan(scan, shard_size, policy.preprocessor, _sample_cases(scan.objects, config))
    plan.check()
    if not plan.due:
        where = config.uri if config.again else expand(config.uri, date)
        message = f"no_data: nothing to judge in {where!r}: {_why_nothing(plan, scan)}"
        raise plans.NothingDue(message, plan, scan.first_rejects)
    return plan


def _why_nothing(plan: plans.Plan, scan: Scan) -> str:
    """Why a plan has no case to judge: the counts, the first reasons of rejects, what to do."""
    why = ", ".join(f"{code} {count}" for code, count in plan.reasons.items()) or "none"
    passed = "".join(f", {count} of them {name}" for name, count in plan.passed.items())
    if plan.rejected:
        remedy = f"{scan.first_rejects}; once they are mended, `assizes doctor` reads them again"
    elif plan.unselected:
        remedy = "[transcripts] where, filter, sample and since_last say what is judged"
    else:
        remedy = "the files are empty; [transcripts] uri names others"
    return (
        f"{plan.read} records read, {plan.rejected} rejected ({why}), {plan.unselected} not "
        f"selected{passed}; {remedy}"
    )


def read_shard(
    shard: plans.Shard,
    config: TranscriptsConfig,
    spool: Spool,
    preprocessor: CasePreprocessor = DEFAULT_PREPROCESSOR,
) -> Iterator[ShardRecord]:
    """The cases and the rejects of a shard, in order; each promised record exactly once.

    Where the object, or an object that it names, is gone or has changed since the plan, every
    promised record is a reject.
    """
    if shard.failure is not None:  # the plan could not read the object: one reject for all of it
        code, detail, excerpt = shard.failure
        yield ShardRecord(shard.start, None, DataError(code, detail), excerpt)
        return
    due, rejected = frozenset(shard.due_positions()), frozenset(shard.rejected)
    promised_positions = sorted(due | rejected)
    reader = TranscriptReader(config, spool)
    format_ = reader.format_named(shard.format)
    with ExitStack() as closing:
        try:
            if shard.named is not None:
                check_manifest_digest(spool, shard.source, format_, shard.named)
            opened = spool.open(shard.source)
            closing.enter_context(opened.stream)
            raws = reader.records(opened, format_, shard.start, shard.byte_start or 0)
        except DataError as error:
            yield from (ShardRecord(position, None, error, "") for position in promised_positions)
            return
        # Duplicates and unselected records lie between the promised ones.
        promised = (raw for raw in raws if raw.position in due or raw.position in rejected)
        for raw in islice(promised, len(promised_positions)):  # no further: other shards follow
            case = reader.case(raw, format_)
            # A case that can be read and is not due: the plan found two contents of one identity.
            if isinstance(case, Case) and raw.position not in due:
                name = f"case {case.case_id!r} repetition {case.repetition}"
                case = DataError("id_conflict", f"{name} is there with another content")
            if isinstance(case, Case):
                case = preprocessor.prepared_case(case)
                if not shard.has_tool_trace:
                    metadata = {**case.metadata, NO_TOOL_TRACE: True}
                    case = case.model_copy(update={"metadata": metadata})
                yield ShardRecord(raw.position, case, None, "")
                continue
            fault = preprocessor.redacted_fault(case)
            excerpt = excerpt_of(raw.body, preprocessor.redacted_excerpt)
            yield ShardRecord(raw.position, None, fault, excerpt, raw.offset, sha256_of(raw))


def _plan(
    scan: Scan, shard_size: int, preprocessor: CasePreprocessor, design: dict[str, Any]
) -> plans.Plan:
    objects, truth = scan.objects, preprocessor.truth
    fates = sum((Counter(scanned.fates) for scanned in objects), Counter[int]())
    # What is judged, whatever the shard size: the run id is made of it (docs/decisions.md, 3).
    content: list[Any] = [(s.source.uri, s.source.etag, s.fates.decode()) for s in objects]
    content += [(s.source.uri, s.manifest_pin) for s in objects if s.manifest_pin is not None]
    content += [preprocessor.truth_digest] if truth else []
    cuts: list[ShardCut] = []
    waves: list[Wave] = []
    if (rules := scan.policy.waves) is not None:
        cuts, waves = wave_cuts(objects, rules, scan.config.seed, shard_size)
        design = {**design, "waves": [list(wave) for wave in waves]} if waves else design
    shards = [_wave_shard(number, objects[cut.object], cut) for number, cut in enumerate(cuts)]
    for scanned in () if waves else objects:
        due = [position for position, fate in enumerate(scanned.fates) if fate == plans.DUE]
        # Cut before every `shard_size`-th due record; other records belong to the shard before it.
        for start, stop in pairwise([0, *due[shard_size::shard_size], len(scanned.fates)]):
            # Records without any case or reject need no shard.
            if not {plans.DUE, plans.REJECTED}.isdisjoint(scanned.fates[start:stop]):
                shards.append(_shard(len(shards), scanned, start, stop))
    # A single conversation, or those judged again, may be without calls by the agent's own fault.
    is_telling = fates[plans.DUE] > 1 and scan.config.again is None
    has_tool_trace = not is_telling or bool(scan.part_counts["tool_calls"])
    return plans.Plan(
        shards=tuple(replace(shard, has_tool_trace=has_tool_trace) for shard in shards),
        read=scan.total,
        due=fates[plans.DUE],
        duplicates=fates[plans.DUPLICATE],
        rejected=fates[plans.REJECTED],
        unselected=sum(fates[fate] for fate in plans.LEFT_OUT),
        content_hash=hashlib.sha256(as_json(content).encode("utf-8", "surrogatepass")).hexdigest(),
        objects={
            "listed": len(objects),
            "read": sum(bool(scanned.fates) and scanned.failure is None for scanned in objects),
            "empty": sum(not scanned.fates for scanned in objects),
            "rejected": sum(scanned.failure is not None for scanned in objects),
            "reread": sum(scanned.was_reread for scanned in objects),
        },
        odd=dict(sorted(scan.oddity_counts.items())),
        reasons=dict(sorted(scan.reasons.items())),
        design=design,
        truth=truth.counts(scan.case_ids) if truth else {},
        truth_digest=preprocessor.truth_digest,
        kept=dict(sorted(scan.part_counts.items())),
        passed={name: fates[fate] for fate, name in _PASSED_FATES.items() if fates[fate]},
    )


def _wave_shard(number: int, scanned: ScannedObject, cut: ShardCut) -> plans.Shard:
    if cut.takes_others:
        return _shard(number, scanned, 0, len(scanned.fates), cut)
    return _shard(number, scanned, cut.due[0], cut.due[-1] + 1, cut)


def _shard(
    number: int, scanned: ScannedObject, start: int, stop: int, cut: ShardCut | None = None
) -> plans.Shard:
    fates, offsets = scanned.fates[start:stop], scanned.offsets
    places: dict[int, tuple[int, ...]] = {  # fate -> positions in the object
        wanted: tuple(place for place, fate in enumerate(fates, start) if fate == wanted)
        for wanted in (plans.DUE, plans.DUPLICATE, plans.REJECTED)
    }
    if cut is not None:
        kept = {} if cut.takes_others else {plans.DUPLICATE: (), plans.REJECTED: ()}
        places |= {plans.DUE: cut.due, **kept}
    unselected = sum(fates.count(fate) for fate in plans.LEFT_OUT)
    # Offsets may be empty, and the last shard of an object ends with the file.
    byte_stop = offsets[stop] if stop < len(offsets) else scanned.end
    body: dict[str, Any] = {
        "uri": scanned.source.uri,
        "etag": scanned.source.etag,
        "size": scanned.source.size,
        "format": scanned.format,
        "start": start,
        "stop": stop,
        # Records that are no lines have no offsets.
        "byte_start": offsets[start] if offsets else None,
        "byte_stop": byte_stop if offsets else None,
        "take": places[plans.DUE] if unselected or cut else None,  # else it follows from the others
        "duplicates": places[plans.DUPLICATE],
        "unselected": unselected,
        "rejected": places[plans.REJECTED],
        "duplicate_of": tuple(scanned.copies[position] for position in places[plans.DUPLICATE]),
        "failure": scanned.failure,
    }
    if scanned.manifest_pin is not None:
        body["named"] = scanned.manifest_pin
    if scanned.listed_until:
        body["listed_until"] = tuple(sorted(scanned.listed_until.items()))
    return plans.Shard(shard_id=f"{number:06d}-{plans.digest(as_json(body), 4).hex()}", **body)


def _sample_cases(objects: list[ScannedObject], config: SelectionConfig) -> dict[str, Any]:
    """Mark as unselected the cases not drawn, and those over the limit; return `Plan.design`."""
    strata = _draw(objects, config) if config.is_sampled else ()
    cut = 0  # due cases behind the limit
    if config.limit is not None:
        due = (
            (scanned.fates, position)
            for scanned in objects
            for position, fate in enumerate(scanned.fates)
            if fate == plans.DUE
        )
        for fates, position in islice(due, config.limit, None):
            fates[position] = plans.UNSELECTED
            cut += 1
    if not strata and not cut:  # all cases are judged
        return {}
    return {
        "by": list(config.stratify_by),
        "seed": config.seed,
        "strata": [stratum.model_dump() for stratum in strata],
        "limited": cut,
    }


def _draw(objects: list[ScannedObject], config: SelectionConfig) -> tuple[Stratum, ...]:
    """Mark the cases that are not drawn as unselected; return the strata of the sample."""
    # All repetitions of a case are drawn together, from the stratum of the one read first.
    strata: dict[str, str] = {}  # case id -> name of the stratum
    for scanned in objects:
        for position, (case_id, name) in scanned.sample_keys.items():
            if scanned.fates[position] == plans.DUE:
                strata.setdefault(case_id, name)
    drawn_ids, drawn_strata = draw_sample(strata, config)
    for scanned in objects:
        for position, (case_id, _) in scanned.sample_keys.items():
            if scanned.fates[position] == plans.DUE and case_id not in drawn_ids:
                scanned.fates[position] = plans.UNSELECTED
        scanned.sample_keys = {}
    return drawn_strata


def warning_lines(
    design: Mapping[str, Any], truth: Mapping[str, int], of_all: Mapping[str, PopulationNumber]
) -> tuple[str, ...]:
    """What a report must say about `Plan.design` and `Plan.truth`, one line each.

    `of_all` holds estimates for all cases that could have been drawn, by name.
    """
    lines = []
    if design.get("strata"):
        cases, drawn_count = (
            sum(stratum[name] for stratum in design["strata"]) for name in ("cases", "drawn")
        )
        numbers = "".join(
            f"; {name} of all {_number_text(number)}" for name, number in of_all.items()
        )
        lines.append(f"sampled: {drawn_count} of {cases} cases were drawn{numbers}")
    if design.get("limited"):
        lines.append(
            f"limited: {design['limited']} cases beyond the limit were left out, and not by chance"
        )
    if truth.get("rows_without_case"):
        lines.append(
            f"ground_truth: {truth['rows_without_case']} of {truth['rows']} rows name no case that "
            "was read"
        )
    if truth.get("cases_without_row"):
        lines.append(f"ground_truth: {truth['cases_without_row']} cases that were read have no row")
    return tuple(lines)


def _number_text(number: PopulationNumber) -> str:
    if number.low is None or number.high is None:
        return f"{number.value:.3g} (no interval: too few cases of a stratum)"
    return f"{number.value:.3g} ({number.low:.3g} to {number.high:.3g})"
