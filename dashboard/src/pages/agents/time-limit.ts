import type { AnswerOf } from '../../api/client.ts';

type Limited = Pick<AnswerOf<'getAgent'>, 'durable' | 'timeout_seconds'>;

/**
 * Says how long a run of an agent may take. Of a durable one, only the time in which it is worked on counts, and how long it
 * may wait has a limit of its own.
 */
export function timeLimitOf({ durable, timeout_seconds }: Limited): string {
  if (durable === false) return `${timeout_seconds} s`;
  const { max_active_seconds: work, max_wait_seconds: wait } = durable;
  const text = work === undefined ? 'limit of the plan' : `up to ${lengthOf(work)} of work`;
  return wait === undefined ? text : `${text}, waits up to ${lengthOf(wait)}`;
}

function lengthOf(seconds: number): string {
  const parts: (readonly [number, string])[] = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor((seconds % 86_400) / 3600), 'h'],
    [Math.floor((seconds % 3600) / 60), 'min'],
    [seconds % 60, 's'],
  ];
  return parts.flatMap(([amount, unit]) => (amount === 0 ? [] : [`${amount} ${unit}`])).join(' ');
}
