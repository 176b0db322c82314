import { describe, expect, test, vi } from 'vitest';
import { admit } from '#core/accounts/limits/admission.ts';
import { SecretStore } from '#core/accounts/secrets/store.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { publish as publishVersion, removeVersions } from '#core/agents/publish.ts';
import { AgentStore } from '#core/agents/store.ts';
import { HostBusyError, PlatformError } from '#core/base/errors.ts';
import { planOf } from '#core/base/plans.ts';
import { resumeRuns } from '#core/execution/durable/resume.ts';
import { checkDefinition } from '#core/manifest/parsing/manifest.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Key, Table } from '#core/ports/table.ts';
import { RunStore } from '#core/runs/store.ts';
import { withoutListeners } from '#test/helpers/agents.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { addUser } from '#test/helpers/users.ts';
import { agentMembers } from '../changes/scheduled-agent.ts';
import type { Schedule } from '../schedule.ts';
import { listDue, ScheduleStore } from '../store.ts';
import { viewOf } from '../view.ts';
import { fireDue, sweepScheduleRuns } from './fire.ts';
import { withLastStatus } from './last-run.ts';
import { listOpenScheduleRuns } from './open-runs.ts';
import { runNow } from './run.ts';

/** Start time of the test clock. */
const NOON = Date.parse('2035-06-01T12:00:00Z');
const MINUTE = 60_000;

interface World {
  readonly deps: MemoryDeps;
  readonly schedule: Schedule;
  /** Answers of the model, one per request, followed by `ok`. */
  readonly script: (() => Promise<string>)[];
  readonly asked: number[];

  /** Publishes another version without moving schedules. */
  publish(): Promise<AgentVersion>;
  removeAgent(): Promise<void>;
  now(): Promise<Schedule & { openRuns: number }>;
  runs(): Promise<{ status: string; error: string | null }[]>;
  events(): Promise<string[]>;
  fire(scheduledFor?: number): Promise<void>;
}

/** A schedule of a prompt agent, every minute by default, whose first minute is 12:01. */
async function world(settings: Partial<Schedule> = {}): Promise<World> {
  const base = memoryDeps();
  const script: World['script'] = [];
  const asked: number[] = [];
  const deps: MemoryDeps = {
    ...base,
    llm: {
      async generate() {
        asked.push(base.clock.now());
        const text = await (script.shift() ?? (async () => 'ok'))();
        return { text, toolCalls: [], usage: { inputTokens: 1, outputTokens: 1 } } as never;
      },
    },
  };
  const user = await addUser(deps, 'acme');
  const { definition } = checkDefinition({
    name: 'reporter',
    type: 'prompt',
    description: 'x',
    prompt: 'Report.',
    supported_providers: ['anthropic'],
  });
  await new SecretStore(deps, user.workspaceId).put({ name: 'ANTHROPIC_API_KEY', value: 'sk-x', userId: user.userId });
  const workspace = (await findWorkspace(deps, user.workspaceId))!;
  const agents = new AgentStore(deps, user.workspaceId);
  const publish = () => publishVersion(withoutListeners(deps), workspace, definition!, { runnable: true });
  const removeAgent = async () => {
    const version = (await agents.find(schedule.agentId))!;
    await removeVersions(withoutListeners(deps), version, [version]);
  };
  const agent = await publish();
  const schedule: Schedule = {
    id: deps.ids.uuid(),
    workspaceId: user.workspaceId,
    ...agentMembers(agent),
    type: 'cron',
    cronExpression: '* * * * *',
    timezone: 'UTC',
    input: {},
    llmProvider: null,
    enabled: true,
    autoUpdate: true,
    overlap: 'allow',
    webhookSecretHash: null,
    webhookSecretPreview: null,
    alertWebhookUrl: null,
    alertOnFailureCount: 3,
    maxConsecutiveFailures: 10,
    consecutiveFailures: 0,
    autoDisabledAt: null,
    nextRunAt: isoTime(NOON + MINUTE),
    lastRunAt: null,
    lastRunId: null,
    lastRunStatus: null,
    runCount: 0,
    lackedGrants: null,
    createdBy: user.userId,
    createdAt: isoTime(NOON),
    updatedAt: isoTime(NOON),
    deletedAt: null,
    ...settings,
  };
  const store = new ScheduleStore(deps, user.workspaceId);
  await store.create(schedule, 10);
  return {
    deps,
    schedule,
    script,
    asked,
    publish,
    removeAgent,
    async now() {
      const [current] = (await withLastStatus(deps, await store.findAll([schedule.id]))) as [Schedule];
      const open = await Array.fromAsync(listOpenScheduleRuns(deps, { all: true }));
      return { ...current, openRuns: open.length };
    },
    async runs() {
      const { runs } = await new RunStore(deps, user.workspaceId).listOfSchedule(schedule.id, {
        limit: 100,
        offset: 0,
      });
      return runs.map(({ status, errorMessage }) => ({ status, error: errorMessage }));
    },
    async events() {
      const events = await store.listEvents(schedule.id, { limit: 100, offset: 0 });
      return events
        .map(
          ({ type, message, slot }) => `${type}: ${message}${slot ? ` [${slot.count} from ${isoTime(slot.at)}]` : ''}`,
        )
        .reverse()
        .slice(1);
    },
    fire: (scheduledFor) => fireDue(deps, { workspaceId: user.workspaceId, scheduleId: schedule.id, scheduledFor }),
  };
}

