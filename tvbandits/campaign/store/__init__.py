"""Where a campaign lies: tables, a lock that writers take in turns, and rows with chained checksums."""
