"""Tables in LaTeX, for `\\input` into a paper that uses the package booktabs."""

from collections.abc import Sequence

from fml_hydra.report.formats import strong, texts
from fml_hydra.report.parts import Table

_ESCAPED = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "\N{MINUS SIGN}": "$-$",
        "–": "--",
        "±": r"$\pm$",
        "·": r"$\cdot$",
        "×": r"$\times$",
        "ρ": r"$\rho$",
        "τ": r"$\tau$",
        "…": r"\dots{}",
        "\n": " ",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    }
)


def escaped(text: str) -> str:
    """A text that LaTeX sets as it stands."""
    return text.translate(_ESCAPED)


def latex(table: Table) -> str:
    """The table as people see it: caption, booktabs rules, the best values in bold, the note."""
    kinds = "".join("l" if column.kind == "text" else "r" for column in table.columns)
    heads = [escaped(column.head) for column in table.columns]
    rows = [
        _row(
            [
                rf"\textbf{{{escaped(t)}}}" if bold else escaped(t)
                for t, bold in zip(row, marks, strict=True)
            ]
        )
        for row, marks in zip(texts(table), strong(table), strict=True)
    ]
    note = [rf"\par\smallskip{{\footnotesize {escaped(table.note)}}}"] if table.note else []
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{escaped(table.caption)}}}",
        rf"\label{{tab:{table.name.replace('_', '-')}}}",
        rf"\begin{{tabular}}{{{kinds}}}",
        r"\toprule",
        _row(heads),
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        *note,
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
