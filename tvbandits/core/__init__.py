"""Arrays, observations, domains, protocols and linear algebra, which all other folders use."""
