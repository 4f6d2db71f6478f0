"""What can be put around an expert: budgets, retries, calibration, several at once."""
