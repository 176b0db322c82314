import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { newApiKey } from '#core/accounts/keys/store.ts';
import { listUsersOf, userEmailItem } from '#core/accounts/workspaces/emails.ts';
import { findWorkspace, newWorkspaceOperations } from '#core/accounts/workspaces/store.ts';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import { fireDue, fireOverdue } from '#core/automation/schedules/runs/fire.ts';
import { ScheduleStore } from '#core/automation/schedules/store.ts';
import { rotateSigningSecret } from '#core/outbound/signing.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Item } from '#core/ports/table.ts';
import { dueLeases } from '#core/runs/leases.ts';
import { RunStore } from '#core/runs/store.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { ServiceStore } from '#core/services/store.ts';
import { FolderBlobs } from '#local/files/folder-blobs.ts';
import { crashing, type Fuse, ProcessDied } from '#test/helpers/crashing.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { makeDue } from '#test/helpers/schedules.ts';
import { newServiceRecord } from '#test/helpers/services.ts';
import { addMember, addUser, type TestUser } from '#test/helpers/users.ts';
import { type Call, DONE, waitingLoop } from '#test/helpers/waiting-loop.ts';
import { createWebApp } from '#test/helpers/web-app.ts';
import { Archive, newKey } from './archive.ts';
import { exportWorkspace } from './export.ts';
import { forgetWorkspace } from './forget.ts';
import { freeze, type MoveDeps } from './freeze.ts';
import { cancelMove, closeWorkspace, directoryOf, openWorkspace } from './handover.ts';
import { importWorkspace } from './import.ts';
import { ownItems } from './own-items.ts';

type Cell = MemoryDeps & MoveDeps;
const OPTIONS = { to: 'b', address: 'https://b.example.org', waitMs: 0, loseRuns: false };

const asCell = (deps: MemoryDeps): Cell => ({ ...deps, say: () => {}, settleMs: 0 });
const cellOf = (cell: string): Cell => asCell(memoryDeps({ cell }));

