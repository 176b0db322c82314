import type { CallToolResult, Client, ClientOptions, JsonSchemaValidator, Tool } from '@modelcontextprotocol/client';
import { hasCode } from '#core/base/errors.ts';
import type { TraceHeaders } from '#core/base/trace-context.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { OutboundExchanges } from '#core/ports/outbound.ts';
import {
  type ServerResult,
  type ServerResultPart,
  type ServerTool,
  type ToolServerAddress,
  ToolServerFailure,
  type ToolServerProcess,
  type ToolServerSession,
} from '#core/ports/tool-servers.ts';
import { httpLink, sseLink } from './http-link.ts';
import type { Link, LinkOptions, Sdk } from './link.ts';
import { BROKEN_ANSWER } from './outbound-fetch.ts';
import { stdioLink } from './stdio-link.ts';
import { Unasked } from './unasked.ts';

const CLIENT = { name: 'agent-platform', version: '1.0.0' };
const MAX_PAGES = 10;
/** Maximum length of the server's text in an error. */
const MAX_ERROR_CHARACTERS = 500;
/** Maximum length of the platform's own text, which may contain the end of a process's stderr. */
const MAX_OWN_ERROR_CHARACTERS = 2000;
/** Timeout for the request that ends a session. */
const CLOSE_MS = 2000;
/** Disables the SDK's own timeouts, which do not follow the platform's clock. Signals end requests instead. */
const NO_TIMEOUT = 2 ** 31 - 1;
/** The revision of servers that do not know `initialize`. */
const MODERN = '2026-07-28';
/** Errors with which such a server answers `initialize`: an invalid request, an unknown method, a missing revision. */
const OF_NEW_SERVERS = [-32_600, -32_601, -32_602, -32_022];
/** Statuses with which a server of the revision 2024-11-05 answers a `POST` to its address. */
const OF_OLD_SERVERS = [400, 404, 405];

export interface SessionDeps {
  readonly outbound: OutboundExchanges;
  readonly clock: Clock;
}

type Negotiation = NonNullable<NonNullable<ClientOptions['versionNegotiation']>['mode']>;

interface Way {
  readonly mode: Negotiation;
  link(sdk: Sdk, options: LinkOptions): Link;
}

/**
 * Opens a session with the SDK, which knows the protocol revisions. Over HTTP it tries `server/discover` and falls back
 * to `initialize`; a process is asked to `initialize` first, because some servers end at any other message. All
 * requests use the port `outbound`, or the process. Throws the errors of `ToolServers.open`.
 */
export async function openSession(
  deps: SessionDeps,
  server: ToolServerAddress | ToolServerProcess,
  signal: AbortSignal,
): Promise<ToolServerSession> {
  const sdk = await import('@modelcontextprotocol/client');
  if (!('url' in server)) {
    const link: Way['link'] = (sdk, options) => stdioLink(sdk, server, options);
    return open(sdk, deps, { mode: 'legacy', link }, signal).catch((error: unknown) => {
      if (!hasAnswered(error, OF_NEW_SERVERS)) throw error;
      return open(sdk, deps, { mode: { pin: MODERN }, link }, signal);
    });
  }
  const outbound = server.exchanges ?? deps.outbound;
  const sse: Way = { mode: 'legacy', link: (sdk, options) => sseLink(sdk, outbound, server, options) };
  if (server.transport === 'sse') return open(sdk, deps, sse, signal);
  const http: Way = { mode: 'auto', link: (sdk, options) => httpLink(sdk, outbound, server, options) };
  return open(sdk, deps, http, signal).catch(async (error: unknown) => {
    // https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#backwards-compatibility
    if (server.transport !== undefined || !hasAnswered(error, OF_OLD_SERVERS)) throw error;
    return open(sdk, deps, sse, signal).catch((other: unknown) => {
      // A server that has no event stream either is not an old one: its first answer tells more.
      throw other instanceof AnsweredFailure ? error : other;
    });
  });
}

