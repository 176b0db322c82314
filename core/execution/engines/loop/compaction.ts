import { isPlatformError } from '#core/base/errors.ts';
import type { Deps } from '#core/ports/deps.ts';
import { isOverflow, type LlmAnswer, type LlmMessage, type LlmToolCall, type LlmToolResult } from '#core/ports/llm.ts';
import type { ModelFacts } from '#core/ports/model-table.ts';
import type { Spending } from '#core/runs/usage/spending.ts';
import type { EngineRun } from '../engine.ts';
import { type Conversation, TOKEN_BYTES } from './conversation.ts';
import { MAX_TURN_BYTES } from './tool-output.ts';
import type { LoopTools } from './tools.ts';

/** See `docs/interface/loops.md#compaction`. */
const MAX_COMPACTIONS = 3;
/** A conversation is compacted at the smallest of these limits, in input tokens of a request. */
const MAX_TOKENS = 150_000;
const WINDOW_PART = 0.6;
/** Limit in bytes of text, for text with long tokens: each turn sends all of it. */
const MAX_TEXT_BYTES = 400 * 1024;
/** Margin below the size from which a request has a higher price. */
const BELOW_DEARER_TOKENS = 20_000;
/** Notes cost an extra request, which is not worthwhile at the end of a run. */
const MIN_TURNS_AFTER = 2;
const MIN_TIME_LEFT_MS = 60_000;
/** Minimum size for the results of a turn. */
const MIN_TURN_BYTES = 4 * 1024;
/** Maximum length of a call's parameters next to its result in the compacted conversation. */
const MAX_CALL_CHARACTERS = 300;
const MAX_FILE_NAMES = 100;
/** Shorter results get no file of their own. */
const SHORT_RESULT_BYTES = 400;

/** Replaces an image or PDF that a tool read: it is still in the sandbox. */
const NOT_SHOWN = '[It is not shown, because the conversation was full.]';

const NOTES_WANTED = `This conversation has become long. It is replaced by your notes: what you do not write down now is lost, except the
input and the results of your last turn. Call no tool. Write as text what you need to go on: the goal; what is done; what you
found, with the names of files; what is still to do.`;

interface CompactionOptions {
  readonly deps: Pick<Deps, 'modelTable' | 'clock'>;
  readonly run: EngineRun;
  readonly conversation: Conversation;
  /** The message with the input of the run. */
  readonly first: Extract<LlmMessage, { role: 'user' }>;
  readonly tools: LoopTools;
  /** Returns the number of turns that can follow a turn. */
  readonly turnsAfter: (turn: number) => number;
  /** Returns the model that is asked next. */
  readonly model: () => string;
  /** Asks for notes, which are hidden from the client. */
  readonly ask: (turn: number, messages: readonly LlmMessage[]) => Promise<LlmAnswer>;
  readonly spending: () => Spending;
  /** The run's log. */
  readonly log: string[];
  /** Called when the conversation has begun anew. */
  readonly onNewBeginning: () => void;
}

/**
 * Compacts a long conversation: restarts it with the model's own notes in place of its history. No turn of the model is
 * carried over, because signed content must never follow changed content.
 */
export class Compaction {
  readonly #options: CompactionOptions;
  /** Number of compactions that remain. */
  left = MAX_COMPACTIONS;

  constructor(options: CompactionOptions) {
    this.#options = options;
  }

  /** Compacts before a turn whose request would be too long, if enough turns remain. */
  async compactIfLong(turn: number): Promise<void> {
    const { conversation, deps, run, turnsAfter } = this.#options;
    // Compaction is not worth its price if it hardly shortens the conversation.
    const isLong = this.#isOver(conversation) && conversation.tokens > 2 * conversation.firstTokens;
    const isEnding = turnsAfter(turn) < MIN_TURNS_AFTER || deps.clock.now() > run.deadline - MIN_TIME_LEFT_MS;
    if (!isLong || isEnding || this.left === 0) return;
    try {
      await this.#compact(turn);
    } catch (error) {
      // The conversation can continue uncompacted; a persistent failure also ends its next request.
      if (!isPlatformError(error)) throw error;
    }
  }

