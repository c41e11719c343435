"""Provider batches: requests written as files, handed in once, and their results collected."""
