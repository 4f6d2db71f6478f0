"""Domains of a bandit: candidates, boxes, spaces with names, arms; their contexts and availability."""