function clientOf(deps: MemoryDeps) {
  const app = createWebApp(deps, routes, allHandlers(deps));
  return async (method: string, path: string, key: string, body?: object) => {
    const headers = { 'content-type': 'application/json', ...(key !== '' && { authorization: `Bearer ${key}` }) };
    const response = await app(
      new Request(`http://127.0.0.1${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) }),
    );
    return { status: response.status, headers: response.headers, body: (await response.json()) as Body };
  };
}

/** The members that these tests read of answers. */
interface Body {
  readonly error: { readonly code: string; readonly message: string; readonly hint: string };
  readonly schedule: { readonly id: string; readonly webhook_url: string };
  readonly value: unknown;
  readonly tasks: readonly { readonly title: string }[];
  readonly id: string;
}

function newArchive(key = newKey()) {
  const folder = mkdtempSync(join(tmpdir(), 'move-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return { folder, key, archive: new Archive(new FolderBlobs(folder), key) };
}

/** A workspace with something of many kinds. */
async function fill(deps: Cell, user: TestUser) {
  const send = clientOf(deps);
  const { key, workspaceId, slug } = user;
  const at = `/workspaces/${workspaceId}`;
  const made = async (method: string, path: string, body: object) => {
    const answer = await send(method, path, key, body);
    expect(answer.status, `${method} ${path} ${JSON.stringify(answer.body)}`).toBeLessThan(300);
    return answer.body;
  };
  await made('PUT', `${at}/secrets`, { name: 'ANTHROPIC_API_KEY', value: 'sk-made-up' });
  await made('POST', '/agents', {
    ...{ name: 'greet', type: 'prompt', description: 'x', prompt: 'Say {{name}}.', is_public: true },
    supported_providers: ['anthropic'],
  });
  const agent = `${slug}/greet`;
  const { schedule: cron } = await made('POST', `${at}/schedules`, { agent, cron_expression: '0 0 * * *' });
  const { schedule: hook } = await made('POST', `${at}/schedules`, { agent, schedule_type: 'webhook' });
  await made('PUT', '/storage/notes/small', { text: 'hello' });
  await made('PUT', '/storage/notes/large', { text: 'x'.repeat(300_000) });
  await made('POST', '/tasks', { title: 'Call Bob' });
  await made('POST', '/messages', { title: 'Hi', body: 'there', level: 'info' });
  await rotateSigningSecret(deps, workspaceId);
  const service = newServiceRecord({
    ...{ id: deps.ids.uuid(), workspaceId, agentWorkspaceId: workspaceId, agentOrg: slug, agentName: 'greet' },
    ...{ label: `bot-${slug}`, address: 'http://old.example.org', tokens: [] },
  });
  expect(await new ServiceStore(deps, workspaceId).create(service, 5, { type: 'deployed', message: 'x' })).toBe(
    'created',
  );
  // A service host would apply the order to stop it.
  const applied = () =>
    new ServiceStore(deps, workspaceId).change(service.id, (before) => ({
      service: { ...before, applied: { revision: before.revision, at: deps.clock.now(), isRunning: false, shape: '' } },
    }));
  await applied();
  return { cron: cron.id, hook: new URL(hook.webhook_url, 'http://x').pathname, service: service.id, applied };
}
type Filled = Awaited<ReturnType<typeof fill>>;

/** Stops the service in place of its host, while the workspace freezes. */
const freezing = async (deps: Cell, filled: Filled, options = OPTIONS) => {
  const wakeServices = async () => void (await filled.applied());
  return freeze({ ...deps, wakeServices }, 'ada', options);
};

const itemsOf = async (deps: Cell, workspaceId: string) => {
  const found = new Map<string, Item>();
  for await (const { table, item } of ownItems(deps, workspaceId)) found.set(`${table} ${item.pk} ${item.sk}`, item);
  return found;
};

let old: Cell;
let next: Cell;
let ada: TestUser;
let filled: Filled;
beforeEach(async () => {
  [old, next] = [cellOf('a'), cellOf('b')];
  ada = await addUser(old, 'ada');
  await old.main.put(userEmailItem({ id: ada.userId, email: 'ada@example.com' }));
  filled = await fill(old, ada);
});

async function move(from: Cell, to: Cell, archive: Archive): Promise<void> {
  await exportWorkspace(from, archive, await freezing(from, filled));
  await importWorkspace(to, archive);
  await closeWorkspace(from, archive);
  await openWorkspace(to, archive);
}

describe('a move', () => {
  test('brings every item as it was, and nothing else', async () => {
    const before = await itemsOf(old, ada.workspaceId);
    await move(old, next, newArchive().archive);
    const after = await itemsOf(next, ada.workspaceId);
    const isOfServices = (key: string) => /^main (WS#[^ ]*#(SERVICES|SERVED#[^ ]*)|SERVICE#[^ ]*) /.test(key);
    const rest = (all: Map<string, Item>) => new Map([...all].filter(([key]) => !isOfServices(key)));
    expect(rest(after)).toEqual(rest(before));
    expect(await next.vault.read(ada.workspaceId, ['ANTHROPIC_API_KEY'])).toEqual({ ANTHROPIC_API_KEY: 'sk-made-up' });
    const service = (await new ServiceStore(next, ada.workspaceId).find(filled.service))!;
    expect(service).toMatchObject({ desired: 'running', applied: null, address: null, instances: {} });
  });

  test('brings more secrets than a page of a query has', async () => {
    const names = Array.from({ length: 1001 }, (_, n) => `SECRET_${n}`);
    for (const name of names) {
      await old.main.put({ pk: `WS#${ada.workspaceId}`, sk: `SECRET#${name}`, name });
    }
    const last = names.toSorted().at(-1)!;
    await old.vault.write(ada.workspaceId, last, 'made-up');
    await move(old, next, newArchive().archive);
    expect(await next.vault.read(ada.workspaceId, [last])).toEqual({ [last]: 'made-up' });
  });

  test('lets people and programs go on in the other cell with their keys, and names it in the old one', async () => {
    await move(old, next, newArchive().archive);
    const [atOld, atNext] = [clientOf(old), clientOf(next)];
    expect((await atNext('GET', '/storage/notes/large', ada.key)).body.value).toEqual({ text: 'x'.repeat(300_000) });
    expect((await atNext('PUT', '/storage/notes/small', ada.key, { value: 1 })).status).toBe(200);
    expect((await atNext('GET', '/tasks', ada.key)).body.tasks).toMatchObject([{ title: 'Call Bob' }]);
    expect((await atNext('GET', '/public/agents/ada/greet/latest', '')).status).toBe(200);
    for (const [method, path] of [
      ['GET', '/storage/notes/small'],
      ['POST', '/tasks'],
      ['POST', '/ada/greet/v1/run'],
      ['GET', `/workspaces/${ada.workspaceId}/schedules`],
    ] as const) {
      const { status, body } = await atOld(method, path, ada.key, method === 'POST' ? {} : undefined);
      expect([status, body.error.code], path).toEqual([403, 'FORBIDDEN']);
      expect(body.error.message).toBe('The workspace "ada" has moved to cell b.');
      expect(body.error.hint).toContain('https://b.example.org');
    }
    expect((await atOld('POST', filled.hook, '', {})).body.error.message).toContain('moved to cell b');
    // Other workspaces do not call old copies.
    const eve = await addUser(old, 'eve');
    expect((await atOld('POST', '/ada/greet/v1/run', eve.key, { name: 'x' })).status).toBe(404);
    expect((await atOld('GET', '/public/agents/ada/greet/latest', '')).status).toBe(404);
  });

  test('tells the directory the slug, and the hashes of keys and webhooks', async () => {
    const { archive } = newArchive();
    await move(old, next, archive);
    const entries = await directoryOf(archive);
    expect(entries[0]).toEqual({ Key: 'ada', Value: 'b' });
    expect(entries.slice(1).map(({ Key }) => Key)).toEqual(
      expect.arrayContaining([expect.stringMatching(/^[\da-f]{64}$/), expect.stringMatching(/^[\da-f]{64}$/)]),
    );
    expect(entries).toHaveLength(3);
  });

  test('back again needs the old copy to be erased first', async () => {
    await move(old, next, newArchive().archive);
    const [service] = await new ServiceStore(next, ada.workspaceId).list();
    const applied = () =>
      new ServiceStore(next, ada.workspaceId).change(service!.id, (each) => ({
        service: { ...each, applied: { revision: each.revision, at: 1, isRunning: false, shape: '' } },
      }));
    await applied();
    const { archive } = newArchive();
    const wakeServices = async () => void (await applied());
    const frozen = await freeze({ ...next, wakeServices }, 'ada', { ...OPTIONS, to: 'a' });
    await exportWorkspace(next, archive, frozen);
    await expect(importWorkspace(old, archive)).rejects.toMatchObject({ code: 'MOVE_CONFLICT' });
    await forgetWorkspace(old, ada.workspaceId);
    await importWorkspace(old, archive);
    await closeWorkspace(next, archive);
    await openWorkspace(old, archive);
    expect((await clientOf(old)('GET', '/storage/notes/small', ada.key)).status).toBe(200);
    expect((await clientOf(next)('GET', '/storage/notes/small', ada.key)).status).toBe(403);
  });
});

