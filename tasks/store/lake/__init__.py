"""The store that is a lake of Parquet files in a folder or a bucket."""
