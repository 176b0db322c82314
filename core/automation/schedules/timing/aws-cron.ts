import { PlatformError } from '#core/base/errors.ts';
import type { Cron, CronField } from './cron.ts';

/** An EventBridge Scheduler expression. `dom` has days of the month or every day, `dow` has days of the week. */
export interface AwsCron {
  readonly kind: 'dom' | 'dow';
  readonly expression: string;
}

/** EventBridge's limit. */
const MAX_LENGTH = 256;
const DAY_NAMES = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];

/**
 * Translates a Unix expression for EventBridge, into at most one expression of each kind. Together they match all of
 * its minutes, some of them twice. If both day fields must match, which EventBridge cannot express, they match
 * additional minutes; the woken process therefore checks the Unix expression again.
 *
 * Throws INVALID_INPUT for an expression that is too long for EventBridge, on both hosts.
 */
export function toAwsCrons(cron: Cron): AwsCron[] {
  const [minutes, hours, months] = [render(cron.minutes, 59), render(cron.hours, 23), render(cron.months, 12)];
  const dom = (days: string): AwsCron => ({
    kind: 'dom',
    expression: `cron(${minutes} ${hours} ${days} ${months} ? *)`,
  });
  const onDates = () => dom(render(cron.daysOfMonth, 31));
  const onWeekdays = (): AwsCron => {
    const days = cron.daysOfWeek.values.map((day) => DAY_NAMES[day]).join(',');
    return { kind: 'dow', expression: `cron(${minutes} ${hours} ? ${months} ${days} *)` };
  };
  const { daysOfMonth, daysOfWeek, isEither } = cron;
  const anyDate = daysOfMonth.isFull;
  const anyWeekday = daysOfWeek.isFull;
  const isEveryDay = isEither ? anyDate || anyWeekday : anyDate && anyWeekday;
  const crons = isEveryDay
    ? [dom('*')]
    : isEither
      ? [onDates(), onWeekdays()]
      : anyWeekday
        ? [onDates()]
        : [onWeekdays()];
  if (crons.some(({ expression }) => expression.length > MAX_LENGTH)) {
    throw new PlatformError(
      'INVALID_INPUT',
      `cron_expression: "${cron.expression}" lists too many single values; use ranges and steps, as in "*/5 8-18 * * 1-5", or two schedules.`,
    );
  }
  return crons;
}

/** EventBridge accepts lists, ranges and `a/n`, but no range with a step. */
function render({ values, isFull }: CronField, max: number): string {
  if (isFull) return '*';
  const [first, second] = values as [number, number?];
  const step = second === undefined ? 0 : second - first;
  const isStepped =
    step > 1 &&
    values.length > 2 &&
    values.at(-1)! + step > max &&
    values.every((value, i) => value === first + i * step);
  if (isStepped) return `${first}/${step}`;
  const runs: [from: number, to: number][] = [];
  for (const value of values) {
    const run = runs.at(-1);
    if (run?.[1] === value - 1) run[1] = value;
    else runs.push([value, value]);
  }
  return runs
    .map(([from, to]) => (from === to ? `${from}` : to === from + 1 ? `${from},${to}` : `${from}-${to}`))
    .join(',');
}
