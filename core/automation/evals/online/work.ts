import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import { AgentStore } from '#core/agents/store.ts';
import { derivedUuid } from '#core/base/derived-uuid.ts';
import { hasCode, isHostBusy, isPlatformError } from '#core/base/errors.ts';
import { isJsonObject } from '#core/base/json.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { ONLINE_SCORE, type OnlineSettings } from '#core/manifest/evals/online.ts';
import { filled, readAssert } from '#core/manifest/evals/read-assert.ts';
import { type Assert, type EvalCase, MAX_CASE_BYTES, nameOfAssert } from '#core/manifest/evals/suite.ts';
import { versionName } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { dayOf } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { heartbeat } from '#core/ports/heartbeat.ts';
import type { TellWorkspace } from '#core/runs/notice.ts';
import type { Drop } from '#core/runs/online/drop.ts';
import type { OnlineAgent } from '#core/runs/online/notes.ts';
import { type OnlineNote, OnlineStore } from '#core/runs/online/store.ts';
import type { Run } from '#core/runs/run.ts';
import { putScores } from '#core/runs/scores/store.ts';
import { eraseRun } from '#core/runs/sessions/erase-run.ts';
import { RunStore } from '#core/runs/store.ts';
import { costOf, type Decided, type Decision, decide, weightedMean } from '../decide.ts';
import { judgeRunIdsOf } from '../eval.ts';
import type { EndedRun } from '../run-once.ts';

const HEARTBEAT_MS = 20_000;
/** Runs of an agent that are read at once. */
const MAX_READ = 500;
/** Runs of an agent that are scored at once, which leaves capacity for the workspace's other calls. */
const AT_ONCE = 4;
/** Delay before the next attempt if the workspace has no room, or a judge has not ended. */
const LATER_MS = 10_000;
/** A run that waited for longer is not scored. */
const MAX_AGE_MS = 24 * 3600_000;
/** `source` of the scores, and who sent them. */
const SOURCE = 'online';
const SENT_BY = 'platform';

/** Why a run has no mean, as the label of its score `online` (`docs/interface/online-evals.md`). */
type Unscored =
  | 'budget spent'
  | 'judge failed'
  | 'not recorded'
  | 'no price'
  | 'not decided'
  | 'erased'
  | 'late'
  | 'deleted';

/**
 * Scores runs of an agent until `until` (epoch milliseconds), unless another process does. Returns the agent if it has more that can be scored
 * now.
 */
export async function scoreAgent(
  deps: Deps,
  due: OnlineAgent,
  until: number,
  tell: TellWorkspace,
): Promise<OnlineAgent | undefined> {
  const store = new OnlineStore(deps, due);
  // Read before the agent is taken, which would cost two writes each time that nothing waits.
  const notes = await store.open(MAX_READ);
  if (notes.length === 0) return undefined;
  const workspace = await findWorkspace(deps, due.workspaceId);
  // While a workspace moves, nothing of it changes.
  if (workspace === undefined || workspace.move !== undefined) return undefined;
  const token = deps.ids.uuid();
  if (!(await store.take(due.listedAs, token))) return undefined;
  const stopBeating = heartbeat(deps.clock, HEARTBEAT_MS, () => store.hold(token));
  const scoring = new Scoring(deps, store, workspace, tell);
  let released: OnlineAgent | undefined;
  try {
    await scoring.all(notes, until);
  } finally {
    stopBeating();
    released = await store.release(token, scoring.resumeAt ?? deps.clock.now());
  }
  const isDone = notes.length < MAX_READ && scoring.left === 0;
  return isDone || scoring.resumeAt !== undefined ? undefined : released;
}

class Scoring {
  readonly #deps: Deps;
  readonly #store: OnlineStore;
  readonly #workspace: Workspace;
  readonly #tell: TellWorkspace;
  readonly #versions = new Map<string, Promise<AgentVersion | undefined>>();
  #completed: Promise<void> = Promise.resolve();
  /** What judges have cost today. */
  #spentMicro = 0;
  /** Number of runs that were not looked at. */
  left = 0;
  /** When to go on, in epoch milliseconds; undefined: at once. */
  resumeAt: number | undefined;

  constructor(deps: Deps, store: OnlineStore, workspace: Workspace, tell: TellWorkspace) {
    this.#deps = deps;
    this.#store = store;
    this.#workspace = workspace;
    this.#tell = tell;
  }

