"""Named bytes that are created once, in a local folder or in any bucket that fsspec reaches."""