describe('a frozen workspace', () => {
  test('refuses every change with a time to wait, and can be read', async () => {
    await freezing(old, filled);
    const send = clientOf(old);
    for (const [method, path, key] of [
      ['PUT', '/storage/notes/small', ada.key],
      ['POST', '/ada/greet/v1/run', ada.key],
      ['POST', '/agents', ada.key],
      ['DELETE', `/workspaces/${ada.workspaceId}/schedules/${filled.cron}`, ada.key],
      ['POST', filled.hook, ''],
    ] as const) {
      const { status, headers, body } = await send(method, path, key, method === 'DELETE' ? undefined : { value: 1 });
      expect([status, body.error?.code, headers.get('retry-after')], path).toEqual([429, 'RATE_LIMITED', '30']);
    }
    expect((await send('GET', '/storage/notes/small', ada.key)).body.value).toEqual({ text: 'hello' });
    expect((await send('GET', `/workspaces/${ada.workspaceId}/schedules`, ada.key)).status).toBe(200);
  });

  test('does not take up minutes of schedules, which the other cell handles', async () => {
    await makeDue(old, ada.workspaceId, filled.cron);
    const { archive } = newArchive();
    const frozen = await freezing(old, filled);
    const before = await itemsOf(old, ada.workspaceId);
    await fireOverdue(old);
    await fireDue(old, { workspaceId: ada.workspaceId, scheduleId: filled.cron });
    expect(await itemsOf(old, ada.workspaceId)).toEqual(before);
    await exportWorkspace(old, archive, frozen);
    await importWorkspace(next, archive);
    await fireOverdue(next);
    await closeWorkspace(old, archive);
    await openWorkspace(next, archive);
    next.clock.jump(3_600_000);
    await fireOverdue(next);
    const events = await new ScheduleStore(next, ada.workspaceId).listEvents(filled.cron, { limit: 9, offset: 0 });
    expect(events.map(({ type }) => type)).toContain('missed');
  });

  test('keeps a schedule parked whose last run is counted meanwhile', async () => {
    const store = new ScheduleStore(old, ada.workspaceId);
    const itemOf = async () => (await old.main.get({ pk: `WS#${ada.workspaceId}#SCHEDULES`, sk: filled.cron }))!;
    const { gsi2pk, gsi2sk } = await itemOf();
    await freezing(old, filled);
    await store.change(filled.cron, () => ({ set: { consecutiveFailures: 3 } }));
    expect(await itemOf()).toMatchObject({ moving: true, consecutive_failures: 3 });
    expect(await itemOf()).not.toHaveProperty('gsi2pk');
    await cancelMove(old, (await findWorkspace(old, ada.workspaceId))!);
    expect(await itemOf()).toMatchObject({ gsi2pk, gsi2sk, consecutive_failures: 3 });
    expect(await itemOf()).not.toHaveProperty('moving');
  });

  test('works again after the move is canceled, with everything in its place', async () => {
    const before = await itemsOf(old, ada.workspaceId);
    await freezing(old, filled);
    await cancelMove(old, (await findWorkspace(old, ada.workspaceId))!);
    const after = await itemsOf(old, ada.workspaceId);
    const isService = (key: string) => /SERVICE|SERVED/.test(key);
    for (const [key, item] of before) if (!isService(key)) expect(after.get(key), key).toEqual(item);
    expect((await new ServiceStore(old, ada.workspaceId).find(filled.service))!.desired).toBe('running');
    expect((await clientOf(old)('PUT', '/storage/notes/small', ada.key, { value: 2 })).status).toBe(200);
  });

  test('waits for runs, refuses to lose them unasked, and lets the other cell end lost ones', async () => {
    const run = {
      ...{ id: old.ids.uuid(), agentId: old.ids.uuid(), agentWorkspaceId: ada.workspaceId, agentOrg: 'ada' },
      ...{ agentName: 'greet', agentVersion: 'v1', engine: 'direct_llm' as const, endpoint: 'run' },
      ...{ triggerSource: 'api', startedAt: old.clock.now(), deadline: old.clock.now() + 60_000, input: {} },
    };
    await new RunStore(old, ada.workspaceId).start(run, { hasLease: true });
    await expect(freezing(old, filled)).rejects.toThrow('1 runs or services have not ended');
    const { archive } = newArchive();
    await exportWorkspace(old, archive, await freezing(old, filled, { ...OPTIONS, loseRuns: true }));
    await importWorkspace(next, archive);
    await closeWorkspace(old, archive);
    await openWorkspace(next, archive);
    next.clock.jump(3_600_000);
    expect(await sweepLostRuns(next)).toBe(1);
    expect(await new RunStore(next, ada.workspaceId).find(run.id)).toMatchObject({ status: 'failed' });
  });

  test('does not freeze while a payment is open', async () => {
    await old.main.put({
      ...{ pk: `WS#${ada.workspaceId}#LEDGER`, sk: 'TOPUP#1', workspace_id: ada.workspaceId },
      ...{ gsi2pk: 'TOPUPS#1', gsi2sk: isoTime(old.clock.now()) },
    });
    await expect(freezing(old, filled)).rejects.toThrow('1 payments are open');
  });

  test('has a target that is the letter of another cell', async () => {
    for (const to of ['a', 'B', '', 'bb'])
      await expect(freezing(old, filled, { ...OPTIONS, to })).rejects.toThrow('letter');
    await freezing(old, filled);
    await expect(freezing(old, filled, { ...OPTIONS, to: 'c' })).rejects.toThrow('frozen already, with cell b');
  });
});

