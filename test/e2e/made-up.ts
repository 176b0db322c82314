/** Maximum length of a text in an example. */
const MAX_TEXT = 300;

const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;
const FIRST_TIME = Date.UTC(2026, 0, 15, 9, 30);
const SECOND = 1000;
const DAY = 86_400 * SECOND;

/** Patterns of ids; each distinct id gets the next number. */
const IDS: readonly (readonly [pattern: RegExp, numbered: (n: number) => string])[] = [
  [
    /[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/g,
    (n) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`,
  ],
  [/\b[0-9a-f]{64}\b/g, (n) => String(n).padStart(64, '0')],
  [/(?<=\b(?:req|ses|conv)_)[0-9a-f]{32}\b/g, (n) => String(n).padStart(32, '0')],
  [/\b[0-9a-f]{16}\b/g, (n) => String(n).padStart(16, '0')],
];

/** Replacements for secret, random or machine-specific texts. */
const MADE_UP: readonly (readonly [pattern: RegExp, text: string])[] = [
  [/sk_(live|agent)_[0-9A-Za-z]+/g, 'sk_$1_example'],
  [/whsec_[\w+/=-]+/g, 'whsec_example'],
  [/\b(cs_test|evt|ch|pi|re|dp|upl)_[0-9a-z_]{10,}/g, '$1_example'],
  [/\beyJ[\w+/=-]{40,}/g, 'example'],
  [/\bWyJ[\w+/=-]{20,}/g, 'example'],
  [/(?<![\w-])[a-z]?[\w-]{43}(?![\w-])/g, 'example'],
  [/http:\/\/(127\.0\.0\.1|localhost):\d+/g, 'https://agents.example.org'],
  [/http:\/\/([\w-]+)-[a-z]?[0-9a-f]{6}\.localhost:\d+/g, 'https://$1-000001.agents.example.org'],
  [/ Scripted error \d+\./g, ' The model is not available.'],
  [/\b1[789]\d{11}\b/g, String(FIRST_TIME)],
];

/** Replacements for measurements, dates and addresses of this machine, by field name. */
const BY_NAME: Readonly<Record<string, unknown>> = {
  address: '203.0.113.7',
  created: FIRST_TIME / SECOND,
  // Texts elsewhere: only those of OpenAI's wire are numbers.
  created_at: FIRST_TIME / SECOND,
  free_bytes: 80_000_000_000,
  memory_bytes: 200_000_000,
  month: '2026-01',
  p50: 10.2,
  p99: 11.5,
  prices_of: '2026-01-15',
  runtime_minutes: 12.5,
  scheduled_local: '2026-01-15T09:30:00+00:00',
  size_bytes: 100_000_000_000,
  total_service_minutes: 12.5,
  webhook_secret_preview: 'exampl...',
};
const MEASURED = /^(?!timeout_).*_ms$/;
const IN_BYTES = /_bytes$/;
/** Minimum size that counts as a measurement; smaller sizes belong to files of the tests. */
const MIN_MEASURED_BYTES = 50_000_000;

/**
 * Returns a body for the reference with made-up ids, times, keys, addresses and measurements. Long texts are cut, and a
 * list of objects keeps only the one with the most fields. Equal values stay equal, and times keep their order.
 */
export function madeUp(body: unknown): unknown {
  const text = JSON.stringify(body);
  const known = IDS.map(([pattern, numbered]) => ({ pattern, numbered, all: [...new Set(text.match(pattern))] }));
  const times = timesOf(text);
  const replaced = (given: string): string => {
    let made = given.replaceAll(TIME, (time) => times.get(Date.parse(time))!);
    for (const { pattern, numbered, all } of known)
      made = made.replaceAll(pattern, (id) => numbered(all.indexOf(id) + 1));
    for (const [pattern, instead] of MADE_UP) made = made.replaceAll(pattern, instead);
    return made.length > MAX_TEXT ? `${made.slice(0, MAX_TEXT)}…` : made;
  };
  const visit = (value: unknown, name: string): unknown => {
    if (typeof value === 'number' && MEASURED.test(name)) return 120;
    if (name === 'date') return replaced(String(value)).replace(/^[\d-]{10}$/, '2026-01-15');
    if (name === 'max' && !Number.isInteger(value)) return 12.5;
    const instead = BY_NAME[name];
    if (typeof value === typeof instead && (!IN_BYTES.test(name) || Number(value) > MIN_MEASURED_BYTES)) return instead;
    if (typeof value === 'string') return replaced(value);
    if (Array.isArray(value)) return fewest(value).map((each) => visit(each, name));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [replaced(key), visit(each, key)]));
  };
  return visit(body, '');
}

/** One object of a list is enough. */
const fewest = (list: readonly unknown[]): readonly unknown[] =>
  list.length > 1 && list.every((each) => typeof each === 'object' && each !== null)
    ? [fullest(list)]
    : list.slice(0, 3);

/** Maps times to made-up times. Short gaps become one second each; long gaps are rounded to minutes, hours or days. */
function timesOf(text: string): Map<number, string> {
  const times = [...new Set((text.match(TIME) ?? []).map((time) => Date.parse(time)))].sort((a, b) => a - b);
  let at = FIRST_TIME;
  return new Map(
    times.map((time, i) => {
      if (i > 0) at += gapOf(time - times[i - 1]!);
      return [time, new Date(at).toISOString()];
    }),
  );
}

function gapOf(gap: number): number {
  const unit = [DAY, DAY / 24, 60 * SECOND].find((each) => gap >= 0.9 * each);
  return unit === undefined ? SECOND : Math.round(gap / unit) * unit;
}

/** Fields whose content the author defines, so the number of their members is irrelevant. */
const OPEN = ['data', 'input', 'input_data', 'output', 'output_data', 'payload', 'target', 'value'];

/**
 * Returns the value with the most fields; ties go to the shortest, then to the first in sort order, for a deterministic
 * choice.
 */
export const fullest = <T>(values: readonly T[]): T =>
  values
    .map((value) => ({ value, members: membersOf(value, '', '').size, text: JSON.stringify(value) }))
    .sort((a, b) => b.members - a.members || a.text.length - b.text.length || (a.text < b.text ? -1 : 1))[0]!.value;

/** Returns the paths of the fields that count. */
function membersOf(value: unknown, path: string, name: string): Set<string> {
  if (value === null || value === '' || value === undefined) return new Set();
  const inner = (): string[] => {
    if (Array.isArray(value)) return value.flatMap((each) => [...membersOf(each, `${path}[]`, '')]);
    if (typeof value !== 'object') return [];
    if (OPEN.includes(name)) return Object.keys(value).length === 0 ? [] : [`${path}.*`];
    return Object.entries(value).flatMap(([key, each]) => [...membersOf(each, `${path}.${key}`, key)]);
  };
  return new Set([path, ...inner()]);
}
