import type { Target } from './platform.ts';

/** A record of a stream of server-sent events, its data parsed. */
export interface StreamedRecord {
  readonly event: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into data of every shape.
  readonly data: any;
}

export interface StreamedCall {
  readonly status: number;
  readonly headers: Headers;
  /** The records as they arrive. */
  readonly records: AsyncGenerator<StreamedRecord>;
  /** The raw text received so far. */
  text(): string;
  /** Closes the connection. */
  leave(): void;
}

/** Calls an agent for its events. The parser is as strict as the known clients' (`docs/interface/calls.md#streams`). */
export async function streamCall(
  target: Pick<Target, 'url'>,
  path: string,
  { key, json, headers }: { key: string; json: unknown; headers?: Record<string, string> },
): Promise<StreamedCall> {
  const hangUp = new AbortController();
  const response = await fetch(target.url + path, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      accept: 'text/event-stream',
      ...headers,
    },
    body: JSON.stringify(json),
    signal: hangUp.signal,
  });
  let all = '';
  async function* records(): AsyncGenerator<StreamedRecord> {
    const decoder = new TextDecoder();
    let rest = '';
    for await (const chunk of response.body!) {
      const text = decoder.decode(chunk, { stream: true });
      all += text;
      const parts = (rest + text).split('\n\n');
      rest = parts.pop()!;
      for (const part of parts) {
        const match = /^event: (\w+)\ndata: (.*)$/.exec(part);
        if (match === null) throw new Error(`not a record: ${JSON.stringify(part)}`);
        yield { event: match[1]!, data: JSON.parse(match[2]!) };
      }
    }
    if (rest !== '') throw new Error(`the stream ends inside a record: ${JSON.stringify(rest)}`);
  }
  return {
    status: response.status,
    headers: response.headers,
    records: records(),
    text: () => all,
    leave: () => hangUp.abort(),
  };
}
