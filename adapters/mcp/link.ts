import type { Transport } from '@modelcontextprotocol/client';
import type { ToolServerFailure } from '#core/ports/tool-servers.ts';
import type { Unasked } from './unasked.ts';

export type Sdk = typeof import('@modelcontextprotocol/client');

/** Maximum size of all responses until the tools are listed. */
export const MAX_OPENING_BYTES = 2 * 1024 * 1024;
/** Maximum size of one result: the largest image that models accept has 5 MB in Base64. */
export const MAX_RESULT_BYTES = 6 * 1024 * 1024;

/** A transport of the SDK with the platform's bounds. */
export interface Link {
  readonly transport: Transport;
  /** Returns why the session could not be opened. The SDK replaces some of these errors with its own. */
  failure(): ToolServerFailure | undefined;
  /** Returns the header `WWW-Authenticate` of a refused request, once. */
  challenge?(): string | undefined;
  /** Returns why no further call can succeed. */
  broken?(): ToolServerFailure | undefined;
  /** Called when the tools are listed. */
  opened(): void;
  /** Called before each call, with the number of calls that wait for an answer, this one included. */
  beforeCall?(calls: number): void;
  /** Tells the server that the session ends. May reject. */
  end(): Promise<void>;
}

export interface LinkOptions {
  /** Aborts all requests. */
  readonly ended: AbortSignal;
  /** See {@link Unasked.answering}. */
  readonly answering: Unasked['answering'];
}
