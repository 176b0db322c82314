import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { InstanceEnd, InstanceReport, ServiceReport } from '#core/ports/service-host.ts';
import { newServiceRecord } from '#test/helpers/services.ts';
import type { Service } from './service.ts';
import {
  afterReports,
  changed,
  deleted,
  healthOf,
  isDue,
  paused,
  restarted,
  restartsOf,
  resumed,
  stateOf,
  warningCount,
} from './state.ts';

const NOW = 10_000_000;
const report = (change: Partial<InstanceReport> = {}): InstanceReport => ({
  type: 'instance',
  serviceId: 's',
  instanceId: 'i1',
  revision: 1,
  sequence: 1,
  at: NOW,
  startedAt: NOW,
  phase: 'starting',
  isWorker: false,
  restarts: 0,
  failures: 0,
  steadyAt: null,
  lastEnd: null,
  ...change,
});
const end = (change: Partial<InstanceEnd> = {}): InstanceEnd => ({
  type: 'ended',
  serviceId: 's',
  instanceId: 'i1',
  revision: 1,
  startedAt: NOW,
  at: NOW,
  reason: 'stopped',
  message: 'stopped',
  ...change,
});
const receive = (service: Service, ...reports: ServiceReport[]) => afterReports(service, reports, NOW);
/** Report of an app that failed `count` times in a row. */
const failing = (count: number, change: Partial<InstanceReport> = {}) =>
  report({
    sequence: count + 1,
    restarts: count,
    failures: count,
    lastEnd: { at: NOW + count, exitCode: 1, message: `failure ${count}` },
    ...change,
  });

describe('states', () => {
  test('a service is provisioning until its app is ready, and running from then on', () => {
    const deployed = newServiceRecord();
    expect([stateOf(deployed), healthOf(deployed)]).toEqual(['provisioning', 'unknown']);
    const running = receive(deployed, report(), report({ sequence: 2, phase: 'ready' }));
    expect([stateOf(running.service), healthOf(running.service)]).toEqual(['running', 'healthy']);
    expect(running.events.map(({ type }) => type)).toEqual(['running']);
    const crashed = receive(running.service, failing(1, { sequence: 3 }));
    expect([stateOf(crashed.service), healthOf(crashed.service)]).toEqual(['running', 'unhealthy']);
    expect(crashed.service.lastError?.message).toBe('failure 1');
  });

  test('fewer ready instances than the minimum are degraded', () => {
    const { service } = receive(newServiceRecord({ minInstances: 2 }), report({ phase: 'ready' }));
    expect(healthOf(service)).toBe('degraded');
  });

  test('a revision that the host cannot start has failed, unless an older one still serves', () => {
    const failure = { type: 'failed', serviceId: 's', revision: 1, at: NOW, message: 'no room' } as const;
    const failed = receive(newServiceRecord(), failure, failure);
    expect(stateOf(failed.service)).toBe('failed');
    expect(failed.events).toEqual([{ type: 'deploy_failed', message: 'no room' }]);
    const serving = changed(receive(newServiceRecord(), report({ phase: 'ready' })).service);
    expect(stateOf(receive(serving, { ...failure, revision: 2 }).service)).toBe('running');
  });

  test('a late report neither starts a paused service nor revives an instance that is gone', () => {
    const stopped = paused(receive(newServiceRecord(), report({ phase: 'ready' })).service);
    const late = receive(stopped, end(), report({ sequence: 9, phase: 'ready' }));
    expect(stateOf(late.service)).toBe('paused');
    expect(late.service.instances.i1?.phase).toBe('gone');
  });

  test('a deleted service stays deleted, and is gone once the host has removed it', () => {
    const service = deleted(newServiceRecord());
    expect(stateOf(service)).toBe('deleting');
    for (const again of [restarted(service, NOW), resumed(service), paused(service), changed(service)]) {
      expect(again).toEqual(service);
    }
    const applied = { revision: service.revision, at: NOW, isRunning: false, shape: '' };
    expect(stateOf({ ...service, applied })).toBe('deleted');
  });
});

