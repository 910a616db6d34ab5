"""Command lines that answer a mistake in one line, as everything else does."""

import argparse
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Prints the usage only when asked for it."""

    def error(self, message: str) -> NoReturn:
        """Ends the program with status 2."""
        self.exit(2, f"{self.prog.split()[-1]}: command line: {message}; expected what --help shows\n")