  async all(notes: readonly OnlineNote[], until: number): Promise<void> {
    const { clock, log } = this.#deps;
    this.#spentMicro = await this.#store.spentMicro(dayOf(clock.now()));
    const left = [...notes];
    let isFull = false;
    const worker = async (): Promise<void> => {
      while (!isFull && clock.now() < until) {
        const note = left.shift();
        if (note === undefined) return;
        try {
          if (!(await this.#one(note))) this.#later();
        } catch (error) {
          // The note stays, until it is too old.
          this.#later();
          if (hasCode(error, 'RATE_LIMITED') || isHostBusy(error)) isFull = true;
          else log.error('run not scored', { run_id: note.runId, error: String(error) });
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    this.left = left.length;
  }

  #later(): void {
    this.resumeAt = this.#deps.clock.now() + LATER_MS;
  }

  /** Deals with a run. Returns false while a judge has not ended. */
  async #one(note: OnlineNote): Promise<boolean> {
    const { runId, notedAt } = note;
    if (!(await this.#store.isOpen(runId))) return true;
    const ended = await new RunStore(this.#deps, this.#workspace.id).withBody(runId);
    if (ended === undefined) {
      await this.#store.drop(runId);
      return true;
    }
    const { run } = ended;
    const agent = await this.#versionOf(run);
    const online = agent?.definition.evals?.online;
    if (run.isErased) return this.#erased(run);
    if (agent === undefined || online === undefined) return this.#unscored(run, 'deleted');
    if (this.#deps.clock.now() - notedAt > MAX_AGE_MS) return this.#unscored(run, 'late');
    const read = readAsserts(online, ended);
    const hasJudges = this.#refusal(online) === undefined && read.judged.length > 0;
    // Fails if the run was erased, or was dealt with, in between.
    if (hasJudges && !(await this.#store.noteJudges(runId, read.judged))) return this.#one(note);
    const { asserts } = read;
    const asked = { asserts, vars: inputOf(ended), judge: online.judge ?? null, agent, ended, slotId: runId };
    const decided = await decide(
      this.#deps,
      { ...asked, asker: { workspace: this.#workspace } },
      { refusal: () => this.#refusal(online), failure: whyNotJudged },
    );
    if (decided === undefined) return false;
    // A judge that began after the erasure got what was erased.
    if (hasJudges && (await new RunStore(this.#deps, this.#workspace.id).find(runId))?.isErased)
      return this.#erased(run);
    await this.#score(run, [...read.undecided, ...partsOf(asserts, decided)], decided);
    return true;
  }

  #versionOf({ agentId }: Run): Promise<AgentVersion | undefined> {
    let found = this.#versions.get(agentId);
    if (found === undefined) {
      found = new AgentStore(this.#deps, this.#workspace.id).find(agentId);
      this.#versions.set(agentId, found);
    }
    return found;
  }

  #refusal({ budget_usd_per_day: budget }: OnlineSettings): Unscored | undefined {
    return this.#spentMicro >= budget * 1e6 ? 'budget spent' : undefined;
  }

  async #score(run: Run, parts: readonly Part[], { costUsd }: Decided): Promise<void> {
    const costMicro = Math.round((costUsd ?? 0) * 1e6);
    this.#spentMicro += costMicro;
    const decided = parts.filter(({ unknown }) => unknown === undefined);
    const unknown = parts.find((each) => each.unknown !== undefined && each.weight > 0)?.unknown;
    // Without one of its parts, a mean would be another measure than that of other runs.
    const sum = unknown === undefined ? { value: rounded(weightedMean(decided)) } : { label: unknown };
    const scores = [...Map.groupBy(decided, ({ name }) => name)].map(([name, own]) => {
      const value = own.every(({ weight }) => weight === 0)
        ? own.reduce((total, { score }) => total + score, 0) / own.length
        : weightedMean(own);
      const comment = own.find((each) => each.comment !== undefined)?.comment;
      return { name, value: rounded(value), ...(comment !== undefined && { comment }) };
    });
    const all = [{ name: ONLINE_SCORE, ...sum }, ...scores];
    try {
      await this.#put(run, all);
    } catch (error) {
      if (!hasCode(error, 'CONFLICT')) throw error;
      // What was said in it was erased.
      await this.#erased(run, costMicro);
      return;
    }
    await this.#complete(run, { ...('value' in sum && { value: sum.value }), costMicro });
  }

  /** Erases what judges got of a run that was erased, and says so in its score. */
  async #erased(run: Run, costMicro = 0): Promise<true> {
    await eraseRun(this.#deps, run.workspaceId, run.id);
    return this.#unscored(run, 'erased', costMicro);
  }

  async #unscored(run: Run, label: Unscored, costMicro = 0): Promise<true> {
    await this.#put(run, [{ name: ONLINE_SCORE, label }]);
    await this.#complete(run, { costMicro });
    return true;
  }

  #put(run: Run, scores: readonly { name: string; value?: number; label?: string; comment?: string }[]): Promise<void> {
    return putScores(
      this.#deps,
      run,
      scores.map((each) => ({ ...each, source: SOURCE, createdBy: SENT_BY })),
    );
  }

  /** One after another: all change the scores of the version. */
  #complete(run: Run, scored: { readonly value?: number; readonly costMicro: number }): Promise<void> {
    const tell = (drop: Drop, day: string) => this.#tell(run.workspaceId, noticeOf(run, drop, day));
    const completed = this.#completed.then(() => this.#store.complete(run, scored, tell));
    this.#completed = completed.catch(() => {});
    return completed;
  }
}

/** Why a judge cannot be asked: its agent is gone, a secret is missing, a budget of the workspace is spent. Undefined if it is to be asked later. */
function whyNotJudged(error: unknown): Unscored | undefined {
  if (!isPlatformError(error) || isHostBusy(error) || error.code === 'RATE_LIMITED') return undefined;
  return error.code === 'BUDGET_EXCEEDED' ? 'budget spent' : 'judge failed';
}

/** An assert and what is known of it. */
interface Part {
  readonly name: string;
  readonly weight: number;
  /** From 0 to 1. */
  readonly score: number;
  readonly comment?: string;
  readonly unknown?: Unscored;
}

/** Sums of scores have millionths. */
const rounded = (value: number): number => Math.round(value * 1e6) / 1e6;

const nameOf = (assert: Assert): string => assert.metric ?? nameOfAssert(assert);

const partsOf = (asserts: readonly Assert[], { decisions }: Decided): Part[] =>
  asserts.map((assert, index) => partOf(assert, decisions[index]!));

function partOf(assert: Assert, { result, unknown, judgeRunId }: Decision): Part {
  const { weight } = assert;
  const isTold = !result.pass || judgeRunId !== undefined;
  return {
    ...{ name: nameOf(assert), weight },
    // Programs return any number.
    score: Math.min(1, Math.max(0, result.score)),
    ...(isTold && result.reason !== '' && { comment: result.reason }),
    ...(unknown && { unknown: result.reason === 'budget spent' ? 'budget spent' : 'judge failed' }),
  };
}

const inputOf = ({ body: { input } }: EndedRun): EvalCase['vars'] =>
  isJsonObject(input) ? (input as EvalCase['vars']) : {};

/** Reads the asserts about a run, apart from those that its record does not decide, and the ids of the runs of judges. */
function readAsserts(
  { assert: written }: OnlineSettings,
  ended: EndedRun,
): { readonly asserts: readonly Assert[]; readonly undecided: readonly Part[]; readonly judged: readonly string[] } {
  const asserts: Assert[] = [];
  const undecided: Part[] = [];
  const room = { bytes: MAX_CASE_BYTES };
  for (const each of written) {
    const read = readAssert(each, (value) => filled(value, inputOf(ended), room));
    const lacks = 'why' in read ? 'not decided' : lackOf(read, ended);
    if (lacks === undefined) asserts.push(read as Assert);
    else undecided.push({ name: each.metric ?? each.type, weight: each.weight ?? 1, score: 0, unknown: lacks });
  }
  return { asserts, undecided, judged: judgeRunIdsOf(ended.run.id, asserts) };
}

/** What the record of a run lacks for an assert. */
function lackOf({ type }: Assert, { run, body }: EndedRun): Unscored | undefined {
  if (type === 'cost' && costOf(run) === null) return 'no price';
  const callsTools = body.trace.some(({ event_type }) => event_type === 'tool_call_started');
  return type === 'tool-args' && callsTools && body.hasContent !== true ? 'not recorded' : undefined;
}

function noticeOf({ workspaceId, agentOrg, agentName }: Run, { before, ...now }: Drop, day: string) {
  const name = `${agentOrg}/${agentName}@${versionName(now.version)}`;
  const than = before.version === now.version ? 'the runs before' : versionName(before.version);
  return {
    id: derivedUuid('score_dropped', workspaceId, agentName, String(now.version), day),
    agentName,
    title: `The scores of ${agentName} ${versionName(now.version)} dropped`,
    body: `The mean online score of ${name} is ${now.mean.toFixed(2)} over its last ${now.runs} scored runs, and was ${before.mean.toFixed(2)} over ${before.runs} runs of ${than}. GET /workspaces/{workspace_id}/scores?agent=${agentOrg}/${agentName}&name=online lists them.`,
  };
}
