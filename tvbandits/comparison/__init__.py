"""Policies x problems x seeds: rows, tables and pictures."""