describe('a run that is tried again', () => {
  const retry = { max: 1, backoff_seconds: [30], on: ['LLM_ERROR' as const] };
  const down = () => Promise.reject(new PlatformError('LLM_ERROR', 'down'));

  test.for([
    [1, 'completed', 0],
    [2, 'failed', 1],
  ] as const)('after %i failures is counted once, when it has %s', async ([failures, status, consecutive]) => {
    const it = await world({ retry, alertOnFailureCount: 1 });
    it.script.push(...Array.from({ length: failures }, () => down));
    await it.deps.clock.advance(MINUTE);
    await it.fire();
    expect(await it.now()).toMatchObject({ openRuns: 1, lastRunStatus: 'running', consecutiveFailures: 0 });
    await it.deps.clock.advance(MINUTE / 2 + 1);
    await sweepScheduleRuns(it.deps);
    expect(await it.now()).toMatchObject({ openRuns: 1, consecutiveFailures: 0 });
    await resumeRuns(it.deps);
    await vi.waitFor(async () => expect((await it.runs())[0]!.status).toBe(status));
    await it.deps.clock.advance(MINUTE);
    await Promise.all([sweepScheduleRuns(it.deps), sweepScheduleRuns(it.deps)]);
    expect(await it.now()).toMatchObject({ openRuns: 0, lastRunStatus: status, consecutiveFailures: consecutive });
    expect(await it.runs()).toHaveLength(1);
    expect(it.asked).toHaveLength(2);
  });
});

describe('a run whose schedule has a limit', () => {
  /** Fires two minutes; the run of the first one is in progress until `open`. */
  async function fireTwice(concurrency: NonNullable<Schedule['concurrency']>) {
    const it = await world({ concurrency, alertOnFailureCount: 1 });
    const gate = Promise.withResolvers<string>();
    it.script.push(() => gate.promise);
    await it.deps.clock.advance(MINUTE);
    const first = it.fire();
    await vi.waitFor(() => expect(it.asked).toHaveLength(1));
    await it.deps.clock.advance(MINUTE);
    await it.fire();
    return { ...it, open: () => gate.resolve('ok'), first };
  }

  test('waits for its turn, and is counted when it has ended', async () => {
    const it = await fireTwice({ limit: 1, on_limit: 'queue' });
    expect(await it.now()).toMatchObject({ openRuns: 2, runCount: 2 });
    expect((await it.runs()).map(({ status }) => status)).toEqual(['queued', 'running']);
    it.open();
    await it.first;
    await resumeRuns(it.deps);
    await vi.waitFor(async () => expect((await it.runs())[0]!.status).toBe('completed'));
    await it.deps.clock.advance(MINUTE + 1);
    await sweepScheduleRuns(it.deps);
    expect(await it.now()).toMatchObject({ openRuns: 0, lastRunStatus: 'completed', consecutiveFailures: 0 });
  });

  test('is recorded as failed at once if the limit rejects it, which is no failure of the schedule', async () => {
    const it = await fireTwice({ limit: 1, on_limit: 'reject' });
    const [rejected] = await it.runs();
    expect(rejected).toMatchObject({
      status: 'failed',
      error: expect.stringMatching(/allows 1 run at once, and rejects/),
    });
    expect(await it.now()).toMatchObject({ openRuns: 1, consecutiveFailures: 0 });
    it.open();
    await it.first;
    expect(await it.now()).toMatchObject({ openRuns: 0, consecutiveFailures: 0 });
  });

  test('replaces the one in progress, if the limit says so', async () => {
    const it = await fireTwice({ limit: 1, on_limit: 'replace' });
    it.open();
    await it.first;
    await resumeRuns(it.deps);
    await vi.waitFor(async () =>
      expect((await it.runs()).map(({ status }) => status)).toEqual(['completed', 'cancelled']),
    );
    await it.deps.clock.advance(MINUTE + 1);
    await sweepScheduleRuns(it.deps);
    expect(await it.now()).toMatchObject({ openRuns: 0, consecutiveFailures: 0 });
  });
});

