"""What the commands about people and judges do: labels, calibrations, alignment."""
