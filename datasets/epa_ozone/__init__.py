"""Daily ozone of the US EPA: files, downloads, the benchmark on them, and a simulated network."""
