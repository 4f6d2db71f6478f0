"""What a posterior says at any point and time, in the unit of the reward, and how that slopes."""
