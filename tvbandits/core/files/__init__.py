"""The form of a journal: rows in JSON, each with a checksum of itself and of the row before it."""
