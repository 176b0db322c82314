import { chargeIfRejected } from '#core/accounts/limits/cpu-budget.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { Incoming, Outgoing } from '#core/http/route.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { noSession, SessionStore } from '#core/runs/sessions/store.ts';
import { answerCall, wantsEvents } from '../calls/answer-call.ts';
import { callerTrace } from '../calls/caller-trace.ts';
import type { Call } from '../calls/prepare.ts';
import { callOptions, wantsNoWait } from '../calls/read-call.ts';
import { checkDeprecation, findTarget } from '../calls/target.ts';
import type { CallInput } from '../input/call-input.ts';
import { splitCredentials } from '../input/members.ts';
import { inputFromText } from '../input/text-input.ts';
import { topOfChain } from '../sub-calls/lineage.ts';
import { joinSession } from './join.ts';
import type { sessionMessageRoutes } from './messages/routes.ts';

type MessageRoute = (typeof sessionMessageRoutes)[0];
type MessageRequest = Incoming<MessageRoute>;

/** Sends a message to a session: a call of its agent, in the version that the session pins, or the newest. */
export async function sendSessionMessage(deps: Deps, incoming: MessageRequest): Promise<Outgoing<MessageRoute>> {
  const call = await chargeIfRejected(deps, incoming.caller.workspace, () => readMessage(deps, incoming));
  return answerCall(deps, incoming, call);
}

async function readMessage(deps: Deps, incoming: MessageRequest): Promise<Call> {
  const { params, headers, caller, body, responseHeaders } = incoming;
  const { workspace } = caller;
  const id = params.session_id.slice(0, 100);
  const tenantId = headers['x-platform-tenant'];
  // Whether it has expired shows with its turns, below.
  const found = await new SessionStore(deps, workspace.id).findAlone(id);
  if (found === undefined || found.tenantId !== tenantId) throw noSession(id);
  const { agentOrg: org, agentName, pinVersion } = found;
  const version = pinVersion ?? 'latest';
  const sticking = { tenant: tenantId, session: id };
  const { agent, channel } = await findTarget(deps, { org, agent: agentName, version }, caller, true, sticking);
  Object.assign(responseHeaders, await checkDeprecation(deps, { agent, channel }, agent.definition.default_endpoint));
  const input = inputOf(agent, body);
  const session = await joinSession(deps, { workspace, agent, tenantId, name: id });
  responseHeaders['x-platform-session'] = session.id;
  return {
    agent,
    channel,
    endpoint: agent.definition.default_endpoint,
    input,
    workspace,
    runId: incoming.requestUuid,
    receivedAt: incoming.receivedAt,
    lineage: topOfChain(agent, headers['x-platform-max-hops']),
    tenantId,
    session,
    ...callOptions(deps, incoming),
    ...(await callerTrace(incoming.request.headers)),
    // Whoever does not wait for the answer alone reads the events of the session, text included, from any place on.
    ...((wantsNoWait(headers) || wantsEvents(incoming)) && { isFollowed: true }),
  };
}

/** Returns the input of a message. Throws INVALID_INPUT. */
function inputOf(agent: AgentVersion, { input, text }: MessageRequest['body']): CallInput {
  if ((input === undefined) === (text === undefined)) {
    throw new PlatformError('INVALID_INPUT', 'body: must have either "input" or "text".', {
      hint: 'Send {"text": "..."}, or {"input": {...}} with the members of the input_schema of the agent.',
    });
  }
  if (text !== undefined) return { document: inputFromText(agent, text), uploads: [], isMultipart: false };
  const document = input as { [member: string]: Json };
  const { rest, llmCredentials } = splitCredentials(document, 'input.llm_credentials');
  return { document: rest, uploads: [], isMultipart: false, llmCredentials };
}
