-- Views over a Parquet store for DuckDB: only rows that are committed, of all runs.
-- Set the folder of the store (or s3://bucket/lake, with DuckDB's httpfs) first:
--   SET VARIABLE lake = 'lake';
-- The views see what was committed when this file was read; read it again for later runs.

-- Marks name the parts of a shard; generations replace the marks of the shards that they list.
CREATE OR REPLACE TEMP TABLE marks AS
SELECT
    regexp_extract(filename, '^(.*)/(commits|generations)/[^/]+$', 1) AS run,
    filename LIKE '%/generations/%' AS is_generation,
    filename AS file,
    content::JSON AS mark
FROM read_text(getvariable('lake') || '/runs/*/*/*.json')
WHERE regexp_matches(filename, '/(commits|generations)/[^/]+$');

CREATE OR REPLACE TEMP TABLE newest AS
SELECT run, max(file) AS file FROM marks WHERE is_generation GROUP BY run;

CREATE OR REPLACE TEMP TABLE replaced AS
SELECT marks.run, unnest(json_extract_string(mark, '$.shards[*]')) AS shard
FROM marks JOIN newest USING (run, file);

CREATE OR REPLACE TEMP TABLE named AS
SELECT marks.run, tables.name AS table_name,
    unnest(json_transform(json_extract(mark, '$.parts.' || tables.name), '["JSON"]')) ->> 'name' AS part
FROM marks JOIN newest USING (run, file), (VALUES ('scores'), ('asks'), ('cases')) AS tables(name)
UNION ALL
SELECT marks.run, tables.name, json_extract_string(mark, '$.parts.' || tables.name || '.name')
FROM marks, (VALUES ('scores'), ('asks'), ('cases')) AS tables(name)
WHERE NOT is_generation
  AND NOT EXISTS (SELECT 1 FROM replaced WHERE replaced.run = marks.run AND replaced.shard = json_extract_string(mark, '$.shard'));

SET VARIABLE scores = (SELECT list(run || '/parts/' || part) FROM named WHERE table_name = 'scores' AND part IS NOT NULL);
SET VARIABLE asks = (SELECT list(run || '/parts/' || part) FROM named WHERE table_name = 'asks' AND part IS NOT NULL);
SET VARIABLE cases = (SELECT list(run || '/parts/' || part) FROM named WHERE table_name = 'cases' AND part IS NOT NULL);

CREATE OR REPLACE TEMP VIEW scores AS SELECT * FROM read_parquet(getvariable('scores'), union_by_name = true);
CREATE OR REPLACE TEMP VIEW asks AS SELECT * FROM read_parquet(getvariable('asks'), union_by_name = true);
CREATE OR REPLACE TEMP VIEW cases AS SELECT * FROM read_parquet(getvariable('cases'), union_by_name = true);
