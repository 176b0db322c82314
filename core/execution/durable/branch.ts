import { hasCode, PlatformError } from '#core/base/errors.ts';
import { hasEnded } from '#core/base/run-kinds.ts';
import { DEV, refOf } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { modelNamed } from '#core/models/named-model.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmAnswer } from '#core/ports/llm.ts';
import { BRANCH_CHANGES, type Branch, hasTurns, type Run } from '#core/runs/run.ts';
import { noSpending } from '#core/runs/usage/spending.ts';
import type { Call } from '../calls/prepare.ts';
import { SUBMIT } from '../engines/loop/submit.ts';
import { outcomeOf } from '../engines/loop/tool-outcome.ts';
import { type BeginJournal, keptUntil } from './durable-run.ts';
import { Journal, type Step, type StoredOutcome } from './journal.ts';
import { findOrder, type Order } from './order.ts';

/** What a branch changes of the turns before it (`docs/interface/branches.md`). */
export interface BranchRequest {
  /** The turn that it begins with, from 1. */
  readonly fromTurn: number;
  /** A user's message before that turn. */
  readonly message?: string | undefined;
  readonly toolResults: readonly ToolResult[];
  /** `provider/model` or `model`. */
  readonly model?: string | undefined;
}

/** The result of a call in place of the recorded one. Turns and calls count from 1. */
interface ToolResult {
  readonly turn: number;
  readonly call: number;
  readonly text: string;
}

/** How the run of a branch is called. */
interface BranchCall extends Pick<Call, 'input' | 'skillHeaders'> {
  readonly branch: Branch;
  /** Writes the journal of the new run: the steps before its turn. */
  readonly beginJournal: BeginJournal;
}

type BranchDeps = Pick<Deps, 'config' | 'runs' | 'blobs' | 'vault' | 'clock' | 'log'>;
type TurnStep = Extract<Step, { type: 'turn' }>;

/**
 * Prepares a run that begins again from a turn of a durable loop's run, with the version `agent`. Writes nothing.
 *
 * Throws CONFLICT for a run that has not ended, UNPROCESSABLE for a run whose turns are not kept, or that has no such turn or
 * call, INVALID_INPUT for a model that the agent may not use, FORBIDDEN for changed results of another workspace's agent.
 */
export async function prepareBranch(
  deps: BranchDeps,
  { run, agent, request }: { readonly run: Run; readonly agent: AgentVersion; readonly request: BranchRequest },
): Promise<BranchCall> {
  const { fromTurn, message, toolResults, model } = request;
  checkVersion(agent, request);
  if (toolResults.length > 0 && agent.workspaceId !== run.workspaceId) {
    throw new PlatformError(
      'FORBIDDEN',
      `body.tool_results: ${refOf(agent)} belongs to another workspace; only results of the workspace's own agents can be changed.`,
    );
  }
  const { config } = deps;
  const wanted = model && modelNamed(model, { wishes: agent.definition, config, field: 'body.model' });
  const { order, journal } = await originOf(deps, run);
  const { input, skillHeaders } = order.call;
  const isOtherVersion = agent.id !== run.agentId || run.agentVersion === DEV;
  const steps = branchSteps(run, journal.past, { ...request, isOtherVersion, isOtherModel: wanted !== undefined });
  const files = journal.past.findLast((step) => step.type === 'files');
  // A key is for the call that sent it, and another version may not use the models that its caller chose.
  const { api_key: _, ...chosen } = isOtherVersion ? {} : (input.llmCredentials ?? {});
  const changed = { message, tool_results: toolResults[0], model, version: isOtherVersion || undefined };
  return {
    input: { ...input, llmCredentials: wanted ? { ...chosen, ...wanted } : chosen },
    skillHeaders,
    branch: { fromTurn, changed: BRANCH_CHANGES.filter((name) => changed[name] !== undefined) },
    beginJournal: (place) =>
      Journal.beginWith(deps, place, {
        origin: journal,
        steps,
        // Only the last snapshot of a run is kept.
        ...(files !== undefined && files.turn < fromTurn && { files }),
      }),
  };
}