describe('a run that waits', () => {
  const ask: Call = { name: 'ask_human', input: { question: 'Really?' } };
  const LOOP = { loop: { tools: ['ask_human'] }, durable: { max_wait_seconds: 24 * 3600 } };

  test('moves with its journal, and continues in the other cell after a decision', async () => {
    const here = await waitingLoop(LOOP, [[ask], [DONE]], { cell: 'a' });
    const there = await waitingLoop(LOOP, [[ask], [DONE]], { cell: 'b' }, 'host');
    const id = await here.call();
    expect(await here.runs.find(id)).toMatchObject({ status: 'waiting' });
    const { archive } = newArchive();
    const [from, to] = [asCell(here.deps), asCell(there.deps)];
    await exportWorkspace(from, archive, await freeze(from, 'asker', OPTIONS));
    // Nobody can decide meanwhile, and no process takes the run up.
    expect((await here.decide(`${id}.1.1`, { decision: 'answer', answer: 'no' })).status).toBe(429);
    here.deps.clock.jump(48 * 3_600_000);
    await here.next();
    expect(await here.runs.find(id)).toMatchObject({ status: 'waiting' });
    await importWorkspace(to, archive);
    await there.next();
    await closeWorkspace(from, archive);
    await openWorkspace(to, archive);
    const decision = { decision: 'answer', answer: 'yes' };
    const decided = await there.send(
      'POST',
      `/workspaces/${here.workspaceId}/approvals/${id}.1.1/decision`,
      decision,
      here.user.key,
    );
    expect(decided.status).toBe(200);
    await there.next();
    expect(await new RunStore(there.deps, here.workspaceId).find(id)).toMatchObject({ status: 'completed' });
    expect(there.results().join()).toContain('yes');
    expect(await Array.fromAsync(dueLeases(there.deps, { all: true }))).toEqual([]);
  });
});

