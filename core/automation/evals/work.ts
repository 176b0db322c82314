import { isUsedUp, type LimitError } from '#core/accounts/limits/rate-limit.ts';
import { AgentStore } from '#core/agents/store.ts';
import { callingUser } from '#core/base/caller.ts';
import { isHostBusy, isPlatformError, type PlatformError } from '#core/base/errors.ts';
import { withMocks } from '#core/manifest/evals/mocked-tools.ts';
import { shortText } from '#core/manifest/evals/suite.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { heartbeat } from '#core/ports/heartbeat.ts';
import { actingFor } from './acting.ts';
import type { DueEval } from './due.ts';
import type { Evaluation, Slot, SlotResult, StoredCase, StoredSlot } from './eval.ts';
import { lanesOf, runIdOf, slotsOf } from './eval.ts';
import { grade } from './grade.ts';
import { observedRun } from './observed.ts';
import type { Lane, Outcome, ReplayedLane } from './outcome.ts';
import { type Asker, runOnce } from './run-once.ts';
import { EvalStore } from './store.ts';
import { type CaseOutcomes, verdictOf } from './verdict.ts';

const HEARTBEAT_MS = 20_000;
/** Cases that are read at once. */
const CASES_AT_ONCE = 50;
/** Concurrent runs of one evaluation, which leaves capacity for the workspace's other calls. */
const AT_ONCE = 4;
/** Delay before the next attempt if the concurrency limit is reached. */
const NO_ROOM_MS = 10_000;
/** Delay before the next look at a run that has not ended: a durable one, or one whose process died. */
const PENDING_MS = 10_000;
/** An evaluation may wait for room and for durable runs, but not indefinitely. */
const MAX_AGE_MS = 3 * 24 * 3600_000;

/**
 * What became of a run. `until`: nothing can be done about it before this time, nor about others if the workspace `isFull`. `stop`: no further
 * run begins.
 */
type Dealt = 'done' | { readonly until: number; readonly isFull?: true } | { readonly stop: string };

/** A run that has no result. */
interface Left {
  readonly each: StoredCase;
  readonly slot: Slot;
  readonly isBegun: boolean;
}

/**
 * Works on an evaluation until it is over or `until` (epoch milliseconds), unless another process holds it. Returns when the runs that it
 * started have ended.
 */
export async function workOn(deps: Deps, due: DueEval, until: number): Promise<void> {
  const store = new EvalStore(deps, due.workspaceId);
  const token = deps.ids.uuid();
  const taken = await store.take(due, token);
  if (taken === undefined) return;
  const stopBeating = heartbeat(deps.clock, HEARTBEAT_MS, () => store.hold(taken.id, token));
  try {
    const scene = await sceneOf(deps, taken);
    if ('problem' in scene) {
      await store.end(taken.id, { status: 'failed', reason: scene.problem }, token);
      return;
    }
    const work = new Work(deps, store, taken, scene, until);
    const left = await work.allCases();
    stopBeating();
    if (left !== undefined) {
      await store.hold(taken.id, token, left);
      return;
    }
    const { suites } = taken;
    const outcomes = await outcomesOf(store, taken);
    const { verdict, reason, summary } = verdictOf(suites, outcomes, {
      against: taken.isAgainstObserved ? 'observed' : taken.versions.baseline && 'baseline',
      stopped: work.stopped,
    });
    await store.end(taken.id, { status: 'completed', verdict, reason: reason && shortText(reason), summary }, token);
  } finally {
    stopBeating();
  }
}

/** What the runs of an evaluation need. */
interface Scene {
  readonly asker: Asker;
  readonly agents: { readonly [L in ReplayedLane]?: AgentVersion };
}

