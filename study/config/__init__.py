"""From a study file and overrides to one validated `Study`."""
