import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { routes } from '#core/api/routes.ts';
import { pathParameters, type Route } from '#core/http/route.ts';
import { type Answer, clientOf, type LocalTarget, request, startLocalTarget } from '#test/helpers/platform.ts';
import { keepInMemory } from '#test/helpers/services.ts';
import { goodBody, UNKNOWN_ID, UPSERTS, withQuery } from './rows.ts';
import { fill, makeThing, newTenant, type Tenant, unique } from './things.ts';

/**
 * Every row x actor x owner of the resource: checks the status, and that no answer shows a workspace's data to an
 * outsider. The cases come from the route table: `auth`, `agents`, `role` and parameters of a row determine the
 * expected result.
 */
const rows = routes as readonly Route[];
const ACTORS = [
  'nobody',
  'revoked',
  'outsider',
  'former member',
  'member',
  'owner',
  'agent',
  'revoked agent',
  'foreign agent',
] as const;
const TARGETS = ['own', 'foreign', 'unknown'] as const;
type Actor = (typeof ACTORS)[number];

/** Marker in each tenant's data. */
const MARKS = { home: 'zebra-crossing', away: 'pelican-crossing' };

let target: LocalTarget;
let home: Tenant;
let away: Tenant;
/** Keys of the actors as seen from `home`; `nobody` has none. */
const keys: Partial<Record<Actor, string>> = {};

beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_SANDBOX_PRESTART: '0' });
  keepInMemory(target);
  home = await newTenant(target, 'home', MARKS.home);
  away = await newTenant(target, 'away', MARKS.away);
  const [outsider, former, member] = await Promise.all(
    ['outsider', 'former-colleague', 'colleague'].map((slug) => target.addUser(slug)),
  );
  await target.addMember(member!, home.user.workspaceId);
  const client = clientOf(target, home.user.key);
  await target.addMember(former!, home.user.workspaceId);
  await client.removeMember({ params: { workspace_id: home.user.workspaceId, user_id: former!.userId } });
  const revoked = await client.createApiKey({ body: { name: 'revoked' } });
  await client.deleteApiKey({ params: { id: revoked.id } });
  const revokedAgent = await agentKey(home);
  const [agent] = await client.listAgents({});
  const [{ id: keyId } = { id: '' }] = (await client.listServiceKeys({ params: { id: agent!.id } })).keys;
  await client.deleteServiceKey({ params: { id: agent!.id, key_id: keyId } });
  Object.assign(keys, {
    revoked: revoked.key,
    outsider: outsider!.key,
    'former member': former!.key,
    member: member!.key,
    owner: home.user.key,
    agent: await agentKey(home),
    'revoked agent': revokedAgent,
    'foreign agent': await agentKey(away),
  });
});
afterAll(() => target?.close());

async function agentKey({ user }: Tenant): Promise<string> {
  const client = clientOf(target, user.key);
  const [agent] = await client.listAgents({});
  return (await client.createServiceKey({ params: { id: agent!.id } })).key;
}

/** Nonexistent values for parameters that are not a UUID. */
const NOWHERE: Record<string, string> = {
  name: 'NOT_THERE',
  org: 'nobody',
  agent: 'nothing',
  version: 'v1',
  endpoint: 'run',
};

async function paramsOf(row: Route, actor: Actor, of: (typeof TARGETS)[number]): Promise<Record<string, string>> {
  const params: Record<string, string> = {};
  const names = pathParameters(row.path);
  // `unknown` means a missing thing of the own workspace, or a missing workspace if the path names nothing else.
  const isOnlyWorkspace = names.length === 1 && names[0] === 'workspace_id';
  for (const name of names) {
    if (of === 'unknown') {
      const isHome = name === 'workspace_id' && !isOnlyWorkspace;
      // A row that makes what it names must not make what another row looks for.
      const isName = row.fn === 'storage' || UPSERTS.includes(row.operationId);
      params[name] = isHome ? home.user.workspaceId : (NOWHERE[name] ?? (isName ? `x${unique()}` : UNKNOWN_ID));
    } else {
      // A key belongs to its user, not to a workspace.
      const owner = {
        ...home.user,
        key: name === 'id' && row.path.startsWith('/api-keys') ? ownKey(actor) : home.user.key,
      };
      const tenant = of === 'own' ? { ...home, user: owner } : away;
      params[name] = await makeThing(name, target, tenant, row, params);
    }
  }
  return params;
}
const ownKey = (actor: Actor): string => (actor === 'member' ? keys.member! : home.user.key);

const ask = async (row: Route, actor: Actor, of: (typeof TARGETS)[number]): Promise<Answer> => {
  const params = await paramsOf(row, actor, of);
  return request(target, row.method, withQuery(row, fill(row.path, params)), {
    ...goodBody(row),
    key: keys[actor],
    headers: { 'x-workspace-id': home.user.workspaceId },
  });
};

/** Rows that answer 404 because the thing exists but is empty. */
const EMPTY = ['downloadOwnBundle', 'downloadOwnSkillFiles', 'downloadOwnEvalFiles', 'getRunDag'];
/** Rows that accept the key of a run only, of all service keys. */
const OF_RUN_KEYS = ['getRun', 'listRunEvents', 'listRunSteps', 'putRunStep'];
/** The secret in the path gives the right, regardless of the caller. */
const isBearer = (row: Route) => /\{(token|share|chat|request)\}/.test(row.path) || row.auth === 'webhook';
/** Rows whose body or query says whose the thing is: by default the workspace's, which only owners change. */
const OF_OWNERS_UNLESS_SAID = ['createConnection', 'deleteConnection'];
/** Rows of what a workspace has one of, which another case may have deleted. */
const OF_THE_ONE = ['deleteTelemetry', 'testTelemetry'];

