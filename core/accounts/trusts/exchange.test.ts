import { expect, onTestFinished, test } from 'vitest';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import type { Table } from '#core/ports/table.ts';
import { JOB, startJobIssuer } from '#test/helpers/job-tokens.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { listEntries } from '../audit/log.ts';
import { deleteTrust } from './store.ts';

/** Exchanges in states that `test/e2e/suites/trusts.ts` cannot bring about. */
const BASE = 'https://agents.example.com';

async function setUp(change: (deps: MemoryDeps) => Partial<MemoryDeps> = () => ({})) {
  const memory = memoryDeps({ baseUrl: BASE, outboundHosts: ['127.0.0.1'] });
  const deps: MemoryDeps = { ...memory, ...change(memory) };
  const issuer = await startJobIssuer(BASE, () => deps.clock.now());
  onTestFinished(() => issuer.close());
  const ann = await addUser(memory, 'ann');
  const app = createWebApp(deps, routes, allHandlers(deps));
  const send = async (method: string, path: string, json?: object, key?: string) => {
    const headers = { 'content-type': 'application/json', ...(key && { authorization: `Bearer ${key}` }) };
    const answer = await app(
      new Request(BASE + path, { method, headers, ...(json && { body: JSON.stringify(json) }) }),
    );
    // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
    return { status: answer.status, body: (await answer.json()) as any };
  };
  const trust = async (members: object = {}) => {
    const body = { issuer: issuer.url, repository: JOB.repository, ...members };
    const made = await send('POST', `/workspaces/${ann.workspaceId}/trusts`, body, ann.key);
    expect(made, JSON.stringify(made.body)).toMatchObject({ status: 201 });
    return made.body.trust.id as string;
  };
  const exchange = (token: string, workspace = 'ann') => send('POST', '/auth/trusts/token', { workspace, token });
  const entries = async () =>
    (await listEntries(deps, ann.workspaceId, { operation: 'exchangeTrustToken' }, { limit: 50 })).entries;
  return { deps, issuer, ann, send, trust, exchange, entries };
}

test('a key ends after ten minutes', async () => {
  const { deps, issuer, send, trust, exchange } = await setUp();
  await trust();
  const { body } = await exchange(issuer.token());
  expect((await send('GET', '/agents', undefined, body.api_key)).status).toBe(200);
  await deps.clock.advance(10 * 60_000);
  expect((await send('GET', '/agents', undefined, body.api_key)).status).toBe(401);
});

test('a trust that has expired gives no keys and ends those that it gave', async () => {
  const { deps, issuer, send, trust, exchange, entries } = await setUp();
  await trust({ expires_at: new Date(deps.clock.now() + 60_000).toISOString() });
  const { body } = await exchange(issuer.token());
  await deps.clock.advance(60_000);
  expect((await send('GET', '/agents', undefined, body.api_key)).status).toBe(401);
  expect((await exchange(issuer.token())).status).toBe(401);
  expect((await entries())[0]).toMatchObject({ outcome: 'refused', target: { reason: 'the trust has expired' } });
});

test('a used token stays refused until it would have expired anyway', async () => {
  const { deps, issuer, trust, exchange, entries } = await setUp();
  await trust();
  const now = Math.floor(deps.clock.now() / 1000);
  const token = issuer.token({ exp: now + 3600 });
  expect((await exchange(token)).status).toBe(200);
  await deps.clock.advance(15 * 60_000 + 59_000);
  expect((await exchange(token)).status).toBe(401);
  expect((await entries())[0]!.target.reason).toBe('it was used before');
  await deps.clock.advance(3_000);
  expect((await exchange(token)).status).toBe(401);
  expect((await entries())[0]!.target.reason).toMatch(/made too long ago/);
});

