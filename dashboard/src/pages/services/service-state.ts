import type { AnswerOf } from '../../api/client.ts';

export type Service = AnswerOf<'getService'>['service'];

/** Returns the `Status` value of a service. */
export function stateOf({
  current_state,
  auto_paused_at,
  consecutive_restart_failures,
  max_restart_failures,
}: Pick<
  Service,
  'current_state' | 'auto_paused_at' | 'consecutive_restart_failures' | 'max_restart_failures'
>): string {
  if (auto_paused_at !== null && consecutive_restart_failures >= max_restart_failures) return 'crash_loop';
  return current_state === 'running' ? 'serving' : current_state;
}
