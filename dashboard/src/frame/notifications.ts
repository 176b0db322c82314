import type { AnswerOf } from '../api/client.ts';
import { isFailure } from '../api/run-status.ts';

/** What notifications are derived from; a part that could not be read is empty. */
export interface NotificationSources {
  /** Newest first. */
  readonly runs: readonly Pick<
    AnswerOf<'listRuns'>['runs'][number],
    'id' | 'agent_name' | 'status' | 'error_message' | 'created_at'
  >[];
  readonly schedules: readonly Pick<
    AnswerOf<'listSchedules'>['schedules'][number],
    'id' | 'agent_name' | 'enabled' | 'auto_disabled_at' | 'auto_disabled_reason'
  >[];
  readonly services: readonly Pick<
    AnswerOf<'listServices'>['services'][number],
    'id' | 'name' | 'current_state' | 'auto_paused_at' | 'last_error' | 'updated_at'
  >[];
  readonly alerts: readonly Pick<AnswerOf<'listBudgetAlerts'>['alerts'][number], 'id' | 'message' | 'created_at'>[];
}

export interface Notification {
  /** Changes if the same problem occurs again. */
  readonly id: string;
  readonly kind: 'run' | 'schedule' | 'service' | 'budget';
  readonly title: string;
  readonly detail: string;
  readonly at: string;
  /** Page of the workspace that shows the problem, without the workspace. */
  readonly path: string;
  readonly search?: Readonly<Record<string, string>>;
}

/** Failures in a row after which an agent is reported. */
const MIN_FAILURES = 3;
const ALERT_MS = 7 * 24 * 3600_000;

/** Returns the current problems of a workspace, newest first. */
export function notificationsOf(sources: NotificationSources, now: number): readonly Notification[] {
  const { runs, schedules, services, alerts } = sources;
  return [
    ...[...Map.groupBy(runs, ({ agent_name }) => agent_name)].flatMap(([name, own]) => failuresOf(name, own)),
    ...schedules.flatMap(({ id, agent_name, enabled, auto_disabled_at: at, auto_disabled_reason }) =>
      enabled || at === null
        ? []
        : {
            id: `schedule ${id} ${at}`,
            kind: 'schedule' as const,
            title: `The schedule of ${agent_name} was disabled after repeated failures`,
            detail: auto_disabled_reason ?? '',
            at,
            path: `schedules/${id}`,
          },
    ),
    ...services.flatMap(({ id, name, current_state, auto_paused_at, last_error, updated_at }) => {
      const isPaused = auto_paused_at !== null && current_state === 'paused';
      if (!isPaused && current_state !== 'failed') return [];
      const at = isPaused ? auto_paused_at : updated_at;
      return {
        id: `service ${id} ${at}`,
        kind: 'service' as const,
        title: isPaused ? `The service ${name} was paused automatically` : `The service ${name} failed`,
        detail: last_error ?? '',
        at,
        path: `services/${id}`,
      };
    }),
    ...alerts
      .filter(({ created_at }) => now - Date.parse(created_at) < ALERT_MS)
      .map(({ id, message, created_at }) => ({
        id: `budget ${id}`,
        kind: 'budget' as const,
        title: 'A budget reached a threshold',
        detail: message,
        at: created_at,
        path: 'billing',
        search: { tab: 'budgets' },
      })),
  ].sort((a, b) => (a.at < b.at ? 1 : -1));
}

/** Reports an agent whose last runs that ended all failed. */
function failuresOf(name: string, runs: NotificationSources['runs']): readonly Notification[] {
  const ended = runs.filter(({ status }) => status === 'completed' || isFailure(status));
  const end = ended.findIndex(({ status }) => status === 'completed');
  const failed = end === -1 ? ended : ended.slice(0, end);
  if (failed.length < MIN_FAILURES) return [];
  return [
    {
      // Further failures in the same row are not news.
      id: `run ${name} ${ended[end]?.id ?? ''}`,
      kind: 'run',
      title: `${name} failed ${failed.length}${end === -1 ? ' or more' : ''} times in a row`,
      detail: failed[0]!.error_message ?? '',
      at: failed[0]!.created_at,
      path: 'runs',
      search: { agent: name },
    },
  ];
}