async function sceneOf(deps: Deps, evaluation: Evaluation): Promise<Scene | { readonly problem: string }> {
  const { createdBy: userId, workspaceId, versions, createdAt } = evaluation;
  if (deps.clock.now() - Date.parse(createdAt) > MAX_AGE_MS)
    return { problem: 'It was not completed within three days.' };
  const caller = await actingFor(deps, workspaceId, { userId, isBound: evaluation.isBound, keyId: evaluation.id });
  if ('problem' in caller) return caller;
  const asker = { workspace: caller.workspace, ...callingUser(caller) };
  const agents: { [L in ReplayedLane]?: AgentVersion } = {};
  for (const lane of lanesOf(evaluation)) {
    const version = versions[lane]!;
    const agent = await new AgentStore(deps, workspaceId).find(version.id);
    if (agent === undefined) return { problem: `The version ${version.name} was deleted.` };
    agents[lane] = agent;
  }
  return { asker, agents };
}

class Work {
  readonly #deps: Deps;
  readonly #store: EvalStore;
  readonly #evaluation: Evaluation;
  readonly #scene: Scene;
  readonly #until: number;
  #costMicro: number;
  /** Why no further run begins. */
  stopped: string | undefined;
  /** Whether it was aborted, or another process holds it. */
  #isOver = false;

  constructor(deps: Deps, store: EvalStore, evaluation: Evaluation, scene: Scene, until: number) {
    this.#deps = deps;
    this.#store = store;
    this.#evaluation = evaluation;
    this.#scene = scene;
    this.#until = until;
    this.#costMicro = evaluation.costMicro;
  }

