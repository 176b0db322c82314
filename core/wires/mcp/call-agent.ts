import { chargeIfRejected } from '#core/accounts/limits/cpu-budget.ts';
import { ANYONE, findAnyVersion } from '#core/agents/store.ts';
import { callingUser } from '#core/base/caller.ts';
import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { HELD_CALL_MS } from '#core/base/time-limits.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { beginCall } from '#core/execution/calls/answer-call.ts';
import { finishInBackground, type StartedCall } from '#core/execution/calls/call.ts';
import { callerTrace } from '#core/execution/calls/caller-trace.ts';
import type { CallAnswer } from '#core/execution/calls/finish.ts';
import { answerWhileHeld } from '#core/execution/calls/held-answer.ts';
import { type Call, isDurable } from '#core/execution/calls/prepare.ts';
import { checkDeprecation, type Target } from '#core/execution/calls/target.ts';
import { asObject, splitCredentials } from '#core/execution/input/members.ts';
import { followRun } from '#core/execution/sessions/follow-run.ts';
import { topOfChain } from '#core/execution/sub-calls/lineage.ts';
import type { RequestHeaders } from '#core/http/message.ts';
import { versionName } from '#core/manifest/references.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { McpContext, McpObject } from '#core/ports/mcp-endpoint.ts';
import { cancelRun } from '#core/runs/cancellation.ts';
import { RunStore } from '#core/runs/store.ts';
import { structuredOf, toolNameOf } from './agent-tools.ts';
import { failedResult } from './errors.ts';
import { follow } from './follow.ts';
import { ProgressNotifier } from './progress.ts';
import { createdTask, takesTasks } from './run-tasks.ts';
import type { Scene } from './scene.ts';
import { noteCall } from './sessions.ts';
import { askClient, type ClientCall, type ContinuedCall, continueCall } from './waiting-calls.ts';

/** An agent, and the workspace that owns its run. */
export type ToolTarget = Target;

/** Calls an agent by its tool. Throws what happens before its run begins. */
export async function callAgentTool(
  deps: Deps,
  scene: Scene,
  target: ToolTarget,
  args: McpObject,
  context: McpContext,
): Promise<McpObject> {
  const sent = { tool: toolNameOf(target.agent), args };
  return resultOf(await runAgent(deps, scene, target, { args, sent }, context));
}

/** Returns the result of the tool of an agent. Throws {@link McpError} for failures of the platform. */
function resultOf({ call, meta, outcome }: CalledAgent): McpObject {
  if ('interim' in outcome) return outcome.interim;
  if ('error' in outcome) return failedResult(outcome.error, call.runId, meta);
  const structuredContent = structuredOf(call.agent, outcome.answer.data);
  return { content: [{ type: 'text', text: textOf(outcome.answer.data) }], structuredContent, _meta: meta };
}

const textOf = (data: Json): string => (typeof data === 'string' ? data : JSON.stringify(data));

type CalledRun = Pick<Call, 'agent' | 'workspace' | 'runId'>;

/** How a call ended, once its run has begun. */
export interface CalledAgent {
  readonly call: CalledRun;
  /** What every result says of the run. */
  readonly meta: McpObject;
  readonly outcome: Outcome;
}

/** `interim` is a result that is not the end of the run: the run is a task, or asks the client. */
type Outcome = { readonly answer: CallAnswer } | { readonly error: unknown } | { readonly interim: McpObject };

/** The input of a call, and the call of a tool that it is a part of, as the client sent it. */
interface AgentInput {
  readonly args: McpObject;
  readonly sent: Pick<ClientCall, 'tool' | 'args'>;
}

/**
 * Makes an ordinary call for a tool. It reports progress to the client, and cancels the run if the client leaves. With the
 * answers of a client, it continues the run that asked. Throws what happens before the run begins, and {@link McpError} for
 * answers that do not fit.
 */
