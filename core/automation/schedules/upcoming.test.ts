import { expect, test } from 'vitest';
import { Zone } from '#core/base/zone.ts';
import { isoTime } from '#core/ports/clock.ts';
import { emptyResult, endedWith, newRunOf } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { type MemoryDeps, memoryDeps } from '#test/helpers/memory-deps.ts';
import { ScheduleStore } from './store.ts';
import { parseCron } from './timing/cron.ts';
import { slotsAfter } from './timing/slots.ts';
import { previewSlots, upcomingSlots } from './upcoming.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const at = (text: string): number => Date.parse(text);

test('a preview names the local times that clocks skip, repeat or shift', () => {
  const spring = previewSlots('30 2 * * *', 'Europe/Berlin', 3, at('2026-03-27T12:00:00Z'));
  expect(spring.slots).toEqual([
    { at: '2026-03-28T01:30:00.000Z', local: '2026-03-28T02:30', utc_offset: '+01:00', dst: null },
    { at: null, local: '2026-03-29T02:30', utc_offset: '+01:00', dst: 'skipped' },
    { at: '2026-03-30T00:30:00.000Z', local: '2026-03-30T02:30', utc_offset: '+02:00', dst: 'changed' },
    { at: '2026-03-31T00:30:00.000Z', local: '2026-03-31T02:30', utc_offset: '+02:00', dst: null },
  ]);
  const autumn = previewSlots('30 2 * * *', 'Europe/Berlin', 2, at('2026-10-24T12:00:00Z'));
  expect(autumn.slots).toEqual([
    { at: '2026-10-25T00:30:00.000Z', local: '2026-10-25T02:30', utc_offset: '+02:00', dst: 'repeated' },
    { at: '2026-10-26T01:30:00.000Z', local: '2026-10-26T02:30', utc_offset: '+01:00', dst: 'changed' },
  ]);
  const west = previewSlots('0 9 * * *', 'America/St_Johns', 1, at('2026-01-01T00:00:00Z'));
  expect(west.slots).toMatchObject([{ local: '2026-01-01T09:00', utc_offset: '-03:30' }]);
});

test('a preview stops at the end of the schedule', () => {
  const from = at('2026-01-01T12:00:00Z');
  const until = (end: string) => previewSlots('0 9 * * *', 'UTC', 5, from, at(end)).slots.map((slot) => slot.at);
  expect(until('2026-01-03T09:00:00Z')).toEqual(['2026-01-02T09:00:00.000Z', '2026-01-03T09:00:00.000Z']);
  expect(until('2026-01-03T08:59:59Z')).toHaveLength(1);
});

test('a rare expression is answered as far as there are times, a wrong one is refused', () => {
  const rare = previewSlots('0 0 29 2 *', 'UTC', 100, at('2026-01-01T00:00:00Z'));
  expect(rare.slots).toHaveLength(10);
  expect(() => previewSlots('99 * * * *', 'UTC', 1, 0)).toThrow('minute');
  expect(() => previewSlots('* * * * *', 'EST', 1, 0)).toThrow('America/New_York');
});

test('slots are looked for no further than the end of what is asked', () => {
  const from = at('2026-01-01T12:00:00Z');
  const found = (end?: number) => [...slotsAfter(parseCron('0 0 1 1 *'), Zone.of('UTC'), from, end)].length;
  expect(found(from + DAY)).toBe(0);
  expect(found(from + 366 * DAY)).toBe(1);
  expect(found()).toBe(41);
});

const WORKSPACE = crypto.randomUUID();
const AGENT = { agentId: crypto.randomUUID(), agentWorkspaceId: WORKSPACE, agentOrg: 'acme', agentVersion: 'v1' };

async function add(deps: MemoryDeps, agentName: string, cron: string, changes: object = {}): Promise<string> {
  const now = isoTime(deps.clock.now());
  const id = deps.ids.uuid();
  const nothing = { llmProvider: null, webhookSecretHash: null, webhookSecretPreview: null, alertWebhookUrl: null };
  const never = { autoDisabledAt: null, lastRunAt: null, lastRunId: null, lastRunStatus: null, deletedAt: null };
  const counts = { alertOnFailureCount: 3, maxConsecutiveFailures: 10, consecutiveFailures: 0, runCount: 0 };
  const times = { nextRunAt: isoTime(deps.clock.now() + MINUTE), createdAt: now, updatedAt: now };
  const own = { id, workspaceId: WORKSPACE, agentName, cronExpression: cron, timezone: 'UTC', lackedGrants: null };
  const settings = {
    type: 'cron',
    input: {},
    enabled: true,
    autoUpdate: true,
    overlap: 'allow',
    createdBy: 'u',
  } as const;
  const all = { ...AGENT, ...nothing, ...never, ...counts, ...times, ...own, ...settings, ...changes };
  expect(await new ScheduleStore(deps, WORKSPACE).create(all, 10_000)).toBe(true);
  return id;
}

