import type { Json } from '#core/base/json.ts';
import { shellQuote } from '../bundle/entrypoint.ts';

/**
 * Fills the placeholders `{{name}}` in commands of custom tools with a model's values (`docs/interface/loops.md#custom-tools`).
 * However the author quoted a placeholder, the shell never parses a value.
 *
 * A value is assigned to a variable, quoted, in a line before the command, and a reference to the variable replaces the
 * placeholder. The shell expands references after it has parsed: a mistake about the quotes around a placeholder can make
 * an argument wrong, but cannot make a value a command. Many places parse an expanded value again: `eval`, arithmetic, the
 * arguments of programs that run others. So text may stand only in places that are known to be safe; numbers and booleans
 * may stand everywhere.
 */

/** The kernel takes 128 KB in one argument, and the shell line is one. */
const MAX_COMMAND_BYTES = 120_000;

/** How the shell text around a placeholder is quoted. */
export type Quoting = 'bare' | 'double' | 'single' | 'ansi';

/** A placeholder of a command. Plain data: it comes from a thread. */
export interface Place {
  readonly name: string;
  readonly pos: number;
  readonly end: number;
  /** Absent where no text may stand. */
  quoting?: Quoting;
  /** Why no text can stand there, as the end of "{{name}} stands ...". */
  problem?: string;
  /** Whether a text that begins with "-" would be taken for an option. */
  isFirst?: boolean;
}

/** The shell text that replaces a placeholder. */
const REFERENCES: Record<Quoting, (variable: string) => string> = {
  bare: (variable) => `"\${${variable}}"`,
  double: (variable) => `\${${variable}}`,
  single: (variable) => `'"\${${variable}}"'`,
  ansi: (variable) => `'"\${${variable}}"$'`,
};

/**
 * A tool's command, whose placeholders are `places`, with its values: text as it is, objects and arrays as JSON;
 * placeholders without a value are empty. `problem` says, to the model, why a value cannot be filled in.
 */
export function fillCommand(
  command: string,
  places: readonly Place[],
  values: { readonly [name: string]: Json },
): { readonly command: string } | { readonly problem: string } {
  const assignments = new Map<string, string>();
  let filled = '';
  let done = 0;
  for (const { name, pos, end, quoting, problem, isFirst } of places) {
    const value = Object.hasOwn(values, name) ? values[name]! : null;
    filled += command.slice(done, pos);
    done = end;
    if (value === null) continue;
    const variable = `PLATFORM_ARGUMENT_${name}`;
    // JSON has none.
    if (typeof value === 'string' && !assignments.has(variable) && value.includes('\0')) {
      return { problem: `"${name}" holds a NUL character, which no command line can hold.` };
    }
    if (quoting === undefined) {
      // Digits, a dot, a sign, true and false mean the same everywhere.
      if (typeof value !== 'number' && typeof value !== 'boolean') {
        return {
          problem: `the tool takes only a number or a boolean as "${name}": its placeholder stands ${problem}.`,
        };
      }
      filled += value;
      continue;
    }
    if (isFirst && typeof value === 'string' && value.startsWith('-')) {
      return {
        problem: `"${name}" begins with "-", which the program would take for an option. Begin it with another character; the author of the tool can put -- before it.`,
      };
    }
    // A long value may stand in a thousand places.
    if (!assignments.has(variable)) {
      assignments.set(variable, shellQuote(typeof value === 'string' ? value : JSON.stringify(value)));
    }
    filled += REFERENCES[quoting](variable);
  }
  filled += command.slice(done);
  const lines = [...assignments].map(([variable, quoted]) => `${variable}=${quoted}\n`);
  const whole = lines.join('') + filled;
  const bytes = Buffer.byteLength(whole);
  return bytes > MAX_COMMAND_BYTES
    ? { problem: `the command line would have ${bytes} bytes with these parameters; at most ${MAX_COMMAND_BYTES} fit.` }
    : { command: whole };
}