describe('the end of a schedule', () => {
  const kinds = (events: readonly string[]) => events.map((line) => line.split(':')[0]);

  test('with max_runs it ends in the transaction that begins its last run, however often it is fired', async () => {
    const { deps, fire, runs, now, events } = await world({ maxRuns: 2 });
    await deps.clock.advance(MINUTE);
    await Promise.all([fire(), fire()]);
    expect(await now()).toMatchObject({ enabled: true, runCount: 1, nextRunAt: isoTime(NOON + 2 * MINUTE) });
    for (let i = 0; i < 3; i++) {
      await deps.clock.advance(MINUTE);
      await Promise.all([fire(), fire()]);
    }
    expect(await now()).toMatchObject({
      enabled: false,
      nextRunAt: null,
      runCount: 2,
      endedAt: isoTime(NOON + 2 * MINUTE),
      endedReason: 'max_runs',
      autoDisabledAt: null,
      openRuns: 0,
    });
    expect(await runs()).toHaveLength(2);
    expect(await events()).toEqual(['ended: Ended after 2 runs, as max_runs says.']);
    expect(await Array.fromAsync(listDue(deps, deps.clock.now() + MINUTE))).toEqual([]);
  });

  test('a last run that its process did not begin is begun by the sweep, and counted once', async () => {
    const it = await world({ maxRuns: 1 });
    await it.deps.clock.advance(MINUTE);
    const stopped = { ...it.deps, runs: { ...it.deps.runs, transact: fails, put: fails, get: fails } } as never;
    await fireDue(stopped, { workspaceId: it.schedule.workspaceId, scheduleId: it.schedule.id }).catch(() => {});
    expect(await it.now()).toMatchObject({ enabled: false, runCount: 1, openRuns: 1 });
    await it.deps.clock.advance(2 * MINUTE);
    await Promise.all([sweepScheduleRuns(it.deps), sweepScheduleRuns(it.deps)]);
    expect(await it.now()).toMatchObject({ enabled: false, runCount: 1, openRuns: 0, endedReason: 'max_runs' });
    expect(await it.runs()).toHaveLength(1);
  });

  test('with ends_at the last minute up to it runs, and later ones are neither run nor missed', async () => {
    const { deps, fire, runs, now, events } = await world({ endsAt: isoTime(NOON + 2 * MINUTE) });
    await deps.clock.advance(MINUTE);
    await fire();
    expect(await now()).toMatchObject({ enabled: true, nextRunAt: isoTime(NOON + 2 * MINUTE) });
    await deps.clock.advance(4 * MINUTE);
    await fire();
    expect(await now()).toMatchObject({ enabled: false, nextRunAt: null, runCount: 2, endedReason: 'ends_at' });
    expect(await runs()).toHaveLength(2);
    expect(await events()).toEqual(['ended: Ended: no run is left until 2035-06-01T12:02:00.000Z, as ends_at says.']);
  });

  test('minutes that were missed before ends_at are listed', async () => {
    const { deps, fire, runs, now, events } = await world({ endsAt: isoTime(NOON + 3 * MINUTE) });
    await deps.clock.advance(60 * MINUTE);
    await fire();
    expect(await now()).toMatchObject({ enabled: false, runCount: 0 });
    expect(await runs()).toEqual([]);
    expect(await events()).toEqual([
      'missed: 3 runs were missed, from 2035-06-01T12:01:00.000Z to 2035-06-01T12:03:00.000Z. [3 from 2035-06-01T12:01:00.000Z]',
      'ended: Ended: no run is left until 2035-06-01T12:03:00.000Z, as ends_at says.',
    ]);
  });

  test('a webhook ends by itself when its time is over, and shows it at once', async () => {
    const webhook = { type: 'webhook', cronExpression: null, nextRunAt: null } as const;
    const { deps, fire, now, events } = await world({ ...webhook, endsAt: isoTime(NOON + MINUTE) });
    await deps.clock.advance(MINUTE);
    await fire();
    expect(await now()).toMatchObject({ enabled: true });
    await deps.clock.advance(1);
    expect(viewOf(deps, await now())).toMatchObject({
      enabled: false,
      ended_at: isoTime(NOON + MINUTE),
      ended_reason: 'ends_at',
    });
    expect(await Array.fromAsync(listDue(deps, deps.clock.now()))).toHaveLength(1);
    await Promise.all([fire(), fire()]);
    expect(await now()).toMatchObject({ enabled: false, endedReason: 'ends_at' });
    expect(kinds(await events())).toEqual(['ended']);
    expect(await Array.fromAsync(listDue(deps, deps.clock.now()))).toEqual([]);
  });
});

