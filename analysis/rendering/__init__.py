"""Tables and texts of the report as terminal output, Markdown, HTML and LaTeX."""