describe('people', () => {
  test('who have another workspace become users of both cells, and only limited keys move', async () => {
    const bob = await addUser(old, 'bob');
    await addMember(old, bob, ada.workspaceId);
    const personalWorkspace = (await findWorkspace(old, bob.workspaceId))!;
    const limited = newApiKey(old, { userId: bob.userId, personalWorkspace }, 'x', { workspaceId: ada.workspaceId });
    await old.main.transact(limited.operations);
    const said: string[] = [];
    const { archive } = newArchive();
    const frozen = await freezing(old, filled);
    await exportWorkspace({ ...old, say: (line) => void said.push(line) }, archive, frozen);
    expect(said.join()).toContain('1 keys of members stay here');
    await importWorkspace(next, archive);
    await closeWorkspace(old, archive);
    await openWorkspace(next, archive);
    const [atOld, atNext] = [clientOf(old), clientOf(next)];
    expect((await atNext('GET', '/storage/notes/small', limited.key)).status).toBe(200);
    expect((await atOld('GET', '/storage/notes/small', limited.key)).status).toBe(403);
    expect((await atNext('GET', '/storage', bob.key)).status).toBe(401);
    expect((await atOld('GET', '/storage', bob.key)).status).toBe(200);
    await forgetWorkspace(old, ada.workspaceId);
    expect((await atOld('GET', '/storage', bob.key)).status).toBe(200);
    expect((await atOld('GET', '/storage', ada.key)).status).toBe(401);
    expect(await listUsersOf(old, 'ada@example.com')).toEqual([]);
    expect(await listUsersOf(next, 'bob@example.com')).toMatchObject([{ id: bob.userId }]);
  });

  test('who are another user of the other cell stop the import before anything is written', async () => {
    const other = await addUser(next, 'other');
    await next.main.put(userEmailItem({ id: other.userId, email: 'ada@example.com' }));
    await next.main.update({ pk: `USER#${other.userId}`, sk: 'META' }, { set: { email: 'ada@example.com' } });
    const { archive } = newArchive();
    await exportWorkspace(old, archive, await freezing(old, filled));
    await expect(importWorkspace(next, archive)).rejects.toMatchObject({ code: 'MOVE_CONFLICT' });
    expect((await itemsOf(next, ada.workspaceId)).size).toBe(0);
  });
});