/** Opens a session in one way. Throws {@link AnsweredFailure} if the server has refused. */
async function open(sdk: Sdk, { clock }: SessionDeps, { mode, link: linkOf }: Way, signal: AbortSignal) {
  signal.throwIfAborted();
  const ended = new AbortController();
  const stop = () => ended.abort(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  const unasked = new Unasked((flood) => ended.abort(flood));
  const link = linkOf(sdk, { ended: ended.signal, answering: unasked.answering });
  const { transport } = link;
  // The SDK calls this handler before its own ones.
  transport.onmessage = unasked.take;
  transport.onerror = () => unasked.take();
  const client = new sdk.Client(CLIENT, {
    versionNegotiation: { mode },
    enforceStrictCapabilities: true,
    inputRequired: { autoFulfill: false },
    listMaxPages: MAX_PAGES,
    jsonSchemaValidator: acceptAll,
  });
  try {
    await untilAborted(client.connect(transport, { timeout: NO_TIMEOUT }), ended.signal);
    const { tools } = await untilAborted(client.listTools(undefined, { timeout: NO_TIMEOUT }), ended.signal);
    link.opened();
    return new McpSession(sdk, { client, link, tools, ended, unasked, clock });
  } catch (error) {
    await client.close().catch(() => {});
    ended.abort(CLOSED);
    signal.throwIfAborted();
    throw unasked.failure ?? link.failure() ?? failureOf(sdk, error, link.challenge?.());
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** Rejects once the signal is aborted: some transports do not end a request with its connection. */
async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => aborted.reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

const CLOSED = new Error('the session is closed');
/**
 * The SDK would evaluate the server's schemas on the event loop without a time limit. The model can read results in any
 * form.
 */
const acceptAll = {
  getValidator<T>(): JsonSchemaValidator<T> {
    return (data) => ({ valid: true, data: data as T, errorMessage: undefined });
  },
};

interface Opened {
  readonly client: Client;
  readonly link: Link;
  readonly tools: readonly Tool[];
  readonly ended: AbortController;
  readonly unasked: Unasked;
  readonly clock: Clock;
}

class McpSession implements ToolServerSession {
  readonly tools: readonly ServerTool[];
  readonly #sdk: Sdk;
  readonly #opened: Opened;
  readonly #definitions: ReadonlyMap<string, Tool>;
  /** Number of calls that wait for an answer. */
  #calls = 0;

  constructor(sdk: Sdk, opened: Opened) {
    this.#sdk = sdk;
    this.#opened = opened;
    this.tools = opened.tools.map(serverTool);
    // With a definition present the SDK neither lists the tools again nor repeats a call.
    this.#definitions = new Map(opened.tools.map(({ outputSchema, ...tool }) => [tool.name, tool]));
  }

  async call(
    { name }: ServerTool,
    input: Parameters<ToolServerSession['call']>[1],
    signal: AbortSignal,
    trace?: TraceHeaders,
  ) {
    const { client, link, unasked } = this.#opened;
    signal.throwIfAborted();
    unasked.reset();
    this.#calls++;
    link.beforeCall?.(this.#calls);
    try {
      const result = await client.callTool(
        { name, arguments: input, ...(trace && { _meta: { ...trace } }) },
        { signal, timeout: NO_TIMEOUT, toolDefinition: this.#definitions.get(name)! },
      );
      return serverResult(result);
    } catch (error) {
      signal.throwIfAborted();
      throw unasked.failure ?? link.broken?.() ?? failureOf(this.#sdk, error, link.challenge?.());
    } finally {
      this.#calls--;
    }
  }

  async close(): Promise<void> {
    const { client, link, ended, clock } = this.#opened;
    const over = new AbortController();
    const tooLate = clock.sleep(CLOSE_MS, over.signal).then(
      () => ended.abort(CLOSED),
      () => {},
    );
    await link.end().catch(() => {});
    over.abort();
    await tooLate;
    await client.close().catch(() => {});
    ended.abort(CLOSED);
  }
}

const serverTool = ({ name, title, description, inputSchema, annotations }: Tool): ServerTool => ({
  name,
  description: description ?? title ?? annotations?.title ?? '',
  inputSchema,
  ...(annotations?.readOnlyHint !== undefined && { isReadOnly: annotations.readOnlyHint }),
  ...(annotations?.destructiveHint !== undefined && { isDestructive: annotations.destructiveHint }),
});

function serverResult({ content, structuredContent, isError = false }: CallToolResult): ServerResult {
  const parts = content.map(resultPart);
  // Servers should repeat it as text; the model needs it once.
  if (structuredContent !== undefined && !parts.some(({ type }) => type === 'text')) {
    parts.push({ type: 'text', text: JSON.stringify(structuredContent) });
  }
  return { isError, parts };
}

function resultPart(block: CallToolResult['content'][number]): ServerResultPart {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: block.text };
    case 'image':
    case 'audio':
      return { type: 'file', mediaType: block.mimeType, bytes: Buffer.from(block.data, 'base64') };
    case 'resource_link':
      return { type: 'text', text: `${block.name}: ${block.uri}` };
    case 'resource': {
      const { resource } = block;
      if ('text' in resource) return { type: 'text', text: `${resource.uri}:\n${resource.text}` };
      const mediaType = resource.mimeType ?? 'application/octet-stream';
      return { type: 'file', mediaType, bytes: Buffer.from(resource.blob, 'base64') };
    }
  }
}

/** A failure that the server's own answer tells: an HTTP status, or the code of an error of JSON-RPC, which is negative. */
class AnsweredFailure extends ToolServerFailure {
  readonly answer: number;

  constructor(message: string, answer: number, options: ConstructorParameters<typeof ToolServerFailure>[1] = {}) {
    super(message, options);
    this.answer = answer;
  }
}

const hasAnswered = (error: unknown, answers: readonly number[]): boolean =>
  error instanceof AnsweredFailure && answers.includes(error.answer);

function failureOf(sdk: Sdk, error: unknown, challenge?: string): ToolServerFailure {
  if (hasCode(error, 'TOOL_SERVER_FAILED')) return error as ToolServerFailure;
  if (sdk.SdkHttpError.isInstance(error)) return statusFailure(error.data.status, challenge);
  if (sdk.InsufficientScopeError.isInstance(error)) return statusFailure(403, challenge);
  if (error instanceof sdk.SseError && error.code !== undefined && error.code !== 200) return statusFailure(error.code);
  if (sdk.ProtocolError.isInstance(error)) {
    if (error.code === BROKEN_ANSWER) {
      return new ToolServerFailure(error.message.slice(0, MAX_OWN_ERROR_CHARACTERS), { isTransient: true });
    }
    const text = error.message.slice(0, MAX_ERROR_CHARACTERS);
    // The body of a refusal may be an error of the protocol.
    return new AnsweredFailure(`it answered with the error ${error.code}: ${text}`, error.code, { challenge });
  }
  const { SdkErrorCode } = sdk;
  switch (sdk.SdkError.isInstance(error) ? error.code : undefined) {
    case SdkErrorCode.UnsupportedResultType:
      return new ToolServerFailure('it asks for further input from a person or a model, which a run cannot give');
    case SdkErrorCode.CapabilityNotSupported:
      return new ToolServerFailure('it has no tools');
    case SdkErrorCode.ListPaginationExceeded:
      return new ToolServerFailure(`its list of tools has more than ${MAX_PAGES} pages`);
    default: {
      const text = error instanceof Error ? error.message.slice(0, MAX_ERROR_CHARACTERS) : '';
      return new ToolServerFailure(`its answer is none of the Model Context Protocol: ${text}`);
    }
  }
}

function statusFailure(status: number, challenge?: string): ToolServerFailure {
  const isRefusal = status === 401 || status === 403;
  const isTransient = status === 408 || status === 429 || status >= 500;
  const text = `it answered ${status}${isRefusal ? ': it refuses the headers' : ''}`;
  return new AnsweredFailure(text, status, { isTransient, ...(isRefusal && { challenge }) });
}
