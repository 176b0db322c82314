import type { Json } from '#core/base/json.ts';
import { toolServerUrlProblem } from '#core/outbound/tool-server-url.ts';
import type { SearchProvider } from '#core/runs/run.ts';
import { bytesOf, timed, type WebDeps } from './fetch-page.ts';
import { SEARCH_ROWS, type SearchResult } from './search-providers.ts';

/** Bounds of one search (`docs/interface/web-tools.md`). */
const SEARCH_SECONDS = 20;
const MAX_ANSWER_BYTES = 1024 * 1024;

/** The workspace's key of a provider of searches. */
export interface SearchKey {
  readonly provider: SearchProvider;
  readonly apiKey: string;
}

/** `problem` is a sentence for the model, and contains nothing that the provider said. */
export type Searched = { readonly results: readonly SearchResult[] } | { readonly problem: string };

/** Searches the web. Throws the reason of `signal` once it is aborted. */
export async function searchWeb(
  deps: WebDeps,
  { provider, apiKey }: SearchKey,
  { query, count }: { readonly query: string; readonly count: number },
  signal: AbortSignal,
): Promise<Searched> {
  const row = SEARCH_ROWS[provider];
  const request = row.request(deps.config, apiKey, query, count);
  const problem = toolServerUrlProblem(deps.config, request.url);
  if (problem !== undefined) return { problem: `web_search cannot ask ${provider}: ${problem}.` };
  return timed(deps, signal, SEARCH_SECONDS, async (within): Promise<Searched> => {
    const answer = await deps.exchanges.exchange({
      ...request,
      headers: { ...request.headers, ...deps.traceHeaders },
      signal: within,
    });
    const read = await bytesOf(answer, MAX_ANSWER_BYTES);
    if (answer.status !== 200) return { problem: problemOf(provider, answer.status) };
    const json = 'problem' in read || read.isCut ? undefined : parsed(read.bytes);
    if (json === undefined) return { problem: `${provider} gave an answer that is not as its documentation says.` };
    return {
      results: row
        .results(json)
        .filter(({ url }) => url !== '')
        .slice(0, count),
    };
  });
}

function problemOf(provider: SearchProvider, status: number): string {
  const { secret } = SEARCH_ROWS[provider];
  // Brave says 422 of a key that it does not know.
  if (status === 401 || status === 403 || (provider === 'brave' && status === 422))
    return `${provider} refused the key in the secret ${secret}.`;
  if (status === 429) return `${provider} allows no more searches at the moment. Go on without, or search later.`;
  if (status === 402 || status === 432 || status === 433) return `The plan of ${secret} at ${provider} is used up.`;
  return `${provider} answered ${status}.`;
}

function parsed(bytes: Buffer): Json | undefined {
  try {
    return JSON.parse(bytes.toString()) as Json;
  } catch {
    return undefined;
  }
}