describe('crash loops', () => {
  test.each([
    [1, 1],
    [2, 1],
    [5, 3],
    [50, 25],
  ])('with a maximum of %i the warning comes at %i', (maxRestartFailures, count) => {
    expect(warningCount({ maxRestartFailures })).toBe(count);
  });

  test('warns once at half of the maximum, and pauses at all of it', () => {
    const told: unknown[] = [];
    let service = newServiceRecord();
    for (let count = 1; count <= 7; count++) {
      const step = receive(service, failing(count), failing(count));
      told.push([step.service.consecutiveFailures, stateOf(step.service), step.alert?.isPaused]);
      service = step.service;
    }
    expect(told).toEqual([
      [1, 'provisioning', undefined],
      [2, 'provisioning', undefined],
      [3, 'provisioning', false],
      [4, 'provisioning', undefined],
      [5, 'paused', true],
      [5, 'paused', undefined],
      [5, 'paused', undefined],
    ]);
    expect(service.autoPausedAt).toBe(NOW);
    expect(isDue(service)).toBe(true);
  });

  test('reports that jump over half of the maximum give the critical alert alone', () => {
    const { alert, events } = receive(newServiceRecord(), failing(5));
    expect(alert).toEqual({ isPaused: true });
    expect(events.map(({ type }) => type)).toEqual(['restart_failed', 'auto_paused']);
  });

  test('60 healthy seconds reset the count, and a later row of failures is warned of again', () => {
    let { service } = receive(newServiceRecord(), failing(3));
    service = receive(service, report({ sequence: 9, phase: 'ready', restarts: 3, steadyAt: NOW })).service;
    expect(service.consecutiveFailures).toBe(0);
    expect(receive(service, failing(3, { sequence: 10 })).alert).toEqual({ isPaused: false });
  });

  test('an instance that crashed counts until one that started after it is steady', () => {
    const died = end({ reason: 'crashed', message: 'out of memory', at: NOW + 5 });
    const first = receive(newServiceRecord(), report(), died, died);
    expect(first.service.consecutiveFailures).toBe(1);
    expect(restartsOf(first.service)).toBe(1);
    const older = { instanceId: 'i0', startedAt: NOW - 50, steadyAt: NOW + 9, phase: 'ready' } as const;
    expect(receive(first.service, report(older)).service.consecutiveFailures).toBe(1);
    const newer = { instanceId: 'i2', startedAt: NOW + 6, steadyAt: NOW + 9, phase: 'ready' } as const;
    expect(receive(first.service, report(newer)).service.consecutiveFailures).toBe(0);
  });

  test('a restart counts from zero, and failures of the instances before it no more', () => {
    const { service } = receive(newServiceRecord(), failing(5));
    const again = restarted(service, NOW);
    expect(again).toMatchObject({ desired: 'running', autoPausedAt: null, consecutiveFailures: 0 });
    expect(restartsOf(again)).toBe(6);
    expect(receive(again, failing(6)).service.consecutiveFailures).toBe(0);
  });
});

test('instances that are gone are forgotten after an hour, once metered, and their restarts stay', () => {
  let { service } = receive(newServiceRecord(), failing(1, { steadyAt: NOW, failures: 0 }), end());
  service = { ...service, instances: { i1: { ...service.instances.i1!, isMetered: true } } };
  const later = afterReports(service, [report({ instanceId: 'i2', at: NOW * 2, startedAt: NOW * 2 })], NOW * 2);
  expect(Object.keys(later.service.instances)).toEqual(['i2']);
  expect(restartsOf(later.service)).toBe(1);
  expect(afterReports(later.service, [end()], NOW * 2).service).toEqual(later.service);
});

/** Generates all reports in the lifetime of one instance, in order. */
const life = (instanceId: string, maxFailures: number): fc.Arbitrary<ServiceReport[]> =>
  fc
    .record({
      revision: fc.integer({ min: 1, max: 3 }),
      startedAt: fc.integer({ min: 0, max: 1000 }),
      steps: fc.array(fc.constantFrom('ready', 'crash', 'steady'), { maxLength: 8 }),
      end: fc.constantFrom('none', 'stopped', 'crashed'),
    })
    .map(({ revision, startedAt, steps, end: how }) => {
      const base = { instanceId, revision, startedAt: NOW + startedAt };
      const reports: ServiceReport[] = [report({ ...base, at: NOW + startedAt })];
      let last = reports[0] as InstanceReport;
      for (const [i, step] of steps.entries()) {
        const at = last.at + 1 + i;
        const next = {
          ready: { phase: 'ready' as const },
          steady: { phase: 'ready' as const, steadyAt: at, failures: 0 },
          crash: {
            phase: 'starting' as const,
            restarts: last.restarts + 1,
            failures: Math.min(last.failures + 1, maxFailures),
            lastEnd: { at, exitCode: 1, message: `${instanceId} ${at}` },
          },
        }[step];
        last = { ...last, ...next, sequence: last.sequence + 1, at };
        reports.push(last);
      }
      if (how !== 'none') reports.push(end({ ...base, at: last.at + 1, reason: how, message: `${instanceId} gone` }));
      return reports;
    });

