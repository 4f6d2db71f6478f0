"""Finite tables of rewards of anybody: a file is a problem."""
