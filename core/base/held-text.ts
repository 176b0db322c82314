interface Held {
  readonly rule: string;
  readonly key: string | null;
  readonly limit: number;
  readonly seconds: number | null;
}

/** Says in a few words which rule keeps a run from beginning, for the command line and the dashboard. */
export function heldText({ rule, key, limit, seconds }: Held): string {
  const what = rule === 'debounce' ? `${seconds} s` : seconds === null ? `${limit}` : `${limit} in ${seconds} s`;
  return `waits for its turn (${rule} ${what}${key === null ? '' : `, ${key}`})`;
}
