import { VERSION } from '#core/base/version.ts';
import type { Cli } from '../shared/cli.ts';

const REVISION = '2026-07-28';
const META = 'io.modelcontextprotocol';

/** An error that the platform's server of MCP answers with. */
export class RemoteError extends Error {
  readonly rpcCode: number;
  readonly data: unknown;

  constructor(rpcCode: number, message: string, data: unknown) {
    super(message);
    this.name = 'RemoteError';
    this.rpcCode = rpcCode;
    this.data = data;
  }
}

interface RemoteRequest {
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly meta: Readonly<Record<string, unknown>>;
}

interface Message {
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

/**
 * Sends a request to the platform's server of MCP, and returns its result. The platform cancels a call when the signal is aborted.
 *
 * Throws {@link RemoteError}, `ApiError` for an answer that is none of MCP, and the errors of `fetch`.
 */
export async function sendToPlatform(
  cli: Cli,
  { method, params, meta }: RemoteRequest,
  signal: AbortSignal,
  onNotification: (notification: Message) => void,
): Promise<Record<string, unknown>> {
  const { url, key, workspaceId } = await cli.access();
  const response = await cli.host.fetch(`${url}/mcp`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': REVISION,
      'mcp-method': method,
      ...(typeof params.name === 'string' && { 'mcp-name': params.name }),
      ...(workspaceId !== undefined && { 'x-workspace-id': workspaceId }),
      'x-cli-version': VERSION,
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method,
      params: {
        ...params,
        _meta: {
          ...meta,
          [`${META}/protocolVersion`]: REVISION,
          [`${META}/clientCapabilities`]: {},
          [`${META}/clientInfo`]: { name: 'platform-cli', version: VERSION },
        },
      },
    }),
    signal,
  });
  if ((response.headers.get('content-type') ?? '').startsWith('text/event-stream')) {
    for await (const message of messagesOf(response)) {
      if (message.method === undefined) return resultOf(message);
      onNotification(message);
    }
    throw new TypeError('terminated');
  }
  const message = (await response.json().catch(() => ({}))) as Message;
  if (typeof message.error?.code === 'number' || message.result !== undefined) return resultOf(message);
  const { ApiError } = await import('#core/api/client.ts');
  throw new ApiError(response.status, message);
}

function resultOf({ result, error }: Message): Record<string, unknown> {
  if (error !== undefined) throw new RemoteError(error.code, error.message, error.data);
  // The revision of our own client may have a type of its own.
  const { resultType: _, _meta: meta, ...rest } = result ?? {};
  const { [`${META}/serverInfo`]: __, ...kept } = (meta ?? {}) as Record<string, unknown>;
  return { ...rest, ...(Object.keys(kept).length > 0 && { _meta: kept }) };
}

/** Yields the messages of an event stream: each is one line of data. */
async function* messagesOf({ body }: Response): AsyncGenerator<Message> {
  let text = '';
  for await (const chunk of (body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream())) {
    const lines = `${text}${chunk}`.split('\n');
    text = lines.pop()!;
    for (const line of lines) {
      if (line.startsWith('data: ') && line.length > 'data: '.length) yield JSON.parse(line.slice(6)) as Message;
    }
  }
}
