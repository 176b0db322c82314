import { describe, expect, test } from 'vitest';
import { UsageStore } from '#core/billing/usage/store.ts';
import { MessageStore } from '#core/collaboration/messages/store.ts';
import { TaskStore } from '#core/collaboration/tasks/store.ts';
import type { EVENT_KINDS } from '#core/events/routes.ts';
import { RunEvents } from '#core/events/run-events.ts';
import type { WatchedEvent } from '#core/events/watch.ts';
import { takePlace } from '#core/events/watchers.ts';
import { WorkspaceEvents } from '#core/events/workspace-events.ts';
import { blobLifetimes } from '#core/ports/blob-lifetimes.ts';
import { contentBlobKey } from '#core/runs/items.ts';
import { laterLease } from '#core/runs/leases.ts';
import { LiveEvents } from '#core/runs/live-events.ts';
import { openRunsOf } from '#core/runs/lookup.ts';
import { SecretMask } from '#core/runs/masking/masking.ts';
import { firstTry } from '#core/runs/retries.ts';
import { CANCELLED, emptyResult, endedWith, type NewRun } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { sweepLostRuns } from '#core/runs/sweep.ts';
import { Trace } from '#core/runs/trace/trace.ts';
import { TraceContents } from '#core/runs/trace/trace-content.ts';
import { waterfallOf } from '#core/runs/trace/waterfall.ts';
import { WaitingRuns } from '#core/runs/waiting-runs.ts';
import type { MemoryDeps } from '#test/helpers/memory-deps.ts';
import { serviceWorldOn } from '#test/helpers/services.ts';

const SECRET = 'hunter2-hunter2';
const KINDS = ['run', 'schedule', 'service', 'message', 'task', 'agent'] satisfies (typeof EVENT_KINDS)[number][];

