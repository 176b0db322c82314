import { expect, test } from 'vitest';
import type { InstanceReport, ServiceReport } from '#core/ports/service-host.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { Reporter } from './reporter.ts';

const report = (sequence: number, instanceId = 'i'): InstanceReport => ({
  type: 'instance',
  serviceId: 's',
  instanceId,
  revision: 1,
  sequence,
  at: sequence,
  startedAt: 0,
  phase: 'ready',
  isWorker: false,
  restarts: 0,
  failures: 0,
  steadyAt: null,
  lastEnd: null,
});
const ended = {
  type: 'ended',
  serviceId: 's',
  instanceId: 'i',
  revision: 1,
  startedAt: 0,
  at: 9,
  reason: 'stopped',
  message: '',
} as const;

function start() {
  const clock = new ManualClock();
  const batches: (readonly ServiceReport[])[] = [];
  const problems: string[] = [];
  const taking = { isAway: false };
  const reporter = new Reporter(
    async (reports) => {
      batches.push(reports);
      if (taking.isAway) throw new Error('away');
    },
    { clock, log: { error: (_, fields) => problems.push(String(fields?.error)) } },
  );
  return { clock, batches, problems, taking, reporter };
}

test('the newest report of each instance is handed on, with the end of one that has ended', async () => {
  const { batches, reporter } = start();
  reporter.add(report(1));
  for (const each of [report(2), report(1, 'other'), report(3), ended, report(2, 'other')]) reporter.add(each);
  await reporter.settled();
  expect(batches).toEqual([[report(1)], [report(3), report(2, 'other'), ended]]);
});

test('what is not taken is handed on again, with what came meanwhile, after waits that grow', async () => {
  const { clock, batches, problems, taking, reporter } = start();
  taking.isAway = true;
  reporter.add(report(1));
  await clock.advance(0);
  reporter.add(report(2));
  reporter.add(report(1, 'other'));
  expect(batches).toHaveLength(1);
  const since = clock.now();
  while (batches.length < 4) await clock.advance(100);
  expect(clock.now() - since).toBeGreaterThanOrEqual((1 + 2 + 4) * 900);
  expect(problems).toHaveLength(4);
  taking.isAway = false;
  await clock.advance(10_000);
  await reporter.settled();
  expect(batches.at(-1)).toEqual([report(2), report(1, 'other')]);
});
