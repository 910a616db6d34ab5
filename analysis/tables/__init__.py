"""The tables of the report as data, before they are formatted."""
