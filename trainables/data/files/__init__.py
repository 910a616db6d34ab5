"""Files that several tasks and commands read: texts, lines and objects, and runs."""
