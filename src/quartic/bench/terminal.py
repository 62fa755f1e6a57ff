"""What the commands of the harness share: options, what is shown while they run, and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from quartic.cli.terminal import Voice, errors_as_one_line

Starts = Annotated[int | None, typer.Option(min=1, help="Random starts.")]
Quick = Annotated[bool, typer.Option("--quick", help="A few minutes instead of hours.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the rows as JSON, nothing else.")]
Report = Annotated[str | None, typer.Option("--report", metavar="FILE.html", help="Write a page with all of it too.")]


@contextmanager
def running(command: str, report: str | None) -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """Show what is being run on a terminal, and nothing of it in a pipe; turn errors of the user's into one line."""
    from quartic.cli.results import check_target
    from quartic.report import report_available

    console = Console(stderr=True)
    with errors_as_one_line(Voice(command)):
        if report is not None:
            check_target(report, (".html", ".htm"), "--report")
            if not report_available():
                raise ImportError("--report needs plotly: pip install 'quartic[report]'")
        try:
            with console.status("", refresh_per_second=2) as status:
                yield (lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True)), status.update
        except KeyboardInterrupt:
            typer.echo("interrupted; the same command goes on from here", err=True)
            raise typer.Exit(130) from None


def show(title: str, table: str) -> None:
    """Print a Markdown table, drawn on a terminal, as it is in a pipe."""
    console = Console()
    if console.is_terminal:
        console.print(Markdown(f"## {title}\n\n{table}"))
    else:
        typer.echo(f"\n{title}\n\n{table}")
