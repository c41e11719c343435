"""The offline judge `offline/lexical`: plain text rules in place of a language model."""
