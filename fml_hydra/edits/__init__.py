"""From the text of an LLM reply to new file contents, and back. Pure, standard library only.

A reply names each file with `### FILE: path`, followed by ONE fenced block (the whole file) or by
SEARCH/REPLACE blocks. Read `form`, then `parse`, then `apply`.

Not here: which files are targets (task), writing to disk (workspace), repairs (operators).
"""

from fml_hydra.edits.apply import SIZE_LIMIT, apply_edit
from fml_hydra.edits.derive import edit_between
from fml_hydra.edits.form import Edit, FileEdit, Replace
from fml_hydra.edits.parse import PLAN_LIMIT, parse_edit
from fml_hydra.edits.render import diff, render_edit, render_files
from fml_hydra.edits.syntax import syntax_error, syntax_tree

__all__ = [
    "PLAN_LIMIT",
    "SIZE_LIMIT",
    "Edit",
    "FileEdit",
    "Replace",
    "apply_edit",
    "diff",
    "edit_between",
    "parse_edit",
    "render_edit",
    "render_files",
    "syntax_error",
    "syntax_tree",
]
