import { AgentStore, type AgentVersion, findNewest, resolveAgent, sunsetOf, versionName } from '../agents/store.ts';
import { isPaid } from '../agents/views.ts';
import type { Deps } from '../deps.ts';
import { PlatformError } from '../errors.ts';
import type { Caller } from '../http/auth.ts';
import { type Handlers, requestIdOf } from '../http/route.ts';
import { isoTime } from '../ports/clock.ts';
import { findMembership } from '../workspaces/store.ts';
import { runCall } from './call.ts';
import { readCallInput } from './input.ts';
import type { callRoutes } from './routes.ts';

export const callHandlers = (deps: Deps): Handlers<typeof callRoutes> => ({
  async callAgent({ params, query, headers, caller, request, requestUuid, receivedAt, responseHeaders }) {
    const agent = await resolveForCall(deps, params);
    const workspaceId = await actingWorkspace(deps, caller, agent, request.headers.has('x-workspace-id'));
    Object.assign(responseHeaders, await checkDeprecation(deps, agent, params.endpoint));
    const input = await readCallInput(request, deps.config.maxCallBodyBytes);
    responseHeaders['x-run-id'] = requestUuid;
    responseHeaders['x-platform-run-id'] = requestUuid;

    // Not tied to the request's signal: a call outlives its client's connection, and a host that stops waits for it.
    const run = runCall(deps, {
      agent,
      endpoint: params.endpoint,
      input,
      workspaceId,
      runId: requestUuid,
      triggerSource: 'api',
      receivedAt,
      wantedDeadline: headers['x-platform-deadline-ms'],
    });
    deps.background(run.then(ignore, ignore));
    const answer = await run;
    return {
      status: 200,
      body: {
        data: answer.data,
        ...(answer.warnings.length > 0 && { warnings: answer.warnings }),
        metadata: {
          request_id: requestIdOf(requestUuid),
          processing_time_ms: deps.clock.now() - receivedAt,
          version: versionName(agent.version),
          execution_time_ms: answer.executionMs,
          ...(query.verbose && { stdout: answer.stdout, stderr: answer.stderr }),
        },
      },
    };
  },
});

async function resolveForCall(
  deps: Deps,
  { org, agent: name, version }: { org: string; agent: string; version: string },
): Promise<AgentVersion> {
  const current = await resolveAgent(deps, org, name, version);
  // While no version can run, the call of the newest says what it lacks.
  const agent = current ?? (version === 'latest' ? await findNewest(deps, org, name) : undefined);
  if (agent === undefined) {
    throw new PlatformError('NOT_FOUND', `There is no agent ${org}/${name} with a version ${version}.`);
  }
  return agent;
}

/**
 * The workspace that a call acts in: the one that the caller named; else the agent's, for its members; else the
 * caller's personal one. Throws FORBIDDEN when the agent is private to a workspace that the caller is no member of,
 * INSUFFICIENT_CREDITS for another's paid agent.
 */
async function actingWorkspace(deps: Deps, caller: Caller, agent: AgentVersion, named: boolean): Promise<string> {
  const own = caller.workspace.id === agent.workspaceId;
  const isMember = own || (await findMembership(deps, caller.userId, agent.workspaceId)) !== undefined;
  if (!isMember && !agent.definition.is_public) {
    throw new PlatformError(
      'FORBIDDEN',
      `You may not call ${agent.orgSlug}/${agent.name}: it is private to its workspace.`,
    );
  }
  if (!isMember && isPaid(agent)) {
    throw new PlatformError(
      'INSUFFICIENT_CREDITS',
      `A call of ${agent.orgSlug}/${agent.name} costs ${agent.definition.price_per_call_cents} cents, and you have no credits.`,
    );
  }
  return isMember && !named ? agent.workspaceId : caller.workspace.id;
}

/** `spec.md` *Versioning* 2 and 3. Throws NOT_FOUND for a version whose deprecation period is over. */
async function checkDeprecation(deps: Deps, agent: AgentVersion, endpoint: string): Promise<Record<string, string>> {
  const sunset = sunsetOf(agent);
  if (sunset === undefined) return {};
  const current = await new AgentStore(deps, agent.workspaceId).findVersion(agent.name, 'latest');
  const address = `/${agent.orgSlug}/${agent.name}/${current ? versionName(current.version) : 'latest'}/${encodeURIComponent(endpoint)}`;
  if (sunset < deps.clock.now()) {
    const name = `${agent.orgSlug}/${agent.name} ${versionName(agent.version)}`;
    throw new PlatformError('NOT_FOUND', `${name} was retired on ${isoTime(sunset)}; call ${address}.`);
  }
  return {
    deprecation: 'true',
    sunset: new Date(sunset).toUTCString(),
    link: `<${address}>; rel="successor-version"`,
  };
}

const ignore = (): void => {};
