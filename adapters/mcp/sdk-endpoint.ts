import type { McpHttpHandler, Server, ServerContext } from '@modelcontextprotocol/server';
import type { Log } from '#core/ports/deps.ts';
import {
  isMcpError,
  type McpContext,
  type McpEndpoint,
  type McpHttpAnswer,
  type McpHttpRequest,
  type McpMethod,
  type McpObject,
  type McpServing,
} from '#core/ports/mcp-endpoint.ts';

type Sdk = typeof import('@modelcontextprotocol/server');

/** Headers that the SDK reads. */
const HEADERS = ['accept', 'content-type', 'mcp-protocol-version', 'mcp-method', 'mcp-name', 'mcp-session-id'];
/** Methods whose params the SDK checks itself. */
const CHECKED = /^(tools|resources|prompts)\//;
const INTERNAL_ERROR = -32603;
/** None stays open: the SDK ends a subscription to events that the capabilities of a server do not have. */
const MAX_SUBSCRIPTIONS = 1;

/** MCP's SDK as the port. It keeps nothing between requests. */
export class SdkEndpoint implements McpEndpoint {
  readonly #sdk: Sdk;
  readonly #log: Log;
  readonly #plain: McpHttpHandler;
  readonly #streaming: McpHttpHandler;

  constructor(sdk: Sdk, { log }: { readonly log: Log }) {
    this.#sdk = sdk;
    this.#log = log;
    const handlerWith = (responseMode: 'auto' | 'sse') =>
      sdk.createMcpHandler(
        ({ authInfo, era }) => this.#serverFor(authInfo!.extra as unknown as Passed, era === 'legacy'),
        {
          responseMode,
          maxSubscriptions: MAX_SUBSCRIPTIONS,
          onerror: ({ message }) => log.debug('a request of MCP was refused', { error: message }),
        },
      );
    this.#plain = handlerWith('auto');
    this.#streaming = handlerWith('sse');
  }

  async answer({ url, headers, message }: McpHttpRequest, serving: McpServing): Promise<McpHttpAnswer> {
    const given = HEADERS.flatMap((name): [string, string][] => {
      const value = headers.get(name);
      return value === null ? [] : [[name, value]];
    });
    const left = new AbortController();
    // Without a signal: it would keep each request in memory until a full collection, and cancelling the body tells the SDK, too.
    const request = new Request(`http://platform.invalid${url}`, { method: 'POST', headers: given });
    const passed: Passed = { serving, left };
    const authInfo = { token: '', clientId: '', scopes: [], extra: passed as unknown as Record<string, unknown> };
    const handler = wantsStream(message, headers) ? this.#streaming : this.#plain;
    const response = await handler.fetch(request, { parsedBody: message, authInfo });
    const contentType = response.headers.get('content-type') ?? 'application/json';
    const { status, body } = response;
    if (body !== null && contentType.startsWith('text/event-stream')) {
      return { status, contentType, content: untilLeft(body, left) };
    }
    return { status, contentType, content: new Uint8Array(await response.arrayBuffer()) };
  }

  #serverFor({ serving, left }: Passed, isLegacy: boolean): Server {
    const { name, title, version, instructions, capabilities, methods } = serving;
    const server = new this.#sdk.Server({ name, title, version }, { instructions, capabilities });
    for (const [method, handle] of Object.entries(methods)) {
      const run = (params: McpObject, context: ServerContext) =>
        this.#run(method, handle, params, contextOf(context, { isLegacy, left: left.signal }));
      if (CHECKED.test(method)) {
        const answer = (request: { readonly params?: McpObject }, context: ServerContext) =>
          run(request.params ?? {}, context);
        server.setRequestHandler(method as 'tools/list', answer as never);
      } else {
        server.setRequestHandler(method, { params: ANY }, (params, context) => run(params as McpObject, context));
      }
    }
    return server;
  }

  async #run(method: string, handle: McpMethod, params: McpObject, context: McpContext): Promise<McpObject> {
    try {
      return await handle(params, context);
    } catch (error) {
      if (isMcpError(error)) throw new this.#sdk.ProtocolError(error.rpcCode, error.message, error.data);
      this.#log.error('request failed', { method, error: error instanceof Error ? error.stack : String(error) });
      throw new this.#sdk.ProtocolError(INTERNAL_ERROR, 'Something went wrong on our side. Try again.');
    }
  }
}

interface Passed {
  readonly serving: McpServing;
  readonly left: AbortController;
}

/** Answers a call of a tool with a stream from its beginning: its client then cancels the call by leaving. */
function wantsStream(message: unknown, headers: McpHttpRequest['headers']): boolean {
  const { method } = (message ?? {}) as { readonly method?: unknown };
  return method === 'tools/call' && (headers.get('accept') ?? '').includes('text/event-stream');
}

function contextOf(
  { mcpReq }: ServerContext,
  { isLegacy, left }: { readonly isLegacy: boolean; readonly left: AbortSignal },
): McpContext {
  const { envelope = {} } = mcpReq;
  const { 'io.modelcontextprotocol/clientCapabilities': clientCapabilities = {} } = envelope as Record<string, object>;
  return {
    requestId: mcpReq.id,
    meta: (mcpReq._meta ?? {}) as McpObject,
    clientCapabilities: clientCapabilities as McpObject,
    inputResponses: mcpReq.inputResponses,
    requestState: mcpReq.requestState<string>(),
    isLegacy,
    signal: left,
    notify(method, params) {
      void mcpReq.notify({ method, params } as never).catch(() => {});
    },
  };
}

/** Returns a stream that tells when its reader leaves before the end. Not a generator: a suspended one would learn it late. */
function untilLeft(body: ReadableStream<Uint8Array>, left: AbortController): AsyncIterable<Uint8Array> {
  const reader = body.getReader();
  const iterator: AsyncIterator<Uint8Array> = {
    async next() {
      const { done, value } = await reader.read();
      return done ? { done: true, value: undefined } : { done: false, value };
    },
    async return() {
      left.abort(new Error('the client left'));
      await reader.cancel().catch(() => {});
      return { done: true, value: undefined };
    },
  };
  return { [Symbol.asyncIterator]: () => iterator };
}

/** Accepts any params: the handlers of these methods check them. */
const ANY = {
  '~standard': { version: 1, vendor: 'platform', validate: (value: unknown) => ({ value }) },
} as const;
