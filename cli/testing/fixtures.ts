import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type * as z from 'zod';
import { UsageError } from '#client/usage-error.ts';
import { fixtureShape } from '#core/manifest/editor/fixture.ts';
import { validateAgainst } from '#core/manifest/json-schema/schema-validation.ts';

type Fixture = z.output<typeof fixtureShape>;

export interface NamedFixture extends Fixture {
  /** `gap` for `tests/fixture-gap.json`. */
  readonly name: string;
  readonly path: string;
}

/** Outcome of a fixture's call. */
export interface Outcome {
  readonly output?: unknown;
  readonly error?: { readonly code: string; readonly message: string };
  readonly seconds: number;
  readonly tools: readonly string[];
  readonly costUsd: number;
}

/**
 * Reads the fixtures of an agent's folder, sorted by name. Throws UsageError that names the file and the invalid
 * member.
 */
export async function readFixtures(folder: string): Promise<NamedFixture[]> {
  const paths = globSync('tests/fixture-*.json', { cwd: folder }).sort();
  return Promise.all(
    paths.map(async (path) => {
      const name = /^fixture-(.*)\.json$/.exec(basename(path))![1]!;
      let value: unknown;
      try {
        value = JSON.parse(await readFile(join(folder, path), 'utf8'));
      } catch (error) {
        throw new UsageError(`${path} is not valid JSON: ${(error as Error).message}.`);
      }
      const { data, error } = fixtureShape.safeParse(value);
      if (error === undefined) return { ...data, name, path };
      const [{ path: at, message }] = error.issues as [z.core.$ZodIssue];
      throw new UsageError(`${path} cannot be used: ${[at.join('.'), message].filter(Boolean).join(' ')}`);
    }),
  );
}

/** Returns the failed expectations of a fixture as sentences; empty if it passed. */
export function failuresOf(fixture: NamedFixture, { output, error, seconds, tools, costUsd }: Outcome): string[] {
  if (fixture.expected_error !== undefined) {
    if (error?.code === fixture.expected_error) return [];
    return [`must fail with ${fixture.expected_error}, but ${error ? `failed with ${error.code}` : 'succeeded'}`];
  }
  if (error !== undefined) return [`failed with ${error.code}: ${error.message}`];
  const failures: string[] = [];
  if (fixture.expected_output !== undefined && !isDeepStrictEqual(output, fixture.expected_output)) {
    failures.push(`the output ${difference(output, fixture.expected_output, '')}`);
  }
  const written = JSON.stringify(output) ?? '';
  for (const part of fixture.expected_contains ?? []) {
    if (!written.includes(part)) failures.push(`the output must contain ${part}, but is ${short(output)}`);
  }
  if (fixture.expected_schema !== undefined) {
    const problems = validateAgainst(fixture.expected_schema as Record<string, unknown>, output);
    for (const { field, message } of problems) failures.push(`the output does not match: ${field} ${message}`);
  }
  const left = [...(fixture.expected_tools ?? [])];
  for (const tool of tools) if (tool === left[0]) left.shift();
  if (left.length > 0) {
    failures.push(
      `must call ${fixture.expected_tools!.join(', ')} in this order, but called ${tools.join(', ') || 'none'}`,
    );
  }
  if (fixture.max_seconds !== undefined && seconds > fixture.max_seconds) {
    failures.push(`took ${seconds.toFixed(1)} s, but at most ${fixture.max_seconds} s are allowed`);
  }
  if (fixture.max_cost_usd !== undefined && costUsd > fixture.max_cost_usd) {
    failures.push(`cost $${costUsd.toFixed(6)}, but at most $${fixture.max_cost_usd} are allowed`);
  }
  return failures;
}

/** Describes the first difference between two values. */
function difference(found: unknown, expected: unknown, at: string): string {
  if (isObject(found) && isObject(expected) && Array.isArray(found) === Array.isArray(expected)) {
    for (const name of new Set([...Object.keys(expected), ...Object.keys(found)])) {
      const [a, b] = [(found as Record<string, unknown>)[name], (expected as Record<string, unknown>)[name]];
      if (!isDeepStrictEqual(a, b)) return difference(a, b, at === '' ? name : `${at}.${name}`);
    }
  }
  return `${at === '' ? '' : `at ${at} `}must be ${short(expected)}, but is ${short(found)}`;
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;
const short = (value: unknown): string => {
  const written = JSON.stringify(value) ?? 'absent';
  return written.length > 300 ? `${written.slice(0, 300)}…` : written;
};
