import { checkKeyLimits } from '#core/accounts/keys/limits.ts';
import { checkStays } from '#core/accounts/workspaces/moving.ts';
import { membershipOf } from '#core/accounts/workspaces/store.ts';
import { catalogRoutes } from '#core/agents/catalog/routes.ts';
import { scheduleRoutes } from '#core/automation/schedules/routes.ts';
import { scheduleTriggerRoutes } from '#core/automation/schedules/trigger/routes.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { messageRoutes } from '#core/collaboration/messages/routes.ts';
import { taskRoutes } from '#core/collaboration/tasks/routes.ts';
import type { HttpRequest, HttpResponse } from '#core/http/message.ts';
import { keyScopeOf, type Route } from '#core/http/route.ts';
import type { AllDeps, Deps } from '#core/ports/deps.ts';
import { approvalRoutes } from '#core/runs/approvals/routes.ts';
import { runRoutes } from '#core/runs/routes.ts';
import type { OperationArguments, Operations } from '#core/wires/mcp/operations.ts';
import { encode, handle } from './app.ts';
import { mcpTools } from './mcp-tools.ts';
import { operationPath } from './operation-path.ts';

export type OperationDeps = Deps & Pick<AllDeps, 'timers'>;
type Handler = Parameters<typeof handle>[2];

/** Rows with their handlers, which are loaded when a tool first uses one of them. */
const GROUPS: readonly {
  readonly rows: readonly Route[];
  readonly load: (deps: OperationDeps) => Promise<object>;
}[] = [
  {
    rows: taskRoutes,
    load: async (deps) => (await import('#core/collaboration/tasks/handlers.ts')).taskHandlers(deps),
  },
  {
    rows: messageRoutes,
    load: async (deps) => (await import('#core/collaboration/messages/handlers.ts')).messageHandlers(deps),
  },
  {
    rows: scheduleRoutes,
    load: async (deps) => (await import('#core/automation/schedules/handlers.ts')).scheduleHandlers(deps),
  },
  {
    rows: scheduleTriggerRoutes,
    load: async (deps) =>
      (await import('#core/automation/schedules/trigger/handlers.ts')).scheduleTriggerHandlers(deps),
  },
  { rows: runRoutes, load: async (deps) => (await import('#core/runs/handlers.ts')).runHandlers(deps) },
  {
    rows: approvalRoutes,
    load: async (deps) => (await import('#core/runs/approvals/handlers.ts')).approvalHandlers(deps),
  },
  {
    rows: catalogRoutes,
    load: async (deps) => (await import('#core/agents/catalog/handlers.ts')).catalogHandlers(deps),
  },
];

/** Operation -> its row and the group that it is of. */
const PLACES = new Map(GROUPS.flatMap((group) => group.rows.map((row) => [row.operationId, { row, group }] as const)));

function placeOf(operation: string) {
  const place = PLACES.get(operation);
  if (place === undefined) throw new Error(`tools use no operation ${operation}`);
  return place;
}

export class CallerOperations implements Operations {
  readonly #deps: OperationDeps;
  readonly #address: string | undefined;
  readonly caller: Caller;
  readonly tools = mcpTools();

  constructor(deps: OperationDeps, caller: Caller, address: string | undefined) {
    this.#deps = deps;
    this.caller = caller;
    this.#address = address;
  }

  row(operation: string): Route {
    return placeOf(operation).row;
  }

  allows(operation: string): boolean {
    const row = this.row(operation);
    const { scope = 'manage' } = this.caller.limits ?? {};
    return keyScopeOf(row) === 'read' || scope === 'manage' || scope === keyScopeOf(row);
  }

  async inWorkspace(workspaceId: string | undefined): Promise<Operations> {
    const { workspace, limits } = this.caller;
    if (workspaceId === undefined || workspaceId === workspace.id) return this;
    if (limits) checkKeyLimits(limits, { method: 'GET' }, workspaceId);
    const membership = await membershipOf(this.#deps, this.caller, workspaceId);
    if (membership === undefined) {
      throw new PlatformError(
        'FORBIDDEN',
        `You are not a member of a workspace with the id "${workspaceId.slice(0, 64)}".`,
      );
    }
    return new CallerOperations(this.#deps, { ...this.caller, ...membership }, this.#address);
  }

  async send(operation: string, args: OperationArguments = {}): Promise<unknown> {
    const { row, group } = placeOf(operation);
    const { caller } = this;
    if (caller.limits) checkKeyLimits(caller.limits, row, caller.workspace.id);
    checkStays(caller.workspace, row.method === 'GET' || row.changes !== undefined ? 'read' : 'change');
    const { [operation]: handler } = (await group.load(this.#deps)) as { readonly [name: string]: Handler };
    if (handler === undefined) throw new Error(`no handler for ${operation}`);
    const params = { workspace_id: caller.workspace.id, ...args.params };
    const request = requestOf(row, { ...args, params });
    const [path = '', query = ''] = request.url.split(/\?(.*)/s);
    const { clock, ids } = this.#deps;
    const matched = {
      ...{ params, path, query, caller, receivedAt: clock.now(), requestUuid: ids.uuid(), responseHeaders: {} },
      ...(this.#address !== undefined && { address: this.#address }),
    };
    return jsonOf(encode(row, await handle(this.#deps, row, handler, request, matched), {}));
  }
}

/** Builds the request that a client would send. Throws INVALID_INPUT for a parameter that cannot be part of a path. */
function requestOf(
  { method, path }: Route,
  { params, query, headers = {}, body }: OperationArguments & { readonly params: Record<string, string> },
): HttpRequest {
  const given = new Map(Object.entries({ ...headers, 'content-type': 'application/json' }));
  const bytes = body === undefined ? new Uint8Array() : Buffer.from(JSON.stringify(body));
  return {
    method,
    url: pathOf(path, params, query),
    headers: { get: (name) => given.get(name.toLowerCase()) ?? null, has: (name) => given.has(name.toLowerCase()) },
    body: bytes.length === 0 ? null : chunksOf(bytes),
    bytes: async () => bytes,
  };
}

function pathOf(...[path, params, query]: Parameters<typeof operationPath>): string {
  try {
    return operationPath(path, params, query);
  } catch (error) {
    throw new PlatformError('INVALID_INPUT', `${(error as Error).message}.`);
  }
}

async function* chunksOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

async function jsonOf({ body }: HttpResponse): Promise<unknown> {
  if (body === null) return null;
  const text =
    typeof body === 'string'
      ? body
      : Buffer.concat(body instanceof Uint8Array ? [body] : await Array.fromAsync(body)).toString();
  return JSON.parse(text);
}
