"""Profiles in Apache Parquet, for SQL and data frames larger than memory (docs/views.md). Needs pyarrow."""
