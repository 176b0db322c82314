import type { Journal, Step, StoredOutcome, TurnEnd } from '#core/execution/durable/journal.ts';
import type { LlmAnswer, LlmMessage, LlmTool } from '#core/ports/llm.ts';
import type { Decision } from '#core/runs/approvals/approval.ts';
import type { Spending } from '#core/runs/usage/spending.ts';
import type { Conversation } from './conversation.ts';
import type { BoundOutcome } from './tool-output.ts';

/** Tools of a turn that begin at once, with the answer that calls them; further ones begin when one has ended. */
export const BEGIN_AT_ONCE = 8;

/** A turn of the past. */
export interface PastTurn {
  readonly turn: number;
  readonly answer: LlmAnswer;
  readonly spending: Spending;
  readonly provider: string;
  readonly model: string;
  /** What followed its results; absent for the last turn, whose end is not known. */
  end?: TurnEnd;
  /** Results by the position of their call in the turn, from 0. */
  readonly results: Map<number, { readonly outcome: StoredOutcome; readonly durationMs: number }>;
  /** Calls that had begun, by number. */
  readonly begun: Set<number>;
  /** Calls that wait until something is decided about them, by number. */
  readonly asks: readonly number[];
  /** What was decided about them. */
  readonly decisions: Map<number, Decision>;
}

/** A loop as its journal tells it. */
export interface LoopPast {
  /** Absent, as the tools, if another version of the agent began the conversation. */
  readonly system?: string;
  readonly tools?: readonly LlmTool[];
  /** The conversation at its beginning, or at its last compaction. */
  readonly messages: readonly LlmMessage[];
  readonly compactionsLeft: number;
  /** Turns since then, in order. */
  readonly turns: readonly PastTurn[];
  /** Turns before the last compaction. */
  readonly earlier: readonly PastTurn[];
  /** The turn that has no answer yet if `turns` is empty. */
  readonly nextTurn: number;
  /** Blob with the sandbox's files, and the turn after which they were kept. */
  readonly files: { readonly turn: number; readonly blob: string } | undefined;
  readonly hasCalledDependency: boolean;
}

/** Reads the past of a loop from its steps; `undefined` if it has none. */
export function pastOf(steps: readonly Step[]): LoopPast | undefined {
  let base: Extract<Step, { type: 'base' }> | undefined;
  let files: LoopPast['files'];
  let hasCalledDependency = false;
  let turns: PastTurn[] = [];
  const earlier: PastTurn[] = [];
  for (const step of steps) {
    const last = turns.at(-1);
    switch (step.type) {
      case 'base':
        base = step;
        earlier.push(...turns);
        turns = [];
        break;
      case 'turn': {
        if (last) last.end = step.before;
        const { asks = [] } = step;
        const atOnce = [...step.answer.toolCalls.slice(0, BEGIN_AT_ONCE).keys()];
        const begun = new Set(atOnce.filter((call) => !asks.includes(call)));
        turns.push({ ...step, results: new Map(), begun, asks, decisions: new Map() });
        break;
      }
      case 'begin':
        last?.begun.add(step.call);
        break;
      case 'decision':
        last?.decisions.set(step.call, step.decision);
        if (step.decision.type === 'approve') last?.begun.add(step.call);
        break;
      case 'result':
        last?.results.set(step.call, step);
        hasCalledDependency ||= step.outcome.hasCalledDependency === true;
        break;
      case 'files':
        files = step;
        break;
    }
  }
  return base && { ...base, turns, earlier, nextTurn: base.turn, files, hasCalledDependency };
}

/** Returns the user's message that the model has not answered yet. */
export function unansweredMessage(steps: readonly Step[]): string | undefined {
  const last = steps.findLast(({ type }) => type === 'message' || type === 'base' || type === 'turn');
  return last?.type === 'message' ? last.text : undefined;
}

/** Writes down what a loop does, for the process that continues it if this one dies. */
export class LoopRecord {
  readonly #journal: Journal;
  readonly #conversation: Conversation;
  /** Results of the current turn as the tools gave them, by number of the call. */
  #texts = new Map<number, string>();
  #asked: TurnEnd['asked'];
  #isNew: boolean;

