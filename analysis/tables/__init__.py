"""Every table of the report as data, before it is formatted."""