/** Events of runs and workspaces, on the tables of a host. */
export function eventsSuite(makeDeps: () => Promise<MemoryDeps>): void {
  const newRun = (deps: MemoryDeps): NewRun => ({
    id: crypto.randomUUID(),
    agentId: crypto.randomUUID(),
    agentWorkspaceId: crypto.randomUUID(),
    agentOrg: 'acme',
    agentName: 'seen',
    agentVersion: 'v1',
    engine: 'code_runtime',
    endpoint: 'run',
    triggerSource: 'schedule',
    startedAt: deps.clock.now(),
    deadline: deps.clock.now() + 60_000,
    input: {},
  });
  async function begin(deps: MemoryDeps, workspaceId: string, setting?: 'errors' | 'all') {
    const run = newRun(deps);
    const store = new RunStore(deps, workspaceId);
    await store.start(run);
    const place = { workspaceId, runId: run.id, startedAt: run.startedAt };
    const mask = new SecretMask({ TOKEN: SECRET });
    const live = new LiveEvents(deps, place, mask);
    const trace = new Trace(deps.clock, live.add, setting && new TraceContents(setting, mask));
    const finish = () => store.finish(run, { ...emptyResult(endedWith(undefined), null), trace: trace.events });
    return { run, store, live, trace, finish };
  }
  const look = async (deps: MemoryDeps, workspaceId: string, id: string, after = 0) =>
    (await new RunEvents(deps, { workspaceId, id }, after).look()).events;
  const stderrOf = (events: readonly WatchedEvent[]) =>
    events.map(({ type, data }) => (type === 'progress' ? data.text : '')).join('');

  describe('of a run', () => {
    test('one that ends in its first second writes none; a longer one writes batches, which go on after any event', async () => {
      const deps = await makeDeps();
      const workspaceId = crypto.randomUUID();
      const short = await begin(deps, workspaceId);
      short.live.add('progress', { type: 'stderr', text: 'quick\n' });
      await deps.clock.advance(900);
      await short.live.end();
      await short.finish();
      expect((await look(deps, workspaceId, short.run.id)).map(({ type }) => type)).toEqual(['end']);

      const long = await begin(deps, workspaceId);
      const span = long.trace.open('sandbox');
      for (let line = 0; line < 5; line++) {
        long.live.add('progress', { type: 'stderr', text: `${line} ${SECRET}\n` });
        await deps.clock.advance(600);
        await expect.poll(() => deps.clock.sleepers).toBeLessThanOrEqual(1);
      }
      long.trace.close(span);
      await long.live.end();
      const open = await look(deps, workspaceId, long.run.id);
      expect(open.some(({ type }) => type === 'end')).toBe(false);
      await long.finish();
      const all = await look(deps, workspaceId, long.run.id);
      expect(stderrOf(all)).toBe([0, 1, 2, 3, 4].map((line) => `${line} [secret TOKEN]\n`).join(''));
      expect(all[0]).toMatchObject({ id: '1', type: 'trace', data: { event_type: 'sandbox_started' } });
      expect(all.at(-2)).toMatchObject({ type: 'trace', data: { event_type: 'sandbox_succeeded', duration_ms: 3000 } });
      expect(all.at(-1)).toMatchObject({ type: 'end', data: { status: 'completed' } });
      for (let after = 0; after < all.length; after++) {
        expect(await look(deps, workspaceId, long.run.id, after)).toEqual(all.slice(after));
      }
    });

    test('text of any length is kept whole up to the limit, in items that the table takes', async () => {
      const deps = await makeDeps();
      const workspaceId = crypto.randomUUID();
      const { run, live, finish } = await begin(deps, workspaceId);
      const text = '\u{1f600}€x'.repeat(50_001);
      live.add('progress', { type: 'stderr', text });
      for (let piece = 0; piece < 10; piece++) live.add('progress', { type: 'stderr', text });
      await deps.clock.advance(1500);
      await live.end();
      await finish();
      const all = await look(deps, workspaceId, run.id);
      const shown = stderrOf(all.filter(({ data }) => data.type === 'stderr'));
      expect(shown).toBe(text.repeat(shown.length / text.length));
      expect(shown.length).toBeGreaterThan(1_500_000);
      expect(all.filter(({ data }) => data.type === 'output_truncated')).toHaveLength(1);
      expect(deps.lines.filter(({ message }) => message === 'events of a run not written')).toEqual([]);
    });

    test('what is said is shown while it runs where all runs keep it, in items that the table takes', async () => {
      const deps = await makeDeps();
      const workspaceId = crypto.randomUUID();
      const play = async (setting: 'errors' | 'all') => {
        const begun = await begin(deps, workspaceId, setting);
        const { trace, live, store, run } = begun;
        const span = trace.begin({ event_type: 'llm_call_started' }, (contents) =>
          contents.question({ messages: [{ role: 'user', text: `${SECRET} ${'€'.repeat(500_000)}` }] }),
        );
        for (let call = 0; call < 100; call++) {
          trace.add({ event_type: 'tool_call_succeeded' }, (contents) => contents.result('€\u0000'.repeat(20_000)));
        }
        live.add('progress', { type: 'stderr', text: 'after it' });
        await deps.clock.advance(1500);
        await live.end();
        return { ...begun, span, events: await look(deps, workspaceId, run.id), store };
      };
      const failed = await play('errors');
      expect(JSON.stringify(failed.events)).not.toContain('€');
      const { events, run, store } = await play('all');
      const [first] = events as [WatchedEvent<string> & { data: { content: { messages: { text: string }[] } } }];
      expect(first.data.content.messages[0]).toMatchObject({ is_cut: true, role: 'user' });
      expect(first.data.content.messages[0]!.text.startsWith('[secret TOKEN] €')).toBe(true);
      // Steps and output are always kept.
      expect(events.filter(({ type }) => type === 'trace')).toHaveLength(101);
      const shown = events.filter(({ data }) => 'content' in data).length;
      expect(shown).toBeGreaterThan(10);
      expect(shown).toBeLessThan(101);
      expect(stderrOf(events)).toBe('after it');
      expect(deps.lines.filter(({ message }) => message === 'events of a run not written')).toEqual([]);
      const { runs } = await waterfallOf(deps, store, run.id, { from: 0, limit: 10 });
      expect(runs).toMatchObject([{ status: 'running', has_content: false }]);
      expect(runs[0]!.steps).toHaveLength(101);
      expect(runs[0]!.steps[0]).toMatchObject({ kind: 'llm_call', status: 'running', ended_at: null });
      expect(JSON.stringify(runs)).not.toContain('€');
    });

    test('what was said is gone with the record of its run', async () => {
      const deps = await makeDeps();
      const workspaceId = crypto.randomUUID();
      const { run, store } = await begin(deps, workspaceId, 'all');
      await store.putContent(run.id, '{"0":{"result":{"text":"x","bytes":1}}}');
      expect(await store.content(run.id)).toEqual({ 0: { result: { text: 'x', bytes: 1 } } });
      const keys = blobLifetimes(deps.config.runRetentionDays).filter(({ prefix }) =>
        contentBlobKey(workspaceId, run.id).startsWith(prefix),
      );
      expect(keys).toEqual([{ prefix: 'runs/', days: deps.config.runRetentionDays }]);
      expect(await new RunStore(deps, crypto.randomUUID()).content(run.id)).toEqual({});
    });

    test('one whose process dies has its events up to then, and an end', async () => {
      const deps = await makeDeps();
      const workspaceId = crypto.randomUUID();
      const { run, live } = await begin(deps, workspaceId);
      live.add('progress', { type: 'stderr', text: 'before\n' });
      await deps.clock.advance(1000);
      await expect.poll(() => look(deps, workspaceId, run.id)).toHaveLength(1);
      await sweepLostRuns(deps, { all: true });
      const all = await look(deps, workspaceId, run.id);
      expect(stderrOf(all)).toBe('before\n');
      expect(all.at(-1)).toMatchObject({ type: 'end', data: { status: 'failed', error_code: 'INTERNAL_ERROR' } });
    });

    test('one whose process dies keeps what it had done and spent, which counts', async () => {
      const deps = await makeDeps();
      const workspaceId = crypto.randomUUID();
      const { run, store, live, trace } = await begin(deps, workspaceId, 'all');
      const sandbox = trace.open('sandbox');
      trace.close(trace.open('setup_step', { parent: sandbox }));
      const answer = (model: string, cost_usd: number | undefined, cache_read_tokens?: number) =>
        trace.add({
          event_type: 'llm_call_succeeded',
          span: trace.begin({ event_type: 'llm_call_started', provider: 'anthropic', model }),
          provider: 'anthropic',
          model,
          token_input: 100,
          token_output: 10,
          ...(cache_read_tokens !== undefined && { cache_read_tokens }),
          cost_usd,
        });
      answer('claude-sonnet-4-5', 0.25);
      live.add('progress', { type: 'stdout', text: `an answer ${SECRET}` });
      await deps.clock.advance(2000);
      // The run prints more than the output limit; its spending must be recorded nevertheless.
      for (let piece = 0; piece < 40; piece++) live.add('progress', { type: 'stderr', text: 'x'.repeat(64 * 1024) });
      answer('claude-sonnet-4-5', 0.5, 80);
      answer('claude-haiku-4-5', 0.125);
      trace.begin({ event_type: 'tool_call_started', payload: { tool: 'search' } });
      await deps.clock.advance(2000);
      const told = async () => (await look(deps, workspaceId, run.id)).map(({ data }) => data.model);
      await expect.poll(told).toContain('claude-haiku-4-5');

      await sweepLostRuns(deps, { all: true });
      expect(await sweepLostRuns(deps, { all: true })).toBe(0);
      expect(await store.find(run.id)).toMatchObject({
        status: 'failed',
        errorCode: 'INTERNAL_ERROR',
        inputTokens: 300,
        outputTokens: 30,
        cacheReadTokens: 80,
        llmProvider: 'anthropic',
        llmModel: 'claude-haiku-4-5',
        costUsd: 0.875,
        creditsCents: 0,
      });
      const body = (await store.body(run.id))!;
      expect(body.stdout).toBe('an answer [secret TOKEN]');
      expect(body.stderr.length).toBe(10 * 1024);
      expect(JSON.stringify(body)).not.toContain(SECRET);
      expect(body.trace.map(({ event_type }) => event_type)).toEqual([
        'setup_step_succeeded',
        'llm_call_started',
        ...Array(3).fill('llm_call_succeeded'),
        'sandbox_failed',
      ]);
      expect(body.trace.at(-1)).toMatchObject({ span: sandbox, duration_ms: 2000 });
      const day = new Date(deps.clock.now()).toISOString().slice(0, 10);
      const rollups = await new UsageStore(deps, workspaceId).rollups({ start: 0, end: 0, days: [day] });
      expect(rollups.map(({ totals }) => totals)).toMatchObject([{ failed: 1, model_microusd: 875_000 }]);
    });

    test('a write that fails is made up for by the next', async () => {
      const deps = await makeDeps();
      const workspaceId = crypto.randomUUID();
      let failures = 2;
      const put: typeof deps.runs.put = async (item, condition) => {
        if (item.pk.includes('#RUNEVENTS#') && failures-- > 0) throw new Error('the table is away');
        return deps.runs.put(item, condition);
      };
      const runs = new Proxy(deps.runs, {
        get: (table, name) => (name === 'put' ? put : (table[name as 'get'] as () => unknown).bind(table)),
      });
      const { run, live, finish } = await begin({ ...deps, runs }, workspaceId);
      for (const text of ['one ', 'two ', 'three']) {
        live.add('progress', { type: 'stderr', text });
        await deps.clock.advance(1000);
      }
      await live.end();
      await finish();
      expect(stderrOf(await look(deps, workspaceId, run.id))).toBe('one two three');
    });
  });

  test('a workspace has 100 streams; places of processes that died are free after their lease', async () => {
    const deps = await makeDeps();
    const workspaceId = crypto.randomUUID();
    const giveBack = await takePlace(deps, workspaceId);
    for (let taken = 1; taken < 100; taken++) await takePlace(deps, workspaceId);
    await expect(takePlace(deps, workspaceId)).rejects.toMatchObject({ code: 'RATE_LIMITED' });
    await takePlace(deps, crypto.randomUUID());
    await giveBack();
    await takePlace(deps, workspaceId);
    await expect(takePlace(deps, workspaceId)).rejects.toMatchObject({ code: 'RATE_LIMITED' });
    await deps.clock.advance(301_000);
    await takePlace(deps, workspaceId);
  });

  test('of a workspace: each once, also when the connection is cut after every event', async () => {
    const deps = await makeDeps();
    const workspaceId = crypto.randomUUID();
    const start = String(deps.clock.now());
    const whole = new WorkspaceEvents(deps, workspaceId, { kinds: KINDS });
    const told: WatchedEvent[] = [];
    const tell = async () => void told.push(...(await whole.look()).events);
    await tell();
    // The run's record is written some seconds after its start time.
    const late = newRun(deps);
    await deps.clock.advance(5000);
    await tell();
    await new RunStore(deps, workspaceId).start(late);
    const { finish } = await begin(deps, workspaceId);
    await tell();
    await deps.clock.advance(30_000);
    const tasks = new TaskStore(deps, workspaceId);
    const { id } = await tasks.create({ title: 'look' }, 'ada@example.com');
    await tell();
    await deps.clock.advance(1000);
    await tasks.update(id, { status: 'done' });
    const message = { agentName: 'seen', title: 'hello', body: 'not shown', level: 'info', metadata: null } as const;
    await new MessageStore(deps, workspaceId).send(message);
    await finish();
    await tell();
    await tell();
    expect(told.map(({ type, data }) => `${type} ${data.change ?? data.status ?? ''}`.trim()).sort()).toEqual([
      'message',
      'run.ended completed',
      'run.started',
      'run.started',
      'task created',
      'task updated',
    ]);
    expect(JSON.stringify(told)).not.toContain('not shown');

    const seen = new Map<string, WatchedEvent>();
    for (let after = start; ; ) {
      const { events } = await new WorkspaceEvents(deps, workspaceId, { kinds: KINDS, after }).look();
      const next = events.find((event) => !seen.has(event.id));
      if (next === undefined) break;
      seen.set(next.id, next);
      after = next.id;
    }
    expect([...seen.keys()].sort()).toEqual(told.map((event) => event.id).sort());
    const others = await new WorkspaceEvents(deps, crypto.randomUUID(), { kinds: KINDS, after: start }).look();
    expect(others.events).toEqual([]);
    const { events } = await new WorkspaceEvents(deps, workspaceId, { kinds: ['message'], after: start }).look();
    expect(events.map(({ type }) => type)).toEqual(['message']);
  });

  test('of a workspace: runs of hours, which begin once and are found however late', async () => {
    const deps = await makeDeps();
    const workspaceId = crypto.randomUUID();
    const store = new RunStore(deps, workspaceId);
    const watched = new WorkspaceEvents(deps, workspaceId, { kinds: ['run'] });
    const told: WatchedEvent[] = [];
    const tell = async () => void told.push(...(await watched.look()).events);
    await tell();
    const retries = firstTry({ max: 1, backoff_seconds: [7200], on: ['LLM_ERROR'] }, deps.clock.now());
    const long = [{ isDurable: true } as const, { retries }].map((more) => ({
      ...newRun(deps),
      ...more,
      deadline: deps.clock.now() + 36_000_000,
    }));
    for (const run of long) await store.start(run, { hasLease: true });
    await store.start({ ...newRun(deps), isDurable: true, runAt: deps.clock.now() + 72_000_000 }, { hasLease: true });
    for (let quarter = 0; quarter < 8; quarter++) {
      await tell();
      await deps.clock.advance(900_000);
    }
    expect(told.map(({ type }) => type)).toEqual(['run.started', 'run.started']);
    expect((await openRunsOf(deps, workspaceId)).runs.map(({ id }) => id).sort()).toEqual(
      long.map(({ id }) => id).sort(),
    );
    // One waits for its next try, as a watcher comes.
    const [lasting, retried] = long as [NewRun, NewRun];
    const place = { workspaceId, runId: retried.id };
    const nextAt = deps.clock.now() + 3_600_000;
    const down = emptyResult({ status: 'failed', errorCode: 'LLM_ERROR', errorMessage: 'down' }, null);
    const lease = laterLease(deps, place, nextAt);
    expect(await new WaitingRuns(deps, workspaceId).retry(retried, down, { nextAt, lease })).toBe(true);
    expect((await openRunsOf(deps, workspaceId)).runs.map(({ id }) => id)).toEqual([lasting.id]);
    const late = new WorkspaceEvents(deps, workspaceId, { kinds: ['run'] });
    expect((await late.look()).events).toEqual([]);
    await store.finish(lasting, emptyResult(endedWith(undefined), null));
    await new WaitingRuns(deps, workspaceId).end(retried.id, CANCELLED);
    await tell();
    expect(told.slice(2).map(({ type }) => type)).toEqual(['run.ended', 'run.ended']);
    expect((await late.look()).events.map(({ type }) => type)).toEqual(['run.ended', 'run.ended']);
    expect((await openRunsOf(deps, workspaceId)).runs).toEqual([]);
  });

  test('of a workspace: what becomes of its services, as their timelines say it', async () => {
    const world = await serviceWorldOn(await makeDeps());
    const { deps, host, owner } = world;
    const { clock } = deps;
    const watched = new WorkspaceEvents(deps, owner.workspaceId, { kinds: ['service'] });
    const told: WatchedEvent[] = [];
    const tell = async () => void told.push(...(await watched.look()).events);
    await tell();
    const { id: agent_id } = await world.publish();
    const { id } = (await world.deploy({ agent_id, max_restart_failures: 3 })).service;
    const steps: (() => Promise<unknown>)[] = [
      () => host.ready(id),
      () => host.crash(id),
      () => world.service('POST', `${id}/restart`),
      () => host.fail(id, 'no room'),
      () => world.service('PATCH', id, { desired_state: 'stopped' }),
      () => world.service('PATCH', id, { desired_state: 'running' }),
      () => host.crash(id),
      () => host.crash(id),
      () => host.crash(id),
      () => world.service('DELETE', id),
    ];
    for (const step of steps) {
      await clock.advance(1000);
      await step();
      await tell();
    }
    await tell();
    expect(told.map(({ type }) => type)).toEqual([
      'service.deployed',
      'service.running',
      'service.restart_failed',
      'service.restarted',
      'service.deploy_failed',
      'service.paused',
      'service.resumed',
      'service.restart_failed',
      'service.restart_failed',
      'service.crash_loop_warning',
      'service.restart_failed',
      'service.auto_paused',
      'service.deleting',
      'service.deleted',
    ]);
    const sayings = { 2: 'exit code 1', 4: 'no room', 11: 'Paused after 3 failed restarts in a row.' };
    for (const [at, message] of Object.entries(sayings)) {
      expect(told[Number(at)]!.data).toEqual({ service_id: id, message });
    }
    expect(new Set(told.map((event) => event.id)).size).toBe(told.length);
    const resumed = (workspaceId: string) =>
      new WorkspaceEvents(deps, workspaceId, { kinds: ['service'], after: told[0]!.id }).look();
    expect((await resumed(owner.workspaceId)).events).toEqual(told.slice(1));
    expect((await resumed(crypto.randomUUID())).events).toEqual([]);
  });
}
