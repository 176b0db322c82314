import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export interface Recorded {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Parsed where it is JSON, else text; undefined where there is none. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
  readonly body: any;
}

export interface Recorder {
  readonly url: string;
  readonly requests: Recorded[];
  /** Answers from now on. @default 200 with `{data: {}, metadata: {}}` */
  answer: (request: Recorded, response: ServerResponse) => void;
  close(): void;
}

export function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/** A loopback server that records its requests. */
export async function startRecorder(): Promise<Recorder> {
  const server = createServer(async (incoming, response) => {
    const content = await text(incoming);
    const isJson = incoming.headers['content-type'] === 'application/json';
    const request = {
      method: incoming.method!,
      path: incoming.url!,
      headers: incoming.headers,
      body: isJson ? JSON.parse(content) : content || undefined,
    };
    recorder.requests.push(request);
    recorder.answer(request, response);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const recorder: Recorder = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: [],
    answer: (_, response) => json(response, 200, { data: {}, metadata: {} }),
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
  return recorder;
}
