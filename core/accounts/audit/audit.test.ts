import { expect, test } from 'vitest';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { isRaw, type Route, rowOf } from '#core/http/route.ts';
import type { Table } from '#core/ports/table.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { audited, entryOperation, listEntries } from './log.ts';
import { isAudited } from './rule.ts';
import { answeredTarget, targetOf } from './target.ts';

const rows = routes as readonly Route[];
const auditOf = (name: string) => rowOf(rows, name).audit!;

test('no row that agents may call is audited, and none of the function that serves their calls', () => {
  expect(rows.filter((row) => isAudited(row) && (row.agents || row.fn === 'calls'))).toEqual([]);
});

/** Rows that change data without a user's key write their own entries, or need none. */
test('changes without the key of a user', () => {
  const others = rows.filter((row) => row.method !== 'GET' && row.auth !== 'key').map(({ operationId }) => operationId);
  expect(others).toEqual([
    // Sign-in rows; `cliExchange` creates a key, and its entry.
    'createSession',
    'cliInit',
    'cliExchange',
    'signIn',
    'answerCliSignIn',
    // A code that is exchanged makes a connection, and its entry; the consent has one, too.
    'getClientToken',
    'revokeClientToken',
    // The handler writes the entry.
    'exchangeTrustToken',
    // The handler writes the entry.
    'joinByInvite',
    // Called by a payment provider; the purchase has an entry.
    'receivePaymentEvent',
    // The handlers write the entries.
    'putOperatorPlan',
    'giveOperatorCredits',
    // The run that gets the event records it.
    'receiveEvent',
    // The handler writes the entry.
    'decideByLink',
    // These start runs, which have their own records.
    'receiveWebhook',
    'bootInstance',
    'reportInstance',
    'callLoop',
    // Visitors of a chat link: messages start runs.
    'openChatSession',
    'sendChatMessage',
    'stopChatMessage',
  ]);
});

test('what an entry tells of a request or an answer is in the shapes of its row, and its row has entries', () => {
  const schemaOf = (shape: unknown) => (shape as { shape?: Record<string, unknown> } | undefined)?.shape ?? {};
  const listing = rows.filter(({ audit }) => audit?.request !== undefined || audit?.response !== undefined);
  expect(listing.length).toBeGreaterThan(20);
  for (const row of listing) {
    const { operationId: name, request = {}, auth, audit } = row;
    expect(isAudited(row) || auth === 'operator', name).toBe(true);
    // A manifest has no schema here: its name is checked later.
    if (['createAgent', 'updateAgent'].includes(name)) continue;
    const body = request.body && !isRaw(request.body) ? schemaOf(request.body) : {};
    const members = Object.keys({ ...request.query?.shape, ...body });
    expect(members, name).toEqual(expect.arrayContaining([...(audit!.request ?? [])]));
  }
  for (const { operationId: name, audit, response } of listing) {
    const [answer] = Object.values(response);
    for (const place of Object.values(audit!.response ?? {})) {
      const found = place.split('.').reduce<unknown>((shape, member) => schemaOf(shape)[member], answer);
      expect(found, `${name}: ${place}`).toBeDefined();
    }
  }
});

test('each audited row with a JSON body or a query says what its entries keep of them', () => {
  const hasMembers = ({ request: { body, query } = {} }: Route) => query !== undefined || (body && !isRaw(body));
  const silent = rows.filter((row) => isAudited(row) && hasMembers(row) && row.audit?.request === undefined);
  expect(silent.map(({ operationId }) => operationId)).toEqual([]);
});

test('nothing but the listed members is told, whatever they hold', () => {
  const params = { workspace_id: 'w', name: 'A', token: 't', secret: 's' };
  const body = { value: 'v', role: { nested: 'x' }, email: 'e'.repeat(500), name: 'other' };
  expect(targetOf(auditOf('inviteMember'), { params, body })).toEqual({ name: 'A', email: 'e'.repeat(200) });
  expect(targetOf({}, { params, body })).toEqual({ name: 'A' });
  expect(targetOf(auditOf('putGrant'), { params: {}, body: { secrets: ['A', { B: 'x' }], version: null } })).toEqual({
    secrets: ['A'],
  });
  expect(answeredTarget(auditOf('createAgent'), undefined)).toEqual({});
});

