"""What all commands share: how they speak, stop and leave pages behind."""
