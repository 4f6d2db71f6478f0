"""Define how old observations lose their weight."""
