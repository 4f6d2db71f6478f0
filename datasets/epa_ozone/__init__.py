"""Daily ozone levels of the US EPA: a download, a reader, the ozone benchmark, a simulated network."""
