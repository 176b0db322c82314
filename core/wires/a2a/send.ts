import { chargeIfRejected } from '#core/accounts/limits/cpu-budget.ts';
import type { Resolved } from '#core/agents/store.ts';
import { callingUser } from '#core/base/caller.ts';
import { isPlatformError } from '#core/base/errors.ts';
import { hasEnded } from '#core/base/run-kinds.ts';
import { HELD_CALL_MS } from '#core/base/time-limits.ts';
import { beginCall } from '#core/execution/calls/answer-call.ts';
import { finishInBackground, type StartedCall } from '#core/execution/calls/call.ts';
import { callerTrace } from '#core/execution/calls/caller-trace.ts';
import { answerWhileHeld } from '#core/execution/calls/held-answer.ts';
import { checkDeprecation } from '#core/execution/calls/target.ts';
import { joinSession, openSession, type SessionOfCall } from '#core/execution/sessions/join.ts';
import { topOfChain } from '#core/execution/sub-calls/lineage.ts';
import type { Incoming } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { type Approval, approvalIdOf } from '#core/runs/approvals/approval.ts';
import { liveEventsOf } from '#core/runs/live-events.ts';
import type { Run } from '#core/runs/run.ts';
import { RunStore } from '#core/runs/store.ts';
import { openQuestions } from '../questions.ts';
import { answerTask } from './answers.ts';
import { A2aError, refuse } from './errors.ts';
import { inputOf, readParts } from './input.ts';
import type { Task } from './objects.ts';
import { addPush, checkPush, createPush, forgetPush, pushNow } from './push-configs.ts';
import type { SendParams, SentPush } from './requests.ts';
import { type Asking, findServed, findTask, type Served, type WithAgent } from './served.ts';
import { idsOf, taskOf } from './task.ts';

export type A2aRequest = Asking &
  Pick<Incoming, 'requestUuid' | 'receivedAt' | 'responseHeaders' | 'address'> & {
    readonly request: Incoming['request'];
  };

/** What a message began or continued. */
export interface Begun {
  readonly served: Served;
  readonly runId: string;
  /** The task as it begins or continues. */
  readonly task: Task;
  /** The run, if this process works on it. */
  readonly started?: StartedCall;
  /** Number of the run's event after which its client has seen nothing. */
  readonly after: number;
  readonly answered: readonly string[];
}

const PUSH_FIELD = 'configuration.taskPushNotificationConfig.';

/** How often a task is looked at that another process works on. */
const LOOK_MS = { first: 100, max: 1000 };

/**
 * Begins a task with a message, or continues the one that it names. Throws what a call throws, TaskNotFound, InvalidParams and
 * UnsupportedOperation.
 */
export async function beginTask(
  deps: Deps,
  incoming: A2aRequest & WithAgent,
  { message, configuration }: SendParams,
  isStream: boolean,
): Promise<Begun> {
  const { served } = incoming;
  const wanted = configuration?.taskPushNotificationConfig ?? undefined;
  if (message.taskId) return continueTask(deps, incoming, served, message, wanted);
  const { agent, channel, session } = await withSession(deps, incoming, served, message.contextId || undefined);
  const { workspace } = served;
  const { requestUuid: runId, receivedAt, responseHeaders } = incoming;
  const { default_endpoint: endpoint } = agent.definition;
  Object.assign(responseHeaders, await checkDeprecation(deps, { agent, channel }, endpoint));
  const input = await chargeIfRejected(deps, workspace, async () => inputOf(agent, readParts(message.parts)));
  const isUnattended = configuration?.returnImmediately === true && !isStream;
  const place = { workspaceId: workspace.id, runId };
  const push = wanted && checkPush(deps, wanted, runId, PUSH_FIELD);
  // Stored before the task begins: it may end at once.
  if (push !== undefined) await addPush(deps, place, push);
  const started = await beginCall(deps, incoming, {
    ...{ agent, channel, workspace, input, runId, receivedAt, endpoint, isUnattended },
    ...(session && { session }),
    triggerSource: 'a2a',
    lineage: topOfChain(agent),
    ...callingUser(incoming.caller),
    ...(await callerTrace(incoming.request.headers)),
    ...(served.tenantId !== undefined && { tenantId: served.tenantId }),
    skillHeaders: {},
    isFollowed: isStream || isUnattended,
  }).catch(async (error: unknown) => {
    if (push !== undefined) await forgetPush(deps, place, push);
    throw error;
  });
  const state = started.heldBy === undefined ? 'TASK_STATE_WORKING' : 'TASK_STATE_SUBMITTED';
  const task = {
    id: runId,
    contextId: session?.id ?? runId,
    status: { state, timestamp: isoTime(receivedAt) },
  } as const;
  if (push !== undefined) await pushNow(deps, place, task, push);
  return { served: { ...served, agent }, runId, task, started, after: 0, answered: [] };
}

/**
 * Returns the session of a context, or a new one for a client that names none. Throws InvalidParams for a context that the agent
 * does not have: it never answers in another one.
 */
