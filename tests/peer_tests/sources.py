"""Reads the peer's test sources: its modules, what one test needs, and a stand-alone copy of that test."""

from __future__ import annotations

import ast
import copy
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

PEER = "agents"
ALIAS = "peer_alias"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class PeerError(Exception):
    """The peer's sources are not what the lists expect."""


@dataclass(frozen=True)
class Target:
    """What an imported name stands for: a module, or a name in a module."""

    module: str
    name: str | None

    @property
    def dotted(self) -> str:
        return self.module if self.name is None else f"{self.module}.{self.name}"


def belongs(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Top-level statements, also in `if` and `try`; of a question about Python's version, the branch taken here."""
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test).startswith("sys.version_info"):
            taken = eval(ast.unparse(node.test), {"sys": sys})  # noqa: S307  # a question about the version, of a file with a hash
            yield from flat(node.body if taken else node.orelse)
        elif isinstance(node, (ast.If, ast.Try)):
            yield from flat(node.body)
            yield from flat(node.orelse)
            for handler in getattr(node, "handlers", []):
                yield from flat(handler.body)
        else:
            yield node


def assigned(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)}


def decorated(node: ast.AST, text: str) -> bool:
    return any(text in ast.unparse(decorator) for decorator in getattr(node, "decorator_list", []))


class Module:
    """One file of the peer's tests."""

    def __init__(self, root: Path, path: Path) -> None:
        self.path = path.relative_to(root)
        self.source = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.source)
        parts = self.path.with_suffix("").parts
        self.package = path.name == "__init__.py"
        self.name = ".".join(parts[:-1] if self.package else parts)
        self.imports: dict[str, Target] = {}
        self.defs: dict[str, ast.stmt] = {}
        for node in flat(self.tree.body):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self.imports |= self.bindings(node)
            elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                self.defs[node.name] = node
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                for name in assigned(node):
                    self.defs.setdefault(name, node)

    def bindings(self, node: ast.Import | ast.ImportFrom) -> dict[str, Target]:
        if isinstance(node, ast.Import):
            return {
                alias.asname or alias.name.partition(".")[0]: Target(
                    alias.name if alias.asname else alias.name.partition(".")[0], None
                )
                for alias in node.names
            }
        module = node.module or ""
        if node.level:
            base = self.name.split(".")
            base = base[: len(base) - node.level + self.package]
            module = ".".join([*base, *([node.module] if node.module else [])])
        return {alias.asname or alias.name: Target(module, alias.name) for alias in node.names}


class References(ast.NodeVisitor):
    """Names that a piece of code refers to. A name met in annotations and casts only is soft (False)."""

    def __init__(self, module: Module, node: ast.AST) -> None:
        self.module = module
        self.names: dict[str, bool] = {}
        self.attributes: dict[tuple[str, str], bool] = {}
        self.parameters: set[str] = set()
        self.imports: dict[str, Target] = {}
        self._soft = False
        self._class_body = False
        self.visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self.names[node.id] = self.names.get(node.id, False) or not self._soft

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name):
            key = (node.value.id, node.attr)
            self.attributes[key] = self.attributes.get(key, False) or not self._soft
        self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> None:
        self.parameters.add(node.arg)
        self._softly(node.annotation)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        inside, self._class_body = self._class_body, False
        for part in (*node.decorator_list, node.args, *node.body):
            self.visit(part)
        self._softly(node.returns)
        self._class_body = inside

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  # the name is ast's

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        inside, self._class_body = self._class_body, True
        self.generic_visit(node)
        self._class_body = inside

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        if self._class_body:  # models and typed dicts evaluate these
            self.visit(node.annotation)
        else:
            self._softly(node.annotation)
        if node.value:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id == "cast" and node.args:
            self.visit(node.func)
            self._softly(node.args[0])
            for part in node.args[1:]:
                self.visit(part)
        else:
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.imports |= self.module.bindings(node)

    visit_ImportFrom = visit_Import  # noqa: N815  # the same

    def _softly(self, node: ast.AST | None) -> None:
        if node is not None:
            before, self._soft = self._soft, True
            self.visit(node)
            self._soft = before


