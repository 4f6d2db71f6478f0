"""Files: tables that may be broken, hostile or not meant; and values that are saved without code."""