async function withSession(
  deps: Deps,
  incoming: A2aRequest,
  served: Served,
  contextId: string | undefined,
): Promise<Resolved & { readonly session?: SessionOfCall }> {
  const { agent, channel, workspace, tenantId } = served;
  if (agent.definition.sessions === false) {
    if (contextId !== undefined) {
      refuse('message.contextId', 'the agent keeps no contexts: leave it out, and say all in one message.');
    }
    return { agent, channel };
  }
  const owner = { workspace, agent, tenantId };
  if (contextId === undefined) {
    const { id } = await openSession(deps, owner);
    return { agent, channel, session: await joinSession(deps, { ...owner, name: id }) };
  }
  const session = await knownSession(deps, { ...owner, name: contextId });
  await checkAsksNothing(deps, workspace.id, session);
  if (session.pinVersion === undefined) return { agent, channel, session };
  const pinned = await findServed(deps, incoming, session.pinVersion, session.id);
  return { agent: pinned.agent, channel: pinned.channel, session };
}

const SESSION = /^ses_[0-9a-f]{32}$/;

async function knownSession(deps: Deps, joining: Parameters<typeof joinSession>[1]): Promise<SessionOfCall> {
  const unknown = (): never =>
    refuse('message.contextId', 'there is no such context of this agent. Leave it out to begin one, and use its id.');
  if (!SESSION.test(joining.name)) unknown();
  try {
    return await joinSession(deps, joining);
  } catch (error) {
    if (isPlatformError(error) && ['NOT_FOUND', 'INVALID_INPUT'].includes(error.code)) return unknown();
    throw error;
  }
}

/** Throws UnsupportedOperation if a task of the context asks its client: a message would wait for it without a word. */
async function checkAsksNothing(deps: Deps, workspaceId: string, { newest }: SessionOfCall): Promise<void> {
  for (const { runId, end } of newest) {
    if (end !== undefined || (await openQuestions(deps, { workspaceId, runId })).length === 0) continue;
    throw new A2aError(
      'UnsupportedOperation',
      `The task ${runId} of this context asks something: answer it with "taskId".`,
    );
  }
}

/** Answers what a task asks. */
async function continueTask(
  deps: Deps,
  incoming: A2aRequest,
  served: Served,
  { taskId, contextId, parts }: SendParams['message'],
  wanted: SentPush | undefined,
): Promise<Begun> {
  const run = await findTask(deps, served, taskId!);
  const ids = idsOf(run);
  if (contextId && contextId !== ids.contextId) {
    refuse('message.contextId', `is not the context of the task ${run.id}.`);
  }
  if (hasEnded(run.status)) {
    throw new A2aError('UnsupportedOperation', 'The task has ended: send the message without "taskId".');
  }
  const { caller, address } = incoming;
  const { workspace } = served;
  const said = await chargeIfRejected(deps, workspace, async () => readParts(parts));
  if (wanted !== undefined) await createPush(deps, { served }, { ...wanted, taskId: run.id });
  const asked = await answerTask(deps, { caller, workspace, address }, run.id, said);
  const task = { ...ids, status: { state: 'TASK_STATE_WORKING', timestamp: isoTime(deps.clock.now()) } } as const;
  const answered = asked.map(approvalIdOf);
  return { served, runId: run.id, task, after: await askedAt(deps, run, asked), answered };
}

/** Returns the number of the run's event that asked: what comes after it answers the message. */
async function askedAt(deps: Deps, { workspaceId, id: runId }: Run, asked: readonly Approval[]): Promise<number> {
  const ids = asked.map(approvalIdOf);
  let last = 0;
  for await (const { number, data } of liveEventsOf(deps, { workspaceId, runId }, 0)) {
    if (data.type !== 'waiting') continue;
    const approvals = data.approvals as unknown as readonly { readonly id: string }[];
    if (approvals.some(({ id }) => ids.includes(id))) last = number;
  }
  return last;
}

/** Sends a message. Returns its task when that has ended, asks its client or cannot be waited for any longer, or at once. */
export async function sendMessage(
  deps: Deps,
  incoming: A2aRequest & WithAgent,
  params: SendParams,
): Promise<{ readonly task: Task }> {
  const begun = await beginTask(deps, incoming, params, false);
  const { started, runId, served, task } = begun;
  if (params.configuration?.returnImmediately === true) {
    if (started !== undefined && started.heldBy === undefined) finishInBackground(deps, started);
    return { task };
  }
  if (started !== undefined) {
    const work = started.finish();
    deps.background(work.then(ignore, ignore));
    await answerWhileHeld(deps, started, work).catch((error: unknown) => {
      // The record of the run has it.
      if (!isPlatformError(error)) deps.log.error('run failed', { run_id: runId, error: String(error) });
    });
  }
  return { task: await stoppedTask(deps, { ...served, runId }, incoming.receivedAt + HELD_CALL_MS) };
}

/** Waits until a task has ended or asks its client. */
async function stoppedTask(
  deps: Deps,
  { workspace, runId }: { readonly workspace: Served['workspace']; readonly runId: string },
  until: number,
): Promise<Task> {
  const runs = new RunStore(deps, workspace.id);
  for (let pause = LOOK_MS.first; ; pause = Math.min(2 * pause, LOOK_MS.max)) {
    const run = await runs.find(runId);
    if (run === undefined) throw new A2aError('TaskNotFound', `The task ${runId} was deleted.`);
    if (hasEnded(run.status)) return taskOf(deps, run);
    const task = await taskOf(deps, run);
    if (task.status.state === 'TASK_STATE_INPUT_REQUIRED' || deps.clock.now() >= until) return task;
    await deps.clock.sleep(pause);
  }
}

const ignore = (): void => {};
