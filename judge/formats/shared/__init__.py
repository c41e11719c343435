"""What several format readers need: strict JSON, message parts, spans, fidelity counts."""