const fails = async (): Promise<string> => {
  throw Object.assign(new Error('down'), { code: 'LLM_ERROR', extra: {} });
};

describe('a due minute', () => {
  test('runs once, however often and concurrently it is fired', async () => {
    const { deps, fire, runs, now } = await world();
    await fire();
    expect(await runs()).toEqual([]);
    await deps.clock.advance(MINUTE);
    await Promise.all([fire(), fire(), fire(NOON + MINUTE), fire(NOON)]);
    await fire(NOON + MINUTE);
    expect(await runs()).toEqual([{ status: 'completed', error: null }]);
    expect(await now()).toMatchObject({
      runCount: 1,
      openRuns: 0,
      nextRunAt: isoTime(NOON + 2 * MINUTE),
      lastRunAt: isoTime(NOON + MINUTE),
      lastRunStatus: 'completed',
    });
  });

  test('runs for a timer whose clock is slightly ahead, but not for one that is wrong', async () => {
    const { deps, fire, runs } = await world();
    await deps.clock.advance(MINUTE - 20);
    await fire(NOON + 10 * MINUTE);
    expect(await runs()).toHaveLength(0);
    await fire(NOON + MINUTE);
    expect(await runs()).toHaveLength(1);
    await deps.clock.advance(20);
    await fire();
    expect(await runs()).toHaveLength(1);
  });

  test('runs up to five minutes late, and earlier ones are missed', async () => {
    const { deps, fire, runs, events, now } = await world();
    await deps.clock.advance(4 * MINUTE + 30_000);
    await fire(NOON + 2 * MINUTE);
    expect(await runs()).toHaveLength(1);
    expect(await events()).toEqual([
      'missed: 3 runs were missed, from 2035-06-01T12:01:00.000Z to 2035-06-01T12:03:00.000Z. [3 from 2035-06-01T12:01:00.000Z]',
    ]);
    expect((await now()).nextRunAt).toBe(isoTime(NOON + 5 * MINUTE));
    // Late deliveries find nothing to do.
    for (const late of [1, 2, 3, 4]) await fire(NOON + late * MINUTE);
    expect(await runs()).toHaveLength(1);
  });

  test('is missed when it is more than five minutes back', async () => {
    const { deps, fire, runs, events, now } = await world({
      cronExpression: '1 12 * * *',
    });
    await deps.clock.advance(6 * MINUTE + 1);
    await fire(NOON + MINUTE);
    expect(await runs()).toEqual([]);
    expect(await events()).toEqual([
      'missed: The run of 2035-06-01T12:01:00.000Z was missed. [1 from 2035-06-01T12:01:00.000Z]',
    ]);
    expect(await now()).toMatchObject({ runCount: 0, nextRunAt: '2035-06-02T12:01:00.000Z' });
  });

  test('does not run again when the clock is set back', async () => {
    const { deps, fire, runs } = await world();
    await deps.clock.advance(MINUTE);
    await fire();
    await deps.clock.advance(-MINUTE);
    await fire();
    await deps.clock.advance(MINUTE);
    await fire();
    expect(await runs()).toHaveLength(1);
  });

  test('does not run for a schedule that is disabled, deleted or a webhook', async () => {
    for (const change of [
      { enabled: false },
      { deletedAt: isoTime(NOON) },
      { type: 'webhook', cronExpression: null } as const,
    ]) {
      const { deps, fire, runs } = await world(change);
      await deps.clock.advance(MINUTE);
      await fire(NOON + MINUTE);
      expect(await runs()).toEqual([]);
    }
  });

  test('restores the lost next run of an enabled schedule', async () => {
    const { deps, fire, now } = await world({ nextRunAt: null });
    const due = await Array.fromAsync(listDue(deps, deps.clock.now()));
    expect(due).toHaveLength(1);
    await fire();
    expect((await now()).nextRunAt).toBe(isoTime(NOON + MINUTE));
    expect(await Array.fromAsync(listDue(deps, deps.clock.now()))).toEqual([]);
  });
});

