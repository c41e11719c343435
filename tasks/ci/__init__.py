"""What a CI job is told about a run: which run it is compared with, and what a person should read."""
