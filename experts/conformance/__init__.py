"""Finding out whether an expert keeps to the protocol."""
