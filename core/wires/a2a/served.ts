import { findPublic, findVisible } from '#core/agents/access.ts';
import type { Caller } from '#core/base/caller.ts';
import { isInstallation } from '#core/base/run-kinds.ts';
import { findTarget, type Target } from '#core/execution/calls/target.ts';
import type { HttpRequest } from '#core/http/message.ts';
import { addressIn } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { A2aError } from './errors.ts';

/** Parts of a request that say who asks which agent. */
export interface Asking {
  readonly caller: Caller;
  readonly params: { readonly org: string; readonly agent: string };
  readonly headers: { readonly 'x-platform-tenant'?: string | undefined };
  readonly request: Pick<HttpRequest, 'headers'>;
}

/** The agent of a request, and the workspace that it acts in. */
export interface Served extends Target {
  readonly tenantId: string | undefined;
}

/** A request whose agent was found. */
export interface WithAgent {
  readonly served: Served;
}

/**
 * Finds the agent of a request, and a version of it: `version`, or the one that the path names. Throws NOT_FOUND,
 * FORBIDDEN.
 */
export async function findServed(
  deps: Deps,
  { caller, params, headers, request }: Asking,
  version?: string,
  session?: string,
): Promise<Served> {
  const isNamed = request.headers.has('x-workspace-id');
  const tenantId = headers['x-platform-tenant'];
  const address = addressIn(params);
  const named = { ...address, version: version ?? address.version };
  const target = await findTarget(deps, named, caller, isNamed, { tenant: tenantId, session });
  return { ...target, tenantId };
}

/** Returns the version that a card describes. Throws NOT_FOUND, the same for one that is private and one that does not exist. */
export const findShown = (deps: Deps, caller: Caller | undefined, params: Asking['params']): Promise<AgentVersion> => {
  const address = addressIn(params);
  return caller === undefined ? findPublic(deps, address) : findVisible(deps, caller, address);
};

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Finds the run that a task is. Throws TaskNotFound, the same for one that does not exist and for one of another agent, workspace
 * or tenant.
 */
export async function findTask(deps: Deps, served: Served, taskId: string): Promise<Run> {
  const run = UUID.test(taskId) ? await new RunStore(deps, served.workspace.id).find(taskId) : undefined;
  if (run === undefined || !isTaskOf(run, served)) {
    throw new A2aError('TaskNotFound', `There is no task "${taskId.slice(0, 64)}" of this agent.`);
  }
  return run;
}

export const isTaskOf = (run: Run, { agent, tenantId }: Pick<Served, 'agent' | 'tenantId'>): boolean =>
  run.agentWorkspaceId === agent.workspaceId &&
  run.agentName === agent.name &&
  run.tenantId === (tenantId ?? null) &&
  run.parentRunId === null &&
  run.isErased !== true &&
  !isInstallation(run);
