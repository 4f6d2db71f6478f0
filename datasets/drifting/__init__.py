"""Made-up problems of the literature: peaks that move, arms that switch, drift or wear out."""
