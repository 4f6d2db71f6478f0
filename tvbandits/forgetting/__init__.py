"""How old observations lose their weight."""
