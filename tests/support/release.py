"""The files of a release, made of the files that Git holds: `make release`.

They are a wheel that carries the jar, a source archive, the jar as a Maven repository, a bill of materials
(CycloneDX), the section of the changelog, and checksums. The same commit, tools and JDK make the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from support.licences import SHIPPED, licence, needed, requirements
from tailbit.spark import jar

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
_VERSIONS = {"CITATION.cff": "version: ", "deploy/helm/tailbit/Chart.yaml": "appVersion: "}
"""Other papers that state the version, and the words before it."""

GROUP, ARTIFACT = "io.github.tailbit", "tailbit-spark_2.13"
_POM = """<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{group}</groupId>
  <artifactId>{artifact}</artifactId>
  <version>{version}</version>
  <name>tailbit for Spark</name>
  <description>{description}</description>
  <licenses>
    <license><name>Apache-2.0</name><url>https://www.apache.org/licenses/LICENSE-2.0.txt</url></license>
  </licenses>
  <dependencies>
    <dependency>
      <groupId>org.apache.spark</groupId><artifactId>spark-sql_2.13</artifactId>
      <version>{spark}</version><scope>provided</scope>
    </dependency>
    <dependency>
      <groupId>io.delta</groupId><artifactId>delta-spark_{line}_2.13</artifactId>
      <version>{delta}</version><scope>provided</scope>
    </dependency>
  </dependencies>
</project>
"""


def main(given: Sequence[str] | None = None) -> int:
    """Make a release as the command line says; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, required=True, help="bin of the environment with the tools")
    parser.add_argument("--into", type=Path, required=True, help="the folder that is made anew")
    parser.add_argument("--tag", default="", help="refuse what is not ready for this tag of Git")
    asked = parser.parse_args(given)
    if wrong := asked.tag and unready(asked.tag):
        print(f"{asked.tag} is not released: {wrong}", file=sys.stderr)
        return 1
    make(asked.tools, asked.into)
    print((asked.into / "SHA256SUMS").read_text(), end="")
    return 0


def project(root: Path = ROOT) -> dict[str, Any]:
    """Return what pyproject.toml says of the project; its version is that of all that is released."""
    about: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return about


def changes(of: str, root: Path = ROOT) -> str:
    """Return the section of a version in the changelog, with its heading; empty where there is none."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(of)}\b.*?(?=^## |\Z)", text, re.M | re.S)
    return section[0] if section else ""


def unready(tag: str, root: Path = ROOT) -> str:
    """Return why a checkout is not ready for a tag; empty where it is."""
    current = project(root)["version"]
    if tag != f"v{current}":
        return f"pyproject.toml has version {current}"
    heading = changes(current, root).partition("\n")[0]
    if not heading or "unreleased" in heading:
        return f"CHANGELOG.md needs the heading '## {current} (the day of the release)'"
    for paper, stated in _VERSIONS.items():
        if f"{stated}{current}" not in (root / paper).read_text(encoding="utf-8").replace('"', ""):
            return f"{paper} needs the line '{stated}{current}'"
    changed = _run(["git", "status", "--porcelain"], root)
    return f"these files are not committed:\n{changed}" if changed else ""


def make(tools: Path, into: Path) -> None:
    """Make all files of a release in a folder, which is emptied before."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    current = project()["version"]
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or _run(["git", "log", "-1", "--format=%ct"], ROOT))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        copy_checkout(copy)
        built = Path(_run([sys.executable, "-m", "tailbit.spark.jar"], copy).strip())
        epoch = {"SOURCE_DATE_EPOCH": str(seconds)}
        build = [str(tools / "python"), "-m", "build", "--no-isolation", "--outdir", str(into.absolute())]
        _run(build, copy, epoch)
        repository(built, copy, Path(folder) / "work", into / "maven", current)
    [wheel], [archive] = into.glob("*.whl"), into.glob("*.tar.gz")
    repack(archive, seconds)
    _run([str(tools / "twine"), "check", "--strict", str(wheel), str(archive)], ROOT)
    _run([str(tools / "check-wheel-contents"), str(wheel)], ROOT)
    bill_of_materials(tools, into / f"tailbit-{current}.cdx.json")
    (into / "CHANGES.md").write_text(changes(current), encoding="utf-8")
    sums_of_maven = (".md5", ".sha1", ".sha256")
    files = sorted(path for path in into.rglob("*") if path.is_file() and path.suffix not in sums_of_maven)
    sums = [f"{_digest('sha256', path)}  {path.relative_to(into).as_posix()}\n" for path in files]
    (into / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


def copy_checkout(copy: Path) -> None:
    """Copy the files that Git holds, as they are now, with the modes that Git knows."""
    for name in filter(None, _run(["git", "ls-files", "-z"], ROOT).split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy / name)
            (copy / name).chmod(0o755 if os.access(ROOT / name, os.X_OK) else 0o644)


def repack(archive: Path, seconds: int) -> None:
    """Write a source archive anew with sorted entries of one time and of nobody."""
    with tarfile.open(archive) as former:
        files = sorted((entry for entry in former if entry.isfile()), key=lambda entry: entry.name)
        contents = [former.extractfile(entry).read() for entry in files]  # type: ignore[union-attr]
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=seconds) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as anew,
    ):
        for entry, content in zip(files, contents, strict=True):
            plain = tarfile.TarInfo(entry.name)
            plain.size, plain.mtime, plain.mode = len(content), seconds, 0o755 if entry.mode & 1 else 0o644
            anew.addfile(plain, BytesIO(content))


