import { hash } from 'node:crypto';
import { expect, test } from 'vitest';
import { listEntries } from '#core/billing/credits/ledger.ts';
import { noOperatorKey } from '#core/ports/operator-key.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { operatorHandlers } from './handlers.ts';
import { operatorRoutes } from './routes.ts';

const KEY = 'k'.repeat(40);

async function setUp({ operatorKey = async () => hash('sha256', KEY), addressRequestsPerMinute = 600 } = {}) {
  const base = memoryDeps();
  const deps = {
    ...base,
    operatorKey: operatorKey as typeof noOperatorKey,
    config: { ...base.config, addressRequestsPerMinute },
  };
  const ann = await addUser(deps, 'ann');
  const app = createWebApp(deps, operatorRoutes, operatorHandlers(deps));
  const send = async (method: string, path: string, body?: object, key = KEY) => {
    const response = await app(
      new Request(`http://localhost/operator/workspaces/${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
      }),
      '192.0.2.1',
    );
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  return { deps, ann, send };
}

test('a workspace is shown by slug and by id', async () => {
  const { deps, ann, send } = await setUp();
  const shown = {
    status: 200,
    body: {
      id: ann.workspaceId,
      slug: 'ann',
      name: expect.any(String),
      type: 'personal',
      plan: deps.config.defaultPlan,
      created_at: expect.stringMatching(/Z$/),
      balance_cents: 0,
      debt_cents: 0,
      currency: 'usd',
    },
  };
  expect(await send('GET', 'ann')).toEqual(shown);
  expect(await send('GET', ann.workspaceId)).toEqual(shown);
  // A workspace whose slug is the id of another one gets none of its credits.
  await addUser(deps, ann.workspaceId);
  expect(await send('GET', ann.workspaceId)).toEqual(shown);
  expect(await send('GET', 'nobody')).toMatchObject({ status: 404, body: { error: { code: 'NOT_FOUND' } } });
});

test('plans are given', async () => {
  const { send } = await setUp();
  expect(await send('PUT', 'ann/plan', { plan: 'free' })).toMatchObject({ status: 200, body: { plan: 'free' } });
  expect(await send('GET', 'ann')).toMatchObject({ body: { plan: 'free' } });
  for (const body of [{ plan: 'gold' }, {}]) {
    expect(await send('PUT', 'ann/plan', body)).toMatchObject({
      status: 400,
      body: { error: { code: 'INVALID_INPUT' } },
    });
  }
  expect((await send('PUT', 'nobody/plan', { plan: 'pro' })).status).toBe(404);
});

test('credits are given once for each id, with a note', async () => {
  const { deps, ann, send } = await setUp();
  const grant = { id: 'invoice-7', amount_cents: 500, note: 'Invoice 7' };
  const [one, two] = await Promise.all([send('POST', 'ann/credits', grant), send('POST', 'ann/credits', grant)]);
  expect([one.status, two.status].toSorted()).toEqual([200, 201]);
  expect(await send('POST', 'ann/credits', grant)).toMatchObject({ status: 200, body: { balance_cents: 500 } });
  const conflict = { status: 409, body: { error: { code: 'CONFLICT' } } };
  for (const change of [{ amount_cents: 501 }, { note: 'Invoice 8' }]) {
    expect(await send('POST', 'ann/credits', { ...grant, ...change })).toMatchObject(conflict);
  }
  const { id, ...rest } = grant;
  expect(await send('POST', 'ann/credits', { id: 'b', amount_cents: 1 })).toMatchObject({
    status: 201,
    body: { balance_cents: 501 },
  });
  for (const body of [rest, { ...grant, id: 'a b' }, { ...grant, amount_cents: 0 }, { ...grant, amount_cents: 1.5 }]) {
    expect((await send('POST', 'ann/credits', body)).status).toBe(400);
  }
  const entries = await listEntries(deps, ann.workspaceId, { limit: 10, offset: 0 });
  expect(entries).toMatchObject([
    { kind: 'top_up', amountCents: 1, description: 'Added by the operator', referenceId: 'b' },
    { kind: 'top_up', amountCents: 500, description: 'Invoice 7', referenceId: 'invoice-7' },
  ]);
  expect(JSON.stringify(deps.lines)).not.toContain(KEY);
});

test('other keys are refused, and then limited by address; the right one is not', async () => {
  const { ann, send } = await setUp({ addressRequestsPerMinute: 3 });
  const refused = { status: 401, body: { error: { code: 'UNAUTHORIZED' } } };
  for (const key of [ann.key, '', `${KEY}k`]) expect(await send('GET', 'ann', undefined, key)).toMatchObject(refused);
  expect(await send('GET', 'ann', undefined, 'wrong')).toMatchObject({
    status: 429,
    body: { error: { code: 'RATE_LIMITED' } },
  });
  for (let count = 0; count < 5; count++) expect((await send('GET', 'ann')).status).toBe(200);
});

test('without an operator key, every request is rejected', async () => {
  const { send } = await setUp({ operatorKey: noOperatorKey as () => Promise<string> });
  for (const key of [KEY, '']) {
    expect(await send('POST', 'ann/credits', { id: 'a', amount_cents: 1 }, key)).toMatchObject({
      status: 403,
      body: { error: { code: 'FORBIDDEN', message: expect.stringContaining('no operator key is configured') } },
    });
  }
  expect((await send('GET', 'ann')).status).toBe(403);
});
