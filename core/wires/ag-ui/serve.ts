import { chargeIfRejected } from '#core/accounts/limits/cpu-budget.ts';
import { rateLimitHeaders } from '#core/accounts/limits/rate-limit.ts';
import { type Caller, callingUser } from '#core/base/caller.ts';
import { hasCode, isPlatformError, PlatformError } from '#core/base/errors.ts';
import { HELD_CALL_MS } from '#core/base/time-limits.ts';
import { takePlace } from '#core/events/watchers.ts';
import { type StartedCall, startCall } from '#core/execution/calls/call.ts';
import { callerTrace } from '#core/execution/calls/caller-trace.ts';
import type { Call } from '#core/execution/calls/prepare.ts';
import { findTarget, type Target } from '#core/execution/calls/target.ts';
import { joinSession, type SessionOfCall } from '#core/execution/sessions/join.ts';
import { topOfChain } from '#core/execution/sub-calls/lineage.ts';
import type { RequestHeaders } from '#core/http/message.ts';
import { type Incoming, type KeyNeeds, rowOf } from '#core/http/route.ts';
import { addressIn } from '#core/manifest/references.ts';
import type { Deps } from '#core/ports/deps.ts';
import { approvalIdOf } from '#core/runs/approvals/approval.ts';
import { RunStore } from '#core/runs/store.ts';
import { LocalProgress } from '../local-progress.ts';
import { type Answering, checkMayAnswer, openQuestions } from '../questions.ts';
import { textKindOf } from '../run-mapping.ts';
import { type ClientPlace, type ClientRun, claimClientRun, findClientRun, freeClientRun } from './client-runs.ts';
import { askedBy, inputOf, type RunAgentInput } from './input.ts';
import { answerAll, askedAt, resumptionOf } from './interrupts.ts';
import { placeOf, START } from './numbering.ts';
import { agUiRoutes } from './routes.ts';
import { agUiStream, refusedStream } from './stream.ts';

/** Throws if a caller with these headers has no access to the workspace. */
export type Authenticate = (headers: RequestHeaders, workspaceId: string, row: KeyNeeds) => Promise<Caller>;
export type AgUiRequest = Incoming<(typeof agUiRoutes)[number]>;

/** How long a request waits for the record of a run that another request begins. */
const BEGINS_WITHIN_MS = 10_000;
/** After it, a run without a record has never begun: its process died. */
const LOST_AFTER_MS = 60_000;
const PAUSE_MS = 200;

/**
 * Serves a request of AG-UI: begins a run in the session that its thread names, answers what a run asks, or resumes the stream
 * of a run that began before with the same id (`docs/interface/ag-ui.md`).
 *
 * Throws what a call throws, NOT_FOUND to resume a run that never began, and CONFLICT for an id of another question. What
 * a client can only learn from a stream, that its answers do not fit the open interrupts, is an event RUN_ERROR.
 */
export async function serve(deps: Deps, authenticate: Authenticate, incoming: AgUiRequest) {
  const served = await chargeIfRejected(deps, incoming.caller.workspace, () => findServed(deps, incoming));
  const request = new ServedRequest(deps, authenticate, incoming, served);
  try {
    return await request.answer();
  } catch (error) {
    if (!(error instanceof RefusedAnswerError)) throw error;
    const { threadId, runId: clientRunId } = incoming.body;
    return streamed(refusedStream({ threadId, clientRunId }, error.refusal, incoming.requestUuid));
  }
}

interface Served extends Target {
  readonly session: SessionOfCall;
}

async function findServed(deps: Deps, { params, caller, request, headers, body }: AgUiRequest): Promise<Served> {
  const isNamed = request.headers.has('x-workspace-id');
  const tenantId = headers['x-platform-tenant'];
  const address = addressIn(params);
  const sticking = { tenant: tenantId, session: body.threadId };
  const target = (version: string) => findTarget(deps, { ...address, version }, caller, isNamed, sticking);
  const { agent, channel, workspace } = await target(address.version);
  const session = await joinSession(deps, { workspace, agent, tenantId, name: body.threadId });
  if (session.pinVersion === undefined) return { agent, channel, workspace, session };
  const pinned = await target(session.pinVersion);
  return { agent: pinned.agent, channel: pinned.channel, workspace, session };
}

