import type { Json } from '#core/base/json.ts';
import type { TraceHeaders } from '#core/base/trace-context.ts';
import type { OutboundExchanges } from './outbound.ts';

/** Tool servers that authors configure. They speak the Model Context Protocol (MCP). */
export interface ToolServers {
  /**
   * Opens a session and reads the server's list of tools once.
   *
   * Throws {@link ToolServerFailure}, and the signal's reason once it is aborted.
   */
  open(server: ToolServerAddress | ToolServerProcess, signal: AbortSignal): Promise<ToolServerSession>;
}

export interface ToolServerAddress {
  readonly url: string;
  /** Sent with every request, in addition to the protocol's own headers. */
  readonly headers: Readonly<Record<string, string>>;
  /**
   * `sse` is the transport of the revision 2024-11-05.
   * @default - Streamable HTTP; `sse` if the server refuses that as the protocol describes
   */
  readonly transport?: 'streamable-http' | 'sse' | undefined;
  /** Sends the requests. @default - the host's `outbound` */
  readonly exchanges?: OutboundExchanges | undefined;
}

/**
 * A server that speaks the stdio transport, in a sandbox. Its process was started. Messages are JSON without line ends.
 *
 * Methods throw {@link ToolServerFailure}, or the reason why the sandbox or the run has ended.
 */
export interface ToolServerProcess {
  /**
   * Sends a request, and yields lines of the server until one contains `id`: a number that occurs nowhere else. Ends
   * without such a line if the server ends, and after {@link cancel}.
   */
  ask(
    message: string,
    id: number,
    options: { readonly maxBytes: number; readonly signal: AbortSignal },
  ): AsyncIterable<string>;
  /** Sends a message that has no answer. */
  send(message: string): Promise<void>;
  /** Sends the message that cancels the request `id`, and ends {@link ask} for it. */
  cancel(message: string, id: number): Promise<void>;
  /** Returns why the process has ended; `undefined` while it runs. */
  ending(): Promise<ToolServerFailure | undefined>;
}

export interface ToolServerSession {
  /** The tools at the time the session was opened; later changes of the server are ignored. */
  readonly tools: readonly ServerTool[];
  /**
   * Calls a tool; the request is never retried. Aborting the signal notifies the server.
   *
   * Throws {@link ToolServerFailure}, and the signal's reason once it is aborted.
   *
   * @param trace Sent as `_meta` of the request, which processes get, too. @default - nothing
   */
  call(
    tool: ServerTool,
    input: Readonly<Record<string, Json>>,
    signal: AbortSignal,
    trace?: TraceHeaders,
  ): Promise<ServerResult>;
  /** Ends the session and all its requests. A process is left to its sandbox. */
  close(): Promise<void>;
}

/** A tool as its server describes it; untrusted. */
export interface ServerTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** The server's own claims; absent if it makes none. */
  readonly isReadOnly?: boolean;
  readonly isDestructive?: boolean;
}

export interface ServerResult {
  readonly isError: boolean;
  readonly parts: readonly ServerResultPart[];
}

export type ServerResultPart =
  | { readonly type: 'text'; readonly text: string }
  /** An image, a sound or another file. */
  | { readonly type: 'file'; readonly mediaType: string; readonly bytes: Uint8Array };

/**
 * Why a server could not be used: a predicate that follows the server's name, without a full stop. Parts of it may come
 * from the server.
 */
export class ToolServerFailure extends Error {
  readonly code = 'TOOL_SERVER_FAILED';
  /** Whether a retry may succeed. */
  readonly isTransient: boolean;
  /** Header `WWW-Authenticate` of a server that refused the request: at most 4,000 characters. */
  readonly challenge?: string;

  constructor(
    message: string,
    {
      isTransient = false,
      challenge,
    }: { readonly isTransient?: boolean; readonly challenge?: string | undefined } = {},
  ) {
    super(message);
    this.isTransient = isTransient;
    if (challenge !== undefined) this.challenge = challenge.slice(0, 4000);
  }
}
