-- Written by `make reference`. psql, in the folder of the CSV files: tables of an Assizes store.
-- The tables are filled anew each time, all of them or none.
\set ON_ERROR_STOP on
BEGIN;
CREATE SCHEMA IF NOT EXISTS assizes;
CREATE TABLE IF NOT EXISTS assizes.scores ("run_id" text, "case_id" text, "repetition" bigint, "judge" text, "metric" text, "part" text, "value" float8, "raw" float8, "label" text, "passed" boolean, "weight" float8, "tier" text, "status" text, "reason" text, "failure_code" text, "turns" jsonb, "details" text, "judge_version" text, "rubric_hash" text);
TRUNCATE assizes.scores;
\copy assizes.scores ("run_id", "case_id", "repetition", "judge", "metric", "part", "value", "raw", "label", "passed", "weight", "tier", "status", "reason", "failure_code", "turns", "details", "judge_version", "rubric_hash") FROM 'scores.csv' (FORMAT csv, HEADER)
CREATE TABLE IF NOT EXISTS assizes.asks ("run_id" text, "case_id" text, "repetition" bigint, "judge" text, "round" bigint, "index" bigint, "model" text, "provider" text, "answered_by" text, "prompt_hash" text, "cached" boolean, "attempts" bigint, "input_tokens" bigint, "output_tokens" bigint, "cost_usd" float8, "latency_ms" float8, "error" text, "reply" text, "sample" bigint, "fingerprint" text, "cost_source" text, "waited_ms" float8, "flags" jsonb, "trail" text, "cached_tokens" bigint, "cache_write_tokens" bigint);
TRUNCATE assizes.asks;
\copy assizes.asks ("run_id", "case_id", "repetition", "judge", "round", "index", "model", "provider", "answered_by", "prompt_hash", "cached", "attempts", "input_tokens", "output_tokens", "cost_usd", "latency_ms", "error", "reply", "sample", "fingerprint", "cost_source", "waited_ms", "flags", "trail", "cached_tokens", "cache_write_tokens") FROM 'asks.csv' (FORMAT csv, HEADER)
CREATE TABLE IF NOT EXISTS assizes.cases ("run_id" text, "case_id" text, "repetition" bigint, "transcript_uri" text, "position" bigint, "transcript_hash" text, "agent" text, "agent_version" text, "tags" text, "cluster" text, "started_at" timestamptz, "overall_score" float8, "score_passed" boolean, "passed" boolean, "gate" text, "root_cause" text, "summary" text, "status" text, "error" text, "turn_count" bigint, "agent_latency_ms" float8, "duration_ms" float8, "agent_tokens" bigint, "agent_input_tokens" bigint, "agent_output_tokens" bigint, "agent_cost_usd" float8, "tools" jsonb, "flags" jsonb, "system_prompt_hash" text, "turn_spans" jsonb);
TRUNCATE assizes.cases;
\copy assizes.cases ("run_id", "case_id", "repetition", "transcript_uri", "position", "transcript_hash", "agent", "agent_version", "tags", "cluster", "started_at", "overall_score", "score_passed", "passed", "gate", "root_cause", "summary", "status", "error", "turn_count", "agent_latency_ms", "duration_ms", "agent_tokens", "agent_input_tokens", "agent_output_tokens", "agent_cost_usd", "tools", "flags", "system_prompt_hash", "turn_spans") FROM 'cases.csv' (FORMAT csv, HEADER)
CREATE TABLE IF NOT EXISTS assizes.runs ("run_id" text, "name" text, "trigger" text, "status" text, "config" text, "config_hash" text, "judge_model" text, "started_at" timestamptz, "finished_at" timestamptz, "counts" text, "summary" text, "day" date);
TRUNCATE assizes.runs;
\copy assizes.runs ("run_id", "name", "trigger", "status", "config", "config_hash", "judge_model", "started_at", "finished_at", "counts", "summary", "day") FROM 'runs.csv' (FORMAT csv, HEADER)
CREATE TABLE IF NOT EXISTS assizes.run_metrics ("run_id" text, "name" text, "value" float8);
TRUNCATE assizes.run_metrics;
\copy assizes.run_metrics ("run_id", "name", "value") FROM 'run_metrics.csv' (FORMAT csv, HEADER)
CREATE TABLE IF NOT EXISTS assizes.rejects ("run_id" text, "uri" text, "position" bigint, "byte_offset" bigint, "reason" text, "detail" text, "sha256" text, "excerpt" text);
TRUNCATE assizes.rejects;
\copy assizes.rejects ("run_id", "uri", "position", "byte_offset", "reason", "detail", "sha256", "excerpt") FROM 'rejects.csv' (FORMAT csv, HEADER)
CREATE TABLE IF NOT EXISTS assizes.comparisons ("baseline" text, "candidate" text, "at" timestamptz, "verdict" text, "thresholds" text);
TRUNCATE assizes.comparisons;
\copy assizes.comparisons ("baseline", "candidate", "at", "verdict", "thresholds") FROM 'comparisons.csv' (FORMAT csv, HEADER)
CREATE TABLE IF NOT EXISTS assizes.calibrations ("fingerprint" text, "metric" text, "labels_hash" text, "run_id" text, "at" timestamptz, "record" text);
TRUNCATE assizes.calibrations;
\copy assizes.calibrations ("fingerprint", "metric", "labels_hash", "run_id", "at", "record") FROM 'calibrations.csv' (FORMAT csv, HEADER)
COMMIT;
