"""Whether Python files compile. Never runs them."""

import threading
import warnings
from collections.abc import Mapping

_FILTERS = threading.Lock()  # warning filters belong to the process, and slots are threads


def syntax_error(files: Mapping[str, str]) -> str | None:
    """`path:line: message` of the first Python file that does not compile, or None."""
    for path, text in files.items():
        if not path.endswith(".py"):
            continue
        try:
            with _FILTERS, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(text.removeprefix("\ufeff"), path, "exec", dont_inherit=True)
        except SyntaxError as error:
            return f"{path}:{error.lineno or 1}: {error.msg}"
        except (ValueError, RecursionError, MemoryError) as error:
            return f"{path}:1: {error or type(error).__name__}"
    return None