test('upcoming slots respect the end of a schedule', async () => {
  const deps = memoryDeps();
  const now = deps.clock.now();
  const first = await add(deps, 'ends', '0 * * * *', { endsAt: isoTime(now + 3 * 60 * MINUTE) });
  const second = await add(deps, 'counts', '30 * * * *', { maxRuns: 5, runCount: 3 });
  const { slots } = await upcomingSlots(deps, WORKSPACE, {});
  const ofSchedule = (id: string) => slots.filter(({ schedule_id }) => schedule_id === id).length;
  expect([ofSchedule(first), ofSchedule(second)]).toEqual([3, 2]);
});

test('upcoming slots of all schedules come in their order, and tell which runs would overlap', async () => {
  const deps = memoryDeps();
  const runId = crypto.randomUUID();
  const agent = { id: AGENT.agentId, workspaceId: WORKSPACE, orgSlug: 'acme', name: 'slow', version: 'v1' };
  const startedAt = deps.clock.now();
  const run = newRunOf(agent, {
    id: runId,
    endpoint: 'run',
    triggerSource: 'schedule',
    startedAt,
    deadline: startedAt + MINUTE * 60,
    input: {},
  });
  const store = new RunStore(deps, WORKSPACE);
  await store.start(run);
  await deps.clock.advance(25 * MINUTE);
  await store.finish(run, { ...emptyResult(endedWith(undefined), {}), status: 'completed' });
  const slow = await add(deps, 'slow', '*/10 * * * *', {
    lastRunId: runId,
    lastRunStatus: 'completed',
    overlap: 'skip',
  });
  const quick = await add(deps, 'quick', '30 * * * *');
  await add(deps, 'off', '* * * * *', { enabled: false, nextRunAt: null });
  const from = Math.ceil(deps.clock.now() / DAY) * DAY - MINUTE;
  const answer = await upcomingSlots(deps, WORKSPACE, { from: isoTime(from), to: isoTime(from + 61 * MINUTE) });
  expect(answer).toMatchObject({ from: isoTime(from), is_cut: false });
  const shown = answer.slots.map(({ schedule_id, local, overlap }) => [schedule_id, local.slice(11), overlap]);
  // Every third of the ten-minute slots runs: the previous run takes 25 minutes.
  expect(shown.filter(([id]) => id === slow)).toEqual([
    [slow, '00:00', null],
    [slow, '00:10', 'skip'],
    [slow, '00:20', 'skip'],
    [slow, '00:30', null],
    [slow, '00:40', 'skip'],
    [slow, '00:50', 'skip'],
  ]);
  expect(shown.filter(([id]) => id === quick)).toEqual([[quick, '00:30', null]]);
  expect(answer.slots.map(({ at: time }) => time)).toEqual(answer.slots.map(({ at: time }) => time).toSorted());
});

test('at most 2,000 slots are answered, the first ones of all schedules; huge and past windows are refused', async () => {
  const deps = memoryDeps();
  for (let index = 0; index < 5; index++) await add(deps, `busy-${index}`, '* * * * *');
  const now = deps.clock.now();
  const { slots, is_cut } = await upcomingSlots(deps, WORKSPACE, { to: isoTime(now + 30 * DAY) });
  expect(is_cut).toBe(true);
  expect(slots).toHaveLength(2000);
  expect(at(slots.at(-1)!.at!) - now).toBeLessThanOrEqual(400 * MINUTE);
  const first = await upcomingSlots(deps, WORKSPACE, { limit: 12 });
  expect(first).toMatchObject({ slots: slots.slice(0, 12), is_cut: true });
  const refused = (window: { from?: string; to?: string }) =>
    expect(upcomingSlots(deps, WORKSPACE, window)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  await refused({ to: isoTime(now - 1) });
  await refused({ to: isoTime(now + 400 * DAY) });
  await refused({ from: '9999-01-01T00:00:00Z', to: isoTime(now + DAY) });
});