@dataclass
class Closure:
    """A test with everything of the peer's tests that it reaches."""

    test: str
    wanted: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    nodes: list[tuple[Module, ast.AST]] = field(default_factory=list)
    classes: dict[tuple[str, str], ast.ClassDef] = field(default_factory=dict)
    needs: dict[Target, bool] = field(default_factory=dict)

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]

    def need(self, target: Target, hard: bool) -> None:
        self.needs[target] = self.needs.get(target, False) or hard


class Peer:
    """An unpacked source distribution of the peer."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._modules: dict[str, Module | None] = {}
        self._references: dict[ast.AST, References] = {}
        if not (self.root / "tests").is_dir() or not (self.root / "src" / PEER).is_dir():
            raise PeerError(f"{root} has no tests/ and src/{PEER}/: is it an unpacked source distribution?")

    @property
    def version(self) -> str:
        for line in (self.root / "pyproject.toml").read_text(encoding="utf-8").splitlines():
            if line.startswith("version"):
                return line.partition("=")[2].strip().strip('"')
        return "?"

    def module(self, name: str) -> Module | None:
        if name not in self._modules:
            base = self.root.joinpath(*name.split("."))
            found = [path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()]
            self._modules[name] = Module(self.root, found[0]) if found else None
        return self._modules[name]

    @cached_property
    def library(self) -> set[str]:
        """Names of the peer's own modules, less those that a package hides behind a name of its own."""
        src = self.root / "src"
        found = set()
        for path in (src / PEER).rglob("*.py"):
            parts = path.relative_to(src).with_suffix("").parts
            found.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        for path in (src / PEER).rglob("__init__.py"):
            package = ".".join(path.parent.relative_to(src).parts)
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ImportFrom) and node.module:
                    found -= {f"{package}.{alias.asname or alias.name}" for alias in node.names}
        return found

    def references(self, module: Module, node: ast.AST) -> References:
        if node not in self._references:
            self._references[node] = References(module, node)
        return self._references[node]

    def closure(self, test: str) -> Closure:
        """Everything that a test id of the lists reaches in the peer's tests and asks of its library."""
        path, *names = test.split("::")
        module = self.module(path.removesuffix(".py").replace("/", "."))
        if module is None or names[0] not in module.defs:
            raise PeerError(f"no such test: {test}")
        reach = _Reach(self, Closure(test))
        if len(names) == 1:
            reach.want(module, names[0])
        else:
            reach.want_method(module, names[0], names[1])
        for name, node in module.defs.items():
            if name == "pytestmark" or decorated(node, "autouse=True"):
                reach.want(module, name)
        return reach.finish()

    def copy(self, closure: Closure, folder: Path) -> None:
        """Writes the test and its helpers, stand-alone, as a package into a folder."""
        for name, wanted in closure.wanted.items():
            module = self.module(name)
            assert module is not None
            tree = _stand_alone(module, wanted, closure, folder.name)
            path = folder / module.path
            path.parent.mkdir(parents=True, exist_ok=True)
            for parent in path.relative_to(folder).parents:
                (folder / parent / "__init__.py").touch()
            path.write_text(ast.unparse(tree) + "\n", encoding="utf-8")
        data = self.root / "tests" / "fixtures"
        if data.is_dir():
            (folder / "tests").mkdir(exist_ok=True)
            (folder / "tests" / "fixtures").symlink_to(data)


