"""The recipes for containers and Kubernetes name what the command has: options, pages, ports, times."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tailbit.cli.main import cli
from tailbit.streaming.config.read import read_config
from tailbit.streaming.watch.server import PAGES
from tailbit.streaming.watch.watchdog import DRAIN_S, GRACE_S

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES, DOCKERFILE = DEPLOY / "kubernetes", DEPLOY / "docker" / "Dockerfile"
PORT = 9464


@pytest.fixture
def pod() -> dict[str, Any]:
    deployment = yaml.safe_load((KUBERNETES / "deployment.yaml").read_text())
    return dict(deployment["spec"]["template"]["spec"])


def test_the_probes_ask_pages_that_there_are(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
    assert [probe["path"] for probe in probes] == ["/livez", "/livez", "/readyz?tables=no"]
    assert {probe["path"].partition("?")[0] for probe in probes} <= set(PAGES)
    assert container["ports"] == [{"name": "metrics", "containerPort": PORT}]


def test_a_pod_has_the_time_that_a_run_takes_to_end(pod: dict[str, Any]) -> None:
    assert pod["terminationGracePeriodSeconds"] > DRAIN_S + GRACE_S + 10


def test_the_command_and_the_variables_of_the_pod_are_taken(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    run = cli.commands[container["args"][0]]
    known = {option for parameter in run.params for option in parameter.opts}
    assert {word for word in container["args"] if word.startswith("--")} <= known
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    read = read_config(KUBERNETES / "tailbit.toml", environment)
    assert read.config.application.metrics == f"0.0.0.0:{PORT}"
    assert read.config.application.lease is not None
    assert not read.problems.warnings


def test_every_file_of_the_recipe_is_in_its_kustomization() -> None:
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    named = {*kustomization["resources"], *kustomization["configMapGenerator"][0]["files"]}
    assert named | {"kustomization.yaml"} == {path.name for path in KUBERNETES.iterdir()}


def test_the_image_runs_what_the_pod_runs(pod: dict[str, Any]) -> None:
    text = DOCKERFILE.read_text()
    assert yaml.safe_load(re.findall(r"^CMD (.+)$", text, re.M)[0]) == pod["containers"][0]["args"]
    assert re.findall(r"^EXPOSE (\d+)$", text, re.M) == [str(PORT)]
    assert re.findall(r"^USER (\d+)$", text, re.M) == [str(pod["securityContext"]["runAsUser"])]


def test_the_unit_may_write_where_the_example_has_tables_and_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PARTNER_KEY_ID", "PARTNER_SECRET"):
        monkeypatch.setenv(name, "x")
    tables = read_config(DEPLOY / "tailbit.toml").config.table
    places = [place for table in tables if (place := table.index or table.path) and "://" not in place]
    unit = (DEPLOY / "systemd" / "tailbit.service").read_text()
    (line,) = re.findall(r"^ReadWritePaths=(.+)$", unit, re.M)
    writable = [word.removeprefix("-") for word in line.split()]
    assert places
    assert all(any(place.startswith(f"{folder}/") for folder in writable) for place in places)


@pytest.mark.parametrize("operator", ["kubeflow", "apache"])
def test_a_spark_application_runs_what_the_pod_runs_on_the_spark_of_the_package(
    operator: str, pod: dict[str, Any]
) -> None:
    application = yaml.safe_load((DEPLOY / "spark-operator" / f"{operator}.yaml").read_text())
    spec, pins = application["spec"], (DEPLOY.parent / "constraints.txt").read_text()
    assert application["kind"] == "SparkApplication"
    assert spec.get("arguments", spec.get("driverArgs")) == pod["containers"][0]["args"]
    version = spec.get("sparkVersion") or spec["runtimeVersions"]["sparkVersion"]
    assert f"pyspark=={version}" in pins
    image = (DEPLOY / "docker" / "Dockerfile.spark").read_text()
    assert f"FROM apache/spark:{version}-python3" in image
    script = spec.get("mainApplicationFile") or spec["pyFiles"]
    assert f"COPY deploy/standalone/submit.py {script.removeprefix('local://')}" in image


@pytest.mark.parametrize("operator", ["kubeflow", "apache"])
def test_the_pods_of_a_spark_application_are_restricted_and_have_the_account_that_is_made(
    operator: str,
) -> None:
    """What a namespace demands that enforces the Pod Security Standard `restricted`."""
    folder = DEPLOY / "spark-operator"
    spec = yaml.safe_load((folder / f"{operator}.yaml").read_text())["spec"]
    accounts = [*yaml.safe_load_all((folder / "service-account.yaml").read_text())]
    driver_account = "spark.kubernetes.authenticate.driver.serviceAccountName"
    named = spec.get("driver", {}).get("serviceAccount") or spec["sparkConf"][driver_account]
    assert {account["metadata"]["name"] for account in accounts} == {named}
    for role in ("driver", "executor"):
        if operator == "kubeflow":
            of_pod, container = spec[role]["podSecurityContext"], spec[role]
        else:
            template = spec[f"{role}Spec"]["podTemplateSpec"]["spec"]
            of_pod, (container,) = template["securityContext"], template["containers"]
        assert of_pod["runAsNonRoot"] is True
        assert of_pod["seccompProfile"]["type"] == "RuntimeDefault"
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
        assert container["envFrom"][0]["secretRef"]["optional"] is True


def program(name: str) -> str:
    """A linter that the extra `test` installs; on other systems than Linux it may be missing."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None and sys.platform != "linux":
        pytest.skip(f"{name} is not installed")
    assert found is not None
    return found


def test_shellcheck_finds_no_fault_in_the_scripts() -> None:
    scripts = [*DEPLOY.rglob("*.sh"), DEPLOY.parent / ".ci" / "run"]
    done = subprocess.run([program("shellcheck"), *scripts], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_yamllint_finds_no_fault_in_the_recipes() -> None:
    rules = "{extends: default, rules: {line-length: disable, document-start: disable, braces: disable}}"
    # Templates of Helm are no YAML before they are filled in.
    rules = f"{rules[:-1]}, ignore: ['**/templates/']}}"
    command = [program("yamllint"), "-d", rules, DEPLOY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("dockerfile", ["Dockerfile", "Dockerfile.spark"])
def test_hadolint_finds_no_fault_in_the_dockerfile(dockerfile: str) -> None:
    done = subprocess.run(
        [program("hadolint"), DOCKERFILE.with_name(dockerfile)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_builds_two_pods_whose_configuration_has_a_name_by_its_content() -> None:
    done = subprocess.run(["kubectl", "kustomize", KUBERNETES], capture_output=True, text=True, check=True)
    by_kind = {resource["kind"]: resource for resource in yaml.safe_load_all(done.stdout)}
    assert by_kind["Deployment"]["spec"]["replicas"] == 2
    assert re.fullmatch(r"tailbit-\w{10}", by_kind["ConfigMap"]["metadata"]["name"])
