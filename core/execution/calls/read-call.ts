import { type AgentCaller, callingUser } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { lazy } from '#core/base/lazy.ts';
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
import { callerTrace } from './caller-trace.ts';
import { type Call, givesFilesToModel } from './prepare.ts';
import type { callRoutes } from './routes.ts';
import { checkDeprecation, findTarget } from './target.ts';

// Loaded lazily: most callers are no agents, and smaller functions start faster.
const subCalls = lazy(() => import('../sub-calls/sub-call.ts'));

export type CallRoute = Extract<(typeof callRoutes)[number], { operationId: 'callAgent' }>;
export type CallRequest = Incoming<CallRoute>;

/**
 * Finds the version that a request calls, checks that the caller may call it, and reads the input. Sets the response
 * headers for a deprecated version. Throws what these steps throw.
 */
export async function readCall(deps: Deps, incoming: CallRequest): Promise<Call> {
  const { params, headers, caller, request, responseHeaders } = incoming;
  const sticking = { tenant: headers['x-platform-tenant'], session: headers['x-platform-session'] };
  const isNamed = request.headers.has('x-workspace-id');
  const { agent, channel, workspace } = await findTarget(deps, params, caller, isNamed, sticking);
  const later = await runAtOf(incoming, agent);
  const isTop = caller.agent === undefined || later.runAt !== undefined;
  const lineage =
    caller.agent && !isTop
      ? await (await subCalls()).checkSubCall(deps, caller.agent, request.headers, { version: params.version, agent })
      : topOfChain(agent, headers['x-platform-max-hops']);
  Object.assign(responseHeaders, await checkDeprecation(deps, { agent, channel }, params.endpoint));
  const given = await readCallInput(deps, caller.workspace.id, request);
  // Loaded lazily: few prompts have files.
  const input = givesFilesToModel(agent, given) ? (await import('../input/prompt-input.ts')).forPrompt(given) : given;
  const name = headers['x-platform-session'];
  const tenantId = caller.agent && isTop ? await tenantOf(deps, caller.agent) : headers['x-platform-tenant'];
  return {
    agent,
    channel,
    endpoint: params.endpoint,
    input,
    workspace,
    runId: incoming.requestUuid,
    receivedAt: incoming.receivedAt,
    lineage,
    tenantId,
    ...(name !== undefined &&
      (await sessionFor(deps, incoming, { name, agent, workspace, tenantId, isLater: later.runAt !== undefined }))),
    ...callOptions(deps, incoming, isTop),
    ...(await callerTrace(request.headers, isTop ? undefined : caller.agent)),
    ...later,
  };
}

type WithOptions = Pick<CallRequest, 'caller'> & {
  readonly headers: Omit<CallRequest['headers'], 'x-platform-session'>;
};

/** Reads what the headers of a call say about its run. Throws INVALID_INPUT. */
export const callOptions = (deps: Pick<Deps, 'config'>, incoming: WithOptions, isTop = true) => ({
  triggerSource: triggerSourceOf(incoming),
  ...callingUser(incoming.caller),
  // A run always waits for its sub-calls, even asynchronous ones.
  isUnattended: wantsNoWait(incoming.headers) && isTop,
  ...webhookOf(deps, incoming),
  ...priorityOf(incoming, isTop),
  skillHeaders: {
    skills: incoming.headers['x-platform-skills'],
    skillsOnly: incoming.headers['x-platform-skills-only'],
    noSkills: incoming.headers['x-platform-no-skills'],
  },
  wantedDeadline: incoming.headers['x-platform-deadline-ms'],
});

/** Returns the tenant of a calling run. Its later runs have the same one, whatever its program sends. */
async function tenantOf(deps: Deps, caller: AgentCaller): Promise<string | undefined> {
  if (caller.kind !== 'run') return undefined;
  if (caller.context.tenantId !== undefined) return caller.context.tenantId;
  return (await new RunStore(deps, caller.workspace.id).find(caller.runId))?.tenantId ?? undefined;
}

/** Finds the session that a call names. Throws what `joinSession` throws. */
async function sessionFor(
  deps: Deps,
  { responseHeaders }: Pick<CallRequest, 'responseHeaders'>,
  {
    isLater,
    ...joining
  }: Pick<Call, 'agent' | 'workspace'> & {
    readonly name: string;
    readonly tenantId: string | undefined;
    readonly isLater: boolean;
  },
): Promise<Pick<Call, 'session'>> {
  if (isLater) {
    throw new PlatformError(
      'INVALID_INPUT',
      'headers.x-platform-session: cannot be combined with a time at which the call begins.',
      { hint: 'Send the message when it is due, or leave out x-platform-run-at and x-platform-delay-seconds.' },
    );
  }
  // Loaded lazily: few calls belong to a session, and smaller functions start faster.
  const { joinSession } = await import('../sessions/join.ts');
  const session = await joinSession(deps, joining);
  responseHeaders['x-platform-session'] = session.id;
  return { session };
}

/** Returns the address for the end of this run, if the call names one. Throws INVALID_INPUT. */
function webhookOf({ config }: Pick<Deps, 'config'>, { headers, caller }: WithOptions): Pick<Call, 'webhookUrl'> {
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
function priorityOf({ headers }: WithOptions, isTop: boolean): Pick<Call, 'priority'> {
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

function triggerSourceOf({ caller, headers }: WithOptions): Call['triggerSource'] {
  if (caller.agent) return 'agent';
  return headers['x-platform-client'] === 'cli' ? 'cli' : 'api';
}
