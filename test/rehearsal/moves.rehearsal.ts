import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { afterAll, expect, inject, test } from 'vitest';
import { Archive, newKey } from '#core/api/moves/archive.ts';
import { exportWorkspace } from '#core/api/moves/export.ts';
import { forgetWorkspace } from '#core/api/moves/forget.ts';
import { freeze } from '#core/api/moves/freeze.ts';
import { closeWorkspace, openWorkspace } from '#core/api/moves/handover.ts';
import { importWorkspace } from '#core/api/moves/import.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { expectOk } from '#test/e2e/expect.ts';
import { crashing, ProcessDied } from '#test/helpers/crashing.ts';
import { clientOf, request } from '#test/helpers/platform.ts';
import { awsMoveDeps } from '../../scripts/moves.ts';
import { accountFor } from './accounts.ts';
import { type Rehearsal, startRehearsal } from './platform.ts';

/** Moves a workspace between two stages, whose secrets are in different places (docs/cells.md). */
const emulators = inject('awsEndpoints');
const old = await startRehearsal(emulators, { sandbox: 'none', name: 'cella' });
const next = await startRehearsal(emulators, { sandbox: 'none', name: 'cellb', cell: 'b', secrets: 'envelope' });
const folder = mkdtempSync(join(tmpdir(), 'move-'));
afterAll(async () => {
  await Promise.all([old.close(), next.close()]);
  rmSync(folder, { recursive: true });
});

const depsOf = ({ platform, lambdaAdmin }: Rehearsal) =>
  awsMoveDeps(platform, (line) => process.stdout.write(`${platform}: ${line}\n`), {
    lambda: new LambdaClient({ ...accountFor('operator'), endpoint: lambdaAdmin }),
    settleMs: 1000,
  });

const until = { timeout: 60_000, interval: 200 };

