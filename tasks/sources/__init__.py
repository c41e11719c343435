"""Transcript objects on disk and on S3: listed, fetched, unpacked, read line by line."""