describe('a run that is under way', () => {
  test.each([
    ['allow', 2, []],
    [
      'skip',
      1,
      [
        'skipped_overlap: The run of 2035-06-01T12:02:00.000Z was skipped: an earlier run was still in progress. [1 from 2035-06-01T12:02:00.000Z]',
      ],
    ],
  ] as const)('meets the next minute: %s', async (overlap, count, timeline) => {
    const { deps, fire, runs, script, events, now } = await world({ overlap });
    const ended = Promise.withResolvers<string>();
    script.push(() => ended.promise);
    await deps.clock.advance(MINUTE);
    const first = fire();
    await expect.poll(runs).toEqual([{ status: 'running', error: null }]);
    await deps.clock.advance(MINUTE);
    await fire();
    expect(await runs()).toHaveLength(count);
    expect(await events()).toEqual(timeline);
    ended.resolve('done');
    await first;
    expect(await now()).toMatchObject({ openRuns: 0, runCount: count, nextRunAt: isoTime(NOON + 3 * MINUTE) });
  });
});

describe('failures', () => {
  test('are counted, reset by a success, and disable the schedule at the maximum', async () => {
    const { deps, fire, script, now, events, runs } = await world({ maxConsecutiveFailures: 2 });
    const next = async (answer?: () => Promise<string>) => {
      if (answer) script.push(answer);
      await deps.clock.advance(MINUTE);
      await fire();
      return now();
    };
    expect(await next(fails)).toMatchObject({ consecutiveFailures: 1, lastRunStatus: 'failed', enabled: true });
    expect(await next()).toMatchObject({ consecutiveFailures: 0, lastRunStatus: 'completed' });
    expect(await next(fails)).toMatchObject({ consecutiveFailures: 1 });
    expect(await next(fails)).toMatchObject({
      consecutiveFailures: 2,
      enabled: false,
      nextRunAt: null,
      autoDisabledAt: isoTime(deps.clock.now()),
    });
    await next();
    expect(await runs()).toHaveLength(4);
    const timeline = await events();
    expect(timeline.map((line) => line.split(':')[0])).toEqual([
      'run_failed',
      'run_failed',
      'run_failed',
      'auto_disabled',
    ]);
    expect(timeline[0]).toMatch('down');
  });

  test('before the run could begin are recorded as runs', async () => {
    const { deps, schedule, removeAgent, fire, runs, now } = await world();
    await new SecretStore(deps, schedule.workspaceId).remove('ANTHROPIC_API_KEY');
    await deps.clock.advance(MINUTE);
    await fire();
    await removeAgent();
    await deps.clock.advance(MINUTE);
    await fire();
    expect(await runs()).toEqual([
      { status: 'failed', error: expect.stringContaining('was deleted') },
      { status: 'failed', error: expect.stringContaining('ANTHROPIC_API_KEY') },
    ]);
    expect(await now()).toMatchObject({ consecutiveFailures: 2, runCount: 2, openRuns: 0 });
  });
});

