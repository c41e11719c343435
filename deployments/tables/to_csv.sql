-- Written by `make reference`. DuckDB, connected to a store: a CSV file for each table.
COPY (SELECT * REPLACE (to_json("turns") AS "turns") FROM scores) TO 'scores.csv' (HEADER);
COPY (SELECT * REPLACE (to_json("flags") AS "flags") FROM asks) TO 'asks.csv' (HEADER);
COPY (SELECT * REPLACE (to_json("tools") AS "tools", to_json("flags") AS "flags", to_json("turn_spans") AS "turn_spans") FROM cases) TO 'cases.csv' (HEADER);
COPY (SELECT * FROM runs) TO 'runs.csv' (HEADER);
COPY (SELECT * FROM run_metrics) TO 'run_metrics.csv' (HEADER);
COPY (SELECT * FROM rejects) TO 'rejects.csv' (HEADER);
COPY (SELECT * FROM comparisons) TO 'comparisons.csv' (HEADER);
COPY (SELECT * FROM calibrations) TO 'calibrations.csv' (HEADER);