/** Deps with the methods of `change` in the main table. */
const depsWith = (change: (main: Table) => Partial<Table>) => {
  const deps = memoryDeps();
  const { main } = deps;
  const methods = { get: main.get, put: main.put, update: main.update, delete: main.delete, query: main.query };
  const bound = Object.fromEntries(Object.entries(methods).map(([name, method]) => [name, method.bind(main)]));
  return { ...deps, main: { ...bound, ...change(main) } as unknown as Table };
};
const CHANGE = { params: { name: 'A' }, requestUuid: '00000000-0000-4000-8000-000000000001', address: '192.0.2.1' };
const SUBJECT = { workspaceId: 'w', operation: 'deleteSecret', by: { userId: 'u', keyId: 'k' } };
const entriesOf = async (deps: { main: Table }) => (await listEntries(deps, 'w', {}, { limit: 50 })).entries;

test('a change whose process dies has an entry', async () => {
  const deps = memoryDeps();
  let seen: unknown;
  const dead = audited(deps, SUBJECT, CHANGE, async () => {
    seen = await entriesOf(deps);
    throw new Error('the process dies');
  });
  await expect(dead).rejects.toThrow('the process dies');
  expect(seen).toMatchObject([{ operation: 'deleteSecret', userId: 'u', keyId: 'k', outcome: 'unknown' }]);
  expect(await entriesOf(deps)).toMatchObject([{ outcome: 'unknown', errorCode: 'INTERNAL_ERROR' }]);
});

test('without an entry nothing is changed; a change whose entry cannot be completed is answered all the same', async () => {
  const full = depsWith(() => ({ put: () => Promise.reject(new Error('no space')) }));
  let changes = 0;
  const make = async () => ({ body: { changes: ++changes } });
  await expect(audited(full, SUBJECT, CHANGE, make)).rejects.toThrow('no space');
  expect(changes).toBe(0);
  const broken = depsWith(() => ({ update: () => Promise.reject(new Error('gone')) }));
  expect(await audited(broken, SUBJECT, CHANGE, make)).toEqual({ body: { changes: 1 } });
  expect(await entriesOf(broken)).toMatchObject([{ outcome: 'unknown', address: '192.0.2.1' }]);
});

test('entries are kept as long as the setting says', async () => {
  const deps = memoryDeps();
  const kept = { ...deps, config: { ...deps.config, auditRetentionDays: 2 } };
  await deps.main.transact([entryOperation(kept, SUBJECT, CHANGE)]);
  expect(await entriesOf(deps)).toMatchObject([{ outcome: 'done' }]);
  await deps.clock.advance(2 * 24 * 3600_000 + 1000);
  expect(await entriesOf(deps)).toEqual([]);
});

test('a filter reads a thousand entries a page at most, and goes on', async () => {
  const deps = memoryDeps();
  for (let index = 0; index < 1100; index++) {
    const requestUuid = `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`;
    const operation = index === 0 ? 'putSecret' : 'deleteSecret';
    await deps.main.transact([entryOperation(deps, { ...SUBJECT, operation }, { ...CHANGE, requestUuid })]);
  }
  const filter = { operation: 'putSecret' };
  const first = await listEntries(deps, 'w', filter, { limit: 50 });
  expect(first).toMatchObject({ entries: [], nextCursor: expect.any(String) });
  const second = await listEntries(deps, 'w', filter, { limit: 50, cursor: first.nextCursor! });
  expect(second).toMatchObject({ entries: [{ operation: 'putSecret' }], nextCursor: null });
});

test('every audited row that is served writes one entry', async () => {
  const deps = memoryDeps();
  const app = createWebApp(deps, routes, allHandlers(deps));
  const ann = await addUser(deps, 'ann');
  const audits = rows.filter((row) => isAudited(row) && !row.request?.body);
  for (const row of audits) {
    const path = row.path.replaceAll(/\{(\w+)\}/g, (_, name) =>
      name === 'workspace_id' ? ann.workspaceId : 'not-there',
    );
    const headers = { authorization: `Bearer ${ann.key}` };
    await app(new Request(`http://platform.test${path}`, { method: row.method, headers }));
  }
  const { entries } = await listEntries(deps, ann.workspaceId, {}, { limit: 200 });
  expect(entries.map(({ operation }) => operation).sort()).toEqual(audits.map(({ operationId }) => operationId).sort());
  expect(audits.length).toBeGreaterThan(10);
});
