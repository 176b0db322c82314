import { hash } from 'node:crypto';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { LlmToolCall } from '#core/ports/llm.ts';
import type { BoundOutcome } from './tool-output.ts';

/** Number of repeats from which the model is warned (`docs/interface/loops.md#repeats`). */
const TOLD_AT = 3;
/** Number of repeats at which the run ends. */
const STUCK_AT = 5;

/**
 * Detects that a model goes in circles: the same calls with the same results, and nothing new between them. A test that
 * fails in the same way after each change of a file is not a repeat, since the change is new.
 */
export class LoopDetector {
  readonly #known = new Set<string>();
  /** Number of occurrences of each call since the last new call. */
  readonly #times = new Map<string, number>();

  /**
   * Counts the calls of one turn; identical ones count once. Returns the warning to the model for each result. Throws
   * UNPROCESSABLE if the model is stuck.
   */
  count(calls: readonly LlmToolCall[], outcomes: readonly BoundOutcome[]): (string | undefined)[] {
    const keys = calls.map((call, index) => keyOf(call, outcomes[index]!));
    if (keys.some((key) => !this.#known.has(key))) this.#times.clear();
    for (const key of new Set(keys)) {
      this.#times.set(key, this.#known.has(key) ? (this.#times.get(key) ?? 1) + 1 : 1);
      this.#known.add(key);
    }
    return keys.map((key, index) => {
      const times = this.#times.get(key)!;
      if (times >= STUCK_AT) throw stuck(calls[index]!.name);
      return times < TOLD_AT ? undefined : noteOf(times - 1);
    });
  }
}

const noteOf = (before: number): string =>
  `[You called this with the same result ${before === 2 ? 'twice' : `${before} times`} before. Do something else, or submit what you have: at the ${STUCK_AT}th time the run ends.]`;

const stuck = (name: string): PlatformError =>
  new PlatformError(
    'UNPROCESSABLE',
    `The agent is stuck: it called ${name.slice(0, 64)} ${STUCK_AT} times with the same parameters and the same result.`,
    {
      cause: 'stuck',
      hint: 'The trace of the run shows its calls; the instructions or the description of the tool may be incomplete.',
    },
  );

const digest = (data: string | Uint8Array): string => hash('sha256', data, 'base64');

function keyOf({ name, input }: LlmToolCall, { text, isError, cut, files = [] }: BoundOutcome): string {
  // The text of a truncated result contains its file name, which differs each time.
  const said = cut === undefined ? [text] : [digest(cut.head), digest(cut.tail), cut.totalBytes];
  const shown = files.map(({ bytes }) => digest(bytes));
  return digest(JSON.stringify([name, sorted(input), isError, said, shown]));
}

/** Sorts the members of all objects in a value. */
function sorted(value: Json | undefined): Json | undefined {
  if (Array.isArray(value)) return value.map((element) => sorted(element)!);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([name, member]) => [name, sorted(member)!] as const);
  return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)));
}
