import type { Json } from '#core/base/json.ts';

/**
 * Tool servers that authors configure. They speak the Model Context Protocol (MCP) over its Streamable HTTP transport.
 */
export interface ToolServers {
  /**
   * Opens a session and reads the server's list of tools once.
   *
   * Throws {@link ToolServerFailure}, and the signal's reason once it is aborted.
   */
  open(address: ToolServerAddress, signal: AbortSignal): Promise<ToolServerSession>;
}

export interface ToolServerAddress {
  readonly url: string;
  /** Sent with every request, in addition to the protocol's own headers. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface ToolServerSession {
  /** The tools at the time the session was opened; later changes of the server are ignored. */
  readonly tools: readonly ServerTool[];
  /**
   * Calls a tool; the request is never retried. Aborting the signal notifies the server.
   *
   * Throws {@link ToolServerFailure}, and the signal's reason once it is aborted.
   */
  call(tool: ServerTool, input: Readonly<Record<string, Json>>, signal: AbortSignal): Promise<ServerResult>;
  /** Ends the session and all its requests. */
  close(): Promise<void>;
}

/** A tool as its server describes it; untrusted. */
export interface ServerTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** The server's own claim; absent if it makes none. */
  readonly isReadOnly?: boolean;
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

  constructor(message: string, { isTransient = false }: { readonly isTransient?: boolean } = {}) {
    super(message);
    this.isTransient = isTransient;
  }
}
