"""Your own network of sensors: readings, places, and the problem made of them."""
