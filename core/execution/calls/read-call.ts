import type { AgentCaller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { MAX_DELAY_SECONDS } from '#core/base/time-limits.ts';
import type { Incoming } from '#core/http/route.ts';
import { refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { checkOutboundUrl } from '#core/outbound/outbound-url.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RunStore } from '#core/runs/store.ts';
import { readCallInput } from '../input/read-input.ts';
import { topOfChain } from '../sub-calls/lineage.ts';
import { checkSubCall } from '../sub-calls/sub-call.ts';
import { type Call, givesFilesToModel } from './prepare.ts';
import type { callRoutes } from './routes.ts';
import { checkDeprecation, findTarget } from './target.ts';

export type CallRoute = Extract<(typeof callRoutes)[number], { operationId: 'callAgent' }>;
export type CallRequest = Incoming<CallRoute>;

/**
 * Finds the version that a request calls, checks that the caller may call it, and reads the input. Sets the response
 * headers for a deprecated version. Throws what these steps throw.
 */
export async function readCall(deps: Deps, incoming: CallRequest): Promise<Call> {
  const { params, headers, caller, request, responseHeaders } = incoming;
  const { agent, workspace } = await findTarget(deps, params, caller, request.headers.has('x-workspace-id'));
  const later = await runAtOf(incoming, agent);
  const isTop = caller.agent === undefined || later.runAt !== undefined;
  const lineage =
    caller.agent && !isTop
      ? await checkSubCall(deps, caller.agent, request.headers, { version: params.version, agent })
      : topOfChain(agent, headers['x-platform-max-hops']);
  Object.assign(responseHeaders, await checkDeprecation(deps, agent, params.endpoint));
  const given = await readCallInput(deps, caller.workspace.id, request);
  // Loaded lazily: few prompts have files.
  const input = givesFilesToModel(agent, given) ? (await import('../input/prompt-input.ts')).forPrompt(given) : given;
  return {
    agent,
    endpoint: params.endpoint,
    input,
    workspace,
    runId: incoming.requestUuid,
    triggerSource: triggerSourceOf(incoming),
    // A run always waits for its sub-calls, even asynchronous ones.
    isUnattended: wantsNoWait(headers) && isTop,
    receivedAt: incoming.receivedAt,
    lineage,
    tenantId: caller.agent && isTop ? await tenantOf(deps, caller.agent) : headers['x-platform-tenant'],
    ...webhookOf(deps, incoming),
    ...priorityOf(incoming, isTop),
    ...later,
    skillHeaders: {
      skills: headers['x-platform-skills'],
      skillsOnly: headers['x-platform-skills-only'],
      noSkills: headers['x-platform-no-skills'],
    },
    wantedDeadline: headers['x-platform-deadline-ms'],
  };
}

/** Returns the tenant of a calling run. Its later runs have the same one, whatever its program sends. */
async function tenantOf(deps: Deps, caller: AgentCaller): Promise<string | undefined> {
  if (caller.kind !== 'run') return undefined;
  return (await new RunStore(deps, caller.workspace.id).find(caller.runId))?.tenantId ?? undefined;
}

/** Returns the address for the end of this run, if the call names one. Throws INVALID_INPUT. */
function webhookOf({ config }: Pick<Deps, 'config'>, { headers, caller }: CallRequest): Pick<Call, 'webhookUrl'> {
  const url = headers['x-platform-webhook'];
  if (url === undefined) return {};
  const refuse = (why: string, hint: string): never => {
    throw new PlatformError('INVALID_INPUT', `headers.x-platform-webhook: ${why}.`, { hint });
  };
  if (caller.agent) refuse('a call of an agent cannot name an address', 'The calling run waits for its sub-calls.');
  if (!wantsNoWait(headers)) {
    refuse('only a call that does not wait can name an address', 'Send Prefer: respond-async with it.');
  }
  checkOutboundUrl(url, config.outboundHosts, 'headers.x-platform-webhook', 'https://hooks.example.com/runs');
  return { webhookUrl: url };
}

/** Returns the priority of a call, if it names one. Throws INVALID_INPUT. */
function priorityOf({ headers }: CallRequest, isTop: boolean): Pick<Call, 'priority'> {
  const priority = headers['x-platform-priority'];
  if (priority === undefined) return {};
  const refuse = (why: string, hint: string): never => {
    throw new PlatformError('INVALID_INPUT', `headers.x-platform-priority: ${why}.`, { hint });
  };
  if (!isTop) refuse('a call of an agent cannot have a priority', 'The calling run waits for its sub-calls.');
  if (!wantsNoWait(headers)) {
    refuse('only a call that does not wait can have a priority', 'Send Prefer: respond-async with it.');
  }
  return { priority };
}

/**
 * Returns when the call begins, if it names a time. A run may call only its own agent for later. Throws INVALID_INPUT, and
 * FORBIDDEN for a run of another workspace's agent.
 */
async function runAtOf(
  { headers, caller, receivedAt }: CallRequest,
  agent: AgentVersion,
): Promise<Pick<Call, 'runAt'>> {
  const { 'x-platform-run-at': time, 'x-platform-delay-seconds': delay } = headers;
  if (time === undefined && delay === undefined) return {};
  const name = time === undefined ? 'x-platform-delay-seconds' : 'x-platform-run-at';
  const refuse = (why: string, hint: string): never => {
    throw new PlatformError('INVALID_INPUT', `headers.${name}: ${why}.`, { hint });
  };
  if (time !== undefined && delay !== undefined) {
    refuse('cannot be combined with x-platform-delay-seconds', 'Send only one of the two.');
  }
  if (caller.agent !== undefined && caller.agent.name !== refOf(agent)) {
    const hint = 'A run can call its own version for later; it waits for the other agents that it calls.';
    refuse(`the call of ${refOf(agent)} by ${caller.agent.name} cannot begin later`, hint);
  }
  if (caller.agent !== undefined) {
    const { checkIsOwn } = await import('../durable/own-later.ts');
    checkIsOwn(agent, caller.agent.workspace);
  }
  if (!wantsNoWait(headers)) {
    refuse('only a call that does not wait can begin later', 'Send Prefer: respond-async with it.');
  }
  const runAt = time === undefined ? receivedAt + delay! * 1000 : Date.parse(time);
  if (runAt <= receivedAt) {
    refuse(`must be in the future, but it was ${isoTime(receivedAt)} when the call came`, 'Send a later time.');
  }
  if (runAt > receivedAt + MAX_DELAY_SECONDS * 1000) {
    refuse('must be at most 30 days from now', 'A schedule with run_once runs an agent at a later date.');
  }
  const deadline = headers['x-platform-deadline-ms'];
  if (deadline !== undefined && deadline <= runAt) {
    const hint = 'Send a later deadline, or none: the limits of the agent and the plan count from when it begins.';
    refuse(`the call begins at ${isoTime(runAt)}, which is not before its x-platform-deadline-ms`, hint);
  }
  return { runAt };
}

/** RFC 7240. */
export const wantsNoWait = ({ prefer }: { readonly prefer?: string | undefined }): boolean =>
  /\brespond-async\b/i.test(prefer ?? '');

function triggerSourceOf({ caller, headers }: CallRequest): Call['triggerSource'] {
  if (caller.agent) return 'agent';
  return headers['x-platform-client'] === 'cli' ? 'cli' : 'api';
}
