"""What reports and pages show, as plain data."""