class _Reach:
    """Walks from a test to what it reaches."""

    def __init__(self, peer: Peer, closure: Closure) -> None:
        self.peer = peer
        self.closure = closure
        self.work: list[tuple[Module, ast.AST]] = []

    def want(self, module: Module, name: str, hard: bool = True) -> None:
        if name in module.defs:
            if name not in self.closure.wanted[module.name]:
                self.closure.wanted[module.name].add(name)
                self.work.append((module, module.defs[name]))
        elif name in module.imports:
            self.closure.wanted[module.name].add(name)
            self.follow(module.imports[name], hard)

    def want_method(self, module: Module, class_name: str, method: str) -> None:
        """A test class keeps the one test, its fixtures, and the methods that these call."""
        whole = module.defs[class_name]
        members = {node.name: node for node in whole.body if isinstance(node, FUNCTIONS)}
        if method not in members:
            raise PeerError(f"no such test: {self.closure.test}")
        keep = [
            method,
            *(name for name, node in members.items() if name.startswith("setup") or decorated(node, "fixture")),
        ]
        for name in keep:
            for node in ast.walk(members[name]):
                if (
                    isinstance(node, ast.Attribute)
                    and isinstance(node.value, ast.Name)
                    and node.value.id in ("self", "cls")
                    and node.attr in members
                    and node.attr not in keep
                ):
                    keep.append(node.attr)
        trimmed = copy.copy(whole)
        trimmed.body = [node for node in whole.body if not isinstance(node, FUNCTIONS) or node.name in keep]
        self.closure.wanted[module.name].add(class_name)
        self.closure.classes[module.name, class_name] = trimmed
        self.work.append((module, trimmed))

    def follow(self, target: Target, hard: bool) -> None:
        if belongs(target.module, "tests"):
            helper = self.peer.module(target.module)
            if helper is not None and target.name is not None:
                self.want(helper, target.name, hard)
        elif belongs(target.module, PEER) and target.name is not None and not self.is_module(target):
            self.closure.need(target, hard)

    def is_module(self, target: Target) -> bool:
        if belongs(target.dotted, "tests"):
            return self.peer.module(target.dotted) is not None
        return target.dotted in self.peer.library

    def finish(self) -> Closure:
        while self.work:
            module, node = self.work.pop()
            self.closure.nodes.append((module, node))
            seen = self.peer.references(module, node)
            bound = module.imports | seen.imports
            for name, target in seen.imports.items():
                self.follow(target, seen.names.get(name, True))
            for name, hard in seen.names.items():
                if name not in seen.imports:
                    self.want(module, name, hard)
            for name in seen.parameters:
                if name in module.defs or belongs(module.imports.get(name, Target("", None)).module, "tests"):
                    self.want(module, name)
            for (name, attribute), hard in seen.attributes.items():
                if name in bound and self.is_module(bound[name]):
                    self.follow(Target(bound[name].dotted, attribute), hard)
        return self.closure


class _Rename(ast.NodeTransformer):
    """Points imports of the library at the alias, and imports of the tests at the copy."""

    def __init__(self, root: str) -> None:
        self.root = root

    def _new(self, module: str) -> str:
        if belongs(module, PEER):
            return ALIAS + module[len(PEER) :]
        return f"{self.root}.{module}" if belongs(module, "tests") else module

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        return node if node.level else ast.ImportFrom(self._new(node.module or ""), node.names, 0)

    def visit_Import(self, node: ast.Import) -> ast.Import:
        names = []
        for alias in node.names:
            first, new = alias.name.partition(".")[0], self._new(alias.name)
            names.append(ast.alias(new, alias.asname))
            if new != alias.name and alias.asname is None:
                names.append(ast.alias(self._new(first), first))
        return ast.Import(names)


def _stand_alone(module: Module, wanted: set[str], closure: Closure, root: str) -> ast.Module:
    kept: list[ast.stmt] = []
    for node in flat(module.tree.body):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.name in wanted:
            kept.append(closure.classes.get((module.name, node.name), node))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and assigned(node) & wanted:
            kept.append(node)
    used = set(wanted)
    for node in kept:
        used |= {leaf.id for leaf in ast.walk(node) if isinstance(leaf, ast.Name)}
        used |= {leaf.arg for leaf in ast.walk(node) if isinstance(leaf, ast.arg)}
    imports: list[ast.stmt] = []
    for node in flat(module.tree.body):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
            names = [a for a in node.names if future or (a.asname or a.name.partition(".")[0]) in used]
            if names and isinstance(node, ast.ImportFrom):
                imports.append(ast.ImportFrom(node.module, names, node.level))
            elif names:
                imports.append(ast.Import(names))
    tree = copy.deepcopy(ast.Module([*imports, *kept], []))
    return ast.fix_missing_locations(_Rename(root).visit(tree))
