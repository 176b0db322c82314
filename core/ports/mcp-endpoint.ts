import type { Json } from '#core/base/json.ts';

/** Speaks the Model Context Protocol (MCP) to clients, in its revision of 2026-07-28 and in the older ones. */
export interface McpEndpoint {
  /** Answers one POST request. Never throws. */
  answer(request: McpHttpRequest, server: McpServing): Promise<McpHttpAnswer>;
}

export interface McpHttpRequest {
  /** Path and query. */
  readonly url: string;
  readonly headers: { get(name: string): string | null };
  /** The parsed body. */
  readonly message: Json;
}

export interface McpHttpAnswer {
  readonly status: number;
  readonly contentType: string;
  /** A reader that stops before the end of a stream aborts the signals of its requests. */
  readonly content: Uint8Array | AsyncIterable<Uint8Array>;
}

/** What a server offers to one caller. */
export interface McpServing {
  readonly name: string;
  readonly title: string;
  readonly version: string;
  readonly instructions: string;
  /** Capabilities of the server, as the protocol names them. */
  readonly capabilities: Readonly<Record<string, object>>;
  /** Method -> its handler. */
  readonly methods: Readonly<Record<string, McpMethod>>;
}

/**
 * Handles a request and returns its result. Throws {@link McpError} for an error of the protocol; any other error is logged, and
 * clients get no word of it.
 */
export type McpMethod = (params: McpObject, context: McpContext) => Promise<McpObject>;

export type McpObject = Readonly<Record<string, unknown>>;

/** The request that a method handles. */
export interface McpContext {
  /** Its id, which the client chose. */
  readonly requestId: string | number;
  /** `_meta` of the request, without the members that the protocol reserves. */
  readonly meta: McpObject;
  /** Capabilities that the client declared with this request; older revisions declare none with it. */
  readonly clientCapabilities: McpObject;
  /** Answers to what an earlier result asked for, by its keys; untrusted. */
  readonly inputResponses: McpObject | undefined;
  /** State that an earlier result gave the client; untrusted. */
  readonly requestState: string | undefined;
  /** Whether the client speaks a revision before 2026-07-28. */
  readonly isLegacy: boolean;
  /** Aborted when the client has left. */
  readonly signal: AbortSignal;
  /** Sends a notification that belongs to this request. It may get lost. */
  notify(method: string, params: McpObject): void;
}

/** Codes of JSON-RPC and of the protocol that the platform answers with itself. */
export const MCP_CODES = { parseError: -32700, invalidRequest: -32600, invalidParams: -32602, failed: -32000 } as const;

/** An error of the protocol, as its client gets it. */
export class McpError extends Error {
  readonly rpcCode: number;
  readonly data: McpObject | undefined;

  constructor(rpcCode: number, message: string, data?: McpObject) {
    super(message);
    this.name = 'McpError';
    this.rpcCode = rpcCode;
    this.data = data;
  }
}

export const isMcpError = (error: unknown): error is McpError =>
  error instanceof Error && 'rpcCode' in error && typeof error.rpcCode === 'number';
