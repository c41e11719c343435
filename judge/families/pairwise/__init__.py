"""Judges that compare two answers or conversations of one case, asked in both orders."""
