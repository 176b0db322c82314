import type { Json } from '#core/base/json.ts';
import { shellQuote } from '../bundle/entrypoint.ts';

/**
 * Fills the placeholders `{{name}}` in commands of custom tools with a model's values
 * (`docs/interface/loops.md#custom-tools`). The shell never parses a value, however the author quoted the placeholder.
 *
 * A line before the command assigns the quoted value to a variable, and a reference to the variable replaces the
 * placeholder. The shell expands references after parsing, so an error about the quotes around a placeholder can make
 * an argument wrong, but cannot turn a value into a command. Many constructs parse an expanded value again: `eval`,
 * arithmetic, the arguments of programs that run others. So text is allowed only in positions that are known to be
 * safe; numbers and booleans are allowed everywhere.
 */

/** The kernel limits an argument to 128 KB, and the shell line is one. */
const MAX_COMMAND_BYTES = 120_000;

/** Quoting of the shell text around a placeholder. */
export type Quoting = 'bare' | 'double' | 'single' | 'ansi';

/** Position of a placeholder in a command. Plain data, because it comes from a worker thread. */
export interface Place {
  readonly name: string;
  readonly pos: number;
  readonly end: number;
  /** Absent if no text is allowed. */
  quoting?: Quoting;
  /** Why no text is allowed, to complete "{{name}} stands ...". */
  problem?: string;
  /** Whether a text that begins with "-" would be parsed as an option. */
  isFirst?: boolean;
}

/** Shell text that replaces a placeholder. */
const REFERENCES: Record<Quoting, (variable: string) => string> = {
  bare: (variable) => `"\${${variable}}"`,
  double: (variable) => `\${${variable}}`,
  single: (variable) => `'"\${${variable}}"'`,
  ansi: (variable) => `'"\${${variable}}"$'`,
};

/**
 * Fills values into a tool's command with the placeholders `places`: text unchanged, objects and arrays as JSON;
 * placeholders without a value are empty. `problem` tells the model why a value cannot be filled in.
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
    // Only texts can contain NUL; JSON escapes it.
    if (typeof value === 'string' && !assignments.has(variable) && value.includes('\0')) {
      return { problem: `"${name}" contains a NUL character, which a command line cannot contain.` };
    }
    if (quoting === undefined) {
      // Digits, a dot, a sign, true and false have no special meaning anywhere.
      if (typeof value !== 'number' && typeof value !== 'boolean') {
        return {
          problem: `the tool accepts only a number or a boolean as "${name}": its placeholder stands ${problem}.`,
        };
      }
      filled += value;
      continue;
    }
    if (isFirst && typeof value === 'string' && value.startsWith('-')) {
      return {
        problem: `"${name}" begins with "-", which the program would parse as an option. Begin it with another character; the author of the tool can put -- before it.`,
      };
    }
    // Assigned once, because a long value may be used in a thousand positions.
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
    ? {
        problem: `the command line would have ${bytes} bytes with these parameters; at most ${MAX_COMMAND_BYTES} are allowed.`,
      }
    : { command: whole };
}