/** The path names the agent's own workspace; the header does not matter then. */
const isAtHomeAway = (row: Route, actor: Actor, of: (typeof TARGETS)[number]): boolean =>
  actor === 'foreign agent' && of === 'foreign' && row.agents === true && row.path.includes('{workspace_id}');

/** Returns the allowed statuses of the answer. */
function expectedOf(row: Route, actor: Actor, of: (typeof TARGETS)[number]): (status: number) => boolean {
  const only =
    (...statuses: number[]) =>
    (status: number) =>
      statuses.includes(status);
  const served = (status: number) => status < 500 && ![401, 403, 404].includes(status);
  // Callers without a key get 404 for resources of workspaces.
  if (actor === 'nobody' && row.auth === 'optional') return only(404);
  if (actor === 'nobody' || actor === 'revoked') return only(401);
  // A static key belongs to no run, so it started none.
  if (actor.endsWith('agent') && actor !== 'revoked agent' && OF_RUN_KEYS.includes(row.operationId)) return only(403);
  if (isAtHomeAway(row, actor, of)) return served;
  if (actor === 'outsider' || actor === 'former member' || actor === 'foreign agent') return only(403);
  // Rows that do not admit agents refuse any agent's key without looking it up.
  if (actor === 'revoked agent') return only(row.agents ? 401 : 403);
  if (actor === 'agent' && !row.agents) return only(403);
  if (actor === 'member' && row.role === 'owner') return only(403);
  if (actor === 'member' && OF_OWNERS_UNLESS_SAID.includes(row.operationId))
    return only(403, ...(of === 'unknown' ? [404] : []));
  // The answer of the provider says which sign-in it finishes.
  if (row.operationId === 'finishConnection' && of !== 'foreign') return only(400);
  // A static key may call only the agents that its agent declares.
  if (actor === 'agent' && row.operationId === 'callAgent') return only(403, 404);
  const names = pathParameters(row.path);
  if (of === 'own' || names.length === 0) {
    if (actor === 'member' && row.operationId === 'removeMember') return only(403);
    if (actor === 'member' && row.operationId === 'deleteConnectedClient') return only(404);
    if (OF_THE_ONE.includes(row.operationId)) return (status) => served(status) || status === 404;
    return EMPTY.includes(row.operationId) ? only(404) : served;
  }
  if (row.fn === 'storage' && !names.includes('workspace_id') && UPSERTS.includes(row.operationId)) return only(200);
  if (of === 'foreign') return names.includes('workspace_id') ? only(403) : only(403, 404);
  if (UPSERTS.includes(row.operationId)) return only(200);
  return names.length === 1 && names[0] === 'workspace_id' ? only(403) : only(403, 404);
}

const takesKey = ({ auth }: Route): boolean => auth === 'key' || auth === 'optional';

const cells = rows
  .filter(takesKey)
  .flatMap((row) => ACTORS.map((actor) => [`${row.method} ${row.path}`, actor, row] as const));

describe.concurrent('access by actor and owner', () => {
  test.for(cells)('%s by %s', async ([, actor, row]) => {
    for (const of of TARGETS) {
      if (isBearer(row) && of === 'foreign') continue;
      const answer = await ask(row, actor, of);
      const text = JSON.stringify(answer.body);
      const where = `${of}: ${answer.status} ${text.slice(0, 300)}`;
      expect(expectedOf(row, actor, of)(answer.status), where).toBe(true);
      if (!isAtHomeAway(row, actor, of)) expect(text, where).not.toContain(MARKS.away);
      if (!['member', 'owner', 'agent'].includes(actor)) expect(text, where).not.toContain(MARKS.home);
    }
  });
});

describe.concurrent('rows without a key', () => {
  test.for(rows.filter((row) => !takesKey(row)).map((row) => [`${row.method} ${row.path}`, row] as const))(
    '%s answers every caller alike',
    async ([, row]) => {
      for (const of of TARGETS) {
        const plain = await ask(row, 'nobody', of);
        expect(plain.status, of).toBeLessThan(500);
        if (of === 'unknown' && pathParameters(row.path).length > 0) expect([401, 403, 404]).toContain(plain.status);
        if (of === 'own' && row.auth === 'webhook') expect(plain.status, JSON.stringify(plain.body)).toBe(200);
        for (const actor of ACTORS) {
          const answer = await ask(row, actor, of);
          expect([actor, of, answer.status]).toEqual([actor, of, plain.status]);
          if (isBearer(row)) continue;
          expect(JSON.stringify(answer.body)).not.toMatch(`${MARKS.home}|${MARKS.away}`);
        }
      }
    },
  );
});

test('every kind of thing existed in the workspace', async () => {
  const { user, mark } = home;
  const client = clientOf(target, user.key);
  const params = { workspace_id: user.workspaceId };
  const shown = await Promise.all([
    client.listAgents({}),
    client.listTasks({}),
    client.listMessages({}),
    client.listNamespaces({}),
    client.listMembers({ params }),
    client.listSchedules({ params }),
    client.listServices({ params }),
    client.listBudgets({ params }),
    client.getOrg({}),
    client.getRun({ params: { ...params, run_id: home.runId } }),
  ]);
  for (const answer of shown) expect(JSON.stringify(answer)).toContain(mark);
});
