"""What everything else speaks in: arrays, observations, domains, protocols, linear algebra."""
