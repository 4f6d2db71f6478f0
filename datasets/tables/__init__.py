"""Fixed tables of rewards, how they are read, and what simple references earn on them."""
