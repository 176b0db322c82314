import { readFileSync } from 'node:fs';
import type { Route } from '#core/http/route.ts';
import { type Example, WRITTEN_EXAMPLES } from './written-examples.ts';

const read = (): Record<string, Example> => JSON.parse(readFileSync(new URL('examples.json', import.meta.url), 'utf8'));

/**
 * What the OpenAPI document shows of an operation: what the suite of `test/e2e` sent and got (`test/e2e/examples.ts` writes
 * `examples.json`), and for what it does not play, examples that are written by hand.
 */
export function exampleOf({ operationId }: Pick<Route, 'operationId'>): Example {
  recorded ??= read();
  const { request, responses } = recorded[operationId] ?? {};
  const written = WRITTEN_EXAMPLES[operationId] ?? {};
  return { request: written.request ?? request, responses: { ...responses, ...written.responses } };
}
let recorded: Record<string, Example> | undefined;
