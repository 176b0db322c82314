import type { Target } from './platform.ts';

/** Record of a stream of server-sent events, with parsed data. */
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

/**
 * Calls an agent and streams its events. The parser is as strict as those of known clients
 * (`docs/interface/calls.md#streams`).
 */
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

/** An event of `core/events`, as a stream sends it. */
export interface Followed {
  readonly id: string;
  readonly type: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into data of every shape.
  readonly data: any;
}

export interface Follower {
  readonly status: number;
  readonly headers: Headers;
  /** The events as they arrive, until the stream ends. */
  readonly events: AsyncGenerator<Followed>;
  /** Closes the connection. */
  leave(): void;
}

/** Opens a stream of `core/events`. */
export async function follow(
  target: Pick<Target, 'url'>,
  path: string,
  { key, after }: { readonly key: string; readonly after?: string | undefined },
): Promise<Follower> {
  const hangUp = new AbortController();
  const response = await fetch(target.url + path, {
    headers: {
      authorization: `Bearer ${key}`,
      accept: 'text/event-stream',
      ...(after !== undefined && { 'last-event-id': after }),
    },
    signal: hangUp.signal,
  });
  async function* events(): AsyncGenerator<Followed> {
    const decoder = new TextDecoder();
    let rest = '';
    for await (const chunk of response.body!) {
      const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n\n');
      rest = parts.pop()!;
      for (const part of parts) {
        if (/^(: heartbeat|retry: \d+)$/.test(part)) continue;
        const match = /^(?:id: (\S+)\n)?event: (\w+(?:\.\w+)*)\ndata: (.*)$/.exec(part);
        if (match === null) throw new Error(`not a record: ${JSON.stringify(part)}`);
        const value = JSON.parse(match[3]!);
        if (match[1] === undefined) yield { id: '', type: match[2]!, data: value };
        else {
          if (value.id !== match[1] || value.type !== match[2])
            throw new Error(`a record that contradicts itself: ${part}`);
          yield value;
        }
      }
    }
  }
  return { status: response.status, headers: response.headers, events: events(), leave: () => hangUp.abort() };
}

/** Returns all events of a stream, reconnecting after every `every` events. */
export async function followWithCuts(
  target: Pick<Target, 'url'>,
  path: string,
  { key, every }: { readonly key: string; readonly every: number },
): Promise<Followed[]> {
  const all: Followed[] = [];
  let after: string | undefined;
  for (;;) {
    const follower = await follow(target, path, { key, after });
    let left = every;
    for await (const event of follower.events) {
      all.push(event);
      if (event.type === 'end' || event.type === 'error') return all;
      after = event.id;
      if (--left === 0) break;
    }
    follower.leave();
  }
}
