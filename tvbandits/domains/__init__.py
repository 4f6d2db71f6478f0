"""Where a bandit may play: candidates, boxes, spaces with names, arms; contexts and availability."""
