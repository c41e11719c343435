"""Transcript objects on disk and on S3: how they are listed, fetched and unpacked."""