def repository(built: Path, checkout: Path, work: Path, into: Path, current: str) -> None:
    """Lay out a Maven repository of the jar, its sources, the pages of javadoc, and the POM."""
    folder = into.joinpath(*GROUP.split("."), ARTIFACT, current)
    folder.mkdir(parents=True)
    stem = folder / f"{ARTIFACT}-{current}"
    shutil.copyfile(built, f"{stem}.jar")
    sources, pages = work / "sources", work / "javadoc"
    shutil.copytree(checkout / "tailbit" / "spark" / "java", sources / "io" / "tailbit" / "spark")
    jar.pack(Path(f"{stem}-sources.jar"), sources, {})
    path = os.pathsep.join(map(str, jar.class_path()))
    documented = [jar.program("javadoc"), "-quiet", "-package", "-notimestamp", "-Xdoclint:none", "-cp", path]
    _run([*documented, "-d", str(pages), *map(str, sorted(sources.rglob("*.java")))], ROOT)
    jar.pack(Path(f"{stem}-javadoc.jar"), pages, {})
    spark, described = version("pyspark"), project(checkout)["description"]
    names = {"group": GROUP, "artifact": ARTIFACT, "version": current, "description": described}
    text = _POM.format(**names, spark=spark, line=spark.rpartition(".")[0], delta=version("delta-spark"))
    Path(f"{stem}.pom").write_text(text, encoding="utf-8")
    for file in sorted(folder.iterdir()):
        for kind in ("md5", "sha1", "sha256"):
            Path(f"{file}.{kind}").write_text(_digest(kind, file), encoding="utf-8")


def bill_of_materials(tools: Path, file: Path) -> None:
    """Write what `tailbit[spark]` installs: the versions that are tested together, and their licences."""
    packages = needed("tailbit", SHIPPED)
    pins = "".join(f"{name}=={package.version}\n" for name, package in packages.items())
    command = [str(tools / "cyclonedx-py"), "requirements", "--output-reproducible", "--mc-type", "library"]
    command += ["--pyproject", str(ROOT / "pyproject.toml"), "--of", "JSON", "-o", str(file.absolute()), "-"]
    _run(command, ROOT, given=pins)
    bill = json.loads(file.read_text(encoding="utf-8"))
    refs: dict[str, str] = {
        canonicalize_name(part["name"]): part["bom-ref"]
        for part in [bill["metadata"]["component"], *bill["components"]]
    }
    for component in bill["components"]:
        component["licenses"] = [{"expression": licence(packages[canonicalize_name(component["name"])])}]
    bill["dependencies"] = [
        {"ref": refs[name], "dependsOn": sorted(refs[need] for need in needs)}
        for name, needs in requirements("tailbit", SHIPPED).items()
    ]
    file.write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _digest(kind: str, file: Path) -> str:
    return hashlib.new(kind, file.read_bytes()).hexdigest()


def _run(command: Sequence[str], folder: Path, more: dict[str, str] | None = None, given: str = "") -> str:
    """Run a command in a folder; return what it prints, or end with all that it said.

    The files that it makes have the same modes whoever runs it.
    """
    variables = {**os.environ, **(more or {})}
    done = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        input=given,
        capture_output=True,
        text=True,
        umask=0o022,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:4])} fails:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
