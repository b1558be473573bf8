"""Profiles in Apache Parquet, for SQL and data frames larger than memory (docs/parquet.md). Needs pyarrow."""