/** Throws UNPROCESSABLE for a version that cannot continue the conversation of a durable loop at this turn. */
function checkVersion(agent: AgentVersion, { fromTurn }: BranchRequest): void {
  const { execution_engine: engine, durable, loop } = agent.definition;
  if (engine !== 'managed_loop' || durable === undefined) {
    throw refused(
      `only durable loops keep their turns, and ${refOf(agent)} is none.`,
      'Replay the run without from_turn, or publish the loop with "durable": true for later runs.',
    );
  }
  const { max_turns } = loop!;
  if (fromTurn <= max_turns) return;
  throw refused(
    `${refOf(agent)} has ${max_turns} turns at most, those before the branch included.`,
    'Begin from an earlier turn, or name a version with a greater loop.max_turns in agent_version.',
  );
}

/** Reads what a run did. Throws CONFLICT, UNPROCESSABLE. */
async function originOf(deps: BranchDeps, run: Run): Promise<{ readonly order: Order; readonly journal: Journal }> {
  const { id: runId, workspaceId } = run;
  if (!hasEnded(run.status)) {
    throw new PlatformError('CONFLICT', `The run ${runId} has not ended: its turns may still change.`, {
      hint: 'Wait for its end, or cancel it, and then begin again from one of its turns.',
    });
  }
  if (!hasTurns(run)) {
    throw refused(
      `the run ${runId} is not one of a durable loop, and only those keep their turns.`,
      'Replay it without from_turn.',
    );
  }
  try {
    const order = await findOrder(deps, workspaceId, runId);
    if (order === undefined) {
      throw refused(
        `the turns of the run ${runId} were kept until a day after its end, and are gone.`,
        'Replay it from its beginning, without from_turn.',
      );
    }
    const place = { workspaceId, runId, seal: order.seal, keptUntil: keptUntil(run.deadline) };
    return { order, journal: await Journal.read(deps, place) };
  } catch (error) {
    if (!hasCode(error, 'DAMAGED')) throw error;
    throw refused((error as Error).message, 'Replay the run from its beginning, without from_turn.');
  }
}

interface Changes extends BranchRequest {
  readonly isOtherVersion: boolean;
  readonly isOtherModel: boolean;
}

/**
 * Returns the steps with which a branch begins: those of the turns before it, with its changes. The last of these turns is
 * left as one whose results are all known, so that the loop continues after them. Members that are not known here are
 * copied as they are.
 *
 * Throws UNPROCESSABLE for a turn or a call that the run does not have.
 */
export function branchSteps(run: Pick<Run, 'id'>, past: readonly Step[], changes: Changes): Step[] {
  const { fromTurn, message, isOtherVersion, isOtherModel } = changes;
  const turns = past.filter((step) => step.type === 'turn');
  const last = lastBranch(past, turns);
  if (fromTurn > last) {
    const which = last === 1 ? 'only from turn 1' : `from the turns 1 to ${last}`;
    throw refused(
      `the run ${run.id} can begin again ${which}.`,
      'A later turn needs the results of all tools of the turn before it.',
    );
  }
  checkResults(past, turns, changes);
  const firstChange = Math.min(...changes.toolResults.map(({ turn }) => turn));
  const steps = past.flatMap((step): Step[] => {
    if (!isCopied(step, fromTurn)) return [];
    switch (step.type) {
      case 'base':
        return [isOtherVersion ? withoutFrame(step) : step];
      case 'turn': {
        // Providers sign what a model thought together with all that went before.
        const isSigned = !isOtherVersion && !isOtherModel && step.turn <= firstChange;
        return [copiedTurn(step, isSigned, changes)];
      }
      case 'result': {
        const changed = changes.toolResults.find(({ turn, call }) => turn === step.turn && call === step.call + 1);
        return [changed ? { ...step, outcome: withText(step.outcome, changed.text) } : step];
      }
      case 'decision':
        return [ofOneCall(step)];
      case 'message':
        return step.turn === fromTurn && message !== undefined ? [] : [step];
      default:
        return [step];
    }
  });
  return message === undefined ? steps : [...steps, { type: 'message', turn: fromTurn, text: message }];
}

/** Steps about processes and their sandboxes, which the new run does not share. */
const OF_PROCESSES = ['attempt', 'files', 'program', 'look'];

