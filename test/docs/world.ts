import { clientOf, type LocalTarget, publishCode } from '#test/helpers/platform.ts';

const ECHO = 'import json, sys\nprint(json.dumps({"got": json.load(sys.stdin)}))\n';

/** Agents that the pages call: in the workspace `main`, and `acme/triage` of another author. */
export async function publishWorld(target: LocalTarget): Promise<void> {
  const client = clientOf(target);
  const workspaceId = (await client.getOrg({})).id;
  await client.putSecret({
    params: { workspace_id: workspaceId },
    body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-docs' },
  });
  const echo = { 'main.py': ECHO };
  await publishCode(client, 'steps', {
    'main.py': 'import sys, time\nsys.stderr.write("first step\\n")\nprint(\'{"ok": true}\')\n',
  });
  for (const name of ['reader', 'reporter', 'triage', 'fetch']) await publishCode(client, name, echo);
  await publishCode(client, 'fetch', echo);
  const stranger = clientOf(target, (await target.addUser('acme')).key);
  for (let version = 1; version <= 3; version++) {
    await publishCode(stranger, 'triage', echo, { is_public: true, required_secrets: ['GITHUB_TOKEN'] });
  }
}

/** The static key of an agent `report` that may call `main/fetch@v2`. */
export async function reportKey(target: LocalTarget): Promise<string> {
  const { service_key } = await clientOf(target).createAgent({
    body: {
      name: 'report',
      type: 'tool',
      description: 'Sums up several sources',
      required_secrets: [],
      manifest: {
        manifest_version: 1,
        dependencies: [{ id: 'main/fetch', version: 'v2' }],
        max_hops: 2,
        timeout_ms: 60_000,
      },
    },
  });
  return service_key!;
}
