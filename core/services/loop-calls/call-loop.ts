import { chargeIfRejected } from '#core/accounts/limits/cpu-budget.ts';
import { checkStays } from '#core/accounts/workspaces/moving.ts';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { findAnyVersion } from '#core/agents/store.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { answerCall } from '#core/execution/calls/answer-call.ts';
import type { Call } from '#core/execution/calls/prepare.ts';
import { checkDeprecation } from '#core/execution/calls/target.ts';
import { mergeInput } from '#core/execution/input/payload.ts';
import { topOfChain } from '#core/execution/sub-calls/lineage.ts';
import { bearerOf } from '#core/http/bearer.ts';
import type { HttpRequest } from '#core/http/message.ts';
import { readPayload } from '#core/http/payload.ts';
import type { Handlers } from '#core/http/route.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { appOf, extraSecretsOf } from '../boot.ts';
import { authenticateInstance } from '../boot-tokens.ts';
import { ACCESS_KEY, ownVariables } from '../environment.ts';
import { checkMayRun } from '../foreign-source.ts';
import type { Service } from '../service.ts';
import type { loopCallRoutes } from './routes.ts';

type Incoming = Parameters<Handlers<typeof loopCallRoutes>['callLoop']>[0];

/** Answers a request of an instance of a loop's service, which the workspace of the service pays for. */
export async function callLoop(
  deps: Deps,
  incoming: Incoming,
): ReturnType<Handlers<typeof loopCallRoutes>['callLoop']> {
  const { params, request, headers } = incoming;
  const { service } = await authenticateInstance(
    deps,
    params.service_id,
    bearerOf(request.headers.get('authorization')),
  );
  const workspace = await findWorkspace(deps, service.workspaceId);
  if (workspace === undefined) throw new Error(`workspace ${service.workspaceId} has a service but no record`);
  checkStays(workspace, 'change');
  const call = await chargeIfRejected(deps, workspace, () => callOf(deps, service, workspace, incoming));
  const { 'idempotency-key': key } = headers;
  // Prevents collisions between keys of external callers and those of the workspace: headers cannot contain NUL.
  const own = key === undefined ? undefined : `service\0${service.id}\0${key}`;
  return answerCall(
    deps,
    { ...incoming, caller: undefined, query: { verbose: false }, headers: { ...headers, 'idempotency-key': own } },
    call,
  );
}

/** Builds a call at the top of a chain from the request, charged to the workspace of the service. */
async function callOf(
  deps: Deps,
  service: Service,
  workspace: Workspace,
  {
    request,
    requestUuid,
    receivedAt,
  }: { readonly request: HttpRequest; readonly requestUuid: string; readonly receivedAt: number },
): Promise<Call> {
  const agent = await findLoop(deps, service);
  const { maxCallBodyBytes, maxDirectBodyBytes = maxCallBodyBytes } = deps.config;
  const endpoint = agent.definition.default_endpoint;
  await checkDeprecation(deps, { agent, channel: service.channel }, endpoint);
  const [payload, { [ACCESS_KEY]: _, ...secrets }] = await Promise.all([
    readPayload(request, { bytes: Math.min(maxCallBodyBytes, maxDirectBodyBytes) }),
    extraSecretsOf(deps, service, agent),
  ]);
  return {
    agent,
    endpoint,
    // External callers cannot choose a model, as with webhooks.
    input: { document: mergeInput({}, payload), uploads: [], isMultipart: false },
    workspace,
    runId: requestUuid,
    triggerSource: 'service',
    receivedAt,
    lineage: topOfChain(agent),
    skillHeaders: {},
    service: { env: { ...service.env, ...ownVariables(service) }, secrets },
  };
}

/**
 * Finds the loop version of a service. Throws NOT_FOUND, FORBIDDEN, and UNPROCESSABLE for a version that the service
 * may no longer run, or that is not a loop.
 */
async function findLoop(deps: Deps, service: Service): Promise<AgentVersion> {
  const agent = await findAnyVersion(deps, service.agentId);
  const name = `${service.agentOrg}/${service.agentName} ${service.agentVersion}`;
  if (agent === undefined) throw new PlatformError('NOT_FOUND', `The agent ${name} of this service was deleted.`);
  checkMayRun(service, agent);
  if (appOf(service, agent).kind === 'loop') return agent;
  throw new PlatformError('UNPROCESSABLE', 'This service runs a program, which answers its requests itself.');
}