describe('an import', () => {
  const exported = async () => {
    const made = newArchive();
    await exportWorkspace(old, made.archive, await freezing(old, filled));
    return made;
  };

  test('writes nothing if a slug or a host name is taken, or if it is of another cell', async () => {
    const { archive } = await exported();
    const taken = await addUser(next, 'ada-2');
    const workspace = { id: next.ids.uuid(), slug: 'ada', name: 'x', type: 'team', createdAt: '' } as const;
    await next.main.transact(newWorkspaceOperations(taken.userId, workspace));
    await expect(importWorkspace(next, archive)).rejects.toThrow('slug "ada" is taken');
    await expect(importWorkspace(cellOf('c'), archive)).rejects.toThrow('goes from cell a to b');
    const third = cellOf('b');
    await third.main.put({ pk: 'SERVICE_LABEL#bot-ada', sk: 'META', service_id: 'other' });
    await expect(importWorkspace(third, archive)).rejects.toThrow('host name "bot-ada" is taken');
    for (const cell of [next, third]) expect((await itemsOf(cell, ada.workspaceId)).size).toBe(0);
  });

  test('comes before the closing, which comes before the opening; a workspace that works is not overwritten', async () => {
    const { archive } = await exported();
    await expect(closeWorkspace(old, archive)).rejects.toThrow('Import the workspace');
    await importWorkspace(next, archive);
    await expect(openWorkspace(next, archive)).rejects.toThrow('Close the workspace');
    expect((await clientOf(next)('GET', '/storage', ada.key)).status).toBe(429);
    await closeWorkspace(old, archive);
    await expect(cancelMove(old, (await findWorkspace(old, ada.workspaceId))!)).rejects.toThrow('moved');
    await openWorkspace(next, archive);
    await expect(importWorkspace(next, archive)).rejects.toThrow('works here');
    await expect(forgetWorkspace(next, ada.workspaceId)).rejects.toThrow('Only a workspace');
  });

  test('that is given up is erased, with its slug', async () => {
    const { archive } = await exported();
    await importWorkspace(next, archive);
    await forgetWorkspace(next, ada.workspaceId);
    expect((await itemsOf(next, ada.workspaceId)).size).toBe(0);
    expect(await next.main.get({ pk: 'SLUG#ada', sk: 'META' })).toBeUndefined();
    expect(await next.vault.read(ada.workspaceId, ['ANTHROPIC_API_KEY'])).toEqual({});
    await addUser(next, 'ada');
  });

  test('refuses files that are damaged, exchanged, cut, missing, or of another key, and writes nothing', async () => {
    const { folder, key, archive } = await exported();
    const records = join(folder, 'records');
    const content = readFileSync(records);
    const damaged = Buffer.from(content);
    damaged[content.length >> 1]! ^= 1;
    for (const bytes of [
      damaged,
      content.subarray(0, -1),
      content.subarray(0, 100),
      Buffer.concat([content, content]),
    ]) {
      writeFileSync(records, bytes);
      await expect(importWorkspace(next, archive)).rejects.toMatchObject({ code: 'ARCHIVE' });
    }
    writeFileSync(records, content);
    const names = readdirSync(folder, { recursive: true }).map(String);
    const blob = join(folder, names.find((name) => /[\da-f]{64}$/.test(name))!);
    const kept = readFileSync(blob);
    writeFileSync(blob, content);
    await expect(importWorkspace(next, archive)).rejects.toMatchObject({ code: 'ARCHIVE' });
    rmSync(blob);
    await expect(importWorkspace(next, archive)).rejects.toMatchObject({ code: 'ARCHIVE' });
    writeFileSync(blob, kept);
    const foreign = new Archive(new FolderBlobs(folder), newKey());
    await expect(importWorkspace(next, foreign)).rejects.toMatchObject({ code: 'ARCHIVE' });
    expect((await itemsOf(next, ada.workspaceId)).size).toBe(0);
    await importWorkspace(next, new Archive(new FolderBlobs(folder), key));
  });

  test('has nothing readable in its folder', async () => {
    const { folder } = await exported();
    const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
    expect(files.length).toBeGreaterThan(2);
    for (const { parentPath, name } of files) {
      const text = readFileSync(join(parentPath, name), 'latin1');
      for (const secret of ['sk-made-up', 'hello', 'Call Bob', 'whsec_']) expect(text, name).not.toContain(secret);
    }
  });
});

