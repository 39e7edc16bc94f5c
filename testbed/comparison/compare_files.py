"""The files of a comparison: tables for papers and for programs, figures, and a page with everything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from testbed.common.errors import UserError
from testbed.common.files.csv_cells import CsvWriter
from testbed.comparison.compare_columns import ColumnTable
from testbed.comparison.compared_runs import ComparedRun
from testbed.comparison.comparison import Comparison

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


def write(out: Path, comparison: Comparison, runs: Sequence[ComparedRun]) -> list[Path]:
    """Write all files and return their paths, the page first; files of an earlier comparison are overwritten."""
    from testbed.comparison import compare_page  # imported late: jinja2 would slow down other commands

    try:
        out.mkdir(parents=True, exist_ok=True)
        figures, inline = _figures(out / "figures", comparison, runs)
        texts = {
            "compare.html": compare_page.render(comparison, inline, out),
            "compare.md": _markdown(comparison, [path.relative_to(out) for path in figures]),
            "compare.tex": _latex(comparison),
        }
        columns = {
            "compare.csv": comparison.interval_columns,
            "paired.csv": comparison.paired_columns,
            "runs.csv": comparison.run_columns,
        }
        for name, text in texts.items():
            (out / name).write_text(text, encoding="utf-8")
        for name, values in columns.items():
            _write_csv(out / name, values)
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written to: {error.strerror}; choose another folder") from None
    return [*(out / name for name in texts), *(out / name for name in columns), *figures]


def _figures(folder: Path, comparison: Comparison, runs: Sequence[ComparedRun]) -> tuple[list[Path], dict[str, str]]:
    """Draw and save the figures; returns the files, and title → SVG for the page."""
    from testbed.comparison import compare_figures  # imported late: matplotlib is slow
    from testbed.report.figures import inline_svg, style

    folder.mkdir(exist_ok=True)
    files, inline = list[Path](), dict[str, str]()
    with style.style():
        for picture in compare_figures.draw(comparison, runs):
            files += style.save(picture, folder)
            inline[picture.title] = inline_svg.svg(picture)
    return files, inline


def _write_csv(path: Path, columns: ColumnTable) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = CsvWriter(file)
        writer.row(columns)
        writer.rows(zip(*columns.values(), strict=True))


# ---- for papers


def _markdown(comparison: Comparison, figures: Sequence[Path]) -> str:
    parts = ["# Comparison", _plain(comparison.headline)]
    for each in comparison.tables:
        ruler = ["---", *("---:" for _ in each.columns[1:])]
        first, *others = ([_plain(cell) for cell in row] for row in (each.columns, *each.rows))
        lines = [first, ruler, *others]
        parts += [f"## {each.title}", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    parts += ["\n".join(f"- {_plain(line)}" for line in (*comparison.paired_by, *comparison.notes))]
    parts += [
        f"![{_plain(path.stem.replace('-', ' '))}]({quote(path.as_posix())})"
        for path in figures
        if path.suffix == ".svg"
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _plain(text: str) -> str:
    return text.translate(_MARKDOWN)


def _latex(comparison: Comparison) -> str:
    """One tabular environment per table, for the package booktabs."""
    lines = [f"% {_comment(comparison.headline)}", "% \\usepackage{booktabs}"]
    lines += [f"% {_comment(line)}" for line in (*comparison.paired_by, *comparison.notes)]
    for each in comparison.tables:
        rows = [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in (each.columns, *each.rows)]
        lines += ["", f"% {each.title}", rf"\begin{{tabular}}{{l{'r' * (len(each.columns) - 1)}}}", r"\toprule"]
        lines += [rows[0], r"\midrule", *rows[1:], r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    return " ".join(text.split())
