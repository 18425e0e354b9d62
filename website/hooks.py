"""Makes the site out of files that GitHub shows as they are: pages from outside docs/, links to files, the library."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
FROM_OUTSIDE = {"README.md": "overview.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
LINK = re.compile(r"(?P<bang>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")
EXAMPLE = re.compile(r"^```python (?:not-run|on-host)$", re.MULTILINE)
"""A word for the tests, which the site would not take for a language."""
ERROR_ENDINGS = ("Error", "Exceeded", "Triggered", "Conflict", "Finished", "Denied", "Unknown", "Refused", "Broken")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in FROM_OUTSIDE.items():
        text = (ROOT / source).read_text("utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "library.md", content=library_page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    is_from_outside = page.file.src_uri in FROM_OUTSIDE.values()
    markdown = EXAMPLE.sub("```python", markdown)
    return LINK.sub(lambda link: _on_the_site(link, files, is_from_outside), markdown)


def _on_the_site(link: re.Match[str], files: Files, is_from_outside: bool) -> str:
    """Links to pages from outside docs/ lead to their place on the site; a file that the site lacks is only named."""
    target, anchor = link["target"], link["anchor"] or ""
    if target.startswith("../") or (is_from_outside and target in FROM_OUTSIDE):
        page = FROM_OUTSIDE.get(target.removeprefix("../"))
        return link["text"] if page is None else f"[{link['text']}]({page}{anchor})"
    is_page_or_web = "://" in target or not target or files.get_file_from_path(target) is not None
    if is_from_outside and not is_page_or_web and (ROOT / target).exists():
        return link["text"]
    return link[0]


def library_page() -> str:
    """Every public name of `placet`, from its docstring and signature, in three groups."""
    names = public_names()
    errors = [name for name in names if name.endswith(ERROR_ENDINGS) or name in {"NotPending", "SessionBusy"}]
    functions = [name for name in names if name[0].islower()]
    classes = [name for name in names if name not in errors and name not in functions]
    page = ["# The library", "", "Everything that `from placet import …` gives."]
    for title, group in (("Classes", classes), ("Functions", functions), ("Errors", errors)):
        page += ["", f"## {title}", ""]
        page += [f"::: placet.{name}\n" for name in group]
    return "\n".join(page)


def public_names() -> list[str]:
    tree = ast.parse((ROOT / "src" / "placet" / "__init__.py").read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return list(ast.literal_eval(node.value))
    raise SystemExit("src/placet/__init__.py has no __all__: the page of the library is made from it.")
