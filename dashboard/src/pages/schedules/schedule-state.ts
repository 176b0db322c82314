import type { AnswerOf } from '../../api/client.ts';

export type Schedule = AnswerOf<'getSchedule'>['schedule'];

/** Returns the {@link Status} value of a schedule. */
export const stateOf = ({
  enabled,
  auto_disabled_at,
  ended_at,
}: Pick<Schedule, 'enabled' | 'auto_disabled_at' | 'ended_at'>) => {
  if (enabled) return 'enabled';
  if (ended_at !== undefined) return 'ended';
  return auto_disabled_at === null ? 'disabled' : 'auto_disabled';
};
