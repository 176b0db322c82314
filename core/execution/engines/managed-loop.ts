import { isPlatformError, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { ModelChoice } from '#core/models/choose.ts';
import type { Deps } from '#core/ports/deps.ts';
import { isOverflow, type LlmAnswer, type LlmMessage, type LlmTool, type LlmToolCall } from '#core/ports/llm.ts';
import type { Decision } from '#core/runs/approvals/approval.ts';
import { shortenLog } from '#core/runs/masking/masking.ts';
import { RunContinuesError } from '#core/runs/run-continues.ts';
import { type Spending, withCosts } from '#core/runs/usage/spending.ts';
import { AdaptiveModels } from './adaptive-request.ts';
import type { EngineResult, EngineRun } from './engine.ts';
import { isInterruption } from './interruption.ts';
import { LoopAsks, type Settled, WHOLE_TURN } from './loop/asks.ts';
import { Compaction } from './loop/compaction.ts';
import { Conversation } from './loop/conversation.ts';
import { dependencyRequired, LAST_TURN, LoopEnding } from './loop/ending.ts';
import { LoopDetector } from './loop/loop-detector.ts';
import { LoopFiles } from './loop/loop-files.ts';
import { mapWithConcurrency } from './loop/map-with-concurrency.ts';
import { raceWithAbort } from './loop/race-with-abort.ts';
import { type LoopPast, LoopRecord, outcomeFrom, type PastTurn, pastOf, unansweredMessage } from './loop/record.ts';
import { frameOf, messagesOfTurn, type Said, saidBefore, settled } from './loop/said.ts';
import { SUBMIT, submitTool, submittedResult } from './loop/submit.ts';
import { systemMessage } from './loop/system-message.ts';
import { parameterProblem } from './loop/tool-definitions.ts';
import { errorOutcome, outcomeOf } from './loop/tool-outcome.ts';
import type { BoundOutcome, CallPlace } from './loop/tool-output.ts';
import { ToolReporter } from './loop/tool-reporter.ts';
import { LoopTools } from './loop/tools.ts';
import { ModelCalls } from './model-calls.ts';
import { faultOf, isBetter, isRepairable, repairDeadline, tracedProblems } from './output-repair.ts';
import { withoutForbiddenNulls } from './output-schema.ts';
import { type ReadReply, readReply } from './reply.ts';
import { type StopSignal, stopSignal } from './stop-signal.ts';

/** Maximum length of an error in progress events (`docs/interface/calls.md#streams`). */
const SHOWN_ERROR_CHARACTERS = 200;
/** Maximum number of concurrent tools in one turn (`docs/interface/loops.md#built-in-tools`). */
const MAX_AT_ONCE = 8;

/** Result of a call that had begun when the process of its run ended (`docs/interface/durable-runs.md#interruptions`). */
const UNKNOWN_EFFECT =
  'The platform was interrupted while this ran. Whether it took effect is unknown: check before repeating.';

const EMPTY_ANSWER = `Your answer was empty. Continue with the work, or call ${SUBMIT} with its result.`;

type LoopDeps = Pick<
  Deps,
  | 'ids'
  | 'llm'
  | 'modelTable'
  | 'sandbox'
  | 'toolServers'
  | 'ownServices'
  | 'exchanges'
  | 'config'
  | 'clock'
  | 'log'
  | 'background'
>;

/**
 * Runs an agent as a loop of a model and its tools (`docs/interface/loops.md`): in each turn the model answers and the
 * tools
 * that it called run, until it submits a result. The loop and the keys stay in this process; only the tools run in the
 * sandbox.
 *
 * Failures are in the result, with the spending so far: UNPROCESSABLE if the limit of turns, cost or context window is
 * reached or the model goes in circles, TIMEOUT, RUN_CANCELLED, LLM_ERROR, LLM_RATE_LIMITED, LLM_KEY_REQUIRED,
 * SANDBOX_ERROR, INTERNAL_ERROR.
 */
export async function runLoop(deps: LoopDeps, run: EngineRun): Promise<EngineResult> {
  const startedAt = deps.clock.now();
  const stop = stopSignal(deps.clock, run, 'The agent was still running');
  const loop = new Loop(deps, run, stop);
  const result = (outcome: Pick<EngineResult, 'data' | 'dataProblems' | 'warnings' | 'error'>): EngineResult => ({
    ...outcome,
    ...loop.spending,
    ...(run.session && { conversation: loop.said() }),
    stdout: '',
    stderr: shortenLog(run.mask.text(loop.log)),
    exitCode: null,
    executionMs: deps.clock.now() - startedAt,
  });
  try {
    const outcome = await loop.run();
    const { files, warning } = await loop.keepWorkspace();
    run.emit({ type: 'done', usage: loop.spending.usage });
    const warnings = warning ? [...outcome.warnings, warning] : outcome.warnings;
    return { ...result({ ...outcome, warnings }), ...(files && { files }) };
  } catch (cause) {
    const error = stop.signal.aborted ? stop.signal.reason : cause;
    if (!isPlatformError(error)) throw error;
    const message = run.mask.text(error.message);
    const { files } = await loop.keepWorkspace(error);
    run.emit({ type: 'error', message: message.slice(0, SHOWN_ERROR_CHARACTERS), usage: loop.spending.usage });
    return {
      ...result({ warnings: [], error: new PlatformError(error.code, message, error.extra) }),
      ...(files && { files }),
    };
  } finally {
    stop.release();
    // The answer is sent without waiting for the sandbox to close, or for an unused one to open.
    const closed = loop.close().catch((error: unknown) => {
      deps.log.error('a sandbox could not be closed', { run_id: run.runId, error: String(error) });
    });
    void deps.background(closed);
  }
}

type LoopOutput = Pick<EngineResult, 'data' | 'dataProblems' | 'warnings'>;
type Question = Pick<Conversation, 'system' | 'tools' | 'messages'>;

class Loop {
  readonly #deps: LoopDeps;
  readonly #run: EngineRun;
  readonly #stop: StopSignal;
  readonly #files: LoopFiles;
  readonly #tools: LoopTools;
  readonly #submit: LlmTool;
  readonly #ending: LoopEnding;
  readonly #repeats = new LoopDetector();
  readonly #reporter: ToolReporter;
  readonly #asks: LoopAsks;
  readonly #roomy: AdaptiveModels;
  /** Remaining models, without those that failed in an earlier turn. */
  #models: readonly ModelChoice[];
  readonly #calls: ModelCalls;
  readonly #startedAt: number;
  /** The last turn with an empty answer. */
  #emptyTurn: number | undefined;
  /** A text that does not match the output schema and that the model was asked to correct. */
  #faulty: ReadReply | undefined;
  /** What the journal of a durable run tells. */
  readonly #past: LoopPast | undefined;
  #record: LoopRecord | undefined;
  #isForResult = false;
  /** What the model has to know about a new sandbox. */
  #newSandbox: string | undefined;
  /** A user's message that it has to get before the next turn. */
  #message: string | undefined;
  #lostSandboxes = 0;
  #replacing: Promise<void> | undefined;
  #conversation: Conversation | undefined;
  /** Outcomes of the current turn's tools that have ended. */
  #outcomes = new Map<LlmToolCall, BoundOutcome>();

  constructor(deps: LoopDeps, run: EngineRun, stop: StopSignal) {
    this.#startedAt = deps.clock.now();
    this.#deps = deps;
    this.#run = run;
    this.#stop = stop;
    this.#files = new LoopFiles(deps, run);
    this.#tools = new LoopTools(deps, run, stop.signal, this.#files);
    this.#submit = submitTool(run.agent.definition.output_schema);
    this.#ending = new LoopEnding(deps.clock, run);
    this.#reporter = new ToolReporter(deps.clock, run, stop.signal);
    this.#asks = new LoopAsks(deps.clock, run, this.#tools);
    this.#models = run.models;
    this.#calls = new ModelCalls(deps, run);
    this.#roomy = new AdaptiveModels(deps, run, this.#calls);
    this.#past = run.durable && pastOf(run.durable.journal.past);
    this.#message = run.durable && unansweredMessage(run.durable.journal.past);
  }

  /** Spending on models and tools. */
  get spending(): Spending {
    return withCosts(this.#calls.spending, this.#tools.costs);
  }

  get log(): string {
    return [...this.#tools.log, ...this.#reporter.log].join('');
  }

  /** Returns what was said, for the next message of the session; `undefined` if the conversation has not begun. */
  said(): Said | undefined {
    const conversation = this.#conversation;
    if (conversation === undefined) return undefined;
    const messages = settled(conversation.messages, (call) => {
      const [, outcome] = [...this.#outcomes].find(([{ id }]) => id === call.id) ?? [];
      return outcome && { id: call.id, name: call.name, text: outcome.text, isError: outcome.isError };
    });
    return { frame: frameOf(conversation.system, conversation.tools), model: this.#models[0]!.model, messages };
  }

  /** If the model fails to correct its text, the faulty text is the output. */
  async run(): Promise<LoopOutput> {
    try {
      const output = await this.#converse();
      this.#traceCorrection(output.dataProblems === undefined || output.dataProblems.length === 0);
      return output;
    } catch (error) {
      if (this.#faulty === undefined || this.#run.signal.aborted) throw error;
      this.#traceCorrection(false);
      return outputOf(this.#faulty);
    }
  }

  async #converse(): Promise<LoopOutput> {
    const { input, mask, emit, agent } = this.#run;
    const { max_turns } = agent.definition.loop!;
    const ending = this.#ending;
    await this.#tools.openServers();
    const past = this.#past;
    // A continued conversation is sent as it was, so that it is still in the provider's cache.
    const tools = past?.tools ?? [...this.#tools.definitions, this.#submit];
    const required = this.#tools.required;
    const system = past?.system ?? systemMessage(this.#run, { tools, required, maxTurns: max_turns });
    const text = JSON.stringify(input.document, null, 2);
    const first = { role: 'user', text, files: this.#files.uploaded(input) } as const;
    const earlier = past === undefined ? this.#earlier(frameOf(system, tools)) : [];
    const conversation = new Conversation({ system, tools, first, earlier });
    this.#conversation = conversation;
    const compaction = this.#compactionOf(conversation, first);
    const notify = (turn: number): void => {
      const text = ending.noticeAfter(turn, this.#tools.required);
      if (text !== undefined) conversation.add({ role: 'user', text });
    };
    const { durable } = this.#run;
    // Without an answer that they follow, messages are only in the beginning.
    const isNew = past?.system === undefined || past.turns.length === 0;
    this.#record = durable && new LoopRecord(durable.journal, conversation, isNew);
    const steered = durable?.journal.past.findLast((step) => step.type === 'message' && step.steered !== undefined);
    if (steered?.type === 'message') await this.#run.session?.steering?.take(steered.steered!);
    if (past === undefined) notify(0);
    else await this.#restore(past, conversation, compaction);
    let unfinished = past?.turns.at(-1);
    let hasProgressed = false;
    if (unfinished === undefined) this.#tellBeforeTurn(conversation);
    for (let turn = unfinished?.turn ?? past?.nextTurn ?? 1; ; turn++) {
      let answer = unfinished?.answer;
      let asks = unfinished?.asks ?? [];
      if (answer === undefined) {
        if (durable?.mustLeave(hasProgressed)) {
          await this.#tools.keepFiles(turn - 1, true);
          throw new RunContinuesError(this.#run.runId, 'handover');
        }
        hasProgressed = true;
        await this.#takeMessages(turn, conversation);
        emit({ type: 'turn_start', turn, max_turns });
        await compaction.compactIfLong(turn);
        if (!this.#isForResult && ending.takesOnlyResult(turn, this.#tools.required)) {
          this.#isForResult = true;
          conversation.add({ role: 'only', tool: SUBMIT });
        }
        answer = await this.#askUnlessFull(turn, conversation, compaction);
        const { provider, model } = this.#models[0]!;
        // What the tools cost is known from their results.
        const { spending } = this.#calls;
        asks = this.#isForResult ? [] : await this.#asks.among(answer.toolCalls);
        this.#record?.noteTurn(turn, answer, { provider, model, spending, asks, compactionsLeft: compaction.left });
        conversation.addAnswer(answer);
      }
      if (answer.toolCalls.length > 0) {
        const maxBytes = compaction.resultBytes(turn);
        const { results, submitted } = await this.#callTools(turn, answer.toolCalls, {
          maxBytes,
          asks,
          past: unfinished,
        });
        conversation.add({ role: 'tool', results });
        if (submitted !== undefined) return { data: mask.json(submitted), warnings: [] };
      } else if (this.#message === undefined) {
        const stillRequired = this.#tools.required;
        if (stillRequired.length === 0 && this.#mayAskAgain(turn, answer)) {
          this.#record?.noteAsked('again');
          conversation.add({ role: 'user', text: EMPTY_ANSWER });
        } else if (stillRequired.length === 0) {
          const reply = await readReply(this.#run, answer);
          if (!this.#mayCorrect(turn, reply)) return this.#bestOf(reply);
          this.#faulty = reply;
          this.#record?.noteAsked('correction');
          conversation.add({ role: 'user', text: `${faultOf(reply)} Call ${SUBMIT} with the corrected result.` });
        } else conversation.add({ role: 'user', text: `${dependencyRequired(stillRequired)} Then call ${SUBMIT}.` });
      }
      if (ending.countCost(turn, this.spending.costUsd)) await this.#boundCost(turn, unfinished);
      if (ending.isOver(turn, this.#tools.required)) throw ending.error;
      notify(turn);
      this.#tellBeforeTurn(conversation);
      if (durable !== undefined) await this.#tools.keepFiles(turn, false);
      unfinished = undefined;
    }
  }

  /** Returns what was said in the session before. */
  #earlier(frame: string): LlmMessage[] {
    const { session } = this.#run;
    if (session === undefined) return [];
    const { conversation: said, turns } = session;
    const before = said === undefined ? [] : saidBefore(said, { frame, model: this.#models[0]!.model });
    const later = turns.filter(({ number }) => number > (said?.after ?? 0)).flatMap(messagesOfTurn);
    return [...before, ...later].map((message) => this.#files.restored(message));
  }

  /** Restores the conversation, and what the loop knows of its earlier turns, up to the answer of the last one. */
  async #restore(past: LoopPast, conversation: Conversation, compaction: Compaction): Promise<void> {
    const shown = (messages: readonly LlmMessage[]) => messages.map((message) => this.#files.restored(message));
    const [first, ...more] = shown(past.messages) as [Extract<LlmMessage, { role: 'user' }>, ...LlmMessage[]];
    conversation.beginAnew(first, more);
    compaction.left = past.compactionsLeft;
    const all = [...past.earlier, ...past.turns];
    for (const turn of all) {
      const isKept = past.turns.includes(turn);
      if (isKept) conversation.addAnswer(turn.answer);
      this.#calls.restore(turn.spending);
      this.#reporter.restore(turn);
      this.#tools.restore(turn);
      this.#asks.restore(turn);
      if (turn.end === undefined) continue;
      const { toolCalls } = turn.answer;
      const outcomes = toolCalls.map((_, call) => this.#files.restored(outcomeFrom(turn.results.get(call)!.outcome)));
      if (toolCalls.length > 0) {
        this.#repeats.count(toolCalls, outcomes);
        const { texts } = turn.end;
        const results = toolCalls.map(({ id, name }, call) => {
          const { text, isError, files } = outcomes[call]!;
          return { id, name, text: texts[call] ?? text, isError, files };
        });
        if (isKept) conversation.add({ role: 'tool', results });
      }
      for (const message of shown(turn.end.messages)) if (isKept) conversation.add(message);
      if (turn.end.asked === 'again') this.#emptyTurn = turn.turn;
      if (turn.end.asked === 'correction') this.#faulty = await readReply(this.#run, turn.answer);
      if (this.#ending.countCost(turn.turn, turn.spending.costUsd)) {
        this.#applyCost(turn.turn, turn.decisions.get(WHOLE_TURN));
      }
    }
    this.#newSandbox = await this.#tools.resume(past);
    this.#isForResult = conversation.messages.some(({ role }) => role === 'only');
    const last = all.at(-1);
    const used = this.#models.findIndex(({ provider, model }) => provider === last?.provider && model === last.model);
    this.#models = this.#models.slice(Math.max(0, used));
    const { unanswered } = this.#run.trace;
    if (unanswered !== undefined) this.#calls.countUnanswered(this.#models[0]!, unanswered, conversation.tokens);
  }

  /** Ends the loop with its next turn because of the cost, or asks a person whether it may cost more. */
  async #boundCost(turn: number, past: PastTurn | undefined): Promise<void> {
    const { loop } = this.#run.agent.definition;
    let decision = past?.decisions.get(WHOLE_TURN);
    // Before the last turn there is nothing to decide.
    const mayAsk = loop?.on_max_cost === 'ask' && this.#ending.turnsAfter(turn) > 1;
    if (decision === undefined && mayAsk) {
      await this.#record?.begin(turn);
      await this.#tools.keepFiles(turn, true);
      decision = await this.#asks.moreCost(turn, this.#ending.cost);
      if (decision !== undefined) await this.#record?.writeDecision(turn, WHOLE_TURN, decision);
    }
    this.#applyCost(turn, decision);
  }

  #applyCost(turn: number, decision: Decision | undefined): void {
    if (decision?.type !== 'approve') {
      this.#ending.endByCost(turn);
      return;
    }
    const { max_cost_usd: changed } = (decision.args ?? {}) as { readonly max_cost_usd?: number };
    const more = changed ?? 2 * this.#ending.cost.maxUsd;
    this.#ending.raiseMaxCost(decision.forRun ? Number.POSITIVE_INFINITY : more);
  }

  #tellBeforeTurn(conversation: Conversation): void {
    for (const text of [this.#newSandbox, this.#message]) {
      if (text !== undefined) conversation.add({ role: 'user', text });
    }
    this.#newSandbox = undefined;
    this.#message = undefined;
  }

  /** Adds the messages of the session that came meanwhile. A turn that only ends the run leaves them for the next one. */
  async #takeMessages(turn: number, conversation: Conversation): Promise<void> {
    const { session, durable, trace } = this.#run;
    const isLast = this.#isForResult || this.#ending.takesOnlyResult(turn, this.#tools.required);
    if (session?.steering === undefined || isLast) return;
    const waiting = await session.steering.waiting();
    if (waiting === undefined) return;
    const { texts, upTo } = waiting;
    const text = texts.join('\n\n');
    // Written first: a process that dies in between has then not lost them.
    await durable?.journal.write({ type: 'message', turn, text, steered: upTo });
    await session.steering.take(upTo);
    conversation.add({ role: 'user', text });
    trace.add({
      event_type: 'decision',
      payload: { description: 'messages of the session taken', turn, count: texts.length },
    });
  }

  /** Whether an answer is empty, the one before was not, and a turn remains. */
  #mayAskAgain(turn: number, { text, finishReason }: LlmAnswer): boolean {
    if (text.trim() !== '' || finishReason === 'length' || this.#emptyTurn === turn - 1) return false;
    this.#emptyTurn = turn;
    return !this.#ending.isOver(turn, []);
  }

  /** Whether a correction is allowed: once in a run, if a turn and enough time remain. */
  #mayCorrect(turn: number, reply: ReadReply): boolean {
    return (
      this.#faulty === undefined &&
      isRepairable(reply) &&
      !this.#ending.isOver(turn, []) &&
      repairDeadline(this.#run, this.#startedAt, this.#deps.clock.now()) !== undefined
    );
  }

  #bestOf(reply: ReadReply): LoopOutput {
    const isKept = this.#faulty !== undefined && reply.dataProblems?.length !== 0 && !isBetter(reply, this.#faulty);
    return outputOf(isKept ? this.#faulty! : reply);
  }

  #traceCorrection(ok: boolean): void {
    if (this.#faulty === undefined) return;
    const payload = { problems: tracedProblems(this.#faulty, this.#run.mask), ok };
    const { provider, model } = this.#models[0]!;
    this.#run.trace.add({ event_type: 'output_repair', payload, provider, model });
  }

  /** Returns the files of the session, see {@link LoopTools.keepWorkspace}. */
  keepWorkspace(error?: PlatformError): ReturnType<LoopTools['keepWorkspace']> {
    return this.#tools.keepWorkspace(error);
  }

  /** Closes the sandbox. Tools that are still running are no longer reported. */
  close(): Promise<void> {
    this.#reporter.close();
    return this.#tools.close();
  }

  #compactionOf(conversation: Conversation, first: Extract<LlmMessage, { role: 'user' }>): Compaction {
    return new Compaction({
      deps: this.#deps,
      run: this.#run,
      conversation,
      first,
      tools: this.#tools,
      turnsAfter: (turn) => this.#ending.turnsAfter(turn),
      model: () => this.#models[0]!.model,
      ask: (turn, messages) => this.#ask(turn, { ...questionOf(conversation), messages }, true),
      spending: () => this.spending,
      log: this.#reporter.log,
      onNewBeginning: () => this.#record?.noteNewBeginning(),
    });
  }

  /** Like {@link #ask}; if the model's context window is full, compacts the conversation and asks again. */
  async #askUnlessFull(turn: number, conversation: Conversation, compaction: Compaction): Promise<LlmAnswer> {
    try {
      return await this.#ask(turn, questionOf(conversation));
    } catch (error) {
      if (!isOverflow(error) || !(await compaction.compactFull(turn))) throw error;
      return this.#ask(turn, questionOf(conversation));
    }
  }

  /** Asks the model once. Throws what {@link AdaptiveModels} throws. */
  async #ask(turn: number, question: Question, isUnseen = false): Promise<LlmAnswer> {
    const at = { signal: this.#stop.signal, turn, isUnseen, onTool: (name: string) => this.#tools.expect(name) };
    const cached = (choice: ModelChoice) => {
      const fromTokens = this.#deps.modelTable.factsOf(choice.model).cache_from;
      const messages = this.#files.messagesFor(choice, question.messages);
      return {
        ...question,
        messages,
        cache: { key: this.#run.session?.id ?? this.#run.runId, again: 'conversation' as const, fromTokens },
      };
    };
    const { choice, answer } = await this.#roomy.ask(this.#models, cached, at);
    // A provider that failed is not asked again in later turns.
    this.#models = this.#models.slice(this.#models.indexOf(choice));
    return answer;
  }

  /** Returns results in the order of the calls. A result is submitted after all other tools of the turn have ended. */
  async #callTools(
    turn: number,
    calls: readonly LlmToolCall[],
    {
      maxBytes,
      asks,
      past,
    }: { readonly maxBytes: number; readonly asks: readonly number[]; readonly past: PastTurn | undefined },
  ) {
    const outcomes = new Map<LlmToolCall, BoundOutcome>();
    this.#outcomes = outcomes;
    const isForResult = this.#isForResult;
    const others = calls.filter(({ name }) => name !== SUBMIT);
    let settled = past === undefined ? new Map<number, Settled>() : await this.#settle(past);
    const edits = new Map([...settled].map(([number, each]) => [number, 'call' in each ? each.note : undefined]));
    let open = others;
    for (;;) {
      const { signal } = this.#stop;
      const waits = (number: number) => asks.includes(number) && !settled.has(number) && !past?.results.has(number);
      const ready = open.filter((call) => !waits(calls.indexOf(call)));
      const working = mapWithConcurrency(MAX_AT_ONCE, ready, signal, async (call) => {
        const number = calls.indexOf(call);
        outcomes.set(call, await this.#callTool(turn, call, { number, past, settled: settled.get(number) }));
      });
      await raceWithAbort(this.#deps.clock, signal, working);
      open = open.filter((call) => !outcomes.has(call));
      if (open.length === 0) break;
      // What is decided about is the answer in the journal.
      await this.#record?.begin(turn);
      await this.#tools.keepFiles(turn, true);
      settled = await this.#asks.wait(
        turn,
        calls,
        open.map((call) => calls.indexOf(call)),
      );
    }
    let submitted: Json | undefined;
    for (const call of calls.filter(({ name }) => name === SUBMIT)) {
      const at = { turn, number: calls.indexOf(call) + 1 };
      const outcome = await this.#reporter.report(at, call, async () => {
        const input =
          call.input === undefined ? undefined : withoutForbiddenNulls(this.#submit.inputSchema, call.input);
        const refusal = await this.#refusal(input);
        if (refusal !== undefined) return errorOutcome(refusal);
        submitted ??= submittedResult(this.#run.agent.definition.output_schema, input!);
        return outcomeOf('The result was accepted.');
      });
      outcomes.set(call, outcome);
      if (submitted === undefined) this.#record?.noteResult(turn, calls.indexOf(call), outcome);
    }
    const unbounded = calls.map((call) => outcomes.get(call)!);
    const notes = submitted === undefined && !isForResult ? this.#repeats.count(calls, unbounded) : [];
    const bounded = this.#tools.output.share(turn, unbounded, maxBytes);
    const shared = await raceWithAbort(this.#deps.clock, this.#stop.signal, bounded);
    const results = calls.map(({ id, name }, index) => {
      const { text, isError, files } = shared[index]!;
      const said = [edits.get(index), text, notes[index]].filter((line) => line !== undefined);
      return { id, name, text: said.join('\n'), isError, files };
    });
    return { results, submitted };
  }

  /**
   * Returns how the calls of a turn go on that waited, by number from 0; those about which something was decided since the
   * last process are written to the journal first.
   */
  async #settle(past: PastTurn): Promise<Map<number, Settled>> {
    const { turn, answer, asks, decisions, results } = past;
    const isOpen = asks.some((number) => !results.has(number) && !decisions.has(number));
    const fresh = isOpen ? await this.#asks.newDecisions(past) : new Map<number, Decision>();
    const settled = new Map<number, Settled>();
    for (const number of asks) {
      const decided = fresh.get(number);
      if (decided !== undefined) await this.#record?.writeDecision(turn, number, decided);
      const decision = decisions.get(number) ?? decided;
      if (decision !== undefined) settled.set(number, this.#asks.settle(answer.toolCalls[number]!, decision));
    }
    return settled;
  }

  /** Calls one tool, unless the journal has its result, or tells that it began and must not begin again. */
  async #callTool(
    turn: number,
    call: LlmToolCall,
    {
      number,
      past,
      settled,
    }: { readonly number: number; readonly past: PastTurn | undefined; readonly settled: Settled | undefined },
  ): Promise<BoundOutcome> {
    const record = this.#record;
    const known = past?.results.get(number);
    if (known !== undefined) {
      const outcome = this.#files.restored(outcomeFrom(known.outcome));
      record?.knows(number, outcome);
      return outcome;
    }
    const at = { turn, number: number + 1 };
    if (this.#isForResult) {
      const outcome = await this.#reporter.report(at, call, async () => errorOutcome(LAST_TURN));
      record?.noteResult(turn, number, outcome);
      return outcome;
    }
    const refused = settled === undefined ? this.#asks.refusedBefore(call) : undefined;
    const given = refused ?? (settled !== undefined && 'outcome' in settled ? settled.outcome : undefined);
    if (given !== undefined) {
      const outcome = await this.#reporter.report(at, call, () => this.#tools.output.bound(given, at));
      record?.noteResult(turn, number, outcome);
      return outcome;
    }
    const approved = settled !== undefined && 'call' in settled ? settled.call : call;
    const startedAt = this.#deps.clock.now();
    const isUnknown = past?.begun.has(number) === true && !this.#tools.mayRepeat(call);
    await record?.begin(turn, number);
    const outcome = await this.#reporter.report<BoundOutcome>(at, call, async () =>
      isUnknown ? errorOutcome(UNKNOWN_EFFECT) : this.#callSurely(approved, at),
    );
    // The process is about to stop, or another one has the run: it decides about this call.
    if (record !== undefined) this.#stop.signal.throwIfAborted();
    await record?.writeResult(turn, number, {
      outcome,
      durationMs: this.#deps.clock.now() - startedAt,
      hasCalledDependency: this.#tools.hasCalledDependency,
    });
    return outcome;
  }

  /** Calls a tool. A durable run that loses its sandbox meanwhile continues in a new one. */
  async #callSurely(call: LlmToolCall, at: CallPlace): Promise<BoundOutcome> {
    for (;;) {
      const lost = this.#lostSandboxes;
      try {
        return await this.#tools.call(call, at);
      } catch (error) {
        const isLost = isPlatformError(error) && isInterruption(error);
        if (this.#run.durable === undefined || !isLost || this.#stop.signal.aborted) throw error;
        // Calls that ran together lost the same sandbox.
        if (lost === this.#lostSandboxes) {
          this.#lostSandboxes += 1;
          this.#replacing = this.#tools.replaceSandbox(at.turn - 1, error).then((text) => {
            this.#newSandbox = text;
          });
        }
        await this.#replacing;
        if (!this.#tools.mayRepeat(call)) return errorOutcome(UNKNOWN_EFFECT);
      }
    }
  }

  /** Returns why a submitted result is rejected. */
  async #refusal(input: Json | undefined): Promise<string | undefined> {
    const { required } = this.#tools;
    if (required.length > 0) return `STRICT_MODE_DEPENDENCY_REQUIRED: ${dependencyRequired(required)}`;
    return parameterProblem(this.#run, this.#submit, input);
  }
}

const outputOf = ({ isJson, ...output }: ReadReply): LoopOutput => output;

const questionOf = ({ system, tools, messages }: Conversation): Question => ({ system, tools, messages });