  /**
   * Compacts after a provider rejected the conversation as longer than the model's context window. The results of the
   * last
   * turn, which have no answer yet, are replaced by their file names. Returns false if that did not help.
   */
  async compactFull(turn: number): Promise<boolean> {
    const { conversation, tools } = this.#options;
    if (this.left === 0 || !conversation.canBeginAnew) return false;
    const left = await Promise.all(
      conversation.newest.results.map(async (result, index): Promise<[LlmToolResult, LlmToolResult]> => {
        const { text, files = [] } = result;
        if (files.length > 0) return [result, { ...result, text: `${text}\n${NOT_SHOWN}`, files: [] }];
        if (Buffer.byteLength(text) < SHORT_RESULT_BYTES) return [result, result];
        const notice = await tools.output.leaveOut(text, { turn: turn - 1, number: index + 1 });
        return [result, { ...result, text: notice }];
      }),
    );
    conversation.replaceNewest(new Map(left));
    try {
      return await this.#compact(turn);
    } catch (error) {
      if (isOverflow(error)) return false;
      throw error;
    }
  }

  /**
   * Returns the size limit for the results of a turn. Once a run has proven to be long, the remaining turns share the
   * space
   * of this conversation and of those that may follow it.
   */
  resultBytes(turn: number): number {
    if (this.left === MAX_COMPACTIONS) return MAX_TURN_BYTES;
    const { conversation, turnsAfter } = this.#options;
    const whole = Math.min(this.#limit * TOKEN_BYTES, MAX_TEXT_BYTES);
    const room = whole - conversation.textBytes + this.left * (whole - conversation.firstTokens * TOKEN_BYTES);
    const share = room / Math.max(1, turnsAfter(turn));
    return Math.floor(Math.min(MAX_TURN_BYTES, Math.max(MIN_TURN_BYTES, share)));
  }

  #isOver({ tokens, textBytes }: Conversation): boolean {
    return tokens > this.#limit || textBytes > MAX_TEXT_BYTES;
  }

  get #limit(): number {
    return limitOf(this.#options.deps.modelTable.factsOf(this.#options.model()));
  }

  /** Returns false, leaving the conversation unchanged, if the model wrote no notes. */
  async #compact(turn: number): Promise<boolean> {
    const { conversation, first, run, log, spending, ask } = this.#options;
    this.left--;
    const costBefore = spending().costUsd;
    const before_tokens = conversation.tokens;
    // The latest messages may restrict the model to one tool, which must still hold afterwards.
    const { restrictions, results } = conversation.newest;
    const said = conversation.messages.filter((message) => !restrictions.includes(message));
    const { text } = await ask(turn, [...said, { role: 'user', text: NOTES_WANTED }]);
    if (text.trim() === '') return false;
    const files = [...(first.files ?? []), ...results.flatMap((result) => result.files ?? [])];
    conversation.beginAnew({ ...first, files, text: this.#beginning(text.trim()) }, restrictions);
    this.#options.onNewBeginning();
    const costAfter = spending().costUsd;
    const cost_usd = costBefore === undefined || costAfter === undefined ? undefined : costAfter - costBefore;
    const facts = {
      turn,
      before_tokens,
      after_tokens: conversation.tokens,
      ...(cost_usd !== undefined && { cost_usd }),
    };
    run.emit({ type: 'context_compacted', ...facts });
    run.trace.add({ event_type: 'context_compacted', payload: facts });
    log.push(`turn ${turn}: the conversation was compacted from ${before_tokens} to ${facts.after_tokens} tokens\n`);
    return true;
  }

  #beginning(notes: string): string {
    const { conversation, first, tools } = this.#options;
    const { calls, results, texts } = conversation.newest;
    const files = [...tools.writtenFiles].slice(-MAX_FILE_NAMES);
    return [
      first.text,
      '---',
      `You have worked on this already. The conversation was long and is replaced by the notes that you wrote:\n\n${notes}`,
      ...(files.length > 0 ? [`Files that you wrote: ${files.join(', ')}`] : []),
      ...(results.length > 0 ? [`The results of your last turn, as JSON:\n${lastResults(calls, results)}`] : []),
      // In a session, the input may follow an answer to the message before.
      ...texts.filter((text) => text !== first.text),
    ].join('\n\n');
  }
}

/** Returns one line for each result. */
function lastResults(calls: readonly LlmToolCall[], results: readonly LlmToolResult[]): string {
  const lines = results.map(({ id, name, text }) => {
    const input = calls.find((call) => call.id === id)?.input;
    const call = JSON.stringify(input ?? {}).slice(0, MAX_CALL_CHARACTERS);
    return JSON.stringify({ tool: name, parameters: call.toWellFormed(), result: text });
  });
  return lines.join('\n');
}

/** Number of input tokens at which a conversation with this model is compacted. */
function limitOf({ window = Number.POSITIVE_INFINITY, price = [] }: ModelFacts): number {
  const bands = price.flatMap(({ above }) => (above === undefined ? [] : above - BELOW_DEARER_TOKENS));
  return Math.min(MAX_TOKENS, WINDOW_PART * window, ...bands);
}