export async function runAgent(
  deps: Deps,
  scene: Scene,
  target: ToolTarget,
  { args, sent }: AgentInput,
  context: McpContext,
): Promise<CalledAgent> {
  const { workspace } = target;
  const made = { ...sent, workspace };
  if (context.requestState !== undefined) return continued(deps, scene, made, context);
  const isTask = becomesTask(scene, target, context);
  const call = await chargeIfRejected(deps, scene.incoming.caller.workspace, async () => ({
    ...(await callOf(deps, scene, target, { args, context })),
    isUnattended: isTask,
  }));
  if (context.isLegacy) {
    const { requestId } = context;
    await noteCall(deps, scene.incoming, { requestId, workspaceId: call.workspace.id, runId: call.runId });
  }
  const started = await beginCall(deps, { caller: scene.incoming.caller, responseHeaders: {} }, call);
  if (isTask) {
    if (started.heldBy === undefined) finishInBackground(deps, started);
    return {
      call,
      meta: {},
      outcome: { interim: await createdTask(deps, { workspaceId: workspace.id, runId: call.runId }) },
    };
  }
  const stopWatching = cancelIfLeft(deps, call, context);
  const outcome = await endOf(deps, scene, started, { call, made }, context);
  stopWatching();
  return { call, meta: await metaOf(deps, call), outcome };
}

/**
 * Whether a call is a task: its run survives this process, and its client may take hours to ask for it. Tasks are found in the
 * workspace of the caller.
 */
const becomesTask = ({ incoming }: Scene, { agent, workspace }: ToolTarget, context: McpContext): boolean =>
  isDurable({ agent }) && workspace.id === incoming.caller.workspace.id && takesTasks(context);

/** Continues the call of a client that answers what its run asked. */
async function continued(deps: Deps, scene: Scene, made: ClientCall, context: McpContext): Promise<CalledAgent> {
  const progress = ProgressNotifier.for(context);
  const { runId, followed } = await continueCall(deps, scene, made, context, progress?.emit);
  progress?.stop();
  const call = await calledRun(deps, made.workspace, runId);
  if (context.signal.aborted) cancelIfLeft(deps, call, context);
  const outcome = await outcomeOf(deps, scene, { call, made }, context, followed);
  return { call, meta: await metaOf(deps, call), outcome };
}

/** Returns a run as its call had it. Throws NOT_FOUND if its agent was deleted. */
async function calledRun(deps: Deps, workspace: Workspace, runId: string): Promise<CalledRun> {
  const run = await new RunStore(deps, workspace.id).find(runId);
  const agent = run && (await findAnyVersion(deps, run.agentId, ANYONE));
  if (agent === undefined) throw new PlatformError('NOT_FOUND', `The agent of the run ${runId} was deleted.`);
  return { agent, workspace, runId };
}

/** Returns the result of a run that has ended, for its task. Throws as {@link resultOf} does. */
export async function resultOfRun(deps: Deps, workspace: Workspace, runId: string): Promise<McpObject> {
  const call = await calledRun(deps, workspace, runId);
  return resultOf({ call, meta: await metaOf(deps, call), outcome: await endedOutcome(deps, call) });
}

async function callOf(
  deps: Deps,
  scene: Scene,
  { agent, channel, workspace }: ToolTarget,
  { args, context }: { readonly args: McpObject; readonly context: McpContext },
): Promise<Call> {
  const { headers, receivedAt } = scene.incoming;
  const endpoint = agent.definition.default_endpoint;
  await checkDeprecation(deps, { agent, channel }, endpoint);
  const document = asObject(args, 'params.arguments');
  const { rest, llmCredentials } = splitCredentials(document, 'llm_credentials');
  return {
    agent,
    channel,
    endpoint,
    input: { document: rest, uploads: [], isMultipart: false, ...(llmCredentials && { llmCredentials }) },
    workspace,
    // A request may be a batch with several calls.
    runId: deps.ids.uuid(),
    triggerSource: 'mcp',
    receivedAt,
    lineage: topOfChain(agent),
    ...callingUser(scene.incoming.caller),
    tenantId: headers['x-platform-tenant'],
    skillHeaders: {},
    ...(await callerTrace(traceHeaders(scene, context))),
  };
}

