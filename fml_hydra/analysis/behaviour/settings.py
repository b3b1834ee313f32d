"""Configuration files as keys and values, to be compared key by key. Not for Python (source)."""

import configparser
import tomllib
from collections.abc import Iterator
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]  # comes with OmegaConf

SUFFIXES = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg")
"""Endings of files that are read as settings."""
_UNREADABLE = (ValueError, YAMLError, OmegaConfBaseException, configparser.Error)


def changed_keys(path: str, before: str, after: str) -> list[str] | None:
    """The dotted keys whose values differ, sorted; None when one of the texts cannot be read."""
    try:
        old, new = (dict(_flat(_read(path, text))) for text in (before, after))
    except _UNREADABLE:
        return None
    return sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))


def _read(path: str, text: str) -> Any:
    if path.endswith((".ini", ".cfg")):
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(text)
        return {name: dict(section) for name, section in parser.items()}
    if path.endswith(".toml"):
        return tomllib.loads(text)
    return OmegaConf.to_container(OmegaConf.create(text))  # JSON is YAML


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flat(item, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value
