"""Reading and writing of tables: CSV, Parquet, frames, atomic file writes and file locks."""
