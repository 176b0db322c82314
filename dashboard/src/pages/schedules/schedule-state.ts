import type { AnswerOf } from '../../api/client.ts';

export type Schedule = AnswerOf<'getSchedule'>['schedule'];

/** Returns the {@link Status} value of a schedule. */
export const stateOf = ({ enabled, auto_disabled_at }: Pick<Schedule, 'enabled' | 'auto_disabled_at'>) =>
  enabled ? 'enabled' : auto_disabled_at === null ? 'disabled' : 'auto_disabled';
