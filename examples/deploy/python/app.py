"""A CDK app with a stack of its own, which deploys the platform from its cloud assembly."""

import json
import shutil
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions

ASSEMBLY = Path(__file__).parent / "assembly"


def include(outdir: Path, assembly: Path, name: str) -> None:
    """Adds a cloud assembly to that of the app, as the CDK adds those of its stages."""
    directory = f"assembly-{name}"
    shutil.copytree(assembly, outdir / directory, dirs_exist_ok=True)
    manifest = outdir / "manifest.json"
    content = json.loads(manifest.read_text())
    properties = {"directoryName": directory, "displayName": name}
    content.setdefault("artifacts", {})[directory] = {"type": "cdk:cloud-assembly", "properties": properties}
    manifest.write_text(json.dumps(content, indent=1))


app = cdk.App()
own = cdk.Stack(app, "own", description="What uses the platform")
# The names of the platform's resources begin with platform-<name>.
topic_arn = own.format_arn(service="sns", resource="platform-prod-alarms")
topic = sns.Topic.from_topic_arn(own, "alarms", topic_arn)
topic.add_subscription(subscriptions.EmailSubscription("operators@example.org"))
cdk.CfnOutput(own, "ApiId", value=cdk.Fn.import_value("platform-prod-api-id"))

include(Path(app.synth().directory), ASSEMBLY, "platform")
