"""Readers of tables with readings, and the regret of simple reference players on a table of rewards."""