/** Returns the trace context of a call: that of its message (`_meta`), else that of the request. */
function traceHeaders({ incoming }: Scene, { meta }: McpContext): RequestHeaders {
  if (typeof meta.traceparent !== 'string') return incoming.request.headers;
  const get = (name: string): string | null => (typeof meta[name] === 'string' ? meta[name] : null);
  return { get, has: (name) => get(name) !== null };
}

/** Clients of older revisions may break a connection without a wish to cancel: they send a message (`sessions.ts`). */
function cancelIfLeft(deps: Deps, { workspace, runId }: CalledRun, { signal, isLegacy }: McpContext): () => void {
  if (isLegacy) return () => {};
  const cancel = (): void => {
    const work = cancelRun(deps, workspace.id, runId).then(
      () => {},
      (error: unknown) => deps.log.warn('run not cancelled', { run_id: runId, error: String(error) }),
    );
    void deps.background(work);
  };
  if (signal.aborted) cancel();
  else signal.addEventListener('abort', cancel, { once: true });
  return () => signal.removeEventListener('abort', cancel);
}

async function endOf(
  deps: Deps,
  scene: Scene,
  started: StartedCall,
  { call, made }: Asking & { readonly call: Call },
  context: McpContext,
): Promise<Outcome> {
  const progress = ProgressNotifier.for(context);
  const work = started.finish(progress?.emit);
  void deps.background(work.then(ignore, ignore));
  try {
    const answer = await answerWhileHeld(deps, started, work);
    if (answer !== undefined) return { answer };
    const place = { workspaceId: call.workspace.id, runId: call.runId };
    const until = call.receivedAt + HELD_CALL_MS;
    const { id: callerWorkspaceId } = scene.incoming.caller.workspace;
    const followed = await follow(deps, place, { until, signal: context.signal, callerWorkspaceId });
    return await outcomeOf(deps, scene, { call, made }, context, followed);
  } catch (error) {
    if (!isPlatformError(error)) deps.log.error('run failed', { run_id: call.runId, error: String(error) });
    return { error };
  } finally {
    progress?.stop();
  }
}

interface Asking {
  readonly call: CalledRun;
  readonly made: ClientCall;
}

async function outcomeOf(
  deps: Deps,
  scene: Scene,
  { call, made }: Asking,
  context: McpContext,
  followed: ContinuedCall['followed'],
): Promise<Outcome> {
  if (followed.is === 'over') return endedOutcome(deps, call);
  if (followed.is === 'asking') {
    const { open } = followed;
    const interim = await askClient(deps, scene, made, context, { runId: call.runId, open });
    if (interim !== undefined) return { interim };
  }
  return { error: notOver(call) };
}

async function endedOutcome(deps: Deps, { workspace, runId }: CalledRun): Promise<Outcome> {
  try {
    return { answer: await followRun(deps, { workspace, runId, receivedAt: deps.clock.now() }).finish() };
  } catch (error) {
    return { error };
  }
}

const notOver = ({ runId }: CalledRun): PlatformError =>
  new PlatformError('TIMEOUT', `The run ${runId} is not over: it goes on, or waits for a person or its turn.`, {
    hint: 'platform_get_run_logs shows its result once it has ended; platform_list_approvals shows what it asks.',
    is_retryable: false,
  });

async function metaOf(deps: Deps, { runId, workspace, agent }: CalledRun): Promise<McpObject> {
  const run = await new RunStore(deps, workspace.id).find(runId).catch(() => undefined);
  return {
    'platform/run_id': runId,
    'platform/workspace_id': workspace.id,
    'platform/version': versionName(agent.version),
    ...(run?.costUsd != null && { 'platform/cost_usd': run.costUsd }),
    ...(run !== undefined && run.creditsCents > 0 && { 'platform/credits_cents': run.creditsCents }),
  };
}

const ignore = (): void => {};