test('a workspace moves to another stage and goes on there', { timeout: 300_000, retry: 0 }, async () => {
  const owner = await old.addUser('mover');
  const { key, workspaceId } = owner;
  const at = `/workspaces/${workspaceId}`;
  const send = (stage: Rehearsal, method: string, path: string, json?: unknown) =>
    request(stage, method, path, { key, json });
  const client = clientOf(old, key);
  const params = { workspace_id: workspaceId };
  await client.putSecret({ params, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-mover-0123456789' } });
  const described = { description: 'x', supported_providers: ['anthropic'] };
  await client.createAgent({ body: { ...described, name: 'greet', type: 'prompt', prompt: 'Say {{name}}.' } });
  expectOk(await send(old, 'POST', '/mover/greet/v1/run', { name: 'first' }));
  const { schedule } = await client.createSchedule({ params, body: { agent: 'greet', cron_expression: '0 0 1 1 *' } });
  const hook = await client.createSchedule({ params, body: { agent: 'greet', schedule_type: 'webhook' } });
  const hookPath = new URL((hook.schedule as { webhook_url?: string }).webhook_url!).pathname;
  expectOk(await send(old, 'PUT', '/storage/notes/large', { text: 'x'.repeat(200_000) }));
  // A run that waits for an answer.
  const turns = [
    { toolCalls: [{ name: 'ask_human', input: { question: 'Which colour?' } }] },
    { toolCalls: [{ name: 'submit_result', input: { result: 'over' } }] },
  ];
  const loop = { name: 'asker', type: 'agent', description: 'x', required_secrets: [], loop: { tools: ['ask_human'] } };
  expectOk(await send(old, 'POST', '/agents', { ...loop, prompt: `Ask. [[llm ${JSON.stringify(turns)}]]` }), 201);
  const { run_id: id } = expectOk(
    await request(old, 'POST', '/mover/asker/v1/run', { key, json: {}, headers: { prefer: 'respond-async' } }),
    202,
  );
  const status = async (stage: Rehearsal) => {
    await stage.passMinute?.();
    return expectOk(await send(stage, 'GET', `${at}/runs/${id}`)).status;
  };
  await expect.poll(() => status(old), until).toBe('waiting');
  const usage = expectOk(await send(old, 'GET', '/usage'));
  expect(await old.scheduler.names(old.timerGroup, schedule.id)).toHaveLength(1);

  const archive = new Archive(new FolderBlobs(folder), newKey());
  const [from, to] = [await depsOf(old), await depsOf(next)];
  // The workspace is used until it freezes: what was acknowledged moves.
  const acknowledged: number[] = [];
  const load = (async () => {
    for (let n = 0; ; n += 1) {
      const answer = await send(old, 'PUT', `/storage/load/k${n}`, { n });
      if (answer.status === 429) return;
      expectOk(answer);
      acknowledged.push(n);
    }
  })();
  await expect.poll(() => acknowledged.length, until).toBeGreaterThan(3);
  const begun = Date.now();
  const frozen = await freeze(from, 'mover', { to: 'b', address: next.url, waitMs: 30_000, loseRuns: false });
  await load;
  const refused = await send(old, 'POST', '/mover/greet/v1/run', { name: 'x' });
  expect([refused.status, refused.body.error.code]).toEqual([429, 'RATE_LIMITED']);
  expectOk(await send(old, 'GET', '/storage/notes/large'));
  expect(await old.scheduler.names(old.timerGroup, schedule.id)).toEqual([]);
  for (const fn of ['sweeper', 'schedule-sweeper'] as const) await old.tick(fn);
  // Processes die in the middle of both.
  const half = { callsLeft: 3, isAfter: true };
  await expect(exportWorkspace({ ...from, vault: crashing(from.vault, half) }, archive, frozen)).rejects.toThrow(
    ProcessDied,
  );
  await exportWorkspace(from, archive, frozen);
  const later = { callsLeft: 40, isAfter: true };
  await expect(importWorkspace({ ...to, main: crashing(to.main, later) }, archive)).rejects.toThrow(ProcessDied);
  await importWorkspace(to, archive);
  expect((await send(next, 'GET', '/storage/notes/large')).status).toBe(429);
  for (const fn of ['sweeper', 'schedule-sweeper'] as const) await next.tick(fn);
  await closeWorkspace(from, archive);
  await openWorkspace(to, archive);
  process.stdout.write(`moved in ${Date.now() - begun} ms\n`);

  for (const path of ['/storage/notes/large', '/usage', `${at}/runs/${id}`]) {
    const gone = await send(old, 'GET', path);
    expect([gone.status, gone.body.error.message], path).toEqual([403, 'The workspace "mover" has moved to cell b.']);
  }
  expect((await request(old, 'POST', hookPath, { json: {} })).status).toBe(403);
  expect(expectOk(await send(next, 'GET', '/storage/notes/large')).value).toEqual({ text: 'x'.repeat(200_000) });
  expect(expectOk(await send(next, 'GET', '/usage')).total_calls).toBe(usage.total_calls);
  expect(await next.scheduler.names(next.timerGroup, schedule.id)).toHaveLength(1);
  for (const n of acknowledged) {
    expect(expectOk(await send(next, 'GET', `/storage/load/k${n}`)).value).toEqual({ n });
  }
  // Secrets, keys, webhooks and the journal of the run are those of the new stage.
  expectOk(await send(next, 'POST', '/mover/greet/v1/run', { name: 'second' }));
  expectOk(await request(next, 'POST', hookPath, { json: { name: 'third' } }));
  const answer = { decision: 'answer', answer: 'red' };
  expectOk(await send(next, 'POST', `${at}/approvals/${id}.1.1/decision`, answer));
  await expect.poll(() => status(next), until).toBe('completed');

  await forgetWorkspace(from, workspaceId);
  expect((await send(old, 'GET', '/usage')).status).toBe(401);
  expectOk(await send(next, 'POST', '/mover/greet/v1/run', { name: 'fourth' }));
  expect([...old.gate.refused, ...next.gate.refused]).toEqual([]);
});