  /** @param isNew Whether the conversation is not in the journal yet. */
  constructor(journal: Journal, conversation: Conversation, isNew: boolean) {
    this.#journal = journal;
    this.#conversation = conversation;
    this.#isNew = isNew;
  }

  /** Notes that the conversation was compacted. */
  noteNewBeginning(): void {
    this.#isNew = true;
  }

  /** Notes what the platform asked of a model that called no tool. */
  noteAsked(asked: TurnEnd['asked']): void {
    this.#asked = asked;
  }

  /** Notes an answer. Call it before the answer is added to the conversation. */
  noteTurn(
    turn: number,
    answer: LlmAnswer,
    {
      compactionsLeft,
      asks,
      ...at
    }: { provider: string; model: string; spending: Spending; compactionsLeft: number; asks: readonly number[] },
  ): void {
    const { system, tools, messages } = this.#conversation;
    if (this.#isNew)
      this.#journal.note({ type: 'base', turn, system, tools, messages: [...messages], compactionsLeft });
    this.#isNew = false;
    this.#journal.note({ type: 'turn', turn, before: this.#end(), answer, ...at, ...(asks.length > 0 && { asks }) });
    this.#texts = new Map();
    this.#asked = undefined;
  }

  /** Writes what was decided about a call that waited: what was approved begins only then. */
  async writeDecision(turn: number, call: number, decision: Decision): Promise<void> {
    await this.#journal.write({ type: 'decision', turn, call, decision });
  }

  /** Notes the result of a tool that had no effect. */
  noteResult(turn: number, call: number, outcome: BoundOutcome): void {
    this.#texts.set(call, outcome.text);
    this.#journal.note({ type: 'result', turn, call, outcome: storedOf(outcome), durationMs: 0 });
  }

  /** Resolves once everything so far is stored: the tools of a turn run only then. */
  async begin(turn: number, call?: number): Promise<void> {
    if (call === undefined || call < BEGIN_AT_ONCE) await this.#journal.write();
    else await this.#journal.write({ type: 'begin', turn, call });
  }

  /** Writes the result of a tool, as soon as it has ended. */
  async writeResult(
    turn: number,
    call: number,
    {
      outcome,
      durationMs,
      hasCalledDependency,
    }: { outcome: BoundOutcome; durationMs: number; hasCalledDependency: boolean },
  ): Promise<void> {
    this.#texts.set(call, outcome.text);
    const stored = { ...storedOf(outcome), ...(hasCalledDependency && { hasCalledDependency: true as const }) };
    await this.#journal.write({ type: 'result', turn, call, outcome: stored, durationMs });
  }

  /** Notes a result of the past as the tool gave it. */
  knows(call: number, outcome: BoundOutcome): void {
    this.#texts.set(call, outcome.text);
  }

  /** Returns what the conversation got since the model's last answer, apart from the results as they are stored. */
  #end(): TurnEnd {
    const { messages } = this.#conversation;
    const at = messages.findLastIndex(({ role }) => role === 'assistant');
    const after = at < 0 ? [] : messages.slice(at + 1);
    const results = after.flatMap((message) => (message.role === 'tool' ? message.results : []));
    const changed = results.flatMap(({ text }, call) => (this.#texts.get(call) === text ? [] : [[String(call), text]]));
    return {
      texts: Object.fromEntries(changed),
      messages: after.filter(({ role }) => role !== 'tool'),
      ...(this.#asked && { asked: this.#asked }),
    };
  }
}

const storedOf = ({ text, isError, files, cut }: BoundOutcome): StoredOutcome => ({
  text,
  isError,
  ...(files && { files }),
  ...(cut && { cut: { head: cut.head.byteLength, tail: cut.tail.byteLength, total: cut.totalBytes } }),
});

/** Returns a stored outcome as the tool gave it. */
export function outcomeFrom({ text, isError, files, cut }: StoredOutcome): BoundOutcome {
  if (cut === undefined) return { text, isError, ...(files && { files }) };
  const bytes = Buffer.from(text);
  const head = bytes.subarray(0, cut.head);
  const tail = bytes.subarray(bytes.byteLength - cut.tail);
  return { text, isError, ...(files && { files }), cut: { head, tail, totalBytes: cut.total } };
}
