import { checkStays } from '#core/accounts/workspaces/moving.ts';
import type { Incoming, Outgoing } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { cancelRun } from '#core/runs/cancellation.ts';
import { messagesOf } from '../messages.ts';
import { plainError } from '../plain-error.ts';
import { sendMessage } from '../send.ts';
import { sessionOf, visit } from '../visit.ts';
import { countSession, newVisitor, noteSession } from '../visitors.ts';
import { type chatRoutes, MAX_MESSAGE } from './routes.ts';

type Row<Name extends (typeof chatRoutes)[number]['operationId']> = Extract<
  (typeof chatRoutes)[number],
  { operationId: Name }
>;
type Request<Name extends (typeof chatRoutes)[number]['operationId']> = Incoming<Row<Name>>;
type Answer<Name extends (typeof chatRoutes)[number]['operationId']> = Promise<Outgoing<Row<Name>>>;

/** Secrets that {@link newVisitor} makes. */
const VISITOR = /^[a-z][\w-]{43}$/;

export async function getChat(deps: Deps, incoming: Request<'getChat'>): Answer<'getChat'> {
  const { link, agent } = await visit(deps, incoming);
  return {
    status: 200,
    body: {
      kind: link.kind,
      title: link.title ?? agent.name,
      welcome: link.welcome,
      suggestions: [...link.suggestions],
      input_schema: link.kind === 'form' ? (agent.definition.input_schema as Record<string, unknown> | null) : null,
      max_message_characters: MAX_MESSAGE,
      expires_at: isoTime(link.expires * 1000),
    },
  };
}

export async function openChatSession(deps: Deps, incoming: Request<'openChatSession'>): Answer<'openChatSession'> {
  const { link, workspace } = await visit(deps, incoming);
  try {
    checkStays(workspace, 'change');
  } catch (error) {
    throw plainError(error, link.kind);
  }
  await countSession(deps, link, incoming.address);
  const given = incoming.headers['x-platform-visitor'];
  const visitor = given !== undefined && VISITOR.test(given) ? given : newVisitor(deps);
  const id = deps.ids.uuid();
  await noteSession(deps, link, visitor, id);
  return { status: 201, body: { session_id: id, visitor } };
}

export async function listChatMessages(deps: Deps, incoming: Request<'listChatMessages'>): Answer<'listChatMessages'> {
  const visited = await visit(deps, incoming);
  const session = await sessionOf(deps, visited.link, incoming);
  return { status: 200, body: await messagesOf(deps, visited, session, incoming.query) };
}

export async function sendChatMessage(deps: Deps, incoming: Request<'sendChatMessage'>): Answer<'sendChatMessage'> {
  const visited = await visit(deps, incoming);
  const session = await sessionOf(deps, visited.link, incoming);
  const { body, requestUuid: runId, receivedAt } = incoming;
  const content = await sendMessage(deps, visited, session, { body, runId, receivedAt });
  // The contents of a stream are nobody else's: headers say so to caches and proxies.
  return { status: 200, body: content };
}

export async function stopChatMessage(deps: Deps, incoming: Request<'stopChatMessage'>): Answer<'stopChatMessage'> {
  const { link } = await visit(deps, incoming);
  const { lastRunId } = await sessionOf(deps, link, incoming);
  const stopped = lastRunId !== undefined && (await cancelRun(deps, link.workspaceId, lastRunId));
  return { status: 200, body: { stopped } };
}
