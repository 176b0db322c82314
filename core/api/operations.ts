import { lazy } from '#core/base/lazy.ts';
import type { OperationsOf } from '#core/wires/mcp/operations.ts';
import type { OperationDeps } from './caller-operations.ts';

/** Loaded lazily, with the rows and handlers of several functions. */
const loaded = lazy(() => import('./caller-operations.ts'));

/** Returns the operations of the API for tools: the same rows and handlers as for requests from outside. */
export const operationsOf =
  (deps: OperationDeps): OperationsOf =>
  async (caller, address) =>
    new (await loaded()).CallerOperations(deps, caller, address);
