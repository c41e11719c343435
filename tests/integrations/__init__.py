"""Real trace stores: `make test-integrations` installs them in an environment of their own."""
