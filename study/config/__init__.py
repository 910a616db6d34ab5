"""Reads a study file and its overrides into one validated `Study`.

`loader` reads them and checks every key, `schema` has the settings with their types and ranges, `validation` what must
hold between several settings, `paths` what must hold for folders and files.
"""
