"""From beliefs to the next point: widths, batches, pending points."""