const lives = fc.tuple(life('a', 3), life('b', 3), life('c', 3));
const wide = newServiceRecord({ revision: 3, maxRestartFailures: 50 });
const known = ({ instances, consecutiveFailures, lastError, ...rest }: Service) => ({
  instances: Object.fromEntries(Object.entries(instances).sort()),
  consecutiveFailures,
  lastErrorAt: lastError?.at,
  restarts: restartsOf({ instances, consecutiveFailures, lastError, ...rest }),
});

describe('properties', () => {
  test('reports that are lost, doubled and in disorder lead to the record of those in order', () => {
    const faults = fc.record({ order: fc.array(fc.nat(), { maxLength: 60 }), lost: fc.array(fc.boolean()) });
    fc.assert(
      fc.property(lives, faults, (histories, { order, lost }) => {
        const all = histories.flat();
        const inOrder = receive(wide, ...all).service;
        // Selects the reports that determine the state: the latest of each instance, and its end.
        const isFinal = (each: ServiceReport) =>
          histories.some((own) => own.findLast(({ type }) => type === each.type) === each);
        const arriving = all.filter((each, i) => isFinal(each) || !lost[i]);
        const doubled = order.map((i) => arriving[i % arriving.length]!);
        const shuffled = [...doubled, ...arriving].sort(
          (a, b) =>
            order[(all.indexOf(a) * 7) % (order.length || 1)]! - order[(all.indexOf(b) * 3) % (order.length || 1)]!,
        );
        let service = wide;
        for (const each of shuffled) service = receive(service, each).service;
        expect(known(service)).toEqual(known(inOrder));
      }),
    );
  });

  test('nothing but a command or a crash loop starts or stops a service, each alert is due once, and repeating changes nothing', () => {
    const commands = {
      restart: (service: Service) => restarted(service, NOW),
      resume: resumed,
      pause: paused,
      change: changed,
      delete: deleted,
    };
    const act = fc.oneof(
      { weight: 1, arbitrary: fc.constantFrom(...(Object.keys(commands) as (keyof typeof commands)[])) },
      { weight: 6, arbitrary: fc.nat() },
    );
    fc.assert(
      fc.property(lives, fc.array(act, { maxLength: 40 }), fc.integer({ min: 1, max: 6 }), (histories, acts, max) => {
        const all = histories.flat();
        let service = newServiceRecord({ maxRestartFailures: max });
        let warnings = 0;
        for (const each of acts) {
          const before = service;
          if (typeof each === 'string') {
            service = commands[each](service);
            if (service.countedFrom !== before.countedFrom) warnings = 0;
          } else {
            // Reports name revisions that already exist.
            const some = { ...all[each % all.length]! };
            const step = receive(service, { ...some, revision: Math.min(some.revision, service.revision) });
            service = step.service;
            if (step.alert?.isPaused) {
              expect([before.desired, service.desired]).toEqual(['running', 'stopped']);
              expect(service.consecutiveFailures).toBeGreaterThanOrEqual(max);
            } else {
              expect([service.desired, service.revision]).toEqual([before.desired, before.revision]);
            }
            if (service.desired === 'running') expect(service.consecutiveFailures).toBeLessThan(max);
            if (service.consecutiveFailures === 0) warnings = 0;
            if (step.alert?.isPaused === false) expect(++warnings).toBe(1);
            const again = receive(service, { ...some, revision: Math.min(some.revision, before.revision) });
            expect(again).toEqual({ service, events: [] });
          }
          expect(service.revision).toBeGreaterThanOrEqual(before.revision);
          expect(restartsOf(service)).toBeGreaterThanOrEqual(restartsOf(before));
          if (before.desired === 'deleted') expect(service.desired).toBe('deleted');
        }
      }),
    );
  });
});
