"""Whether Python files compile, and their syntax trees. Never runs them."""

import ast
import threading
import warnings
from collections.abc import Mapping

# Slots are threads: warning filters belong to the whole process, and two threads that build syntax
# trees at once upset CPython 3.11 ("AST constructor recursion depth mismatch").
_COMPILING = threading.Lock()


def syntax_error(files: Mapping[str, str]) -> str | None:
    """`path:line: message` of the first Python file that does not compile, or None."""
    for path, text in files.items():
        if not path.endswith(".py"):
            continue
        try:
            with _COMPILING, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(text.removeprefix("\ufeff"), path, "exec", dont_inherit=True)
        except SyntaxError as error:
            return f"{path}:{error.lineno or 1}: {error.msg}"
        except (ValueError, RecursionError, MemoryError) as error:
            return f"{path}:1: {error or type(error).__name__}"
    return None


def syntax_tree(text: str) -> ast.Module:
    """The syntax tree of a Python text; raises what `ast.parse` raises."""
    with _COMPILING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)
