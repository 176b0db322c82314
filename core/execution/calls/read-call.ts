import { PlatformError } from '#core/base/errors.ts';
import type { Incoming } from '#core/http/route.ts';
import { checkOutboundUrl } from '#core/outbound/outbound-url.ts';
import type { Deps } from '#core/ports/deps.ts';
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
  const lineage = caller.agent
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
    isUnattended: wantsNoWait(headers) && caller.agent === undefined,
    receivedAt: incoming.receivedAt,
    lineage,
    tenantId: headers['x-platform-tenant'],
    ...webhookOf(deps, incoming),
    skillHeaders: {
      skills: headers['x-platform-skills'],
      skillsOnly: headers['x-platform-skills-only'],
      noSkills: headers['x-platform-no-skills'],
    },
    wantedDeadline: headers['x-platform-deadline-ms'],
  };
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

/** RFC 7240. */
export const wantsNoWait = ({ prefer }: { readonly prefer?: string | undefined }): boolean =>
  /\brespond-async\b/i.test(prefer ?? '');

function triggerSourceOf({ caller, headers }: CallRequest): Call['triggerSource'] {
  if (caller.agent) return 'agent';
  return headers['x-platform-client'] === 'cli' ? 'cli' : 'api';
}