describe('a run for which there is no room', () => {
  /** Starts as many concurrent calls as the plan of the workspace allows. Returns a function that ends them. */
  async function fill({ deps, schedule }: World): Promise<() => Promise<void>> {
    const workspace = (await findWorkspace(deps, schedule.workspaceId))!;
    const deadline = deps.clock.now() + 60 * MINUTE;
    const calls = Array.from({ length: planOf(deps, workspace).concurrent_calls }, () => {
      const call = {
        workspace,
        kind: 'llm',
        isPaid: false,
        isCounted: true,
        runId: deps.ids.uuid(),
        deadline,
      } as const;
      return admit(deps, call);
    });
    const admitted = await Promise.all(calls);
    return async () => void (await Promise.all(admitted.map(({ release }) => release())));
  }
  /** Moves the clock while `work` waits. */
  async function during(deps: MemoryDeps, work: Promise<void>, minutes: number): Promise<void> {
    for (let seconds = 0; seconds < minutes * 60; seconds += 5) {
      await deps.clock.advance(5000);
      await new Promise(setImmediate);
    }
    await work;
  }

  test('is missed as the last one of max_runs, so that the schedule goes on', async () => {
    const it = await world({ maxRuns: 1 });
    await fill(it);
    await it.deps.clock.advance(MINUTE);
    await during(it.deps, it.fire(), 6);
    expect(await it.now()).toMatchObject({ enabled: true, runCount: 0, endedAt: null, endedReason: null });
    expect((await it.now()).nextRunAt).toBe(isoTime(NOON + 7 * MINUTE));
    expect(await it.runs()).toEqual([]);
    const kinds = (await it.events()).map((line) => line.split(':')[0]);
    expect(kinds).toEqual(['ended', 'missed', 'enabled']);
  });

  test('is late', async () => {
    const it = await world();
    const empty = await fill(it);
    await it.deps.clock.advance(MINUTE);
    const fired = it.fire();
    await during(it.deps, Promise.resolve(), 3);
    expect(await it.runs()).toEqual([]);
    await empty();
    await during(it.deps, fired, 1);
    expect(await it.runs()).toEqual([{ status: 'completed', error: null }]);
    expect(await it.now()).toMatchObject({ runCount: 1, openRuns: 0, lastRunStatus: 'completed' });
  });

  test('is missed after five minutes, which is no failure', async () => {
    const it = await world({ maxConsecutiveFailures: 1, lastRunStatus: 'completed', lastRunId: 'x', runCount: 7 });
    await fill(it);
    await it.deps.clock.advance(MINUTE);
    await during(it.deps, it.fire(), 6);
    expect(await it.runs()).toEqual([]);
    expect(await it.events()).toEqual([
      `missed: The run of ${isoTime(NOON + MINUTE)} was missed: the workspace had no free capacity. [1 from ${isoTime(NOON + MINUTE)}]`,
    ]);
    expect(await it.now()).toMatchObject({
      enabled: true,
      consecutiveFailures: 0,
      runCount: 7,
      openRuns: 0,
      lastRunId: 'x',
      lastRunStatus: 'completed',
    });
  });

  test('is late while the host throttles, too', async () => {
    const it = await world();
    let isBusy = true;
    const busy: Table['update'] = () => Promise.reject(new HostBusyError('throttled'));
    const { counters } = it.deps;
    const throttled = new Proxy(counters, {
      get: (table, method) => {
        if (isBusy && method === 'update') return busy;
        const member = Reflect.get(table, method);
        return typeof member === 'function' ? member.bind(table) : member;
      },
    });
    await it.deps.clock.advance(MINUTE);
    const due = { ...it.schedule, scheduleId: it.schedule.id, scheduledFor: NOON + MINUTE };
    const fired = fireDue({ ...it.deps, counters: throttled }, due);
    await during(it.deps, Promise.resolve(), 3);
    expect(await it.runs()).toEqual([]);
    isBusy = false;
    await during(it.deps, fired, 1);
    expect(await it.runs()).toEqual([{ status: 'completed', error: null }]);
    expect(await it.now()).toMatchObject({ consecutiveFailures: 0, openRuns: 0 });
  });

  test('is late while the disk is full, too', async () => {
    const it = await world();
    let problem: string | undefined = 'The disk is nearly full.';
    const deps = { ...it.deps, space: { problem: async () => problem } };
    await it.deps.clock.advance(MINUTE);
    const fired = fireDue(deps, { ...it.schedule, scheduleId: it.schedule.id, scheduledFor: NOON + MINUTE });
    await during(it.deps, Promise.resolve(), 3);
    expect(await it.runs()).toEqual([]);
    problem = undefined;
    await during(it.deps, fired, 1);
    expect(await it.runs()).toEqual([{ status: 'completed', error: null }]);
  });

  test('is refused when somebody asks for it, which is no failure of the schedule either', async () => {
    const it = await world({ maxConsecutiveFailures: 1 });
    await fill(it);
    const runId = it.deps.ids.uuid();
    const answer = await runNow(it.deps, it.schedule, { runId, source: 'manual', input: {} });
    expect(answer).toMatchObject({ status: 'error', error: expect.stringContaining('calls in progress') });
    expect(await it.runs()).toMatchObject([{ status: 'failed' }]);
    expect(await it.now()).toMatchObject({
      enabled: true,
      consecutiveFailures: 0,
      openRuns: 0,
      lastRunStatus: 'failed',
    });
  });

  test('differs from one whose workspace has used up its day', async () => {
    const it = await world();
    const plans = Object.entries(it.deps.config.plans).map(([name, plan]) => [name, { ...plan, daily_calls: 0 }]);
    Object.assign(it.deps.config, { plans: Object.fromEntries(plans) });
    await it.deps.clock.advance(MINUTE);
    await it.fire();
    expect(await it.runs()).toEqual([{ status: 'failed', error: expect.stringContaining('used up') }]);
    expect(await it.now()).toMatchObject({ consecutiveFailures: 1, runCount: 1 });
  });
});

