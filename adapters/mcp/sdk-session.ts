import type {
  CallToolResult,
  Client,
  JsonSchemaValidator,
  StreamableHTTPClientTransport,
  Tool,
} from '@modelcontextprotocol/client';
import { hasCode } from '#core/base/errors.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { OutboundExchanges } from '#core/ports/outbound.ts';
import {
  type ServerResult,
  type ServerResultPart,
  type ServerTool,
  type ToolServerAddress,
  ToolServerFailure,
  type ToolServerSession,
} from '#core/ports/tool-servers.ts';
import { BROKEN_ANSWER, outboundFetch } from './outbound-fetch.ts';
import { Unasked } from './unasked.ts';

const CLIENT = { name: 'agent-platform', version: '1.0.0' };
/** Maximum size of all responses until the tools are listed. */
const MAX_OPENING_BYTES = 2 * 1024 * 1024;
/** Maximum size of one result: the largest image that models accept has 5 MB in Base64. */
const MAX_RESULT_BYTES = 6 * 1024 * 1024;
const MAX_PAGES = 10;
/** Maximum length of the server's text in an error. */
const MAX_ERROR_CHARACTERS = 500;
/** Timeout for the request that ends a session. */
const CLOSE_MS = 2000;
/** Disables the SDK's own timeouts, which do not follow the platform's clock. Signals end requests instead. */
const NO_TIMEOUT = 2 ** 31 - 1;

type Sdk = typeof import('@modelcontextprotocol/client');

export interface SessionDeps {
  readonly outbound: OutboundExchanges;
  readonly clock: Clock;
}

/**
 * Opens a session with the SDK, which knows the protocol revisions: it tries `server/discover` and falls back to
 * `initialize`. All requests use the port `outbound`. Throws the errors of `ToolServers.open`.
 */
export async function openSession(
  { outbound, clock }: SessionDeps,
  { url, headers }: ToolServerAddress,
  signal: AbortSignal,
): Promise<ToolServerSession> {
  const sdk = await import('@modelcontextprotocol/client');
  const ended = new AbortController();
  const stop = () => ended.abort(signal.reason);
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop, { once: true });
  let bytesLeft = MAX_OPENING_BYTES;
  let failure: ToolServerFailure | undefined;
  const unasked = new Unasked((flood) => ended.abort(flood));
  const fetch = outboundFetch({
    outbound,
    ended: ended.signal,
    maxBytes: () => Math.min(bytesLeft, MAX_RESULT_BYTES),
    onBytes(length) {
      bytesLeft -= length;
    },
    onFailure(error) {
      failure ??= error;
    },
    onAnswering: unasked.answering,
  });
  const transport = new sdk.StreamableHTTPClientTransport(new URL(url), { requestInit: { headers }, fetch });
  // The SDK calls this handler before its own ones.
  transport.onmessage = unasked.take;
  transport.onerror = () => unasked.take();
  const client = new sdk.Client(CLIENT, {
    versionNegotiation: { mode: 'auto' },
    enforceStrictCapabilities: true,
    inputRequired: { autoFulfill: false },
    listMaxPages: MAX_PAGES,
    jsonSchemaValidator: acceptAll,
  });
  try {
    await client.connect(transport, { timeout: NO_TIMEOUT });
    const { tools } = await client.listTools(undefined, { timeout: NO_TIMEOUT });
    bytesLeft = Number.POSITIVE_INFINITY;
    return new McpSession(sdk, { client, transport, tools, ended, unasked, clock });
  } catch (error) {
    await client.close().catch(() => {});
    ended.abort(CLOSED);
    signal.throwIfAborted();
    throw unasked.failure ?? failure ?? failureOf(sdk, error);
  } finally {
    signal.removeEventListener('abort', stop);
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

class McpSession implements ToolServerSession {
  readonly tools: readonly ServerTool[];
  readonly #sdk: Sdk;
  readonly #client: Client;
  readonly #transport: StreamableHTTPClientTransport;
  readonly #definitions: ReadonlyMap<string, Tool>;
  readonly #ended: AbortController;
  readonly #unasked: Unasked;
  readonly #clock: Clock;

  constructor(
    sdk: Sdk,
    {
      client,
      transport,
      tools,
      ended,
      unasked,
      clock,
    }: {
      readonly client: Client;
      readonly transport: StreamableHTTPClientTransport;
      readonly tools: readonly Tool[];
      readonly ended: AbortController;
      readonly unasked: Unasked;
      readonly clock: Clock;
    },
  ) {
    this.#sdk = sdk;
    this.#client = client;
    this.#transport = transport;
    this.#ended = ended;
    this.#unasked = unasked;
    this.#clock = clock;
    this.tools = tools.map(serverTool);
    // With a definition present the SDK neither lists the tools again nor repeats a call.
    this.#definitions = new Map(tools.map(({ outputSchema, ...tool }) => [tool.name, tool]));
  }

  async call({ name }: ServerTool, input: Parameters<ToolServerSession['call']>[1], signal: AbortSignal) {
    signal.throwIfAborted();
    this.#unasked.reset();
    try {
      const result = await this.#client.callTool(
        { name, arguments: input },
        { signal, timeout: NO_TIMEOUT, toolDefinition: this.#definitions.get(name)! },
      );
      return serverResult(result);
    } catch (error) {
      signal.throwIfAborted();
      throw this.#unasked.failure ?? failureOf(this.#sdk, error);
    }
  }

  async close(): Promise<void> {
    const over = new AbortController();
    const tooLate = this.#clock.sleep(CLOSE_MS, over.signal).then(
      () => this.#ended.abort(CLOSED),
      () => {},
    );
    // Servers of the current revision have no session, and others may refuse to end theirs.
    await this.#transport.terminateSession().catch(() => {});
    over.abort();
    await tooLate;
    await this.#client.close().catch(() => {});
    this.#ended.abort(CLOSED);
  }
}

const serverTool = ({ name, title, description, inputSchema, annotations }: Tool): ServerTool => ({
  name,
  description: description ?? title ?? annotations?.title ?? '',
  inputSchema,
  ...(annotations?.readOnlyHint !== undefined && { isReadOnly: annotations.readOnlyHint }),
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

function failureOf(sdk: Sdk, error: unknown): ToolServerFailure {
  if (hasCode(error, 'TOOL_SERVER_FAILED')) return error as ToolServerFailure;
  if (sdk.SdkHttpError.isInstance(error)) return statusFailure(error.data.status);
  if (sdk.ProtocolError.isInstance(error)) {
    const text = error.message.slice(0, MAX_ERROR_CHARACTERS);
    if (error.code === BROKEN_ANSWER) return new ToolServerFailure(text, { isTransient: true });
    return new ToolServerFailure(`it answered with the error ${error.code}: ${text}`);
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

function statusFailure(status: number): ToolServerFailure {
  const isRefusal = status === 401 || status === 403;
  const isTransient = status === 408 || status === 429 || status >= 500;
  return new ToolServerFailure(`it answered ${status}${isRefusal ? ': it refuses the headers' : ''}`, { isTransient });
}
