"""The Helm chart makes what the kustomization makes, and refuses values that it does not know."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.pages import ROOT
from tailbit.streaming.config.read import read_config

CHART, KUBERNETES = ROOT / "deploy" / "helm" / "tailbit", ROOT / "deploy" / "kubernetes"
BUILT = ROOT / ".venv" / "helm" / "helm"

Objects = dict[str, dict[str, Any]]
Helm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def helm() -> Helm:
    """Helm, which `make chart` builds."""
    program = str(BUILT) if BUILT.exists() else shutil.which("helm")
    if program is None and shutil.which("go"):
        made = subprocess.run(["make", str(BUILT)], cwd=ROOT, capture_output=True, check=False)
        program = None if made.returncode else str(BUILT)
    if program is None:
        pytest.skip("there is no Helm, and it cannot be built")
    return lambda *words: subprocess.run([program, *words], capture_output=True, text=True, check=False)


def _rendered(helm: Helm, *values: str) -> Objects:
    done = helm("template", "tailbit", str(CHART), "--namespace", "tailbit", *values)
    assert done.returncode == 0, done.stderr
    return {made["kind"]: made for made in yaml.safe_load_all(done.stdout)}


def _by_kustomize() -> Objects:
    """The objects of the kustomization: its files, with what kustomization.yaml does to them."""
    says = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    made = [yaml.safe_load((KUBERNETES / name).read_text()) for name in says["resources"]]
    [generated], [image] = says["configMapGenerator"], says["images"]
    data = {name: (KUBERNETES / name).read_text() for name in generated["files"]}
    made.append(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": generated["name"]}, "data": data}
    )
    objects: Objects = {one["kind"]: one for one in made}
    for kind, one in objects.items():
        if kind != "Namespace":
            one["metadata"]["namespace"] = says["namespace"]
    [container] = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    container["image"] = f"{image['newName']}:{image['newTag']}"
    return objects


def test_helm_finds_no_fault_in_the_chart(helm: Helm) -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_makes_the_objects_of_the_kustomization(helm: Helm) -> None:
    made = _rendered(helm, "--set", "namespace.create=true")
    # Where kustomize gives the configuration a new name, the chart gives the pods a new sum of it.
    annotations = made["Deployment"]["spec"]["template"]["metadata"].pop("annotations")
    assert annotations.keys() == {"checksum/configuration"}
    assert made == _by_kustomize()


def test_a_changed_configuration_replaces_the_pods(helm: Helm, tmp_path: Path) -> None:
    other = tmp_path / "tailbit.toml"
    other.write_text('[application]\nname = "mine"\n\n[[table]]\npath = "s3://a/b"\ncolumns = ["c"]\n')
    before, after = _rendered(helm), _rendered(helm, "--set-file", f"configuration={other}")
    sums = [one["Deployment"]["spec"]["template"]["metadata"]["annotations"] for one in (before, after)]
    assert sums[0] != sums[1]
    mounted = tmp_path / "mounted.toml"
    mounted.write_text(after["ConfigMap"]["data"]["tailbit.toml"])
    assert [table.path for table in read_config(mounted).config.table] == ["s3://a/b"]
    assert "Namespace" not in after


def test_values_reach_the_pods(helm: Helm) -> None:
    values = ["nodeSelector.disk=fast", "image.tag=7", "replicas=3", "credentials=mine"]
    values += ["volumes[0].name=tables", "volumes[0].persistentVolumeClaim.claimName=lake"]
    values += ["volumeMounts[0].name=tables", "volumeMounts[0].mountPath=/lake"]
    given = [word for value in values for word in ("--set-string" if "tag" in value else "--set", value)]
    spec = _rendered(helm, *given)["Deployment"]["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    assert (spec["replicas"], pod["nodeSelector"]) == (3, {"disk": "fast"})
    assert container["image"] == "registry.example.org/tailbit:7"
    assert container["envFrom"][0]["secretRef"]["name"] == "mine"
    assert pod["volumes"][-1] == {"name": "tables", "persistentVolumeClaim": {"claimName": "lake"}}
    assert container["volumeMounts"][-1] == {"name": "tables", "mountPath": "/lake"}


@pytest.mark.parametrize(
    "wrong", ["replica=3", "replicas=many", "image.pullpolicy=Always", "configuration=x"]
)
def test_a_value_that_the_chart_does_not_know_is_refused(helm: Helm, wrong: str) -> None:
    done = helm("template", "tailbit", str(CHART), "--set", wrong)
    assert done.returncode != 0
    assert wrong.partition("=")[0].split(".")[-1] in done.stderr
