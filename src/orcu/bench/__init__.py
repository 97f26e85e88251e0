"""The benchmark: specs in TOML, runs that are done once, tables as the paper prints them."""
