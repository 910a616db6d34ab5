"""One file a command: run a study, dry run, prepare data, open a study's folder, clean it."""
