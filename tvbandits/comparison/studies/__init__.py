"""Comparisons on any number of machines, kept run by run; boards, ranks and other metrics."""
