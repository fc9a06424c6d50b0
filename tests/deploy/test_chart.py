"""The Helm chart, rendered by Helm's own library and held to Kubernetes' own schemas."""

from __future__ import annotations

from pathlib import Path

import helm_python as helm
import kubernetes_validate
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from dsh_lightrag.cli.app import app

CHART = Path(__file__).parents[2] / "deploy" / "helm"
DIGEST = "sha256:" + "a" * 64
OURS = {"image": {"repository": "registry.example/dsh-lightrag", "digest": DIGEST}}
BUNDLED = OURS | {"postgres": {"bundled": True}}
MODELS = OURS | {
    "models": {
        "chatUrl": "https://models.example/v1",
        "chatModel": "m",
        "embedder": "https://models.example/v1",
        "embedderModel": "e",
    },
    "secrets": {"models": {"name": "models", "key": "key"}},
}
LIGHTRAG = MODELS | {"server": {"backend": "lightrag"}}
CONFIGURATIONS = {"external": OURS, "bundled": BUNDLED, "models": MODELS, "lightrag": LIGHTRAG}


def rendered(values):
    """Return every resource of the chart under these values, checked as an install checks them."""
    with helm.Chart.load(str(CHART)) as chart:
        merged = chart.merge_values(values)
        chart.validate_schema(merged)
        texts = chart.render(values, name="kb", namespace="prod").values()
    yaml = YAML(typ="safe")
    return [found for text in texts for found in yaml.load_all(text) if found]


def pods(resources):
    return {
        resource["metadata"]["name"]: resource["spec"]["template"]
        for resource in resources
        if "template" in resource.get("spec", {})
    }


def containers(resources):
    return [box for pod in pods(resources).values() for box in pod["spec"]["containers"]]


def named(resources, kind, name):
    (found,) = [r for r in resources if (r["kind"], r["metadata"]["name"]) == (kind, name)]
    return found


@pytest.mark.parametrize("values", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_the_chart_passes_helms_lint(values):
    report = helm.lint(str(CHART), values=values)

    assert report["errors"] == []


@pytest.mark.parametrize("values", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_every_resource_is_one_that_kubernetes_takes_strictly(values):
    resources = rendered(values)

    assert {r["kind"] for r in resources} >= {"Deployment", "StatefulSet", "Service", "Job"}
    for resource in resources:
        kubernetes_validate.validate(resource, "1.31", strict=True)


def test_the_strict_check_sees_a_misspelt_field():
    server = named(rendered(OURS), "StatefulSet", "kb-server")
    server["spec"]["replica"] = server["spec"].pop("replicas")

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(server, "1.31", strict=True)


@pytest.mark.parametrize("values", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_every_command_is_one_that_the_program_takes(values):
    resources = rendered(values)
    ours = [box for box in containers(resources) if box["name"] != "postgres"]
    probes = [
        box["readinessProbe"]["exec"]["command"][1:] for box in ours if box["name"] == "worker"
    ]

    assert {box["name"] for box in ours} == {"api", "worker", "server", "migrate"}
    for arguments in [*(box["args"] for box in ours), *probes]:
        told = CliRunner().invoke(app, [*arguments, "--help"])
        assert told.exit_code == 0, told.output


@pytest.mark.parametrize("values", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_every_image_is_named_by_digest(values):
    for box in containers(rendered(values)):
        assert box["image"].rpartition("@")[2].startswith("sha256:")


@pytest.mark.parametrize("missing", ["repository", "digest"])
def test_an_image_that_is_not_named_is_an_error_that_says_so(missing):
    image = {key: value for key, value in OURS["image"].items() if key != missing}

    with pytest.raises(helm.HelmRenderError, match=rf"image\.{missing}"):
        rendered({"image": image})


@pytest.mark.parametrize("digest", ["latest", "v1", "sha256:abc", "sha512:" + "a" * 64])
def test_a_tag_in_place_of_a_digest_is_refused(digest):
    with pytest.raises(helm.HelmError):
        rendered({"image": {"repository": "registry.example/x", "digest": digest}})


@pytest.mark.parametrize("values", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_no_variable_names_a_workspace_since_one_would_merge_all_bases(values):
    names = [entry["name"] for box in containers(rendered(values)) for entry in box["env"]]

    assert names
    assert not [name for name in names if "WORKSPACE" in name]


@pytest.mark.parametrize("values", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_secrets_are_only_referred_to(values):
    resources = rendered(values)

    assert not [r for r in resources if r["kind"] == "Secret"]
    for box in containers(resources):
        for entry in box["env"]:
            secret = any(word in entry["name"] for word in ("KEY", "PASSWORD", "DATABASE_URL"))
            assert ("valueFrom" in entry) == secret, entry["name"]


@pytest.mark.parametrize("values", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_there_is_one_knowledge_server_however_many_apis(values):
    resources = rendered(values | {"api": {"replicas": 5}, "worker": {"replicas": 3}})

    assert named(resources, "Deployment", "kb-api")["spec"]["replicas"] == 5
    assert named(resources, "StatefulSet", "kb-server")["spec"]["replicas"] == 1


def test_only_api_and_worker_reach_the_knowledge_server():
    resources = rendered(BUNDLED)
    policy = named(resources, "NetworkPolicy", "kb-server")["spec"]
    allowed = [peer["podSelector"]["matchLabels"] for peer in policy["ingress"][0]["from"]]
    labels = {name: pod["metadata"]["labels"] for name, pod in pods(resources).items()}

    def let_in(name):
        return any(wanted.items() <= labels[name].items() for wanted in allowed)

    assert policy["podSelector"]["matchLabels"].items() <= labels["kb-server"].items()
    assert {name for name in labels if let_in(name)} == {"kb-api", "kb-worker"}
    assert policy["policyTypes"] == ["Ingress"]


@pytest.mark.parametrize("values", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_every_process_runs_without_root_and_privileges_on_a_read_only_file_system(values):
    for pod in pods(rendered(values)).values():
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["automountServiceAccountToken"] is False
        for box in pod["spec"]["containers"]:
            assert box["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_the_apis_readiness_is_that_of_what_it_needs():
    (api,) = named(rendered(OURS), "Deployment", "kb-api")["spec"]["template"]["spec"]["containers"]

    assert api["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert api["livenessProbe"]["httpGet"]["path"] == "/healthz"


def test_a_postgresql_comes_along_only_when_asked_for():
    assert "kb-postgres" not in pods(rendered(OURS))
    assert "kb-postgres" in pods(rendered(BUNDLED))
