"""Any table in, any table out: dialects of CSV, frames, files that are whole or not there, locks."""
