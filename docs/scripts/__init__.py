"""Scripts of the documentation: they write the generated pages and look at the built site."""
