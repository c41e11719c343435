"""What the commands about suites do: cases of runs written into suites, and how suites stand."""
