"""Commands about failures: their causes, and the suites that keep them from coming back."""
