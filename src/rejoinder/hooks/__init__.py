"""Events of outside systems: topics, hooks, and the runs that they come to."""
