"""The rules by which secrets and personal data are recognised, and the masking of secrets in logs."""
