import type { Caller } from '#core/base/caller.ts';
import type { Route } from '#core/http/route.ts';
import type { McpTool } from './agent-tools.ts';

/** Operations of the API that tools use, within this process. */
export interface Operations {
  /** All tools of the platform, whether or not the key of the caller may use them. */
  readonly tools: readonly McpTool[];
  /** Returns the row of an operation, which may lack its descriptions. */
  row(operation: string): Route;
  /** Returns the same for another workspace of the caller. Throws FORBIDDEN. */
  inWorkspace(workspaceId: string | undefined): Promise<Operations>;
  readonly caller: Caller;
  /** Returns whether the key of the caller may use an operation. */
  allows(operation: string): boolean;
  /**
   * Sends a request and returns its answer: it passes the same steps as one from outside, but for its authentication. Throws the
   * errors of the operation.
   */
  send(operation: string, args?: OperationArguments): Promise<unknown>;
}

export interface OperationArguments {
  /** Parameters of the path but `workspace_id`, which is that of the caller. */
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** Returns the operations for a caller at this address. */
export type OperationsOf = (caller: Caller, address: string | undefined) => Promise<Operations>;