  /** Makes the runs that have no result. Returns when to go on, in epoch milliseconds; undefined if there is nothing left to do. */
  async allCases(): Promise<number | undefined> {
    let resumeAt: number | undefined;
    for (let from = 0; ; ) {
      const page = await this.#store.cases(this.#evaluation.id, { from, limit: CASES_AT_ONCE });
      if (page.length === 0) return resumeAt;
      from = page.at(-1)!.case.number + 1;
      const left = page.flatMap(({ case: each, slots }) =>
        [...slotsOf(this.#evaluation, each)].flatMap((slot): Left[] => {
          const known = slots.find(({ lane, repeat }) => lane === slot.lane && repeat === slot.repeat);
          return known?.result === undefined ? [{ each, slot, isBegun: known !== undefined }] : [];
        }),
      );
      const { isFull, later } = await this.#deal(left);
      if (later !== undefined) resumeAt = Math.min(resumeAt ?? later, later);
      const { clock } = this.#deps;
      if (this.#isOver || isFull || clock.now() >= this.#until) return resumeAt ?? clock.now();
    }
  }

  /** Makes some runs, a few at once. `later`: the earliest time at which one of them can go on. */
  async #deal(left: Left[]): Promise<{ readonly isFull: boolean; readonly later: number | undefined }> {
    const { clock } = this.#deps;
    let later: number | undefined;
    let isFull = false;
    const worker = async (): Promise<void> => {
      while (!isFull && !this.#isOver && clock.now() < this.#until) {
        const next = left.shift();
        if (next === undefined) return;
        const dealt = await this.#one(next);
        if (dealt === 'done') continue;
        // Runs that have begun are still graded.
        if ('stop' in dealt) this.stopped ??= dealt.stop;
        else {
          isFull ||= dealt.isFull === true;
          later = Math.min(later ?? dealt.until, dealt.until);
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    return { isFull, later };
  }

  async #one({ each, slot, isBegun }: Left): Promise<Dealt> {
    const { id, budgetUsd, suites } = this.#evaluation;
    const { clock } = this.#deps;
    const suite = suites[each.suite]!;
    const slotId = runIdOf(id, slot);
    const runId = slot.lane === 'observed' ? each.run! : slotId;
    const stored: StoredSlot = { ...slot, runId };
    if (!isBegun) {
      if (this.stopped !== undefined) return { stop: this.stopped };
      if (this.#costMicro >= budgetUsd * 1e6) return { stop: `The budget of $${budgetUsd} is spent.` };
    }
    try {
      await this.#store.begin(id, stored);
      // Read after the note is written: an abort writes the status first, and then looks for notes.
      if ((await this.#store.find(id))?.status !== 'running') {
        this.#isOver = true;
        return 'done';
      }
      const { asker, agents } = this.#scene;
      const graded = { case: each, suite, asker, slotId };
      if (slot.lane === 'observed') return await this.#observed(stored, { ...graded, agent: agents.candidate! });
      const agent = mocked(agents[slot.lane]!, suite.mocks ?? {});
      const { default_endpoint: endpoint } = agent.definition;
      const ended = await runOnce(this.#deps, { agent, endpoint, document: each.vars, asker, runId });
      const grading = ended && (await grade(this.#deps, { ...graded, agent, ended }));
      if (grading === undefined) return { until: clock.now() + PENDING_MS };
      return await this.#complete(stored, grading.result);
    } catch (error) {
      if (isHostBusy(error)) return { until: clock.now() + NO_ROOM_MS, isFull: true };
      if (!isPlatformError(error)) {
        this.#deps.log.error('run of an evaluation failed', { eval_id: id, run_id: runId, error: String(error) });
        return this.#complete(stored, noResult('The platform failed to evaluate this run.'));
      }
      if (error.code === 'RATE_LIMITED') return { until: this.#roomAt(error), isFull: true };
      // The note stays, as of a run that was not made.
      if (error.code === 'BUDGET_EXCEEDED') return { stop: error.message };
      return this.#complete(stored, noResult(`${error.code}: ${error.message}`));
    }
  }

  /** Grades a recorded run, which was paid for when it ran: only its judges cost something. */
  async #observed(slot: StoredSlot, graded: Omit<Parameters<typeof grade>[1], 'ended'>): Promise<Dealt> {
    const ended = await observedRun(this.#deps, this.#evaluation, graded.case);
    if ('problem' in ended) return this.#complete(slot, noResult(ended.problem), 0);
    const grading = await grade(this.#deps, { ...graded, ended });
    if (grading === undefined) return { until: this.#deps.clock.now() + PENDING_MS };
    return this.#complete({ ...slot, version: ended.run.agentVersion }, grading.result, grading.judgesUsd);
  }

  async #complete(slot: StoredSlot, result: SlotResult, spentUsd = result.costUsd): Promise<Dealt> {
    const costMicro = Math.round((spentUsd ?? 0) * 1e6);
    await this.#store.complete(this.#evaluation.id, { ...slot, result }, costMicro);
    this.#costMicro += costMicro;
    return 'done';
  }

  /** Returns when to try again: shortly, or when the quota resets. */
  #roomAt(error: PlatformError): number {
    const soon = this.#deps.clock.now() + NO_ROOM_MS;
    return isUsedUp(error) ? Math.max(soon, (error as LimitError).rateLimit.resetAt) : soon;
  }
}

/** The result of a run of which nothing is known. */
const noResult = (reason: string): SlotResult => ({
  outcome: 'error',
  score: 0,
  reason: shortText(reason),
  asserts: [],
  latencyMs: null,
  costUsd: null,
});

/** A version whose tools answer with mocks. Durable agents have none: their version is read again when they continue. */
const mocked = (agent: AgentVersion, mocks: Readonly<Record<string, unknown>>): AgentVersion => {
  if (Object.keys(mocks).length === 0) return agent;
  const { tools } = withMocks(agent.definition.custom_tools, mocks);
  return { ...agent, definition: { ...agent.definition, custom_tools: tools } };
};

/** Returns the outcomes of all cases, in their order. */
async function outcomesOf(
  store: EvalStore,
  { id, cases: count, ...evaluation }: Pick<Evaluation, 'id' | 'suites' | 'cases' | 'versions'>,
): Promise<CaseOutcomes[]> {
  const found = new Map<string, Outcome | undefined>();
  const keyOf = ({ case: number, lane, repeat }: Slot) => `${number} ${lane} ${repeat}`;
  for await (const slot of store.slots(id)) found.set(keyOf(slot), slot.result?.outcome);
  const outcomes: CaseOutcomes[] = [];
  for (let from = 0; from < count; from += CASES_AT_ONCE) {
    for (const each of await store.casesOnly(id, { from, limit: CASES_AT_ONCE })) {
      const runs: { [L in Lane]?: (Outcome | undefined)[] } = {};
      for (const slot of slotsOf(evaluation, each)) {
        runs[slot.lane] ??= [];
        runs[slot.lane]!.push(found.get(keyOf(slot)));
      }
      outcomes.push({ suite: each.suite, must: each.must, runs });
    }
  }
  return outcomes;
}
