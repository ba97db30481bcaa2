"""Runs a notebook without Jupyter: its cells in turn, in one namespace, and what each prints and shows.

    python -m support.notebook FILE FOLDER      # run it in a folder, and write what it shows into it

Only what Python itself reads may stand in the cells: no `%` and no `!`.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

Output = dict[str, Any]


def outputs(notebook: dict[str, Any], folder: Path) -> list[list[Output]]:
    """Run the code cells in a folder; return what each prints, and what its last expression shows."""
    names: dict[str, Any] = {"__name__": "__main__"}
    before = Path.cwd()
    os.chdir(folder)
    try:
        return [_run(cell, names, folder) for cell in code_cells(notebook)]
    finally:
        os.chdir(before)


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _run(cell: dict[str, Any], names: dict[str, Any], folder: Path) -> list[Output]:
    tree = ast.parse("".join(cell["source"]))
    last = tree.body[-1] if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    statements = tree.body[:-1] if last is not None else tree.body
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(statements, []), "cell", "exec"), names)
        shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last is not None else None
    made: list[Output] = []
    if printed.getvalue():
        made.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue(), folder)})
    if shown is not None:
        data: dict[str, Any] = {"text/plain": _lines(repr(shown), folder)}
        html = shown._repr_html_() if hasattr(shown, "_repr_html_") else None
        if html is not None:
            data["text/html"] = _lines(html, folder)
        if hasattr(shown, "savefig"):
            data["image/png"] = _picture(shown)
        made.append({"output_type": "display_data", "metadata": {}, "data": data})
    return made


def _picture(figure: Any) -> str:
    """Return a figure of Matplotlib as Jupyter shows it: a picture in PNG, in Base64."""
    png = io.BytesIO()
    figure.savefig(png, format="png", metadata={"Software": None})
    return base64.b64encode(png.getvalue()).decode()


def _lines(text: str, folder: Path) -> list[str]:
    """Return a text as notebooks keep it, and as it is in whatever folder it was made."""
    return text.replace(f"{folder.resolve()}{os.sep}", "").splitlines(keepends=True)


def write(file: Path, folder: Path) -> None:
    """Run a notebook and keep in it what it shows."""
    notebook = json.loads(file.read_text(encoding="utf-8"))
    for cell, made in zip(code_cells(notebook), outputs(notebook, folder), strict=True):
        cell["outputs"] = made
    file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
