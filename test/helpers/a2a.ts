import type { Answer, Target } from './platform.ts';

// biome-ignore lint/suspicious/noExplicitAny: tests look into objects of every type.
type Any = any;

export interface A2aCall {
  readonly key?: string | undefined;
  readonly json?: unknown;
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly headers?: Record<string, string>;
  /** Ends the reading of a stream. */
  readonly until?: (event: Any) => boolean;
}

/** Sends a request of A2A, and reads its answer, or the events of its stream. */
export async function callA2a(
  target: Pick<Target, 'url'>,
  path: string,
  { key, json, method = 'POST', headers, until }: A2aCall,
): Promise<{ readonly answer: Answer; readonly events: readonly Any[] }> {
  const response = await fetch(target.url + path, {
    method,
    headers: {
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...(json !== undefined && { 'content-type': 'application/a2a+json' }),
      'a2a-version': '1.0',
      ...headers,
    },
    ...(json !== undefined && { body: JSON.stringify(json) }),
  });
  const { status } = response;
  if (response.headers.get('content-type') !== 'text/event-stream') {
    const text = await response.text();
    return { answer: { status, headers: response.headers, body: text === '' ? '' : JSON.parse(text) }, events: [] };
  }
  const events: Any[] = [];
  const decoder = new TextDecoder();
  let rest = '';
  reading: for await (const chunk of response.body!) {
    const records = (rest + decoder.decode(chunk, { stream: true })).split('\n\n');
    rest = records.pop()!;
    for (const record of records.filter((each) => each.startsWith('data: '))) {
      events.push(JSON.parse(record.slice('data: '.length)));
      // Leaving the loop closes the connection.
      if (until?.(events.at(-1)) === true) break reading;
    }
  }
  return { answer: { status, headers: response.headers, body: undefined }, events };
}
