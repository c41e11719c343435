"""Whether scores can be sent to the configured place, asked without writing anything there."""

from __future__ import annotations

from contextlib import closing

from assizes.judge.config.run import RunConfig
from assizes.tasks.publishing.places import open_place
from assizes.tasks.trace_stores.address import is_trace_store, parse_address
from assizes.tasks.trace_stores.readers import open_reader


def check_place(config: RunConfig) -> str | None:
    """Ask the place of `[publish]` whether it takes scores, and return what to say about it.

    None: the settings name no place, and nothing is sent by itself. The place is asked as for a run:
    its server, its keys, its project; then by a request that holds no score, where it has such.

    Raises:
        ConfigurationError: the place is not known, a variable is missing, or there is no such project.
        TraceStoreError: the server cannot be reached, or refuses the keys or the writing.
    """
    publish, transcripts = config.publish, config.transcripts.uri
    place = publish.to or (transcripts if is_trace_store(transcripts) else None)
    if place is None or not (publish.to or publish.after_run):
        return None
    with closing(open_place(place)) as chosen:
        if is_trace_store(place):
            with closing(open_reader(parse_address(place, "[publish] to"))) as reader:
                reader.check()
        access = chosen.write_access()
    when = "after each run" if publish.after_run else "by `assizes publish RUN` alone"
    return f"{place}: {chosen.uri}; {access}; {', '.join(publish.include)} are sent {when}"
