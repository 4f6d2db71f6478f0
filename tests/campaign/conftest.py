"""Campaigns here do not wait for the disk."""

from tests.helpers.disks import skip_disk_sync

__all__ = ["skip_disk_sync"]
