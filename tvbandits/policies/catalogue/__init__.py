"""All policies by name."""
