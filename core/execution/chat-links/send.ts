import { hashKey } from '#core/accounts/keys/key-format.ts';
import { type Resolved, resolveCall } from '#core/agents/store.ts';
import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { planOf } from '#core/base/plans.ts';
import { RUN_GRACE_MS } from '#core/base/time-limits.ts';
import { MICRO_PER_CENT } from '#core/billing/budgets/policy.ts';
import { priceFor } from '#core/billing/credits/payment.ts';
import { isChannelName } from '#core/manifest/channel-name.ts';
import { engineTraits } from '#core/manifest/engines.ts';
import type { Deps } from '#core/ports/deps.ts';
import { textOfAnswer } from '../calls/answer-text.ts';
import { type StartedCall, startCall } from '../calls/call.ts';
import { answerWhileHeld } from '../calls/held-answer.ts';
import { type Call, deadlineOf } from '../calls/prepare.ts';
import { checkDeprecation } from '../calls/target.ts';
import { inputFromText } from '../input/text-input.ts';
import { joinSession } from '../sessions/join.ts';
import { topOfChain } from '../sub-calls/lineage.ts';
import { AnswerStream } from './answer-stream.ts';
import { addressOfAgent, tenantOf } from './link.ts';
import { plainError } from './plain-error.ts';
import { dropUse, endUse, forVisitors, takeUse } from './use.ts';
import type { Visited } from './visit.ts';
import { endTurn, noteEnd, noteRun, takeTurn, type VisitorSession } from './visitors.ts';

/** A message of a visitor. */
export interface Sent {
  readonly body: { readonly text?: string | undefined; readonly input?: Readonly<Record<string, unknown>> | undefined };
  readonly runId: string;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
}

/**
 * Runs the agent of a link with the message of a visitor, and streams the answer. The run continues if the visitor leaves.
 * Throws what visitors may know: INVALID_INPUT, CONFLICT, RATE_LIMITED, UNPROCESSABLE, TIMEOUT.
 */
export async function sendMessage(
  deps: Deps,
  visited: Visited,
  session: VisitorSession,
  sent: Sent,
): Promise<AsyncIterable<Uint8Array>> {
  const { link } = visited;
  const stream = new AnswerStream(deps, { showsText: link.kind === 'chat' });
  const { started, number } = await begin(deps, visited, session, sent).catch((error: unknown) => {
    stream.stop();
    if (!isPlatformError(error)) deps.log.error('message of a visitor failed', { error: String(error) });
    throw plainError(error, link.kind);
  });
  stream.begin(number);
  const work = started.finish(stream.emit);
  const settled = work.then(ignore, ignore).then(() => settle(deps, visited, session, sent.runId));
  deps.background(settled.then(ignore, ignore));
  const finish = async (): Promise<void> => {
    try {
      const answer = await answerWhileHeld(deps, started, work);
      if (answer === undefined) return stream.end('continues', { status: 'waiting' });
      // The visitor may send the next message as soon as it has the answer.
      await settled;
      const isForm = link.kind === 'form';
      const { data } = answer;
      stream.end('result', { status: 'completed', answer: textOfAnswer(data), output: isForm ? data : null });
    } catch (error) {
      await settled.catch(ignore);
      if (!isPlatformError(error)) deps.log.error('run failed', { run_id: sent.runId, error: String(error) });
      const { message } = plainError(error, link.kind);
      const isStopped = isPlatformError(error) && error.code === 'RUN_CANCELLED';
      stream.end('error', { status: isStopped ? 'stopped' : 'failed', message });
    }
  };
  deps.background(finish().finally(() => stream.stop()));
  return stream.events;
}

/** Takes the places of a message, and starts its run. If a step fails, the earlier ones are undone. */
async function begin(
  deps: Deps,
  visited: Visited,
  session: VisitorSession,
  sent: Sent,
): Promise<{ readonly started: StartedCall; readonly number: number }> {
  const { link, workspace } = visited;
  const call = await callOf(deps, visited, session, sent);
  const { agent } = call;
  const { runId } = sent;
  const until = deadlineOf(deps, call) + RUN_GRACE_MS;
  const priceCents = priceFor(agent, workspace);
  await takeTurn(deps, link, session.visitor, runId, until);
  try {
    await takeUse(deps, link, {
      runId,
      plan: planOf(deps, workspace),
      quota: priceCents > 0 ? 'paid' : engineTraits(agent).quota,
      priceMicro: priceCents * MICRO_PER_CENT,
      until,
    });
    const joined: Pick<Call, 'session'> =
      link.kind === 'chat'
        ? { session: await joinSession(deps, { workspace, agent, tenantId: tenantOf(link), name: session.id }) }
        : {};
    await noteRun(deps, session, runId);
    const started = await startCall(deps, { ...call, ...joined });
    // A visitor has one message under way, so no other one is between these.
    return { started, number: (joined.session?.newest[0]?.number ?? 0) + 1 };
  } catch (error) {
    await Promise.all([
      dropUse(deps, workspace.id, runId),
      endTurn(deps, session.visitor, runId, { isCounted: false }),
      noteEnd(deps, session, runId),
    ]);
    throw error;
  }
}

async function callOf(
  deps: Deps,
  visited: Visited,
  session: VisitorSession,
  { body, runId, receivedAt }: Sent,
): Promise<Call> {
  const { link, workspace } = visited;
  const { agent, channel } = await calledBy(deps, visited, session);
  const endpoint = agent.definition.default_endpoint;
  await checkDeprecation(deps, { agent, channel }, endpoint);
  const { text, input } = body;
  const missing = (member: string, what: string) =>
    forVisitors(new PlatformError('INVALID_INPUT', `body.${member}: is missing: it is ${what}.`));
  if (link.kind === 'chat' && text === undefined) throw missing('text', 'the message');
  if (link.kind === 'form' && input === undefined) throw missing('input', 'the fields of the form');
  const document = link.kind === 'chat' ? inputFromText(agent, text!) : (input as { [member: string]: Json });
  // Visitors bring no keys and choose no models.
  const { llm_credentials: _, ...own } = document;
  return {
    agent,
    channel,
    endpoint,
    input: { document: own, uploads: [], isMultipart: false },
    workspace,
    runId,
    triggerSource: 'chat',
    receivedAt,
    lineage: topOfChain(agent),
    tenantId: tenantOf(link),
    skillHeaders: {},
  };
}

/**
 * Finds the version that answers. A channel divides visitors, or conversations: all visitors have the tenant of the link in
 * common.
 */
async function calledBy(deps: Deps, { link, agent }: Visited, session: VisitorSession): Promise<Resolved> {
  if (!isChannelName(link.version ?? '')) return { agent };
  const sticking = { tenant: hashKey(session.visitor), session: session.id };
  return (await resolveCall(deps, addressOfAgent(link), { sticking })) ?? { agent };
}

/** Releases the places of a message whose run has ended. A run that has not ended keeps them until the next check. */
export async function settle(
  deps: Pick<Deps, 'counters' | 'runs' | 'blobs' | 'clock' | 'config'>,
  { link }: Pick<Visited, 'link'>,
  session: VisitorSession,
  runId: string,
): Promise<boolean> {
  if (!(await endUse(deps, link.workspaceId, runId))) return false;
  await endTurn(deps, session.visitor, runId, { isCounted: true });
  await noteEnd(deps, session, runId);
  return true;
}

const ignore = (): void => {};
