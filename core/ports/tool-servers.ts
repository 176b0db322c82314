import type { Json } from '#core/base/json.ts';

/** Servers of tools that authors name. They speak the Model Context Protocol (MCP) over its Streamable HTTP transport. */
export interface ToolServers {
  /**
   * Opens a session and reads the list of the server's tools, once.
   *
   * Throws {@link ToolServerFailure}, and the signal's reason once it is aborted.
   */
  open(address: ToolServerAddress, signal: AbortSignal): Promise<ToolServerSession>;
}

export interface ToolServerAddress {
  readonly url: string;
  /** Sent with every request, beside the protocol's own. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface ToolServerSession {
  /** As they were when the session was opened, whatever the server changes later. */
  readonly tools: readonly ServerTool[];
  /**
   * Calls a tool; the request is sent once, whatever happens to it. Aborting the signal tells the server.
   *
   * Throws {@link ToolServerFailure}, and the signal's reason once it is aborted.
   */
  call(tool: ServerTool, input: Readonly<Record<string, Json>>, signal: AbortSignal): Promise<ServerResult>;
  /** Ends the session and every request of it. */
  close(): Promise<void>;
}

/** A tool as its server describes it: nothing here is to be trusted. */
export interface ServerTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** What the server says; absent if it says nothing. */
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

/** Why a server could not be used: a sentence that follows the server's name, without a full stop. Parts of it may come from the server. */
export class ToolServerFailure extends Error {
  readonly code = 'TOOL_SERVER_FAILED';
  /** Whether another attempt may succeed. */
  readonly isTransient: boolean;

  constructor(message: string, { isTransient = false }: { readonly isTransient?: boolean } = {}) {
    super(message);
    this.isTransient = isTransient;
  }
}
