import { writeFileSync } from 'node:fs';
import { Router } from '#core/api/router.ts';
import { routes } from '#core/api/routes.ts';
import { isRaw, type Route } from '#core/http/route.ts';
import { fullest, madeUp } from './made-up.ts';

interface Exchange {
  readonly status: number;
  /** A body without a schema is `data`, as `fullest` reads it. */
  readonly request?: { readonly data: unknown } | { readonly body: unknown };
  readonly response?: unknown;
}

const RECORDED = new URL('../../core/api/examples.json', import.meta.url);
/** Words that only the tests' scripted model understands or says. */
const SCRIPTED = /\[\[llm|[Ss]cripted|PLATFORM_/;
/** Operations whose answer is the document with the examples. */
const NOT_RECORDED = ['getOpenApi', 'getAgentOpenApi', 'getEditorSchema'];

/**
 * Records the requests of this process to a platform. The returned function chooses an example for each operation and
 * writes them for the OpenAPI document (`core/api/examples.ts`).
 */
export function watchExamples(url: string): () => Promise<void> {
  const exchanges = new Map<Route, Exchange[]>();
  const reading: Promise<void>[] = [];
  const router = new Router(routes as readonly Route[]);
  const { fetch } = globalThis;
  globalThis.fetch = async (input, init) => {
    const response = await fetch(input, init);
    const address = new URL(input instanceof Request ? input.url : input);
    const row = router.find(address.pathname)?.rows.get(init?.method ?? 'GET');
    if (address.origin !== url || row === undefined || !response.ok) return response;
    const isJson = response.headers.get('content-type')?.startsWith('application/json') ?? false;
    const copy = isJson ? response.clone() : undefined;
    const read = async () => {
      const request = sentBy(row, init?.body);
      const exchange = {
        status: response.status,
        ...(request !== undefined && { request }),
        ...(copy && { response: await copy.json() }),
      };
      exchanges.set(row, [...(exchanges.get(row) ?? []), madeUp(exchange) as Exchange]);
    };
    // A client may end a connection before the end of the answer.
    reading.push(read().catch(() => {}));
    return response;
  };
  return async () => {
    globalThis.fetch = fetch;
    await Promise.all(reading);
    const examples = (routes as readonly Route[])
      .filter((row) => exchanges.has(row) && !NOT_RECORDED.includes(row.operationId))
      .map((row) => [row.operationId, exampleOf(exchanges.get(row)!)] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1));
    writeFileSync(RECORDED, `${JSON.stringify(Object.fromEntries(examples), null, 2)}\n`);
  };
}

/** Returns the JSON body of a request to an operation that takes one. */
function sentBy({ request }: Route, body: unknown): Exchange['request'] {
  if (request?.body === undefined || typeof body !== 'string') return undefined;
  try {
    const sent = JSON.parse(body);
    return isRaw(request.body) ? { data: sent } : { body: sent };
  } catch {
    return undefined;
  }
}

/**
 * Chooses for each status the answer with the most fields, preferably without scripted words, and the request with the
 * most fields.
 */
function exampleOf(exchanges: readonly Exchange[]): object {
  const byStatus = Map.groupBy(exchanges, ({ status }) => status);
  const best = [...byStatus]
    .sort(([a], [b]) => a - b)
    .map(([, some]) => {
      const plain = some.filter((each) => !SCRIPTED.test(JSON.stringify(each)));
      return fullest(plain.length > 0 ? plain : some);
    });
  const says = ({ request }: Exchange) => Object.keys(Object.values(request ?? {})[0] ?? {}).length > 0;
  const sent = [
    best.filter(says),
    exchanges.filter(says),
    exchanges.filter(({ request }) => request !== undefined),
  ].find((some) => some.length > 0);
  const [request] = sent === undefined ? [] : Object.values(fullest(sent).request!);
  const answers = best.filter(({ response }) => response !== undefined);
  return {
    ...(request !== undefined && { request }),
    ...(answers.length > 0 && {
      responses: Object.fromEntries(answers.map(({ status, response }) => [status, response])),
    }),
  };
}
