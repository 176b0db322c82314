import type { Client } from '#core/api/client.ts';
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
  const body = {
    name: 'support',
    type: 'prompt',
    description: 'Helps customers',
    prompt: 'Help.',
    required_secrets: [],
  } as const;
  await client.createAgent({ body });
  const stranger = clientOf(target, (await target.addUser('acme')).key);
  await publishFaulty(client, stranger);
  for (let version = 1; version <= 3; version++) {
    await publishCode(stranger, 'triage', echo, { is_public: true, required_secrets: ['GITHUB_TOKEN'] });
  }
}

/** Agents that the pages of error codes call: each fails in its own way. */
async function publishFaulty(client: Client, stranger: Client): Promise<void> {
  const echo = { 'main.py': ECHO };
  await publishCode(client, 'shout', echo, {
    input_schema: { type: 'object', required: ['text'], properties: { text: { type: 'string' } } },
  });
  await publishCode(client, 'forecast', echo, { required_secrets: ['FORECAST_TOKEN'] });
  await publishCode(client, 'chief', echo, {
    manifest: {
      manifest_version: 1,
      dependencies: [{ id: 'main/fetch', version: 'v1' }],
      max_hops: 1,
      min_required_hops: 1,
      timeout_ms: 60_000,
    },
  });
  await publishCode(client, 'broken', { 'main.py': 'raise ValueError("no such order")\n' });
  await publishCode(client, 'slow', { 'main.py': 'import time\ntime.sleep(60)\n' });
  const prompt = { type: 'prompt', required_secrets: [] };
  await client.createAgent({
    body: { ...prompt, name: 'poet', description: 'Writes a verse', prompt: 'Write a verse about {{topic}}.' },
  });
  await client.createAgent({
    body: {
      ...prompt,
      name: 'haiku',
      description: 'Writes a haiku',
      prompt: 'Write a haiku.',
      supported_providers: ['gemini'],
    },
  });
  await client.createAgent({ body: { name: 'empty', type: 'tool', description: 'Has no code', required_secrets: [] } });
  await publishCode(stranger, 'private', echo);
  await publishCode(stranger, 'closed', echo, { is_public: true, allow_local_download: false });
  await publishCode(stranger, 'oracle', echo, { is_public: true, pricing_mode: 'per_call', price_per_call_cents: 25 });
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
