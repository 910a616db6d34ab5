"""Renders the tables and texts of the report for the terminal, Markdown, HTML and LaTeX."""
