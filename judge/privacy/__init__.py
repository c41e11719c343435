"""The rules that recognise secrets and personal data, and the masking of secrets in logs."""
