"""The conversation judge of seed 000: nine metrics and the expected outcomes in one ask."""
