import type { Json } from '#core/base/json.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { LlmToolCall } from '#core/ports/llm.ts';
import type { EngineRun } from '../engine.ts';
import type { PastTurn } from './record.ts';
import { SUBMIT } from './submit.ts';
import type { ToolOutcome } from './tool-outcome.ts';
import type { CallPlace } from './tool-output.ts';

/** Length of a tool's output that the run's log keeps if the run was stopped before the tool ended. */
const STOPPED_OUTPUT_CHARACTERS = 4000;

/** Ids come from the model's provider, which may send any text. */
const MAX_CALL_ID = 100;

/** Turn of a call, and its number in the turn, both from 1. */
type ReportedPlace = Pick<CallPlace, 'turn' | 'number'>;

interface EndedCall {
  readonly turn: number;
  readonly number: number;
  readonly tool: string;
  /** Number of the span in the trace. */
  readonly span: number;
  readonly durationMs: number;
}

/** Emits, traces and logs the tool calls of one run. */
export class ToolReporter {
  readonly #clock: Clock;
  readonly #run: EngineRun;
  readonly #signal: AbortSignal;
  #isClosed = false;
  /** One line per tool call. */
  readonly log: string[] = [];

  constructor(clock: Clock, run: EngineRun, signal: AbortSignal) {
    this.#clock = clock;
    this.#run = run;
    this.#signal = signal;
  }

  /** Ignores later results, from tools that could not be stopped in time. */
  close(): void {
    this.#isClosed = true;
  }

  /** Restores the lines of a turn that another process reported. */
  restore({ turn, answer, results }: PastTurn): void {
    for (const [call, { outcome, durationMs }] of results) {
      const tool = this.#nameOf(answer.toolCalls[call]!);
      this.log.push(lineOf({ turn, tool, durationMs }, outcome.isError ? 'error' : 'ok'));
    }
  }

  async report<Outcome extends ToolOutcome>(
    { turn, number }: ReportedPlace,
    call: LlmToolCall,
    work: () => Promise<Outcome>,
  ): Promise<Outcome> {
    const { emit, trace, mask } = this.#run;
    const tool = this.#nameOf(call);
    const startedAt = this.#clock.now();
    emit({ type: 'tool_call', turn, call: number, tool, args_brief: briefOf(call, (text) => mask.text(text)) });
    // Only spans that are exported need the id.
    const call_id = this.#run.traceHeaders && mask.text(call.id).slice(0, MAX_CALL_ID);
    const payload = { tool_name: tool, turn, ...(call_id !== undefined && { call_id }) };
    const span = trace.begin({ event_type: 'tool_call_started', payload }, (contents) => contents.call(call));
    let outcome: Outcome | undefined;
    try {
      outcome = await work();
      return outcome;
    } finally {
      if (!this.#isClosed) {
        this.#reportEnd({ turn, number, tool, span, durationMs: this.#clock.now() - startedAt }, outcome);
      }
    }
  }

  /** The model may make up a name of any length, and of what it was told. */
  #nameOf({ name }: LlmToolCall): string {
    return this.#run.mask.text(name).slice(0, 64);
  }

  #reportEnd({ turn, number, tool, span, durationMs }: EndedCall, outcome: ToolOutcome | undefined): void {
    const { emit, trace } = this.#run;
    const payload = { tool_name: tool, turn };
    const status = outcome?.isError === false ? 'ok' : 'error';
    emit({ type: 'tool_result', turn, call: number, tool, status });
    trace.add(
      {
        event_type: status === 'ok' ? 'tool_call_succeeded' : 'tool_call_failed',
        span,
        payload,
        duration_ms: durationMs,
        ...(outcome?.cost && { provider: outcome.cost.provider, cost_usd: outcome.cost.costUsd }),
      },
      outcome && ((contents) => contents.result(outcome.text)),
    );
    const [, violation_type, detail] = /^\[ERROR\] (STRICT_MODE_\w+): (.*)/.exec(outcome?.text ?? '') ?? [];
    if (violation_type && detail) {
      trace.add({ event_type: 'policy_violation', payload: { ...payload, violation_type, detail } });
    }
    this.log.push(lineOf({ turn, tool, durationMs }, status));
    if (this.#signal.aborted && outcome) this.log.push(`${outcome.text.slice(-STOPPED_OUTPUT_CHARACTERS)}\n`);
  }
}

const lineOf = ({ turn, tool, durationMs }: Omit<EndedCall, 'span' | 'number'>, status: 'ok' | 'error'): string =>
  `turn ${turn}: ${tool} ${status}, ${Math.round(durationMs)} ms\n`;

/**
 * Summarizes a call's parameters for progress events (`docs/interface/calls.md#streams`). They are masked before they
 * are
 * truncated, which could split a secret and expose a part of it.
 */
function briefOf({ name, input }: LlmToolCall, mask: (text: string) => string): string {
  if (name === SUBMIT) return '';
  const { command, path: file, name: document, content } = (input ?? {}) as { [name: string]: Json };
  const path = name === 'memory_write' ? document : file;
  if (name === 'bash' && typeof command === 'string') return mask(command).slice(0, 120);
  if ((name === 'write_file' || name === 'memory_write') && typeof path === 'string' && typeof content === 'string') {
    return `${mask(path).slice(0, 200)} (${content.length} characters)`;
  }
  return mask(JSON.stringify(input ?? {})).slice(0, 100);
}
