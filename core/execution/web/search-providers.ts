import type { Config } from '#core/base/config.ts';
import type { Json } from '#core/base/json.ts';
import type { OutboundExchange } from '#core/ports/outbound.ts';
import type { SearchProvider } from '#core/runs/run.ts';

/** A page that a search found. */
export interface SearchResult {
  readonly title: string;
  readonly url: string;
  readonly text: string;
}

interface SearchRow {
  /** Secret with its key. */
  readonly secret: string;
  request(config: Config, key: string, query: string, count: number): Omit<OutboundExchange, 'signal'>;
  /** Returns the results in an answer; what has another form is left out. */
  results(answer: Json): SearchResult[];
}

/** Providers of searches. The first one with a key is used. */
export const SEARCH_ROWS: { readonly [name in SearchProvider]: SearchRow } = {
  brave: {
    secret: 'BRAVE_API_KEY',
    request: ({ braveUrl }, key, query, count) => ({
      method: 'GET',
      url: `${braveUrl}/web/search?${new URLSearchParams({ q: query, count: String(count), text_decorations: 'false' })}`,
      headers: { accept: 'application/json', 'x-subscription-token': key },
    }),
    results: (answer) => listIn(answer, ['web', 'results']).map((each) => resultOf(each, 'description')),
  },
  tavily: {
    secret: 'TAVILY_API_KEY',
    request: ({ tavilyUrl }, key, query, count) => ({
      method: 'POST',
      url: `${tavilyUrl}/search`,
      headers: { accept: 'application/json', 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({ query, max_results: count, search_depth: 'basic' }),
    }),
    results: (answer) => listIn(answer, ['results']).map((each) => resultOf(each, 'content')),
  },
};

export const SEARCH_SECRETS: readonly string[] = Object.values(SEARCH_ROWS).map(({ secret }) => secret);

type Members = { readonly [member: string]: Json | undefined };

const membersOf = (value: Json | undefined): Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};

function listIn(answer: Json, path: readonly string[]): readonly Json[] {
  let value: Json | undefined = answer;
  for (const member of path) value = membersOf(value)[member];
  return Array.isArray(value) ? value : [];
}

function resultOf(value: Json, textMember: string): SearchResult {
  const { title, url, [textMember]: text } = membersOf(value);
  return { title: lineOf(title, 200), url: lineOf(url, 500), text: lineOf(text, 1000) };
}

const lineOf = (value: Json | undefined, max: number): string =>
  typeof value === 'string'
    ? value
        .slice(0, 4 * max)
        .replace(/\s+/g, ' ')
        .trim()
        .slice(0, max)
        .toWellFormed()
    : '';
