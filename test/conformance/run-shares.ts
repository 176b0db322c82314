import { expect, test } from 'vitest';
import { auditHandlers } from '#core/accounts/audit/handlers.ts';
import { auditRoutes } from '#core/accounts/audit/routes.ts';
import { newApiKey } from '#core/accounts/keys/store.ts';
import { findPersonalWorkspace } from '#core/accounts/workspaces/store.ts';
import { runs as runHandlers } from '#core/api/handlers.ts';
import type { KeyScope } from '#core/base/caller.ts';
import { isPlatformError } from '#core/base/errors.ts';
import { SystemClock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { headKey } from '#core/runs/items.ts';
import { runRoutes } from '#core/runs/routes.ts';
import { emptyResult, endedWith, type NewRun } from '#core/runs/run.ts';
import { shareRoutes } from '#core/runs/shares/routes.ts';
import { createShare, listShares, MAX_SHARES, revokeShare } from '#core/runs/shares/store.ts';
import { RunStore } from '#core/runs/store.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { addMember, addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';

const BASE = 'https://platform.example';
const DAY = 24 * 3600_000;
const GONE = 'This link does not exist or has expired.';
/** Data of the workspace that no link may show. */
const HIDDEN = { tenant: 'tenant-4711', cost: 0.123456 };

type Tables = Pick<Deps, 'main' | 'runs' | 'counters'>;

/** Links to runs over the API, on the tables of a host. */
export function runSharesSuite(makeTables: (clock: Deps['clock']) => Promise<Tables | undefined>): void {
  async function world(settings: Parameters<typeof memoryDeps>[0] = {}) {
    const base = memoryDeps({ baseUrl: BASE, dashboardUrl: `${BASE}/dashboard`, ...settings });
    const deps: MemoryDeps = { ...base, ...(await makeTables(base.clock)) };
    const handlers = { ...runHandlers(deps), ...auditHandlers(deps) };
    const app = createWebApp(deps, [...runRoutes, ...shareRoutes, ...auditRoutes], handlers);
    const owner = await addUser(deps, `acme-${crypto.randomUUID().slice(0, 8)}`);
    async function send(
      method: string,
      path: string,
      { key, json, address }: { readonly key?: string; readonly json?: unknown; readonly address?: string } = {},
    ) {
      const headers = { 'content-type': 'application/json', ...(key && { authorization: `Bearer ${key}` }) };
      const init = { method, headers, ...(json !== undefined && { body: JSON.stringify(json) }) };
      const answer = await app(new Request(`${BASE}${path}`, init), address);
      // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
      return { status: answer.status, headers: answer.headers, body: (await answer.json()) as any };
    }

    /** A completed run with a called run, a tool call and stored content. */
    async function addRun(): Promise<NewRun> {
      const now = deps.clock.now();
      const run: NewRun = {
        id: deps.ids.uuid(),
        agentId: deps.ids.uuid(),
        agentWorkspaceId: owner.workspaceId,
        agentOrg: owner.slug,
        agentName: 'reporter',
        agentVersion: 'v3',
        engine: 'managed_loop',
        endpoint: 'run',
        triggerSource: 'api',
        startedAt: now,
        deadline: now + 60_000,
        tenantId: HIDDEN.tenant,
        input: { question: 'How many?' },
      };
      const called: NewRun = {
        ...run,
        id: deps.ids.uuid(),
        agentName: 'counter',
        parentRunId: run.id,
        rootRunId: run.id,
      };
      const store = new RunStore(deps, owner.workspaceId);
      await store.start(run);
      await store.start(called);
      const ended = emptyResult(endedWith(undefined), null);
      await store.finish(called, { ...ended, costUsd: HIDDEN.cost });
      await store.putContent(run.id, JSON.stringify({ 0: { arguments: { text: '{"unit":"boxes"}', bytes: 16 } } }));
      const span = { at: now, span: 1, payload: { tool_name: 'count' } } as const;
      await store.finish(run, {
        ...ended,
        input: run.input,
        output: { answer: 12 },
        stdout: 'printed by the program',
        costUsd: HIDDEN.cost,
        inputTokens: 20,
        outputTokens: 5,
        hasContent: true,
        trace: [
          { ...span, event_type: 'tool_call_started' },
          { ...span, event_type: 'tool_call_succeeded', duration_ms: 0, cost_usd: HIDDEN.cost },
        ],
      });
      return run;
    }
    const run = await addRun();
    const sharesOf = (id: string) => `/workspaces/${owner.workspaceId}/runs/${id}/shares`;
    const shares = sharesOf(run.id);
    async function share(json: object = {}) {
      const made = await send('POST', shares, { key: owner.key, json });
      expect(made.status, JSON.stringify(made.body)).toBe(201);
      return { ...made.body, token: made.body.url.split('/').at(-1) as string };
    }
    const open = (token: string, part = '', address?: string) =>
      send('GET', `/public/shares/${token}${part}`, { ...(address && { address }) });
    const record = async () => (await new RunStore(deps, owner.workspaceId).find(run.id))!;
    return { deps, owner, run, record, addRun, send, share, shares, sharesOf, open };
  }

  /** What an answer says beside its request id. */
  const told = ({ status, headers, body }: { status: number; headers: Headers; body: { error?: unknown } }) => [
    status,
    body.error,
    [...headers].filter(([name]) => !/^x-(request-id|ratelimit)/.test(name)),
  ];

  test('a link shows the run, its steps and their content to people without a key, and nothing else of it', async () => {
    const { run, share, open, owner } = await world();
    const { token, url, ...made } = await share();
    expect(url).toBe(`${BASE}/dashboard/share/${token}`);
    expect(made).toMatchObject({ run_id: run.id, created_by: owner.userId, created_at: '2035-06-01T12:00:00.000Z' });
    expect(made.expires_at).toBe('2035-06-08T12:00:00.000Z');
    // 256 random bits.
    expect(token).toMatch(/^a[\w-]{43}$/);

    const answers = [await open(token), await open(token, '/steps'), await open(token, '/events')];
    for (const { status, headers } of answers) {
      expect(status).toBe(200);
      expect(headers.get('cache-control')).toBe('no-store');
      expect(headers.get('x-robots-tag')).toBe('noindex');
      expect(headers.get('referrer-policy')).toBe('no-referrer');
    }
    const [shown, { steps, has_content }, { events, next_cursor }] = answers.map(({ body }) => body);
    expect(shown.expires_at).toBe(made.expires_at);
    expect(shown.run).toEqual({
      id: run.id,
      agent_name: 'reporter',
      agent_version: 'v3',
      status: 'completed',
      error_code: null,
      error_message: null,
      trigger_source: 'api',
      duration_ms: 0,
      started_at: '2035-06-01T12:00:00.000Z',
      created_at: '2035-06-01T12:00:00.000Z',
      run_at: null,
      completed_at: '2035-06-01T12:00:00.000Z',
      input_tokens: 20,
      output_tokens: 5,
      llm_provider: null,
      llm_model: null,
      input_data: { question: 'How many?' },
      output_data: { answer: 12 },
    });
    expect(has_content).toBe(true);
    expect(steps).toMatchObject([
      { kind: 'tool_call', status: 'succeeded', payload: { tool_name: 'count' } },
      { kind: 'sub_call', status: 'succeeded', payload: { agent_name: 'counter', agent_version: 'v3' } },
    ]);
    expect(events[0]).toMatchObject({ sequence_no: 0, content: { arguments: { text: '{"unit":"boxes"}' } } });
    expect(events).toHaveLength(3);
    expect(next_cursor).toBeNull();
    const text = JSON.stringify(answers.map(({ body }) => body));
    const secret = [owner.workspaceId, owner.userId, owner.keyId, owner.slug, HIDDEN.tenant, String(HIDDEN.cost)];
    for (const word of [...secret, 'printed by', 'run_id', 'cost', '@example.com']) expect(text).not.toContain(word);
  });

  test('events come in pages', async () => {
    const { share, open } = await world();
    const { token } = await share();
    const first = (await open(token, '/events?limit=2')).body;
    expect(first).toMatchObject({ total: 3, next_cursor: '2' });
    const rest = (await open(token, `/events?limit=2&cursor=${first.next_cursor}`)).body;
    expect([...first.events, ...rest.events].map(({ sequence_no }) => sequence_no)).toEqual([0, 1, 2]);
    expect((await open(token, '/events?cursor=x')).status).toBe(400);
  });

  test('a link that never existed, was revoked or has expired gets the same answer', async () => {
    const { deps, owner, send, share, shares, open } = await world();
    const [revoked, expired] = [await share(), await share({ expires_in_days: 1 })];
    const deletion = await send('DELETE', `${shares}/${revoked.id}`, { key: owner.key });
    expect(deletion).toMatchObject({ status: 200, body: { deleted: true, id: revoked.id } });
    deps.clock.advance(DAY - 1000);
    expect((await open(expired.token)).status).toBe(200);
    deps.clock.advance(1000);
    const last = expired.token.endsWith('A') ? 'B' : 'A';
    const tokens = [
      revoked.token,
      expired.token,
      'A'.repeat(43),
      // A guess that is nearly right, the id of a link, and texts of other forms.
      expired.token.slice(0, -1) + last,
      expired.id,
      'x',
      '%00',
      '__proto__',
      'x'.repeat(256),
    ];
    const reads: number[] = [];
    const get = deps.runs.get.bind(deps.runs);
    let count = 0;
    deps.runs.get = (key) => {
      count++;
      return get(key);
    };
    for (const part of ['', '/steps', '/events']) {
      const answers = [];
      for (const token of tokens) {
        count = 0;
        answers.push(told(await open(token, part)));
        reads.push(count);
      }
      expect(new Set(answers.map((each) => JSON.stringify(each))).size).toBe(1);
      expect(answers[0]!.slice(0, 2)).toMatchObject([404, { code: 'NOT_FOUND', message: GONE }]);
    }
    // The work is the same, too.
    expect(new Set(reads)).toEqual(new Set([1]));
    // A second revocation finds nothing.
    expect((await send('DELETE', `${shares}/${revoked.id}`, { key: owner.key })).status).toBe(404);
    expect((await send('DELETE', `${shares}/${expired.id}`, { key: owner.key })).status).toBe(404);
  });

  test('links end with their run', async () => {
    const { deps, run, share, open } = await world({ runRetentionDays: 10 });
    deps.clock.advance(5 * DAY);
    const { token, expires_at } = await share({ expires_in_days: 30 });
    expect(Date.parse(expires_at)).toBe(run.startedAt + 10 * DAY);
    deps.clock.advance(5 * DAY - 1000);
    expect((await open(token)).status).toBe(200);
    deps.clock.advance(1000);
    expect(await open(token)).toMatchObject({ status: 404, body: { error: { message: GONE } } });
  });

  test('a link shows nothing once the record of its run is gone', async () => {
    const { deps, owner, run, share, open } = await world();
    const { token } = await share();
    await deps.runs.delete(headKey(owner.workspaceId, run.id));
    expect(await open(token)).toMatchObject({ status: 404, body: { error: { message: GONE } } });
  });

  test('owners create and revoke links, members list them, and others have no access', async () => {
    const { deps, owner, send, share, shares, run, sharesOf, addRun } = await world();
    const { id } = await share();
    const member = await addUser(deps, `member-${crypto.randomUUID().slice(0, 8)}`);
    await addMember(deps, member, owner.workspaceId);
    const stranger = await addUser(deps, `stranger-${crypto.randomUUID().slice(0, 8)}`);
    const limited = async (scope: KeyScope) => {
      const personalWorkspace = await findPersonalWorkspace(deps, owner.userId);
      const made = newApiKey(deps, { userId: owner.userId, personalWorkspace }, scope, { scope });
      await deps.main.transact(made.operations);
      return made.key;
    };
    const attempts = [
      ['POST', shares],
      ['DELETE', `${shares}/${id}`],
    ] as const;
    for (const [method, path] of attempts) {
      const json = method === 'POST' ? {} : undefined;
      expect(await send(method, path, { json })).toMatchObject({ status: 401 });
      for (const key of [member.key, stranger.key, await limited('read'), await limited('run')]) {
        expect(await send(method, path, { key, json })).toMatchObject({
          status: 403,
          body: { error: { code: 'FORBIDDEN' } },
        });
      }
    }
    const { body } = await send('GET', shares, { key: member.key });
    expect(body.shares).toMatchObject([{ id, run_id: run.id }]);
    expect(Object.keys(body.shares[0]).sort()).toEqual(['created_at', 'created_by', 'expires_at', 'id', 'run_id']);
    expect((await send('GET', shares, { key: stranger.key })).status).toBe(403);
    // The stranger's own workspace has no such run.
    const elsewhere = `/workspaces/${stranger.workspaceId}/runs/${run.id}/shares`;
    for (const [method, path, json] of [
      ['POST', elsewhere, {}],
      ['GET', elsewhere, undefined],
      ['DELETE', `${elsewhere}/${id}`, undefined],
    ] as const) {
      expect(await send(method, path, { key: stranger.key, json })).toMatchObject({ status: 404 });
    }
    // A link is revoked at its own run only.
    const other = await addRun();
    expect((await send('DELETE', `${sharesOf(other.id)}/${id}`, { key: owner.key })).status).toBe(404);
    expect((await send('GET', shares, { key: owner.key })).body.shares).toHaveLength(1);
  });

  test('wrong bodies and runs are refused', async () => {
    const { owner, send, shares, sharesOf } = await world();
    for (const json of [{ expires_in_days: 0 }, { expires_in_days: 31 }, { expires_in_days: 1.5 }, { days: 3 }]) {
      expect(await send('POST', shares, { key: owner.key, json })).toMatchObject({
        status: 400,
        body: { error: { code: 'INVALID_INPUT', message: expect.stringContaining('days') } },
      });
    }
    const unknown = sharesOf(crypto.randomUUID());
    expect(await send('POST', unknown, { key: owner.key, json: {} })).toMatchObject({ status: 404 });
    expect(await send('GET', unknown, { key: owner.key })).toMatchObject({ status: 404 });
  });

  test('a run has at most 20 valid links, even if many are created at once', async () => {
    const { deps, owner, record, send, share, shares, open } = await world();
    const run = await record();
    // Those that lose a race wait for a moment of real time.
    const clock = Object.assign(new SystemClock(), { now: () => deps.clock.now() });
    const create = () => createShare({ ...deps, clock }, run, { days: 1, createdBy: owner.userId });
    const made = await Promise.allSettled(Array.from({ length: MAX_SHARES + 5 }, create));
    const good = made.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    const bad = made.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
    expect(good).toHaveLength(MAX_SHARES);
    expect(bad.map((error) => isPlatformError(error) && error.code)).toEqual(Array(5).fill('CONFLICT'));
    for (const { token } of good) expect((await open(token)).status).toBe(200);
    expect(await send('POST', shares, { key: owner.key, json: {} })).toMatchObject({
      status: 409,
      body: { error: { code: 'CONFLICT', message: `${MAX_SHARES} links to this run are valid: revoke one first.` } },
    });
    // A revoked link makes room for another one, as do those that expire.
    expect(await revokeShare(deps, run, good[0]!.share.id)).toBe(true);
    await share();
    deps.clock.advance(DAY);
    expect(await listShares(deps, run)).toHaveLength(1);
    await share();
    // Two revocations at once: one of them finds the link.
    const { id } = (await listShares(deps, run))[0]!;
    const twice = await Promise.all([1, 2].map(() => revokeShare({ ...deps, clock }, run, id)));
    expect(twice.toSorted()).toEqual([false, true]);
  });

  test('creating and revoking a link are in the audit log, without the token', async () => {
    const { deps, owner, run, send, share, shares } = await world();
    const { id, token } = await share({ expires_in_days: 3 });
    deps.clock.advance(1000);
    await send('DELETE', `${shares}/${id}`, { key: owner.key });
    const { body } = await send('GET', `/workspaces/${owner.workspaceId}/audit`, { key: owner.key });
    expect(body.entries).toMatchObject([
      { operation: 'revokeRunShare', outcome: 'done', target: { run_id: run.id, share_id: id } },
      {
        operation: 'createRunShare',
        outcome: 'done',
        target: { run_id: run.id, share_id: id, expires_in_days: 3 },
        user: { id: owner.userId },
      },
    ]);
    expect(JSON.stringify(body)).not.toContain(token);
  });

  test('the token is neither stored nor logged', async () => {
    const { deps, share, open, send } = await world();
    const written: unknown[] = [];
    for (const table of [deps.main, deps.runs, deps.counters]) {
      const transact = table.transact.bind(table);
      const update = table.update.bind(table);
      table.transact = (operations) => {
        written.push(operations);
        return transact(operations);
      };
      table.update = (...parts) => {
        written.push(parts);
        return update(...parts);
      };
    }
    const { token } = await share();
    await open(token);
    await open(`${token}x`);
    await send('POST', `/public/shares/${token}`);
    deps.runs.get = () => Promise.reject(new Error('the table is away'));
    expect((await open(token)).status).toBe(500);
    expect(deps.lines.some(({ message }) => message === 'request failed')).toBe(true);
    expect(JSON.stringify(written)).toContain('SHARE#');
    for (const text of [JSON.stringify(deps.lines), JSON.stringify(written)]) expect(text).not.toContain(token);
  });

  test('an address that guesses is limited', async () => {
    const { share, open } = await world({ addressRequestsPerMinute: 5 });
    const { token } = await share();
    const statuses = [];
    for (let i = 0; i < 6; i++) statuses.push((await open(`guess-${i}`, '', '203.0.113.7')).status);
    expect(statuses).toEqual([404, 404, 404, 404, 404, 429]);
    expect((await open(token, '', '203.0.113.7')).status).toBe(429);
    expect((await open(token, '', '203.0.113.8')).status).toBe(200);
  });

  test('without a dashboard, the link leads to the API', async () => {
    const { share } = await world({ dashboardUrl: undefined });
    const { url, token } = await share();
    expect(url).toBe(`${BASE}/public/shares/${token}`);
  });
}
