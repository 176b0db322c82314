import { expect, test } from 'vitest';
import { listCurrent } from '#core/agents/current.ts';
import { allHandlers } from '#core/api/handlers.ts';
import { routes } from '#core/api/routes.ts';
import type { AllDeps } from '#core/ports/deps.ts';
import { emptyResult, endedWith } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { createWebApp } from '#test/helpers/web-app.ts';

interface Listed {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly versions: number;
  readonly current_version: string | null;
  readonly last_run: { readonly run_id: string | null; readonly status: string; readonly started_at: string } | null;
  readonly next_cursor: string | null;
  readonly sunset_at?: string | null;
  readonly error: { readonly code: string; readonly message: string };
}

/** The pages of `GET /agents?latest=true`, on the tables of a host. */
export function agentListingSuite(
  makeTables: (clock: AllDeps['clock']) => Promise<Pick<AllDeps, 'main' | 'runs' | 'counters' | 'blobs'>>,
): void {
  async function platform() {
    const memory = memoryDeps();
    const deps: MemoryDeps = { ...memory, ...(await makeTables(memory.clock)) };
    const app = createWebApp(deps, routes, allHandlers(deps));
    const [ann, bob] = [await addUser(deps, 'ann'), await addUser(deps, 'bob')];
    const send = async <T = Listed[]>(key: string, method: string, path: string, body?: object) => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
      const response = await app(new Request(`http://platform.test${path}`, init));
      return { status: response.status, body: (await response.json()) as T };
    };
    const publish = async (name: string, further: object = {}, key = ann.key): Promise<string> => {
      const manifest = { name, type: 'prompt', description: 'x', prompt: 'Say it.', ...further };
      const { status, body } = await send<{ agent: { id: string } }>(key, 'POST', '/agents', manifest);
      expect(status, JSON.stringify(body)).toBe(201);
      await deps.clock.advance(1000);
      return body.agent.id;
    };
    const run = async (
      agentId: string,
      { by = ann.workspaceId, source = 'api', ends = true } = {},
    ): Promise<string> => {
      const store = new RunStore(deps, by);
      const now = deps.clock.now();
      const started = {
        id: crypto.randomUUID(),
        agentId,
        agentWorkspaceId: ann.workspaceId,
        agentOrg: 'ann',
        agentName: 'any',
        agentVersion: 'v1',
        engine: 'direct_llm',
        endpoint: 'run',
        triggerSource: source,
        startedAt: now,
        deadline: now + 60_000,
        input: null,
      } as const;
      await store.start(started);
      await deps.clock.advance(1000);
      if (ends) expect(await store.finish(started, emptyResult(endedWith(undefined), null))).toBe(true);
      return started.id;
    };
    return { deps, ann, bob, send, publish, run };
  }

  test('pages show each agent once by its newest version, the last published one first', async () => {
    const { ann, bob, send, publish } = await platform();
    const names = Array.from({ length: 7 }, (_, index) => `agent-${index}`);
    for (const name of names) await publish(name);
    // Publishes versions between those of other agents, and an agent of another author.
    for (const name of ['agent-2', 'agent-0', 'agent-2']) await publish(name);
    await publish('not-mine', {}, bob.key);

    const seen: Listed[] = [];
    let cursor: string | null = null;
    let pages = 0;
    do {
      const next: string = cursor === null ? '' : `&cursor=${cursor}`;
      const { status, body } = await send(ann.key, 'GET', `/agents?latest=true&limit=3${next}`);
      expect(status).toBe(200);
      seen.push(...body);
      cursor = body.at(-1)!.next_cursor;
      pages++;
    } while (cursor !== null);
    expect(pages).toBe(3);
    expect(seen.map(({ name, version, versions }) => [name, version, versions])).toEqual([
      ['agent-2', 'v3', 3],
      ['agent-0', 'v2', 2],
      ...['agent-6', 'agent-5', 'agent-4', 'agent-3', 'agent-1'].map((name) => [name, 'v1', 1]),
    ]);
    // Every agent's cursor continues after it, and only the last agent has none.
    for (const [index, { next_cursor }] of seen.entries()) {
      if (index === seen.length - 1) expect(next_cursor).toBeNull();
      else {
        const { body } = await send(ann.key, 'GET', `/agents?latest=true&cursor=${next_cursor}`);
        expect(body.map(({ id }) => id)).toEqual(seen.slice(index + 1).map(({ id }) => id));
      }
    }
    const all = await send(ann.key, 'GET', '/agents');
    expect(all.body).toHaveLength(10);
    for (const each of all.body) expect(each).not.toHaveProperty('next_cursor');
    expect((await send(ann.key, 'GET', '/agents?latest=false')).body).toEqual(all.body);
  });

  test('deleted versions do not count, and a version that cannot run yet does', async () => {
    const { ann, send, publish } = await platform();
    await publish('reader');
    const second = await publish('reader');
    const program = { type: 'tool', required_secrets: [], prompt: undefined };
    await publish('program', program);
    const gone = await publish('gone');
    await send(ann.key, 'DELETE', `/agents/${second}`);
    await send(ann.key, 'DELETE', `/agents/${gone}`);
    const listed = async () =>
      (await send(ann.key, 'GET', '/agents?latest=1')).body.map((each) => [
        each.name,
        each.version,
        each.versions,
        each.current_version,
      ]);
    expect(await listed()).toEqual([
      ['program', 'v1', 1, null],
      ['reader', 'v1', 1, 'v1'],
    ]);
    await publish('reader');
    expect(await listed()).toEqual([
      ['reader', 'v3', 2, 'v3'],
      ['program', 'v1', 1, null],
    ]);
    expect((await send((await platform()).ann.key, 'GET', '/agents')).status).toBe(401);
  });

  test('current versions are listed in pages, and agents that cannot run by their newest version', async () => {
    const { deps, ann, bob, send, publish } = await platform();
    const program = { type: 'tool', required_secrets: [], prompt: undefined };
    for (const name of ['first', 'second', 'third', 'first']) await publish(name);
    await publish('second', program);
    const deleted = [await publish('third'), await publish('gone')];
    for (const id of deleted) await send(ann.key, 'DELETE', `/agents/${id}`);
    await publish('program', program);
    await publish('not-mine', {}, bob.key);
    const expected = [
      ['program', 1, false],
      ['first', 2, true],
      ['third', 1, true],
      ['second', 1, true],
    ];
    for (const limit of [1, 2, 3, 4, 5, 100]) {
      const seen: unknown[] = [];
      let cursor: string | undefined;
      do {
        const page = await listCurrent(deps, ann.workspaceId, { limit, cursor });
        expect(page.agents.length).toBeLessThanOrEqual(limit);
        seen.push(...page.agents.map(({ version, isCurrent }) => [version.name, version.version, isCurrent]));
        cursor = page.nextCursor;
      } while (cursor !== undefined);
      expect(seen, `limit ${limit}`).toEqual(expected);
    }
    expect(await listCurrent(deps, crypto.randomUUID(), { limit: 5 })).toEqual({ agents: [] });
    const { nextCursor } = await listCurrent(deps, ann.workspaceId, { limit: 1 });
    const [{ next_cursor }] = (await send(ann.key, 'GET', '/agents?latest=true')).body as [Listed];
    for (const [workspaceId, cursor] of [
      [bob.workspaceId, nextCursor!],
      [ann.workspaceId, next_cursor!],
    ] as const) {
      await expect(listCurrent(deps, workspaceId, { limit: 1, cursor })).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      });
    }
  });

  test('the last run is the newest ended one of any version; of other workspaces only its time and end', async () => {
    const { ann, bob, send, publish, run } = await platform();
    const first = await publish('reader', { is_public: true });
    const second = await publish('reader', { is_public: true });
    await publish('never-run');
    const last = async () => {
      const { body } = await send(ann.key, 'GET', '/agents?latest=true');
      expect(body.map(({ name }) => name)).toEqual(['never-run', 'reader']);
      expect(body[0]!.last_run).toBeNull();
      return body[1]!.last_run;
    };
    expect(await last()).toBeNull();
    const ofSecond = await run(second);
    expect(await last()).toMatchObject({ run_id: ofSecond, status: 'completed' });
    const ofFirst = await run(first);
    expect(await last()).toMatchObject({ run_id: ofFirst });
    // Installations do not count as runs of the agent, and an active run has not ended.
    for (let i = 0; i < 5; i++) await run(second, { source: 'install' });
    await run(second, { ends: false });
    expect(await last()).toMatchObject({ run_id: ofFirst });
    await run(first, { by: bob.workspaceId });
    const foreign = await last();
    expect(foreign).toEqual({ run_id: null, status: 'completed', started_at: expect.any(String) });
    expect((await send(bob.key, 'GET', '/agents?latest=true')).body).toEqual([]);
    expect((await send(bob.key, 'GET', `/agents?latest=true&workspace_id=${ann.workspaceId}`)).status).toBe(403);
  });

  test('the versions of one agent say which is current and when the others end', async () => {
    const { ann, bob, send, publish, deps } = await platform();
    const ids = [await publish('mine'), await publish('other'), await publish('mine'), await publish('mine')];
    await publish('mine', {}, bob.key);
    const list = async (name: string, key = ann.key) => (await send(key, 'GET', `/agents?name=${name}`)).body;
    const [v1, v2, v3] = await list('mine');
    expect([v1, v2, v3].map((each) => [each!.id, each!.version])).toEqual([
      [ids[0], 'v1'],
      [ids[2], 'v2'],
      [ids[3], 'v3'],
    ]);
    const day = 24 * 3600_000;
    expect(v1).toMatchObject({ current_version: 'v3' });
    expect(Date.parse(v1!.sunset_at!)).toBeLessThan(Date.parse(v2!.sunset_at!));
    expect(Date.parse(v2!.sunset_at!)).toBeGreaterThan(deps.clock.now() + 59 * day);
    expect(v3!.sunset_at).toBeNull();

    expect((await send(ann.key, 'DELETE', `/agents/${ids[3]}`)).status).toBe(200);
    const left = await list('mine');
    expect(left.map(({ version, current_version }) => [version, current_version])).toEqual([
      ['v1', 'v2'],
      ['v2', 'v2'],
    ]);
    expect(left[1]!.sunset_at).toBeNull();
    expect(await list('mine', bob.key)).toHaveLength(1);
    expect(await list('nothing')).toEqual([]);
  });

  test('a cursor that is forged, or of another workspace or listing, is refused', async () => {
    const { ann, bob, send, publish } = await platform();
    for (const key of [ann.key, bob.key]) for (const name of ['one', 'two']) await publish(name, {}, key);
    const cursorOf = async (key: string) => (await send(key, 'GET', '/agents?latest=true')).body[0]!.next_cursor!;
    const [own, foreign] = [await cursorOf(ann.key), await cursorOf(bob.key)];
    const parts = JSON.parse(Buffer.from(own, 'base64url').toString()) as unknown[];
    const forge = (...changed: unknown[]) => Buffer.from(JSON.stringify(changed)).toString('base64url');
    const [digest, at, name, version] = parts;
    const runs = await send<{ next_cursor: string | null }>(ann.key, 'GET', `/workspaces/${ann.workspaceId}/runs`);
    expect(runs.status).toBe(200);
    const refused = [
      foreign,
      'x',
      '%00',
      forge(),
      forge(digest),
      forge(digest, at, name),
      forge(digest, at, name, '1'),
      forge(digest, at, name, -1),
      forge(digest, at, name, 1.5),
      forge(digest, at, 'a#WS', version),
      forge(digest, at, 'a'.repeat(51), version),
      forge(digest, `${at}#`, name, version),
      forge(digest, null, name, version),
      forge(digest, { at }, name, version),
      forge('', at, name, version),
      Buffer.from('{"0":1}').toString('base64url'),
      Buffer.from('null').toString('base64url'),
    ];
    for (const cursor of refused) {
      const { status, body } = await send<Listed>(ann.key, 'GET', `/agents?latest=true&cursor=${cursor}`);
      expect([status, body.error.code], cursor).toEqual([400, 'INVALID_INPUT']);
      expect(body.error.message).toContain('query.cursor');
    }
    // A cursor whose agent was deleted is still valid.
    const { status, body } = await send(
      ann.key,
      'GET',
      `/agents?latest=true&cursor=${forge(digest, at, 'other', 99999)}`,
    );
    expect(status).toBe(200);
    expect(body.every(({ name }) => ['one', 'two'].includes(name))).toBe(true);
    for (const query of [
      'limit=2',
      `cursor=${own}`,
      'latest=true&name=one',
      'latest=true&limit=0',
      'latest=true&limit=101',
      'latest=maybe',
    ]) {
      expect((await send(ann.key, 'GET', `/agents?${query}`)).status, query).toBe(400);
    }
  });

  test('a page ends early where its agents have many versions, and says how to go on', async () => {
    const { ann, send, publish, deps } = await platform();
    for (const name of ['first', 'second', 'third']) await publish(name);
    const pk = `WS#${ann.workspaceId}#AGENT#third`;
    const item = (await deps.main.get({ pk, sk: 'V#00001' }))!;
    const copies = Array.from({ length: 199 }, (_, index) => ({
      ...item,
      sk: `V#0${String(1000 + index)}`,
      version: 1000 + index,
      id: crypto.randomUUID(),
      gsi1sk: `${item.gsi1sk!.slice(0, 24)}#${crypto.randomUUID()}`,
    }));
    for (const copy of copies) await deps.main.put(copy);
    const { body } = await send(ann.key, 'GET', '/agents?latest=true');
    expect(body.map(({ name, version, versions }) => [name, version, versions])).toEqual([['third', 'v1198', 200]]);
    const rest = await send(ann.key, 'GET', `/agents?latest=true&cursor=${body[0]!.next_cursor}`);
    expect(rest.body.map(({ name }) => name)).toEqual(['second', 'first']);
    expect(rest.body[1]!.next_cursor).toBeNull();
  });
}
