"""The alias package of the extracted tests: `agents.X` of the peer, resolved on another module.

Copied as `peer_alias/__init__.py` beside the extracted tests. A name is looked for in the module of the same path, then
at the top of the module under test, then in all its public submodules.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import json
import os
import pkgutil
import sys
import types
from collections.abc import Iterator
from pathlib import Path

AGAINST = os.environ["PEER_AGAINST"]
_PLAN = json.loads(Path(os.environ["PEER_PLAN"]).read_text(encoding="utf-8"))
_MODULES = set(_PLAN["modules"])  # the peer's own modules, without the leading `agents.`
_SOFT = {(module, name) for module, name in _PLAN["soft"]}
INTERNAL = ("run_internal", "agent_tool_state")
OTHER_THINGS = {"function_schema"}  # names that the module under test has for something of its own


class MissingName(AttributeError):
    """The module under test does not have a name that the peer has."""


class Placeholder:
    """Stands for a missing name that tests use in annotations only."""

    def __class_getitem__(cls, item: object) -> type[Placeholder]:
        return cls


def _import(name: str) -> types.ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def _submodules(package: types.ModuleType) -> Iterator[types.ModuleType]:
    for info in pkgutil.iter_modules(getattr(package, "__path__", [])):
        if info.name.startswith("_"):
            continue
        try:
            module = importlib.import_module(f"{package.__name__}.{info.name}")
        except ImportError:  # a part whose extra is not installed
            continue
        yield module
        yield from _submodules(module)


def _own(value: object) -> bool:
    """Whether a value is the library's own, or a plain value; not something that it imported from elsewhere."""
    home = getattr(value, "__module__", None)
    return not isinstance(home, str) or home.partition(".")[0] == AGAINST.partition(".")[0]


def _lookup(module: types.ModuleType | None, name: str) -> object:
    value = getattr(module, name, MissingName) if module is not None else MissingName
    return MissingName if isinstance(value, types.ModuleType) else value


_all: list[types.ModuleType] = []


def resolve(module: str, name: str) -> object:
    """The object that stands for a name of the peer. `module` is the peer's, without `agents.`; empty is the top."""
    parts = [*module.split("."), name]
    if any(part.startswith("_") and not part.startswith("__") for part in parts) or parts[0] in INTERNAL:
        raise MissingName(f"internal to the peer: agents.{module}.{name}")
    if name in OTHER_THINGS and AGAINST != "agents":
        raise MissingName(f"missing name: agents.{module}.{name}")
    top = importlib.import_module(AGAINST)
    same = _import(f"{AGAINST}.{module}") if module else top
    for place in (same, top):
        value = _lookup(place, name)
        if value is not MissingName:
            return value
    if not _all:
        _all.extend(sorted(_submodules(top), key=lambda found: (found.__name__.count("."), found.__name__)))
    for place in _all:
        value = _lookup(place, name)
        if value is not MissingName and (_own(value) or name in getattr(place, "__all__", ())):
            return value
    raise MissingName(f"missing name: {'.'.join(filter(None, ['agents', module, name]))}")


class _Alias(types.ModuleType):
    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        module = self.__name__[len(__name__) :].lstrip(".")
        inner = f"{module}.{name}" if module else name
        if inner in _MODULES:
            return importlib.import_module(f"{__name__}.{inner}")
        try:
            return resolve(module, name)
        except MissingName:
            if (module, name) in _SOFT:
                return Placeholder
            raise


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.startswith(__name__ + ".") and name[len(__name__) + 1 :] in _MODULES:
            return importlib.util.spec_from_loader(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Alias(spec.name)

    def exec_module(self, module):
        pass


def missing(needs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The names among these that are not to be had."""
    found = []
    for module, name in needs:
        try:
            resolve(module, name)
        except MissingName:
            found.append((module, name))
    return found


sys.meta_path.insert(0, _Finder())
sys.modules[__name__].__class__ = _Alias
