import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Json } from '#core/base/json.ts';

const MODERN = '2026-07-28';
const SESSION = '2025-11-25';
const OLD = '2024-11-05';

export interface ScriptedTool {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema?: Record<string, unknown>;
  readonly outputSchema?: Record<string, unknown>;
  readonly annotations?: Record<string, unknown>;
  /** The result of `tools/call`. @default - the arguments as text */
  readonly result?: Record<string, unknown> | ((args: Record<string, Json>) => Record<string, unknown>);
}

/** Behavior of the server instead of an answer. */
export type McpFault =
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: string | Uint8Array }
  /** Reads the request and never answers. */
  | { readonly hang: true }
  /** Sends the head and `events` of a stream, then hangs. */
  | { readonly hangAfter: readonly unknown[] }
  /** Sends the head and part of a stream, then ends it or resets the connection. */
  | { readonly breakOff: 'end' | 'reset' }
  /** Sends an answer of this many bytes. */
  | { readonly huge: number }
  | { readonly error: { readonly code: number; readonly message: string } }
  /** Sends a request to the client before the answer; the form depends on the revision. */
  | { readonly ask: 'sampling/createMessage' | 'elicitation/create' };

export interface McpRequest {
  /** HTTP method. */
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  /** JSON-RPC method; HTTP method for requests without a body. */
  readonly rpc: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape.
  readonly body: any;
}

export interface ScriptedMcp {
  readonly url: string;
  /** All requests, oldest first. */
  readonly requests: readonly McpRequest[];
  /** The methods of {@link requests}. */
  readonly methods: readonly string[];
  /** Replaces the list of tools. */
  setTools(tools: readonly ScriptedTool[]): void;
  /** Applies the fault to the next `times` requests of this method. @default - all */
  fault(rpc: string, fault: McpFault, times?: number): void;
  /** Resolves with the next request of this method. */
  asked(rpc: string): Promise<McpRequest>;
  /** Ends the event streams of `sse`. */
  breakStreams(): void;
  /** Returns the number of open connections. */
  connections(): Promise<number>;
  close(): void;
}

export interface ScriptedMcpOptions {
  /**
   * `modern` is 2026-07-28, without sessions; `session` is 2025-11-25; `sse` is 2024-11-05, which answers on one event
   * stream. @default 'modern'
   */
  readonly revision?: 'modern' | 'session' | 'sse';
  /** For `sse`: the address for messages that the server tells. @default - its own `/messages` */
  readonly endpoint?: string;
  /** @default 'json' */
  readonly answers?: 'json' | 'sse';
  readonly tools?: readonly ScriptedTool[];
  /** Number of tools on each page of the list. */
  readonly pageSize?: number;
  /** Required value of `authorization`. */
  readonly authorization?: string;
}

/** Starts a scripted Model Context Protocol server, which refuses requests that are invalid in its revision. */
export async function startScriptedMcp(options: ScriptedMcpOptions = {}): Promise<ScriptedMcp> {
  const server = new Script(options);
  const http = createServer((request, response) => void server.serve(request, response));
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    requests: server.requests,
    get methods() {
      return server.requests.map(({ rpc }) => rpc);
    },
    setTools(tools) {
      server.tools = tools;
    },
    fault: (rpc, fault, times = Number.POSITIVE_INFINITY) => void server.faults.set(rpc, { fault, times }),
    asked: (rpc) => server.asked(rpc),
    connections: () => new Promise((resolve) => http.getConnections((_, count) => resolve(count))),
    breakStreams: () => server.breakStreams(),
    close() {
      http.close();
      http.closeAllConnections();
    },
  };
}

class Script {
  tools: readonly ScriptedTool[];
  readonly requests: McpRequest[] = [];
  readonly faults = new Map<string, { readonly fault: McpFault; times: number }>();
  readonly #options: ScriptedMcpOptions;
  readonly #isModern: boolean;
  readonly #sessions = new Set<string>();
  /** Event streams of `sse`, by session. */
  readonly #streams = new Map<string, ServerResponse>();
  readonly #waiting: { readonly rpc: string; readonly resolve: (request: McpRequest) => void }[] = [];