describe('a crash', () => {
  test('before the run began lets another process begin it, or record that it was too late', async () => {
    for (const [later, expected] of [
      [61_000, 'completed'],
      [6 * MINUTE, 'failed'],
    ] as const) {
      const { deps, fire, runs, now } = await world();
      await deps.clock.advance(MINUTE);
      // The workspace record is read after the minute was claimed.
      const isWorkspace = ({ pk, sk }: Key) => sk === 'META' && pk.startsWith('WS#');
      await expect(crashing(deps, { get: isWorkspace }, fire)).rejects.toThrow('crash');
      expect(await runs()).toEqual([]);
      expect(await now()).toMatchObject({ openRuns: 1 });
      // Not swept yet: the process may still be alive.
      await sweepScheduleRuns(deps);
      expect(await runs()).toEqual([]);
      await deps.clock.advance(later);
      await Promise.all([sweepScheduleRuns(deps), sweepScheduleRuns(deps)]);
      expect((await runs()).map(({ status }) => status)).toEqual([expected]);
      expect(await now()).toMatchObject({ openRuns: 0, runCount: 1, lastRunStatus: expected });
    }
  });

  test.each(['published', 'deleted'])('after a version was %s lets the next run catch up', async (what) => {
    const { deps, schedule, publish, removeAgent, fire, events, now } = await world();
    await publish();
    if (what === 'deleted') await removeAgent();
    expect((await now()).agentVersion).toBe('v1');
    await deps.clock.advance(MINUTE);
    await fire();
    const { agentVersion, lastRunId } = await now();
    expect(agentVersion).toBe('v2');
    const run = await new RunStore(deps, schedule.workspaceId).find(lastRunId!);
    expect(run).toMatchObject({ status: 'completed', agentVersion: 'v2' });
    expect(await events()).toEqual(['version_updated: Agent updated from v1 to v2']);
  });

  test('after the run ended lets another process count it, once', async () => {
    const { deps, fire, runs, now } = await world();
    await deps.clock.advance(MINUTE);
    // The first transaction of a schedule claims the minute, the second counts its run.
    let transactions = 0;
    await expect(crashing(deps, { transact: () => ++transactions === 2 }, fire)).rejects.toThrow('crash');
    expect(await runs()).toEqual([{ status: 'completed', error: null }]);
    expect(await now()).toMatchObject({ openRuns: 1, lastRunStatus: 'running' });
    await deps.clock.advance(MINUTE + 1);
    await Promise.all([sweepScheduleRuns(deps), sweepScheduleRuns(deps)]);
    await fire();
    expect(await now()).toMatchObject({ openRuns: 0, runCount: 2, consecutiveFailures: 0 });
  });
});

/** Does `work` with a main table that fails at the operations selected by `dies`. */
async function crashing(
  { main }: MemoryDeps,
  dies: { get?: (key: Key) => boolean; transact?: () => boolean },
  work: () => Promise<void>,
): Promise<void> {
  const { get, transact } = main;
  main.get = async (key) => {
    if (dies.get?.(key)) throw new Error('crash');
    return get.call(main, key);
  };
  main.transact = async (operations) => {
    if (dies.transact?.()) throw new Error('crash');
    return transact.call(main, operations);
  };
  try {
    await work();
  } finally {
    Object.assign(main, { get, transact });
  }
}
