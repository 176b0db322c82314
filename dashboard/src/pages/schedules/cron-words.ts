const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];
const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'];

const isNumber = (field: string): boolean => /^\d+$/.test(field);
const twoDigits = (text: string): string => text.padStart(2, '0');
const and = (texts: readonly string[]): string =>
  texts.length < 2 ? texts.join('') : `${texts.slice(0, -1).join(', ')} and ${texts.at(-1)}`;

/** Describes one field: `1-5/2` of hours -> "every 2nd hour from 1 to 5". */
function partInWords(part: string, unit: string, name: (value: string) => string): string {
  const [range = '', step] = part.split('/');
  const [from = '', to] = range.split('-');
  const span = to === undefined ? name(from) : `${name(from)} to ${name(to)}`;
  if (step === undefined) return span;
  const every = step === '1' ? `every ${unit}` : `every ${step} ${unit}s`;
  if (range === '*') return every;
  return `${every} from ${span}`;
}

const fieldInWords = (field: string, unit: string, name: (value: string) => string = (value) => value): string =>
  and(field.split(',').map((part) => partInWords(part, unit, name)));

/** Names a value: `MON` or `1` -> "Monday". */
const nameIn =
  (names: readonly string[], first: number) =>
  (value: string): string =>
    (isNumber(value)
      ? names[Number(value) - first]
      : names.find((name) => name.slice(0, 3).toLowerCase() === value.toLowerCase())) ?? value;

function timeInWords(minute: string, hour: string): string {
  const hours = hour.split(',');
  if (isNumber(minute) && hours.every(isNumber)) {
    return `at ${and(hours.map((each) => `${twoDigits(each)}:${twoDigits(minute)}`))}`;
  }
  const minutes = minute === '*' ? 'every minute' : minute.includes('*/') ? fieldInWords(minute, 'minute') : undefined;
  const hourWords = hour === '*' ? undefined : fieldInWords(hour, 'hour');
  if (minutes !== undefined) return hourWords === undefined ? minutes : `${minutes} in ${hourName(hour, hourWords)}`;
  const at = `at minute ${fieldInWords(minute, 'minute')}`;
  if (hourWords === undefined) return `${at} of every hour`;
  return `${at} of ${hourName(hour, hourWords)}`;
}
const hourName = (hour: string, words: string): string => (hour.includes('/') ? words : `hour ${words}`);

/**
 * Describes a cron expression in English, such as "at 09:30 on Monday to Friday". Expects an expression that the
 * platform accepted, and returns other text unchanged. `previewSchedule` computes the actual times.
 */
export function cronInWords(expression: string): string {
  const fields = expression.trim().split(/\s+/);
  if (fields.length !== 5 || !fields.every((field) => /^[\w*,/-]+$/.test(field))) return expression;
  const [minute, hour, day, month, weekday] = fields as [string, string, string, string, string];
  const days: string[] = [];
  if (day !== '*') {
    const words = fieldInWords(day, 'day');
    days.push(day.startsWith('*/') ? `on ${words} of the month` : `on day ${words} of the month`);
  }
  if (weekday !== '*') days.push(`on ${fieldInWords(weekday, 'day of the week', nameIn(DAYS, 0))}`);
  // In cron, matching either day field is enough, unless one of them starts with a star.
  const isEither = !day.startsWith('*') && !weekday.startsWith('*');
  return [
    timeInWords(minute, hour),
    days.length === 0 && month === '*' && isNumber(minute) && hour.split(',').every(isNumber) ? 'every day' : undefined,
    days.join(isEither ? ' or ' : ' and ') || undefined,
    month === '*' ? undefined : `in ${fieldInWords(month, 'month', nameIn(MONTHS, 1))}`,
  ]
    .filter((text) => text !== undefined)
    .join(' ');
}
