import type { Json } from '#core/base/json.ts';
import type { Call } from '#core/execution/calls/prepare.ts';
import { forkSession } from '#core/execution/sessions/fork.ts';
import { joinSession, openSession } from '#core/execution/sessions/join.ts';
import type { Deps } from '#core/ports/deps.ts';
import { historyOf } from '#core/runs/sessions/history.ts';
import type { Turn } from '#core/runs/sessions/session.ts';
import { type FoundSession, SessionStore } from '#core/runs/sessions/store.ts';
import { RunStore } from '#core/runs/store.ts';
import type { Body, WireRequest } from './call.ts';
import { OpenAiError, refuse } from './errors.ts';
import { readConversationId, readResponseId } from './response-id.ts';
import { unknownResponse } from './stored-responses.ts';

type Place = Pick<Call, 'agent' | 'workspace' | 'tenantId'>;
/** What a response continues, and whether it becomes a part of that. */
type State = Pick<Call, 'session' | 'earlier'>;

/** Turns that may be under way are among these. */
const NEWEST_TURNS = 24;

/**
 * Returns the session of a response: the one of its conversation, or of the response before it, of which it is a fork unless
 * that response is the last of its session; else a new one. With `"store": false` it is given what was said there, and adds
 * nothing to it. Throws NOT_FOUND, INVALID_INPUT, and what sessions throw.
 */
export async function stateFor(deps: Deps, { responseHeaders }: WireRequest, call: Call, body: Body): Promise<State> {
  const { previous_response_id: previous, store } = body;
  const conversation = nameOf(body.conversation);
  if (previous != null && conversation !== undefined) {
    refuse('previous_response_id', 'cannot be combined with conversation: send only one of them.');
  }
  if (previous != null && typeof previous !== 'string') refuse('previous_response_id', 'must be the id of a response.');
  const isStored = store !== false;
  if (previous == null && conversation === undefined) {
    if (call.session !== undefined || !isStored) return { session: call.session, earlier: call.earlier };
    return { ...(await newSession(deps, call, body)), earlier: call.earlier };
  }
  const { found, last } =
    conversation === undefined
      ? await afterResponse(deps, call, previous as string)
      : await inConversation(deps, call, conversation);
  const { id } = found.session;
  if (!isStored) {
    const turns = await historyOf(deps, { workspaceId: call.workspace.id, id, number: (last?.number ?? 0) + 1 });
    return { session: undefined, earlier: turns };
  }
  const isLast = last === undefined || last.number === found.newest[0]?.number;
  const name = isLast ? id : await forkSession(deps, call.workspace, found.session, { after: last.number });
  const session = await joinSession(deps, { ...placeOf(call), name });
  responseHeaders['x-platform-session'] = session.id;
  return { session, earlier: undefined };
}

const placeOf = ({ agent, workspace, tenantId }: Call): Place & { readonly tenantId: string | undefined } => ({
  agent,
  workspace,
  tenantId,
});

/** A conversation is named by its id, or by an object with it. */
function nameOf(conversation: Json | undefined): string | undefined {
  if (conversation == null) return undefined;
  const id = typeof conversation === 'object' && !Array.isArray(conversation) ? conversation.id : conversation;
  if (typeof id !== 'string') return refuse('conversation', 'must be the id of a conversation.');
  return id;
}

/** An agent that takes no sessions answers each response alone. */
async function newSession(deps: Deps, call: Call, { metadata }: Body): Promise<State> {
  const { sessions } = call.agent.definition;
  if (sessions === false) return {};
  const { id } = await openSession(deps, placeOf(call), { metadata: readMetadata(metadata) });
  return { session: await joinSession(deps, { ...placeOf(call), name: id }) };
}

/** Reads what a client keeps with an object, within the limits of OpenAI. Throws INVALID_INPUT. */
export function readMetadata(metadata: Json | undefined): { readonly [name: string]: string } {
  if (metadata == null) return {};
  const entries = typeof metadata === 'object' && !Array.isArray(metadata) ? Object.entries(metadata) : undefined;
  const isGood = entries?.every(
    ([name, value]) => name.length > 0 && name.length <= 64 && typeof value === 'string' && value.length <= 512,
  );
  if (!isGood || entries!.length > 16) {
    refuse('metadata', 'must be an object of at most 16 texts of up to 512 characters, with names of up to 64.');
  }
  return metadata as { [name: string]: string };
}

interface Continued {
  readonly found: FoundSession;
  /** The turn after which it continues; absent if the session has none. */
  readonly last: Turn | undefined;
}

async function inConversation(deps: Deps, call: Call, id: string): Promise<Continued> {
  const named = readConversationId(id);
  const found = named && (await sessionOf(deps, call, named.sessionId));
  if (found === undefined) throw unknownConversation(id, 'conversation');
  return { found, last: found.newest[0] };
}

export const unknownConversation = (id: string, param = 'conversation_id'): OpenAiError =>
  new OpenAiError('NOT_FOUND', `There is no conversation with the id "${id.slice(0, 100)}".`, {
    param,
    openAiCode: 'not_found',
  });

/** Finds a session of the agent, workspace and tenant of a call. */
async function sessionOf(deps: Deps, { workspace, tenantId }: Call, id: string): Promise<FoundSession | undefined> {
  const found = await new SessionStore(deps, workspace.id).find(id, NEWEST_TURNS);
  return found?.session.tenantId === tenantId ? found : undefined;
}

async function afterResponse(deps: Deps, call: Call, id: string): Promise<Continued> {
  const named = readResponseId(id);
  const run = named && (await new RunStore(deps, call.workspace.id).find(named.runId));
  if (run === undefined || (run.tenantId ?? undefined) !== call.tenantId) {
    throw unknownResponse(id, 'previous_response_id');
  }
  if (run.sessionId === null) {
    refuse('previous_response_id', `the response "${id}" was made with "store": false, so nothing can follow it.`);
  }
  const found = await sessionOf(deps, call, run.sessionId!);
  if (found === undefined) throw unknownResponse(id, 'previous_response_id');
  let last = found.newest.find(({ runId }) => runId === run.id);
  if (last === undefined) {
    const older = new SessionStore(deps, call.workspace.id).newestFirst(
      found.session.id,
      found.newest.at(-1)?.number ?? 0,
    );
    for await (const turn of older) {
      if (turn.runId !== run.id) continue;
      last = turn;
      break;
    }
  }
  if (last === undefined) throw unknownResponse(id, 'previous_response_id');
  return { found, last };
}