test('forgetting leaves a signpost in the old cell, and nothing else', async () => {
  const eve = await addUser(old, 'eve');
  const others = await itemsOf(old, eve.workspaceId);
  await move(old, next, newArchive().archive);
  await forgetWorkspace(old, ada.workspaceId);
  await forgetWorkspace(old, ada.workspaceId);
  const left = [...(await itemsOf(old, ada.workspaceId)).keys()];
  expect(left.sort()).toEqual([`main SLUG#ada META`, `main WS#${ada.workspaceId} META`]);
  for (const prefix of ['runs', 'journals', 'sessions', 'storage']) {
    expect(await Array.fromAsync(old.blobs.list(`${prefix}/${ada.workspaceId}/`))).toEqual([]);
  }
  expect(await old.vault.read(ada.workspaceId, ['ANTHROPIC_API_KEY'])).toEqual({});
  expect(await itemsOf(old, eve.workspaceId)).toEqual(others);
  await expect(addUser(old, 'ada')).rejects.toThrow('taken');
});

test('a process that dies at any call loses nothing and brings nothing twice', { timeout: 120_000 }, async () => {
  const before = await itemsOf(old, ada.workspaceId);
  const made = newArchive();
  const dying = (deps: Cell, fuse: Fuse): Cell => ({
    ...deps,
    main: crashing(deps.main, fuse),
    runs: crashing(deps.runs, fuse),
    counters: crashing(deps.counters, fuse),
    blobs: crashing(deps.blobs, fuse),
    vault: crashing(deps.vault, fuse),
  });
  const steps: ((fuse: Fuse) => Promise<unknown>)[] = [
    async (fuse) => {
      const deps = dying(old, fuse);
      const archive = new Archive(crashing(new FolderBlobs(made.folder), fuse), made.key);
      return exportWorkspace(deps, archive, await freezing(deps, filled));
    },
    (fuse) => importWorkspace(dying(next, fuse), new Archive(crashing(new FolderBlobs(made.folder), fuse), made.key)),
    (fuse) => closeWorkspace(dying(old, fuse), made.archive),
    (fuse) => openWorkspace(dying(next, fuse), made.archive),
  ];
  for (const step of steps) {
    // Each call of a port is the last one twice: it fails, or only its answer is lost.
    for (let life = 2; ; life += 1) {
      const fuse = { callsLeft: life >> 1, isAfter: life % 2 === 1 };
      // The host goes on to stop what was ordered.
      await filled.applied().catch(() => {});
      const isDone = await step(fuse).then(
        () => true,
        (error) => {
          if (!(error instanceof ProcessDied)) throw error;
          return false;
        },
      );
      const readable = [];
      for (const [name, cell] of [['old', old] as const, ['next', next] as const]) {
        if ((await clientOf(cell)('GET', '/storage/notes/small', ada.key)).status === 200) readable.push(name);
      }
      expect(readable.length).toBeLessThanOrEqual(1);
      if (isDone) break;
    }
  }
  const after = await itemsOf(next, ada.workspaceId);
  const others = (all: Map<string, Item>) => [...all.keys()].filter((key) => !/SERVICE|SERVED/.test(key)).sort();
  expect(others(after)).toEqual(others(before));
  for (const key of others(before)) expect(after.get(key), key).toEqual(before.get(key));
  expect([...after.values()].filter(({ moving }) => moving)).toEqual([]);
});
