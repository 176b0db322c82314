import { describe, expect, test } from 'vitest';
import { type NotificationSources, notificationsOf } from './notifications.ts';

const NOTHING: NotificationSources = { runs: [], schedules: [], services: [], alerts: [] };
const NOW = Date.parse('2026-11-25T12:00:00.000Z');
const at = (minute: number) => new Date(NOW - minute * 60_000).toISOString();
const runs = (agent_name: string, ...statuses: NotificationSources['runs'][number]['status'][]) =>
  statuses.map((status, index) => ({
    ...{ id: `${agent_name}-${index}`, agent_name, status, created_at: at(index) },
    error_message: status === 'completed' ? null : `error ${index}`,
  }));
const idsOf = (sources: Partial<NotificationSources>) =>
  notificationsOf({ ...NOTHING, ...sources }, NOW).map(({ id }) => id);

describe('notifications', () => {
  test('report an agent whose last three ended runs failed, once per row of failures', () => {
    const [notification] = notificationsOf(
      { ...NOTHING, runs: runs('a', 'running', 'failed', 'timeout', 'cancelled', 'failed', 'completed', 'failed') },
      NOW,
    );
    expect(notification).toMatchObject({
      ...{ id: 'run a a-5', kind: 'run', title: 'a failed 3 times in a row', detail: 'error 1', at: at(1) },
      ...{ path: 'runs', search: { agent: 'a' } },
    });
    expect(idsOf({ runs: runs('a', 'failed', 'failed', 'completed', 'failed', 'failed', 'failed') })).toEqual([]);
    expect(idsOf({ runs: [...runs('a', 'failed', 'failed'), ...runs('b', 'failed', 'failed')] })).toEqual([]);
    expect(notificationsOf({ ...NOTHING, runs: runs('a', 'failed', 'failed', 'failed') }, NOW)[0]!.title).toBe(
      'a failed 3 or more times in a row',
    );
  });

  test('report schedules that were disabled after failures, until they are enabled', () => {
    const schedule = { id: 's', agent_name: 'a', enabled: false, auto_disabled_at: at(3), auto_disabled_reason: 'why' };
    expect(idsOf({ schedules: [schedule] })).toEqual([`schedule s ${at(3)}`]);
    expect(idsOf({ schedules: [{ ...schedule, enabled: true }] })).toEqual([]);
    expect(idsOf({ schedules: [{ ...schedule, auto_disabled_at: null }] })).toEqual([]);
  });

  test('report services that failed or were paused by the platform', () => {
    const service = {
      ...{ id: 's', name: 'bot', current_state: 'paused' as const, auto_paused_at: at(3) },
      ...{ last_error: 'exit code 1', updated_at: at(2) },
    };
    expect(idsOf({ services: [service] })).toEqual([`service s ${at(3)}`]);
    expect(idsOf({ services: [{ ...service, current_state: 'running' }] })).toEqual([]);
    expect(idsOf({ services: [{ ...service, auto_paused_at: null }] })).toEqual([]);
    expect(idsOf({ services: [{ ...service, current_state: 'failed', auto_paused_at: null }] })).toEqual([
      `service s ${at(2)}`,
    ]);
  });

  test('report alerts of budgets for a week, and the newest problem first', () => {
    const alert = (id: string, minute: number) => ({ id, message: 'spent', created_at: at(minute) });
    const week = 7 * 24 * 60;
    expect(
      idsOf({ runs: runs('a', 'failed', 'failed', 'failed'), alerts: [alert('new', 5), alert('old', week)] }),
    ).toEqual(['run a ', 'budget new']);
  });
});