test('a trust that is deleted during the exchange gives no key', async () => {
  let before: () => Promise<unknown> = async () => {};
  const { deps, issuer, ann, trust, exchange, entries } = await setUp(({ counters }) => {
    const methods = ['get', 'update', 'delete', 'query', 'transact', 'batchGet'] as const;
    const bound = Object.fromEntries(methods.map((name) => [name, counters[name].bind(counters)]));
    const put: Table['put'] = async (...given) => {
      await before();
      return counters.put(...given);
    };
    return { counters: { ...bound, put } as unknown as Table };
  });
  const id = await trust();
  before = () => deleteTrust(deps, ann.workspaceId, id);
  expect((await exchange(issuer.token())).status).toBe(401);
  expect((await entries()).map(({ outcome, target }) => [outcome, target.reason])).toEqual([
    ['refused', 'the trust was deleted meanwhile'],
  ]);
});

test('a workspace that moves gives no keys, and nothing is written to it; strangers do not learn of it', async () => {
  const { deps, issuer, ann, trust, exchange, entries } = await setUp();
  await trust();
  const token = issuer.token();
  const key = { pk: `WS#${ann.workspaceId}`, sk: 'META' };
  await deps.main.update(key, { set: { move: { state: 'frozen', cell: 'b' } } });
  expect(await exchange(token)).toMatchObject({ status: 429 });
  const refused = await exchange(issuer.token({ repository: 'evil/agents' }));
  expect(refused).toMatchObject({ status: 401, body: { error: { code: 'UNAUTHORIZED' } } });
  expect(await entries()).toEqual([]);
  await deps.main.update(key, { remove: ['move'] });
  // The token was not used up.
  expect((await exchange(token)).status).toBe(200);
});

test('an issuer that does not answer is in the log and in the audit log, and the token can be sent again', async () => {
  const { deps, issuer, trust, exchange, entries } = await setUp();
  await trust();
  issuer.answers.keys = 'error';
  const token = issuer.token();
  expect((await exchange(token)).status).toBe(401);
  expect((await entries())[0]!.target.reason).toMatch(/answered 500/);
  expect(deps.lines).toContainEqual(expect.objectContaining({ level: 'warn', message: 'keys of an issuer unread' }));
  issuer.answers.keys = 'own';
  expect((await exchange(token)).status).toBe(200);
  expect(JSON.stringify(deps.lines)).not.toContain(token);
});

test('of several trusts, the one for the most agents counts', async () => {
  const { issuer, trust, exchange } = await setUp();
  const some = await trust({ agents: ['one'] });
  expect((await exchange(issuer.token())).body).toMatchObject({ trust_id: some, agents: ['one'] });
  const more = await trust({ agents: ['one', 'two'] });
  expect((await exchange(issuer.token())).body.trust_id).toBe(more);
  const all = await trust();
  expect((await exchange(issuer.token())).body).toMatchObject({ trust_id: all, agents: null });
});

test('what names no workspace reaches no item', async () => {
  const { deps, ann, issuer, trust, exchange } = await setUp();
  await trust();
  await deps.main.put({ pk: `WS#${ann.workspaceId}#DESTINATIONS`, sk: 'META', id: ann.workspaceId });
  for (const named of [`${ann.workspaceId}#DESTINATIONS`, ann.workspaceId.toUpperCase(), ' ann', 'ANN', '#']) {
    expect((await exchange(issuer.token(), named)).status).toBe(401);
  }
  expect((await exchange(issuer.token(), ann.workspaceId)).status).toBe(200);
});

test('no issuer is asked that no owner has named', async () => {
  const { issuer, exchange, entries } = await setUp();
  expect((await exchange(issuer.token())).status).toBe(401);
  expect(issuer.requests).toEqual([]);
  expect((await entries())[0]!.target.reason).toBe('the workspace trusts no such issuer');
});

test('refusals do not fill the audit log', async () => {
  const { deps, trust, exchange, entries } = await setUp();
  await trust();
  for (let index = 0; index < 33; index++) expect((await exchange('x.y.z')).status).toBe(401);
  expect(await entries()).toHaveLength(30);
  expect(deps.lines.filter(({ message }) => message === 'token of a job refused')).toHaveLength(33);
  await deps.clock.advance(3_600_000);
  await exchange('x.y.z');
  expect(await entries()).toHaveLength(31);
});