  constructor(options: ScriptedMcpOptions) {
    this.#options = options;
    this.#isModern = options.revision === undefined || options.revision === 'modern';
    this.tools = options.tools ?? [];
  }

  asked(rpc: string): Promise<McpRequest> {
    return new Promise((resolve) => this.#waiting.push({ rpc, resolve }));
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = Buffer.concat(await request.toArray()).toString();
    const body = text === '' ? undefined : JSON.parse(text);
    const { method = '', headers } = request;
    const rpc: string = body?.method ?? (body === undefined ? method : 'answer');
    const received = { method, headers, rpc, body };
    this.requests.push(received);
    for (const [index, { rpc: wanted, resolve }] of this.#waiting.entries()) {
      if (wanted !== rpc) continue;
      this.#waiting.splice(index, 1);
      resolve(received);
      break;
    }
    if (this.#options.revision === 'sse') return this.#serveOld(request.url ?? '', received, response);
    const refusal = this.#refusal(received);
    if (refusal !== undefined) return void response.writeHead(refusal).end('{}');
    const entry = this.faults.get(rpc);
    if (entry !== undefined && entry.times-- > 0) return this.#fail(entry.fault, body, response);
    if (method === 'DELETE') {
      this.#sessions.delete(headers['mcp-session-id'] as string);
      return void response.writeHead(204).end();
    }
    if (body.id === undefined || body.method === undefined) return void response.writeHead(202).end();
    this.#answer(response, this.#reply(body, response));
  }

  breakStreams(): void {
    for (const stream of this.#streams.values()) stream.end();
  }

  #serveOld(url: string, { method, headers, rpc, body }: McpRequest, response: ServerResponse): void {
    const { authorization, endpoint } = this.#options;
    if (authorization !== undefined && headers.authorization !== authorization)
      return void response.writeHead(401).end();
    if (method === 'GET') {
      const session = crypto.randomUUID();
      this.#streams.set(session, response);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`: hello\n\nevent: endpoint\ndata: ${endpoint ?? '/messages'}?session=${session}\n\n`);
      return;
    }
    const stream = this.#streams.get(url.split('/messages?session=')[1] ?? '');
    if (stream === undefined) return void response.writeHead(405).end();
    const entry = this.faults.get(rpc);
    if (entry !== undefined && entry.times-- > 0) {
      this.#fail(entry.fault, body, 'huge' in entry.fault ? stream : response);
      return;
    }
    response.writeHead(202).end('Accepted');
    if (body.id !== undefined && body.method !== undefined) stream.write(event(this.#reply(body, response)));
  }

  /** Returns the status for a request that this revision does not accept. */
  #refusal({ method, headers, rpc, body }: McpRequest): number | undefined {
    const { authorization } = this.#options;
    if (authorization !== undefined && headers.authorization !== authorization) return 401;
    if (method === 'GET') return 405;
    if (this.#isModern) {
      if (method !== 'POST') return 405;
      const version = body?.params?._meta?.['io.modelcontextprotocol/protocolVersion'];
      const isWhole =
        version === MODERN && headers['mcp-protocol-version'] === version && headers['mcp-method'] === rpc;
      const isNamed = rpc !== 'tools/call' || headers['mcp-name'] === body.params.name;
      return body?.id === undefined || (isWhole && isNamed) ? undefined : 400;
    }
    if (rpc === 'initialize') return undefined;
    const isOpen = this.#sessions.has(headers['mcp-session-id'] as string);
    if (!isOpen) return 400;
    return headers['mcp-protocol-version'] === SESSION ? undefined : 400;
  }

  // biome-ignore lint/suspicious/noExplicitAny: a request of any method.
  #reply({ id, method, params }: any, response: ServerResponse): unknown {
    const result = (value: Record<string, unknown>) => ({
      jsonrpc: '2.0',
      id,
      result: { ...(this.#isModern && { resultType: 'complete' }), ...value },
    });
    const capabilities = { tools: { listChanged: true } };
    switch (method) {
      case 'server/discover':
        if (this.#isModern)
          return result({ supportedVersions: [MODERN], capabilities, ttlMs: 0, cacheScope: 'private' });
        break;
      case 'initialize': {
        if (this.#isModern) break;
        const session = crypto.randomUUID();
        this.#sessions.add(session);
        if (!response.headersSent) response.setHeader('mcp-session-id', session);
        const protocolVersion = this.#options.revision === 'sse' ? OLD : SESSION;
        return result({ protocolVersion, capabilities, serverInfo: { name: 'scripted', version: '1' } });
      }
      case 'tools/list': {
        const size = this.#options.pageSize ?? this.tools.length;
        const from = Number(params?.cursor ?? 0);
        const page = this.tools.slice(from, from + size);
        const isLast = from + size >= this.tools.length;
        return result({
          tools: page.map(({ result, inputSchema = { type: 'object' }, ...tool }) => ({ ...tool, inputSchema })),
          ...(!isLast && { nextCursor: String(from + size) }),
          ...(this.#isModern && { ttlMs: 0, cacheScope: 'private' }),
        });
      }
      case 'tools/call': {
        const tool = this.tools.find(({ name }) => name === params.name);
        if (tool === undefined) {
          return { jsonrpc: '2.0', id, error: { code: -32602, message: `Unknown tool: ${params.name}` } };
        }
        const given = typeof tool.result === 'function' ? tool.result(params.arguments) : tool.result;
        return result(given ?? { content: [{ type: 'text', text: JSON.stringify(params.arguments) }] });
      }
    }
    return { jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } };
  }

  #answer(response: ServerResponse, message: unknown): void {
    if (this.#options.answers === 'sse') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const notice = { jsonrpc: '2.0', method: 'notifications/tools/list_changed' };
      if (!this.#isModern) response.write(event(notice, 'first'));
      response.end(event(message));
      return;
    }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(message));
  }

  // biome-ignore lint/suspicious/noExplicitAny: a request of any method.
  #fail(fault: McpFault, body: any, response: ServerResponse): void {
    const stream = () => response.writeHead(200, { 'content-type': 'text/event-stream' });
    if ('hang' in fault) return;
    if ('status' in fault) {
      response.writeHead(fault.status, fault.headers).end(fault.body ?? '');
    } else if ('hangAfter' in fault) {
      stream().write(fault.hangAfter.map((each) => event(each)).join('') || ': still at work\n\n');
    } else if ('breakOff' in fault) {
      stream().write(`${event({ jsonrpc: '2.0', method: 'notifications/message' }, 'e1')}data: {"jsonrpc":"2`, () =>
        fault.breakOff === 'end' ? response.end() : response.destroy(),
      );
    } else if ('huge' in fault) {
      const result = { content: [{ type: 'text', text: 'x'.repeat(fault.huge) }] };
      const message = { jsonrpc: '2.0', id: body.id, result };
      if (response.headersSent) return void response.write(event(message));
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(message));
    } else if ('error' in fault) {
      this.#answer(response, { jsonrpc: '2.0', id: body.id, error: fault.error });
    } else if (this.#isModern) {
      const inputRequests = { q1: { method: fault.ask, params: ASKED[fault.ask] } };
      this.#answer(response, { jsonrpc: '2.0', id: body.id, result: { resultType: 'input_required', inputRequests } });
    } else {
      stream().write(event({ jsonrpc: '2.0', id: 'ask-1', method: fault.ask, params: ASKED[fault.ask] }));
      void this.asked('answer').then(({ body: answer }) => {
        const text = `The client said: ${answer.error?.message ?? 'yes'}`;
        response.end(event({ jsonrpc: '2.0', id: body.id, result: { content: [{ type: 'text', text }] } }));
      });
    }
  }
}

const ASKED = {
  'sampling/createMessage': { messages: [{ role: 'user', content: { type: 'text', text: 'Hi' } }], maxTokens: 10 },
  'elicitation/create': { message: 'Which one?', requestedSchema: { type: 'object', properties: {} } },
};

const event = (message: unknown, id?: string): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: message\ndata: ${JSON.stringify(message)}\n\n`;
