"""Live view of a command on a terminal: bars and a few lines below the lines of the log.

A notebook shows them as one output that changes. Where there is neither, nothing is shown. The lines of the log are the
same in all cases.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from trainables.utils.cli import escape_control_characters, replace_unencodable

_REFRESHES_PER_SECOND = 4
_MAX_RUNNING = 8
"""Most running trials that are named."""


class LiveView:
    """Bars and lines at the bottom of the terminal, below the log.

    Args:
        stream: where to show them. If None, the standard output.

    Example:
        >>> with LiveView() as view:  # shows nothing here, since this is no terminal
        ...     view.start("T-LS seed 1")
        ...     view.set_share("T-LS seed 1", 0.5)
        ...     view.set_progress("runs", 3, 10, "about 2 min left")
        ...     view.end("T-LS seed 1")
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._is_notebook = stream is None and Console().is_jupyter
        self._console = Console(
            file=replace_unencodable(stream or sys.stdout),
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=True,
            force_jupyter=False,
            force_terminal=False if self._is_notebook else None,
        )
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._running: dict[str, tuple[float, str]] = {}
        """Start of each, on the monotonic clock, and the share that is done, as text."""
        self._scores: dict[str, str] = {}
        self._score_title = ""
        self._live = (_NotebookLive if self._is_notebook else Live)(
            get_renderable=self._render, console=self._console, refresh_per_second=_REFRESHES_PER_SECOND, transient=True
        )

    def __reduce__(self) -> tuple[type["LiveView"], tuple[()]]:
        """Let Tune copy its search algorithm with everything that it refers to; a copy shows nothing."""
        return LiveView, ()

    @property
    def is_visible(self) -> bool:
        """True if the stream is a terminal that can show the view, or that of a notebook."""
        return self._is_notebook or (self._console.is_terminal and not self._console.is_dumb_terminal)

    def __enter__(self) -> Self:
        if self.is_visible:
            self._live.start()
            self._console.show_cursor(True)  # a killed process could not show it again
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def set_progress(self, name: str, done: int, total: int | None, note: str = "") -> None:
        """Show how much of an activity is done. It disappears when all of it is done.

        Args:
            name: name of the activity.
            done: finished parts.
            total: all parts. If None, their number is unknown.
            note: text to the right of the bar.
        """
        if total is not None and done >= total:
            self._remove(name)
        elif name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total, completed=done, note=note)
        else:
            self._bars.update(self._tasks[name], total=total, completed=done, note=note)

    @contextmanager
    def show_activity(self, name: str) -> Iterator[None]:
        """Show within the context that an activity of unknown length is going on."""
        self.set_progress(name, 0, None)
        try:
            yield
        finally:
            self._remove(name)

    def start(self, name: str) -> None:
        """Show that something is running, until `end` is called with the same name."""
        self._running[name] = time.monotonic(), ""

    def set_share(self, name: str, share: float) -> None:
        """Show how much of something that is running is done, from 0 to 1."""
        if name in self._running:
            self._running[name] = self._running[name][0], f"{share:.0%}"

    def end(self, name: str) -> None:
        """Show no longer that something is running."""
        self._running.pop(name, None)

    def set_score(self, title: str, name: str, score: str) -> None:
        """Show the best score of a system.

        Args:
            title: what the scores are. Scores with another title are no longer shown.
            name: name of the system.
            score: the score as text.
        """
        earlier = self._scores if title == self._score_title else {}
        self._score_title, self._scores = title, earlier | {name: score}

    def _remove(self, name: str) -> None:
        if name in self._tasks:
            self._bars.remove_task(self._tasks.pop(name))

    def _render(self) -> Group:
        rows = Table.grid(padding=(0, 2))
        now = time.monotonic()
        running = list(self._running.items())
        for name, (start, share) in running[:_MAX_RUNNING]:
            rows.add_row(Text("running", "dim"), _make_text(name), f"{now - start:.0f} s", share)
        if len(running) > _MAX_RUNNING:
            rows.add_row(Text("running", "dim"), f"{len(running) - _MAX_RUNNING} more", "")
        if self._scores:
            scores = "   ".join(f"{name} {score}" for name, score in self._scores.items())
            rows.add_row(Text(self._score_title, "dim"), _make_text(scores), "")
        return Group(rows, self._bars.get_renderable())


class _NotebookLive(Live):
    """Shows a view as one output of a notebook, which changes in place and disappears at the end.

    The one of rich needs a widget, into which lines of the log disappear that are printed at the same time.
    """

    _handle: Any = None

    def start(self, refresh: bool = False) -> None:
        """Show the view below the cell that this thread runs."""
        super().start(refresh=True)

    def refresh(self) -> None:
        """Show the view as it is now."""
        console = Console(file=StringIO(), record=True, width=100, force_jupyter=False)
        console.print(self.get_renderable())
        self._show(console.export_html(inline_styles=True, code_format="<pre>{code}</pre>"))

    def stop(self) -> None:
        """Remove the view."""
        super().stop()
        if self._handle is not None:
            self._show("")

    def _show(self, html: str) -> None:
        from IPython.display import HTML, display

        if self._handle is None:
            self._handle = display(HTML(html), display_id=True)
        else:
            self._handle.update(HTML(html))


def _make_text(text: str) -> Text:
    return Text(escape_control_characters(text))
