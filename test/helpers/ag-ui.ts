import type { Answer, Target } from './platform.ts';

export interface AgUiMessage {
  readonly id: string;
  readonly role: string;
  readonly content: unknown;
}

/** An event of AG-UI with its id in the stream; empty if it has none. */
export interface StreamedEvent {
  readonly id: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into events of every type.
  readonly event: any;
}

/** Sends a `RunAgentInput` and reads its stream, to its end or to the event that `until` finds. */
export async function postAgUi(
  target: Pick<Target, 'url'>,
  path: string,
  {
    key,
    json,
    headers,
    until,
  }: {
    readonly key: string;
    readonly json: object;
    readonly headers?: Record<string, string>;
    readonly until?: (event: StreamedEvent) => boolean;
  },
): Promise<{ readonly answer: Answer; readonly events: readonly StreamedEvent[] }> {
  const response = await fetch(target.url + path, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      accept: 'text/event-stream',
      ...headers,
    },
    body: JSON.stringify(json),
  });
  const { status } = response;
  if (status !== 200) {
    return { answer: { status, headers: response.headers, body: await response.json() }, events: [] };
  }
  const events: StreamedEvent[] = [];
  const decoder = new TextDecoder();
  let rest = '';
  reading: for await (const chunk of response.body!) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n\n');
    rest = parts.pop()!;
    for (const part of parts) {
      if (part === ': heartbeat') continue;
      const match = /^(?:id: (\S+)\n)?data: (.*)$/.exec(part);
      if (match === null) throw new Error(`not an event: ${JSON.stringify(part)}`);
      const event = { id: match[1] ?? '', event: JSON.parse(match[2]!) };
      events.push(event);
      // Leaving the loop closes the connection.
      if (until?.(event) === true) break reading;
    }
  }
  return { answer: { status, headers: response.headers, body: undefined }, events };
}

/** Joins texts that follow each other: their pieces are not the same each time. */
export function joined(events: readonly StreamedEvent[]): StreamedEvent[] {
  const all: StreamedEvent[] = [];
  for (const each of events) {
    const last = all.at(-1)?.event;
    const isText = /_MESSAGE_CONTENT$/.test(each.event.type) && last?.type === each.event.type;
    if (isText) all[all.length - 1] = { ...each, event: { ...each.event, delta: last.delta + each.event.delta } };
    else all.push(each);
  }
  return all;
}
