"""Experts that query measuring stations, over MQTT or through a stub in this process."""
