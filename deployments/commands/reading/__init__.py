"""Commands that only list what is stored, and load nothing else."""
