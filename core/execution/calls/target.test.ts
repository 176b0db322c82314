import { expect, test } from 'vitest';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import type { AgentCaller, Caller, ForeignAgent } from '#core/base/caller.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { OperationCounter } from '#test/helpers/counting-table.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { actingWorkspace } from './target.ts';

const PAYER = { id: 'payer', slug: 'payer', name: 'Payer', type: 'team', createdAt: '' } as Workspace;

function agentOf(workspaceId: string, isPublic = false): AgentVersion {
  const definition = { is_public: isPublic } as AgentDefinition;
  return { workspaceId, orgSlug: workspaceId, name: 'vault', version: 1, definition } as AgentVersion;
}

/** Caller for a service app of the workspace `payer`; its agent belongs to `author`. */
function serviceOf(author: string): Caller {
  const own: ForeignAgent = { workspaceId: author, org: author, name: 'app', version: 1, firstVersion: 1 };
  const foreign = author === PAYER.id ? [] : [own];
  const agent: AgentCaller = {
    ...{ kind: 'service', serviceId: 's', agentId: 'a', workspace: PAYER },
    ...{ foreign, name: `${author}/app@v1` },
  };
  return { userId: `agent:${agent.name}`, keyId: 'k', workspace: PAYER, role: 'member', agent };
}

test.each([
  ['payer', 'payer', 'ok'],
  ['author', 'author', 'ok'],
  ['author', 'payer', 'FORBIDDEN'],
  ['payer', 'author', 'FORBIDDEN'],
])('a service of an agent of %s calls a private agent of %s: %s', async (author, owner, outcome) => {
  const called = actingWorkspace(memoryDeps(), serviceOf(author), agentOf(owner), false);
  if (outcome === 'ok') expect(await called).toBe(PAYER);
  else await expect(called).rejects.toMatchObject({ code: outcome });
  expect(await actingWorkspace(memoryDeps(), serviceOf(author), agentOf(owner, true), false)).toBe(PAYER);
});

test('the refusal of a private agent takes the same reads for versions that exist and for those that do not', async () => {
  const deps = memoryDeps();
  const owner = await addUser(deps, 'owner');
  const stranger = await addUser(deps, 'stranger');
  const call = async (path: string, key: string, json: object, main = deps.main, method = 'POST') => {
    const on = { ...deps, main };
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const app = createWebApp(on, routes, allHandlers(on));
    return app(new Request(`http://127.0.0.1${path}`, { method, headers, body: JSON.stringify(json) }));
  };
  const vault = { name: 'vault', type: 'prompt', description: 'x', prompt: 'One.' };
  const published = [];
  for (const prompt of ['One.', 'Two.']) published.push(await call('/agents', owner.key, { ...vault, prompt }));
  expect(published.map(({ status }) => status)).toEqual([201, 201]);
  const { agent } = (await published[0]!.json()) as { agent: { id: string } };
  const path = `/agents/${agent.id}/channels/prod`;
  expect((await call(path, owner.key, { version: 'v1' }, deps.main, 'PUT')).status).toBe(200);
  const refusal = async (version: string) => {
    const counter = new OperationCounter();
    const answer = await call(`/owner/vault/${version}/run`, stranger.key, {}, counter.count(deps.main));
    return { status: answer.status, reads: counter.operations.length, items: counter.items, stages: counter.stages };
  };
  // Warms the caches for the key and the slug.
  await refusal('v1');
  const existing = await refusal('v1');
  expect(existing.status).toBe(403);
  expect(await refusal('v9')).toEqual(existing);
  const channel = await refusal('prod');
  expect(channel.status).toBe(403);
  expect(await refusal('nope')).toEqual(channel);
});
