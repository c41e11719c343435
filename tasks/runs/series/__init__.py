"""What is kept of the series of runs, so that trends over thousands of runs read no rows."""
