"""The files of a comparison: tables for papers and for programs, figures, and a page with everything."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from testbed.common.errors import UserError
from testbed.comparison.compare_tables import tables
from testbed.comparison.compare_text import headline
from testbed.comparison.compared_runs import ComparedRun

_LATEX = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "−": "$-$",
        "±": r"$\pm$",
        "–": "--",
        "<": "$<$",
        ">": "$>$",
        "\n": " ",
    }
)
_MARKDOWN = str.maketrans({sign: rf"\{sign}" for sign in r"\`*_<>[]|&~$"} | {"\n": " ", "\r": " "})

CSV_FILES = ("compare.csv", "paired.csv", "runs.csv")
_GROUP_COLUMNS = ("group", "strategy", "quantity", "unit", "count", "mean", "half", "low", "high")
_PAIR_COLUMNS = ("first", "second", "quantity", "unit", "pairs", "by", "mean", "p", "smallest_p")


def write(out: Path, table: Mapping[str, Any], runs: Sequence[ComparedRun]) -> list[Path]:
    """Write all files and return their paths, the page first; files of an earlier comparison are overwritten."""
    from testbed.comparison import compare_page  # imported late: jinja2 would slow down other commands

    try:
        out.mkdir(parents=True, exist_ok=True)
        figures, inline = _figures(out / "figures", table, runs)
        texts = {
            "compare.html": compare_page.render(table, inline, out),
            "compare.md": _markdown(table, [path.relative_to(out) for path in figures]),
            "compare.tex": _latex(table),
        }
        for name, text in texts.items():
            (out / name).write_text(text, encoding="utf-8")
        _write_csv(out / "compare.csv", _GROUP_COLUMNS, _group_rows(table))
        _write_csv(out / "paired.csv", _PAIR_COLUMNS, _pair_rows(table))
        _write_csv(out / "runs.csv", list(table["runs"][0]), table["runs"])
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written to: {error.strerror}; choose another folder") from None
    return [*(out / name for name in texts), *(out / name for name in CSV_FILES), *figures]


def _figures(folder: Path, table: Mapping[str, Any], runs: Sequence[ComparedRun]) -> tuple[list[Path], dict[str, str]]:
    """Draw and save the figures; returns the files, and title → SVG for the page."""
    from testbed.comparison import compare_figures  # imported late: matplotlib is slow
    from testbed.report.figures import inline_svg, style

    folder.mkdir(exist_ok=True)
    files, inline = list[Path](), dict[str, str]()
    with style.style():
        for picture in compare_figures.draw(table, runs):
            files += style.save(picture, folder)
            inline[picture.title] = inline_svg.svg(picture)
    return files, inline


# ---- for programs


def _group_rows(table: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """One row for each quantity of each group."""
    units = _units(table)
    for group in table["groups"]:
        for quantity, found in group["values"].items():
            if found is not None:
                named = {"group": group["label"], "strategy": group["strategy"], "quantity": quantity}
                yield named | {"unit": units[quantity], **found}


def _pair_rows(table: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """One row for each quantity of every two groups: the first minus the second."""
    units = _units(table)
    return (row | {"unit": units[row["quantity"]]} for row in table["paired"])


def _units(table: Mapping[str, Any]) -> dict[str, str]:
    return {quantity["key"]: quantity["unit"] for quantity in table["quantities"]}


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


# ---- for papers


def _markdown(table: Mapping[str, Any], figures: Sequence[Path]) -> str:
    parts = ["# Comparison", _plain(headline(table))]
    for each in tables(table):
        ruler = ["---", *("---:" for _ in each.columns[1:])]
        first, *others = ([_plain(cell) for cell in row] for row in (each.columns, *each.rows))
        lines = [first, ruler, *others]
        parts += [f"## {each.title}", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    parts += ["\n".join(f"- {_plain(line)}" for line in (*table["paired_by"], *table["notes"]))]
    parts += [
        f"![{_plain(path.stem.replace('-', ' '))}]({quote(path.as_posix())})"
        for path in figures
        if path.suffix == ".svg"
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _plain(text: str) -> str:
    return text.translate(_MARKDOWN)


def _latex(table: Mapping[str, Any]) -> str:
    """One tabular environment per table, for the package booktabs."""
    lines = [f"% {_comment(headline(table))}", "% \\usepackage{booktabs}"]
    lines += [f"% {_comment(line)}" for line in (*table["paired_by"], *table["notes"])]
    for each in tables(table):
        rows = [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in (each.columns, *each.rows)]
        lines += ["", f"% {each.title}", rf"\begin{{tabular}}{{l{'r' * (len(each.columns) - 1)}}}", r"\toprule"]
        lines += [rows[0], r"\midrule", *rows[1:], r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    return " ".join(text.split())
