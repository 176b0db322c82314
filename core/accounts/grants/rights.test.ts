import { expect, test } from 'vitest';
import type { AgentCaller, CallingAgent, ForeignAgent } from '#core/base/caller.ts';
import { OperationCounter } from '#test/helpers/counting-table.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import type { Scope } from './grant.ts';
import { checkScope, grantedSecrets, lackingEgress, mayUse } from './rights.ts';
import { GrantStore } from './store.ts';

const PAYER = {
  id: '11111111-1111-4111-8111-111111111111',
  slug: 'payer',
  name: 'P',
  type: 'team',
  createdAt: '',
} as const;
const agent = (name: string, more: Partial<ForeignAgent> = {}): ForeignAgent => ({
  workspaceId: '22222222-2222-4222-8222-222222222222',
  org: 'author',
  name,
  version: 2,
  firstVersion: 1,
  ...more,
});

function setUp() {
  const deps = memoryDeps();
  const store = new GrantStore(deps, PAYER.id);
  const counter = new OperationCounter();
  const counted = { main: counter.count(deps.main) };
  const grant = (
    { workspaceId, org, name, firstVersion }: ForeignAgent,
    version: number | 'all',
    { secrets = [], scopes = [], egress = [] }: { secrets?: string[]; scopes?: Scope[]; egress?: string[] },
  ) =>
    store.put(
      { agent: `${org}/${name}`, agentWorkspaceId: workspaceId, firstVersion, version, secrets, scopes, egress },
      { userId: 'owner', expectedRevision: undefined },
    );
  const secrets = (foreign: readonly ForeignAgent[], ...names: string[]) =>
    grantedSecrets(counted, PAYER.id, foreign, names);
  return { deps, store, counter, counted, grant, secrets };
}

const callerOf = (...foreign: ForeignAgent[]): AgentCaller =>
  ({ kind: 'run', workspace: PAYER, context: { foreign } as unknown as CallingAgent }) as AgentCaller;

test('without a foreign agent everything is granted, and nothing is read', async () => {
  const { counter, counted, secrets } = setUp();
  expect(await secrets([], 'A', 'B')).toMatchObject({ granted: ['A', 'B'], lacking: [] });
  expect(await mayUse(counted, callerOf(), 'tasks')).toBe(true);
  expect(await mayUse(counted, { kind: 'static', workspace: PAYER } as AgentCaller, 'tasks')).toBe(true);
  expect(await secrets([agent('x')])).toMatchObject({ granted: [], lacking: [] });
  expect(counter.operations).toEqual([]);
});

test('a foreign agent has what it was granted, for one get', async () => {
  const { counter, grant, secrets, counted } = setUp();
  await grant(agent('x'), 2, { secrets: ['A', 'B'], scopes: ['tasks'] });
  expect(await secrets([agent('x')], 'B', 'C')).toMatchObject({ granted: ['B'], lacking: ['C'] });
  expect(counter.operations.map(({ method }) => method)).toEqual(['get']);
  expect(await mayUse(counted, callerOf(agent('x')), 'tasks')).toBe(true);
  expect(await mayUse(counted, callerOf(agent('x')), 'storage')).toBe(false);
  expect(counter.operations).toHaveLength(3);
});

test.each([
  ['another version', { version: 3 }],
  ['another name', { name: 'y' }],
  ['another workspace, though of the same slug', { workspaceId: '33333333-3333-4333-8333-333333333333' }],
  ['an agent that came after it under its name', { firstVersion: 2 }],
])('a grant of one version is none for %s', async (_, other) => {
  const { grant, secrets } = setUp();
  await grant(agent('x'), 2, { secrets: ['A'] });
  expect(await secrets([agent('x', other)], 'A')).toMatchObject({ granted: [], lacking: ['A'] });
});

test('a grant of all versions holds for those to come, and ends with the agent', async () => {
  const { grant, secrets } = setUp();
  await grant(agent('x'), 'all', { secrets: ['A'] });
  expect(await secrets([agent('x', { version: 9 })], 'A')).toMatchObject({ granted: ['A'] });
  expect(await secrets([agent('x', { version: 10, firstVersion: 10 })], 'A')).toMatchObject({ granted: [] });
});