/** Why a client's answers do not fit: an event of the stream. */
class RefusedAnswerError extends Error {
  readonly refusal: PlatformError;

  constructor(refusal: PlatformError) {
    super(refusal.message);
    this.refusal = refusal;
  }
}

const streamed = (body: AsyncIterable<Uint8Array>) => ({
  status: 200 as const,
  body,
  headers: { 'cache-control': 'no-cache' },
});

class ServedRequest {
  readonly #deps: Deps;
  readonly #authenticate: Authenticate;
  readonly #incoming: AgUiRequest;
  readonly #served: Served;
  readonly #place: ClientPlace;
  readonly #asked: string;

  constructor(deps: Deps, authenticate: Authenticate, incoming: AgUiRequest, served: Served) {
    this.#deps = deps;
    this.#authenticate = authenticate;
    this.#incoming = incoming;
    this.#served = served;
    this.#place = {
      workspaceId: served.workspace.id,
      sessionId: served.session.id,
      clientRunId: incoming.body.runId,
    };
    this.#asked = askedBy(incoming.body);
    incoming.responseHeaders['x-platform-session'] = served.session.id;
  }

  async answer() {
    const claimed = await findClientRun(this.#deps, this.#place);
    if (claimed !== undefined) return this.#resumed(claimed);
    const { body, headers } = this.#incoming;
    if (headers['last-event-id'] !== undefined) {
      throw new PlatformError('NOT_FOUND', `There is no run "${body.runId.slice(0, 64)}" in this thread to resume.`, {
        hint: 'Streams can be resumed for 24 hours. Without Last-Event-ID, the request begins the run.',
      });
    }
    return (body.resume ?? []).length > 0 ? this.#continued(body.resume!) : this.#begun();
  }

  /** Begins a run. */
  async #begun(instead?: string) {
    const { body, requestUuid: runId } = this.#incoming;
    const { agent, workspace } = this.#served;
    const input = await chargeIfRejected(this.#deps, workspace, async () => inputOf(agent, body));
    await this.#checkIsNotAsked();
    const claim = { runId, after: 0, answered: [], asked: this.#asked, text: textKindOf(agent) };
    if (!(await claimClientRun(this.#deps, this.#place, claim, instead))) return this.#resumedBy();
    const started = await this.#start(input).catch(async (error: unknown) => {
      // The client may send the same again, unless the run has begun.
      const run = await new RunStore(this.#deps, workspace.id).find(runId);
      if (run === undefined) await freeClientRun(this.#deps, this.#place, runId);
      throw error;
    });
    const { progress, work } = LocalProgress.of(this.#deps, (emit) => started.finish(emit), runId);
    this.#deps.background(work);
    if (started.rateLimit) Object.assign(this.#incoming.responseHeaders, rateLimitHeaders(started.rateLimit));
    return this.#stream(claim, progress);
  }

  async #start(input: Call['input']): Promise<StartedCall> {
    const { caller, headers, request, requestUuid: runId, receivedAt } = this.#incoming;
    const { agent, channel, workspace, session } = this.#served;
    return startCall(this.#deps, {
      ...{ agent, channel, workspace, session, input, runId, receivedAt },
      endpoint: agent.definition.default_endpoint,
      triggerSource: 'api',
      ...callingUser(caller),
      lineage: topOfChain(agent),
      tenantId: headers['x-platform-tenant'],
      ...(await callerTrace(request.headers)),
      skillHeaders: {},
      isFollowed: true,
    });
  }

  /** Throws if a run of the thread asks people: a message would wait for them without a word. */
  async #checkIsNotAsked(): Promise<void> {
    const { workspaceId } = this.#place;
    const underWay = this.#served.session.newest.filter(({ end }) => end === undefined);
    const open = await Promise.all(underWay.map(({ runId }) => openQuestions(this.#deps, { workspaceId, runId })));
    if (open.flat().length === 0) return;
    const ids = open
      .flat()
      .map((each) => `"${approvalIdOf(each)}"`)
      .join(', ');
    throw new RefusedAnswerError(
      new PlatformError('CONFLICT', `The run before waits for an answer to ${ids}: send "resume" with it.`),
    );
  }

  /** Answers what a run asks, and streams the rest of it. */
  async #continued(entries: NonNullable<RunAgentInput['resume']>) {
    const { caller, address } = this.#incoming;
    const { agent, workspace, session } = this.#served;
    const answering: Answering = { caller, workspace, address };
    await checkMayAnswer(this.#deps, answering);
    return refusing(async () => {
      const runIds = session.newest.map(({ runId }) => runId);
      const resumption = await resumptionOf(this.#deps, workspace.id, entries, runIds);
      const after = await askedAt(this.#deps, workspace.id, resumption);
      const answered = entries.map(({ interruptId }) => interruptId);
      const claim = { runId: resumption.runId, after, answered, asked: this.#asked, text: textKindOf(agent) };
      if (!(await claimClientRun(this.#deps, this.#place, claim))) return this.#resumedBy();
      try {
        await answerAll(this.#deps, answering, resumption);
      } catch (error) {
        await freeClientRun(this.#deps, this.#place, resumption.runId);
        throw error;
      }
      return this.#attached(claim);
    });
  }

  /** Resumes a stream that another request has just begun. */
  async #resumedBy() {
    const claimed = await findClientRun(this.#deps, this.#place);
    if (claimed === undefined) throw this.#isBeginning();
    return this.#resumed(claimed);
  }

  /** Resumes the stream of a run that began before. */
  async #resumed(claimed: ClientRun): Promise<ReturnType<typeof streamed>> {
    if (claimed.asked !== this.#asked) {
      throw new PlatformError('CONFLICT', 'body.runId: this id of a run was already used for another message.', {
        hint: 'Use a new id for each message, and the same only to resume the stream of its run.',
      });
    }
    const { clock } = this.#deps;
    const until = clock.now() + BEGINS_WITHIN_MS;
    const runs = new RunStore(this.#deps, this.#place.workspaceId);
    while ((await runs.find(claimed.runId)) === undefined) {
      if (clock.now() - claimed.claimedAt > LOST_AFTER_MS) return this.#begun(claimed.runId);
      if (clock.now() > until || (await findClientRun(this.#deps, this.#place)) === undefined)
        throw this.#isBeginning();
      await clock.sleep(PAUSE_MS);
    }
    return this.#attached(claimed);
  }

  #isBeginning(): PlatformError {
    return new PlatformError('CONFLICT', 'Another request begins this run at the moment, or it could not be begun.', {
      hint: 'Send the same again a little later.',
      suggested_wait_time: 5,
    });
  }

  async #attached(claimed: Omit<ClientRun, 'claimedAt'>) {
    // Taken before the answer, which then can say that there is none.
    const giveBack = await takePlace(this.#deps, this.#incoming.caller.workspace.id);
    return this.#stream(claimed, undefined, async () => giveBack);
  }

  #stream(
    { runId, after, answered, text }: Omit<ClientRun, 'claimedAt'>,
    local?: LocalProgress,
    place = () => this.#takePlace(),
  ) {
    const { body, headers, request, receivedAt, requestUuid, responseHeaders, caller } = this.#incoming;
    responseHeaders['x-run-id'] = runId;
    responseHeaders['x-platform-run-id'] = runId;
    const row = rowOf(agUiRoutes, 'runAgUi');
    const run = { ...this.#place, threadId: body.threadId, runId, after, answered };
    return streamed(
      agUiStream(this.#deps, {
        ...{ run, text, requestUuid, takePlace: place },
        ...(local && { local }),
        after: placeOf(headers['last-event-id'] ?? '') ?? START,
        until: receivedAt + HELD_CALL_MS,
        check: async () => void (await this.#authenticate(request.headers, caller.workspace.id, row)),
      }),
    );
  }

  async #takePlace(): Promise<(() => Promise<void>) | undefined> {
    try {
      return await takePlace(this.#deps, this.#incoming.caller.workspace.id);
    } catch (error) {
      if (hasCode(error, 'RATE_LIMITED')) return undefined;
      throw error;
    }
  }
}

/** Makes errors of the answers to interrupts an event of the stream. */
async function refusing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isRefusal = isPlatformError(error) && ['NOT_FOUND', 'CONFLICT', 'INVALID_INPUT'].includes(error.code);
    throw isRefusal ? new RefusedAnswerError(error) : error;
  }
}