function isCopied(step: Step, fromTurn: number): boolean {
  const { type, turn } = step as Step & { readonly turn?: number };
  if (OF_PROCESSES.includes(type) || turn === undefined) return false;
  // The conversation is compacted again before the turn, if it is still too long then.
  return turn < fromTurn || (turn === fromTurn && (type === 'message' || (type === 'base' && turn === 1)));
}

/** Returns the last turn that can begin again: all results of the turn before it are known. */
function lastBranch(past: readonly Step[], turns: readonly TurnStep[]): number {
  const last = turns.at(-1);
  if (last === undefined) return 1;
  const known = new Set(past.flatMap((step) => (step.type === 'result' && step.turn === last.turn ? [step.call] : [])));
  // A result that was not accepted is submitted again, which has no effect.
  const isWhole = last.answer.toolCalls.every(({ name }, call) => name === SUBMIT || known.has(call));
  return isWhole ? last.turn + 1 : last.turn;
}

/** Throws UNPROCESSABLE for a changed result of a call that the conversation before the branch does not have. */
function checkResults(past: readonly Step[], turns: readonly TurnStep[], { fromTurn, toolResults }: Changes): void {
  const first = past.findLast((step) => step.type === 'base' && step.turn < fromTurn) as { turn: number } | undefined;
  for (const [index, { turn, call }] of toolResults.entries()) {
    const field = `tool_results.${index}`;
    const step = turns.find((each) => each.turn === turn);
    if (step === undefined) throw refused('the run recorded no such turn.', undefined, `${field}.turn`);
    const count = step.answer.toolCalls.length;
    if (call > count) {
      const calls = count === 1 ? '1 call' : `${count} calls`;
      throw refused(`turn ${turn} has ${calls} of tools.`, 'Calls count from 1.', `${field}.call`);
    }
    if (first !== undefined && turn < first.turn) {
      throw refused(
        `the conversation was compacted before turn ${first.turn}, so that the model no longer sees the results of turn ${turn}.`,
        `Begin from turn ${first.turn} or an earlier one.`,
        `${field}.turn`,
      );
    }
    if (step.answer.toolCalls[call - 1]!.name === SUBMIT) {
      throw refused(
        `call ${call} of turn ${turn} is ${SUBMIT}, which the platform answers.`,
        undefined,
        `${field}.call`,
      );
    }
    const isKnown = past.some((each) => each.type === 'result' && each.turn === turn && each.call === call - 1);
    if (!isKnown) throw refused(`call ${call} of turn ${turn} has no recorded result.`, undefined, `${field}.call`);
  }
}

/** An approval of later calls counts for the run in which it was given alone. */
function ofOneCall(step: Extract<Step, { type: 'decision' }>): Step {
  if (step.decision.type !== 'approve') return step;
  const { forRun: _, ...decision } = step.decision;
  return { ...step, decision };
}

/** The system message and the tools are those of the version that continues. */
function withoutFrame({ system: _, tools: __, ...base }: Extract<Step, { type: 'base' }>): Step {
  return base;
}

/** Returns a turn that costs the new run nothing. */
function copiedTurn(step: TurnStep, isSigned: boolean, { toolResults }: Changes): TurnStep {
  const texts = { ...step.before.texts };
  for (const { turn, call } of toolResults) if (turn === step.turn - 1) delete texts[call - 1];
  return {
    ...step,
    before: { ...step.before, texts },
    answer: isSigned ? step.answer : unsigned(step.answer),
    spending: noSpending(step.spending.model),
  };
}

/** Returns an answer as any provider takes it: without what the model thought. */
function unsigned({ message, ...answer }: LlmAnswer): LlmAnswer {
  if (message.role !== 'assistant') return { ...answer, message };
  const { raw: _, ...plain } = message;
  return { ...answer, message: plain };
}

/** Returns an outcome with another text, which is an error if it begins like one. */
function withText(
  { text: _, isError: __, files: ___, cut: ____, ...more }: StoredOutcome,
  text: string,
): StoredOutcome {
  return { ...more, ...outcomeOf(text) };
}

const refused = (why: string, hint?: string, field = 'from_turn'): PlatformError =>
  new PlatformError('UNPROCESSABLE', `body.${field}: ${why}`, hint === undefined ? {} : { hint });
