"""Campaigns here do not wait for the disk."""

from tests.helpers.disks import commits_do_not_wait

__all__ = ["commits_do_not_wait"]