test('in a chain every foreign agent needs the grant, and each that lacks it is named with its request', async () => {
  const { grant, secrets, counted } = setUp();
  const chain = [agent('x'), agent('y'), agent('z')];
  await grant(chain[0]!, 'all', { secrets: ['A', 'B'], scopes: ['tasks'] });
  await grant(chain[1]!, 2, { secrets: ['B'], scopes: ['messages'] });
  await grant(chain[2]!, 1, { secrets: ['A', 'B'], scopes: ['tasks'] });
  expect(await secrets(chain.slice(0, 2), 'A', 'B')).toMatchObject({ granted: ['B'], lacking: ['A'] });
  const { granted, requestsFor } = await secrets(chain, 'A', 'B');
  expect(granted).toEqual([]);
  const path = `PUT /workspaces/${PAYER.id}/grants/author`;
  expect(requestsFor(['A', 'B'])).toEqual([
    // Permissions of the present grant are kept; a grant of another version does not count.
    `${path}/y with {"version":"v2","secrets":["A","B"],"scopes":["messages"]}`,
    `${path}/z with {"version":"v2","secrets":["A","B"],"scopes":[]}`,
  ]);
  await expect(checkScope(counted, callerOf(...chain), 'tasks')).rejects.toMatchObject({
    code: 'FORBIDDEN',
    message: 'The workspace "payer" has not granted its tasks to author/y@v2, author/z@v2.',
    extra: {
      hint: expect.stringContaining(`${path}/y with {"version":"v2","secrets":["B"],"scopes":["messages","tasks"]}`),
    },
  });
});

test('every agent of a chain needs the grant of a target, an own agent too, and each that lacks it is named', async () => {
  const { grant, store, counter, counted } = setUp();
  const own = agent('own', { workspaceId: PAYER.id, org: PAYER.slug });
  const [db, cache] = ['db.example.com:5432', 'cache.example.com:6379'];
  const lacking = (agents: ForeignAgent[], ...targets: string[]) => lackingEgress(counted, PAYER.id, agents, targets);
  expect(await lacking([own, agent('x')])).toEqual({ targets: [], requests: [] });
  expect(counter.operations).toEqual([]);
  const path = `PUT /workspaces/${PAYER.id}/grants`;
  expect(await lacking([own], db, cache)).toEqual({
    targets: [db, cache],
    requests: [`${path}/payer/own with {"version":"all","secrets":[],"scopes":[],"egress":["${cache}","${db}"]}`],
  });
  await grant(own, 'all', { egress: [db] });
  expect(await lacking([own], db)).toEqual({ targets: [], requests: [] });
  // `dev` of its users is an own agent of the same name.
  expect((await lacking([{ ...own, version: 0 }], db)).targets).toEqual([]);
  // An agent of another workspace cannot use the own one to reach the database.
  await grant(agent('x'), 2, { secrets: ['A'], egress: [cache] });
  expect(await lacking([agent('x'), own], db)).toEqual({
    targets: [db],
    requests: [`${path}/author/x with {"version":"v2","secrets":["A"],"scopes":[],"egress":["${cache}","${db}"]}`],
  });
  for (const other of [{ version: 3 }, { name: 'y' }, { workspaceId: 'another' }, { firstVersion: 2 }]) {
    expect((await lacking([agent('x', other)], cache)).targets).toEqual([cache]);
  }
  // A grant of one version is none for `dev`, and the grant of another workspace counts for no one else.
  await grant(own, 2, { egress: [db] });
  expect((await lacking([{ ...own, version: 0 }], db)).targets).toEqual([db]);
  expect((await lackingEgress(counted, agent('x').workspaceId, [own], [db])).targets).toEqual([db]);
  expect((await store.list()).map(({ egress }) => egress)).toEqual([[cache], [db]]);
});

test('of writers at the same time none is lost unseen, and a grant that was made again is another one', async () => {
  const { store, grant } = setUp();
  const { grant: first } = await grant(agent('x'), 2, { secrets: ['A'] });
  const place = { workspaceId: first.agentWorkspaceId, name: 'x' };
  const put = (secrets: string[]) =>
    store.put({ ...first, secrets }, { userId: 'owner', expectedRevision: first.revision });
  const results = await Promise.allSettled([put(['B']), put(['C']), put(['D'])]);
  expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected']);
  const { revision } = (await store.find(place))!;
  expect(await store.remove(place, revision)).toBe(true);
  await grant(agent('x'), 2, { secrets: ['A'] });
  await expect(store.remove(place, revision)).rejects.toMatchObject({ code: 'CONFLICT' });
  await expect(store.remove(place, first.revision)).rejects.toMatchObject({ code: 'CONFLICT' });
});
