"""What people decide about the causes of failures of stored runs."""
