"""Prompts are a treatment in the experiment: templates from `conf/prompt/`, rendered strictly.

A template that uses a name it is not given is refused before anything runs where it can be, and by
name where it cannot. Not here: what goes into them (operators).
"""

from functools import lru_cache
from typing import Any

import jinja2
from pydantic import field_validator
from pydantic.dataclasses import dataclass

from fml_hydra.errors import ConfigError
from fml_hydra.knobs import STRICT
from fml_hydra.llm.base import Message

_JINJA = jinja2.Environment(
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=False,
)


@dataclass(frozen=True, config=STRICT)
class Prompts:
    """A set of templates by name; `system` begins every conversation."""

    name: str
    """Name of the set in tables and tags."""
    templates: dict[str, str]
    """Jinja templates by name."""

    @field_validator("templates")
    @classmethod
    def _compiles(cls, templates: dict[str, str]) -> dict[str, str]:
        for name, text in templates.items():
            try:
                _compiled(text)
            except jinja2.TemplateSyntaxError as error:
                raise ValueError(f"{name}, line {error.lineno}: {error.message}") from error
        if "system" not in templates:
            raise ValueError("a template named `system` is needed")
        return templates

    def render(self, template: str, **context: Any) -> str:
        """Fill a template in; raises ConfigError for an unknown template or variable."""
        if template not in self.templates:
            known = ", ".join(sorted(self.templates))
            raise ConfigError(f"prompt {self.name!r} has no template {template!r}; it has {known}")
        try:
            return _compiled(self.templates[template]).render(**context).strip()
        except jinja2.UndefinedError as error:
            raise ConfigError(f"prompt {self.name!r}, template {template!r}: {error}") from error

    def conversation(self, template: str, **context: Any) -> list[Message]:
        """The system message and the rendered template as the user's."""
        return [
            Message("system", self.render("system", **context)),
            Message("user", self.render(template, **context)),
        ]


@lru_cache(maxsize=256)
def _compiled(text: str) -> jinja2.Template:
    return _JINJA.from_string(text)
