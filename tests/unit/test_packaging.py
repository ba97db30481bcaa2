"""What a user installs is what the repository holds, and importing it costs what a query can afford."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.release import project
from tailbit.spark import jar

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
FOLDERS = ("tailbit", "tables", "index", "checkpoints", "streaming")
SETUPTOOLS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def folders_with_modules() -> set[Path]:
    """Every folder of the repository that holds importable modules."""
    found = {path.parent for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    return {path.relative_to(ROOT) for path in found}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two wheels, each built from a clean copy of its own; the files of the second copy are older."""
    jar.build()
    built = []
    for age in (0, 86_400):
        copy, into = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
        for folder in FOLDERS:
            shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
            shutil.copy(ROOT / name, copy / name)
        for path in copy.rglob("*"):
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age))
        options = ("-q", "--no-deps", "--no-build-isolation")
        run(sys.executable, "-m", "pip", "wheel", *options, "-w", into, copy, SOURCE_DATE_EPOCH="1700000000")
        built += into.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site, wheels[0])
    return site


def run(*command: str | Path, **env: str) -> str:
    """Run a command outside the repository and return what it printed."""
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **env},
        cwd=os.path.sep,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def folder_of(package: str) -> Path:
    """Where setuptools looks for a package: its own entry of package-dir, or its parent's folder."""
    mapped = SETUPTOOLS["package-dir"].get(package)
    if mapped is not None:
        return Path(mapped)
    parent, _, name = package.rpartition(".")
    return folder_of(parent) / name


def test_every_folder_with_modules_is_a_listed_package() -> None:
    assert {folder_of(package) for package in SETUPTOOLS["packages"]} == folders_with_modules()


def test_every_package_says_that_it_is_typed() -> None:
    assert not [f for f in FOLDERS if not (ROOT / f / "py.typed").exists()]


def test_the_installed_wheel_holds_every_module_and_imports(installed: Path) -> None:
    modules = {
        str(path.relative_to(ROOT).with_suffix("")).removeprefix("tailbit/")
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
    }
    shipped = {
        str(path.relative_to(installed / "tailbit").with_suffix(""))
        for path in (installed / "tailbit").rglob("*.py")
    }
    assert shipped == modules
    parts = "tailbit.index, tailbit.checkpoints, tailbit.streaming, tailbit.tables.delta as deepest"
    code = f"import {parts}; print(deepest.__file__)"
    assert run(sys.executable, "-c", code, PYTHONPATH=str(installed)).startswith(str(installed))


def test_two_builds_of_the_wheel_are_the_same_bytes(wheels: list[Path]) -> None:
    first, second = wheels
    assert first.read_bytes() == second.read_bytes()


def test_the_wheel_holds_the_jar_of_its_sources_and_has_the_one_version(
    wheels: list[Path], installed: Path
) -> None:
    code = (
        "import tailbit, tailbit.spark.jar as jar; print(jar.jar_path(), jar.misfit(), tailbit.__version__)"
    )
    path, misfit, version = run(sys.executable, "-c", code, PYTHONPATH=str(installed)).split()
    assert Path(path).read_bytes() == jar.jar_path().read_bytes()
    assert (Path(path).is_relative_to(installed), misfit) == (True, "None")
    assert (version, wheels[0].name) == (project()["version"], f"tailbit-{version}-py3-none-any.whl")


def test_the_installed_launcher_of_spark_s_workers_can_be_started(installed: Path) -> None:
    launcher = installed / "tailbit" / "streaming" / "java" / "python-of-workers"
    said = run(launcher, "-c", "import sys; print(sys.executable)", TAILBIT_PYTHON=sys.executable)
    assert said.strip() == sys.executable


def test_the_installed_wheel_answers_help(installed: Path) -> None:
    text = run(sys.executable, "-m", "tailbit.cli", "--help", PYTHONPATH=str(installed))
    for command in ("run", "count", "facets", "read", "positions", "explain", "status", "verify"):
        assert command in text


def test_an_installed_wheel_goes_on_where_spark_workers_find_a_checkout_first(installed: Path) -> None:
    # Spark's workers are started with -m: the folder they are started in comes first.
    (installed / "worker.py").write_text(
        "import pickle, sys, tailbit.tables.delta, tailbit.errors\n"
        "import tailbit.streaming.query.source as its\n"
        "print(pickle.loads(pickle.dumps(its.LogsSource)).__module__, its.__file__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-m", "worker"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), *sys.path[1:]])},
        capture_output=True,
        text=True,
        check=False,
    )
    there = str(ROOT / "streaming" / "query" / "source.py")
    assert done.stdout.split() == ["tailbit.streaming.query.source", there], done.stderr


def test_the_installed_wheel_knows_the_time_zones(installed: Path) -> None:
    rules = "zone_rules.zone_rules('Europe/Paris')"
    code = f"from tailbit.tables import zone_rules; print(zone_rules.__file__, len({rules}.changes))"
    file, count = run(sys.executable, "-c", code, PYTHONPATH=str(installed)).split()
    assert file.startswith(str(installed))
    assert int(count) > 100


@pytest.mark.parametrize("folder", ["tables", "index", "checkpoints", "streaming"])
def test_a_folder_is_never_importable_by_its_bare_name(folder: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {folder}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert f"tailbit.{folder}" in done.stderr


def test_opening_a_table_imports_neither_spark_nor_the_writer_of_the_index() -> None:
    heavy = "{'pyspark', 'py4j', 'delta', 'deltalake', 'pyarrow.dataset', 'pandas', 'duckdb'}"
    code = f"import sys, tailbit.api; print(sorted({heavy} & set(sys.modules)))"
    assert run(sys.executable, "-c", code).strip() == "[]"
