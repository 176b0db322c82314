import type { Json } from '#core/base/json.ts';
import { textOfAnswer } from '#core/execution/calls/answer-text.ts';
import { SUBMIT } from '#core/execution/engines/loop/submit.ts';
import type { ProgressEvent } from '#core/execution/engines/progress.ts';
import { isoTime } from '#core/ports/clock.ts';
import { type Approval, approvalIdOf, asksPeople } from '#core/runs/approvals/approval.ts';
import type { End, RunMapping, TextKind } from '../run-mapping.ts';
import { type AgUiEvent, type Interrupt, PROTOCOL_VERSION } from './events.ts';

/** A run of a client: a run of the platform, or the part of one after an interrupt. */
export interface AgUiRun {
  readonly threadId: string;
  /** The client's id of it. */
  readonly clientRunId: string;
  readonly sessionId: string;
  readonly workspaceId: string;
  /** The platform's id. */
  readonly runId: string;
  /** Number of the run's event after which it begins. 0: at the beginning of the run. */
  readonly after: number;
  /** Ids of the interrupts that were answered for it to begin. */
  readonly answered: readonly string[];
}

const DONE = { ok: '{"status":"ok"}', error: '{"status":"error"}' } as const;

/**
 * Translates the progress of a run to events of AG-UI (`docs/interface/ag-ui.md#events`). The same progress always gives the
 * same events, whatever the pieces of its texts: a stream that broke is resumed by counting them (`numbering.ts`).
 */
export class Mapping implements RunMapping<AgUiEvent> {
  readonly #run: AgUiRun;
  readonly #text: TextKind;
  readonly #steps = new Set<string>();
  #messages = 0;
  /** The message that is open. */
  #open: { readonly kind: 'text' | 'reasoning'; readonly id: string } | undefined;
  /** Texts of the turn, by message. */
  #turnMessages: string[] = [];
  #lastText = '';
  /** Whether text is missing from what is kept of the run. */
  #isCut = false;
  readonly #called = new Set<string>();
  readonly #returned = new Set<string>();

  constructor(run: AgUiRun, text: TextKind) {
    this.#run = run;
    this.#text = text;
    for (const id of run.answered) this.#called.add(id);
  }

  start(): AgUiEvent[] {
    const { threadId, clientRunId, sessionId, workspaceId, runId } = this.#run;
    const platform = { run_id: runId, session_id: sessionId, workspace_id: workspaceId };
    const metadata = { platform };
    return [{ type: 'RUN_STARTED', threadId, runId: clientRunId, protocolVersion: PROTOCOL_VERSION, metadata }];
  }

  progress(event: ProgressEvent): AgUiEvent[] {
    switch (event.type) {
      case 'text_delta':
        return this.#text === 'hidden' ? [] : this.#say('text', event.text);
      case 'reasoning_delta':
        return this.#say('reasoning', event.text);
      case 'turn_start':
        return [...this.#endTurn(), ...this.#startStep(turnStep(event.turn))];
      case 'setup_step': {
        const name = `setup: ${event.name}`;
        return event.status === 'started' ? this.#startStep(name) : this.#endStep(name);
      }
      case 'retry':
        return this.#discard();
      case 'interrupted':
        return [...this.#discard(), ...this.#endSteps()];
      case 'tool_call':
        return event.tool === SUBMIT ? [] : this.#call(this.#idOf(event), event.tool, argumentsOf(event.args_brief));
      case 'tool_result':
        return event.tool === SUBMIT ? [] : this.#return(this.#idOf(event), DONE[event.status]);
      case 'output_truncated':
        this.#isCut = true;
        return [];
      default:
        return [];
    }
  }

  /** Whether what a run waits for ends this run of the client: a person is asked who was not asked before. */
  isInterrupt({ approvals }: Extract<ProgressEvent, { type: 'waiting' }>): boolean {
    return approvals.some((each) => asksPeople(each) && !this.#run.answered.includes(each.id));
  }

  /** Ends the client's run with the calls that wait for people. */
  interrupt(waiting: readonly Approval[]): AgUiEvent[] {
    const asked = waiting.filter((each) => asksPeople(each) && !this.#run.answered.includes(approvalIdOf(each)));
    const calls = asked.flatMap((each) =>
      this.#call(approvalIdOf(each), each.tool.slice(0, 64), JSON.stringify(each.args)),
    );
    return [
      ...this.#endMessage(),
      ...calls,
      ...this.#endSteps(),
      this.#finished({ outcome: { type: 'interrupt', interrupts: asked.map(interruptOf) } }),
    ];
  }

  end(end: End): AgUiEvent[] {
    const closing = [...this.#endMessage(), ...this.#settled(), ...this.#endSteps()];
    if ('error' in end) {
      const { code, message } = end.error;
      if (code === 'RUN_CANCELLED') return [...closing, this.#finished({ outcome: { type: 'cancelled' } })];
      return [...closing, { type: 'RUN_ERROR', message, code }];
    }
    const { output, usage } = end;
    // Tokens before an interrupt are not those of this run of the client.
    const counted = usage !== undefined && this.#run.after === 0 && { usage: [usage] };
    const outcome = { type: 'success' } as const;
    return [...closing, ...this.#answer(output), this.#finished({ outcome, result: output, ...counted })];
  }

  /** Says the answer, unless the model's last words were it. */
  #answer(output: Json): AgUiEvent[] {
    const text = output === null ? '' : textOfAnswer(output);
    const isSaid = this.#lastText !== '' && this.#text === 'answer' && !this.#isCut;
    if (isSaid || text.trim() === '' || text.trim() === this.#lastText.trim()) return [];
    return [...this.#say('text', text), ...this.#endMessage()];
  }

  #say(kind: 'text' | 'reasoning', delta: string): AgUiEvent[] {
    if (delta === '') return [];
    const events: AgUiEvent[] = [];
    if (this.#open?.kind !== kind) {
      events.push(...this.#endMessage());
      this.#messages += 1;
      const messageId = `${this.#run.runId}.${this.#run.after}.${this.#messages}`;
      this.#open = { kind, id: messageId };
      this.#turnMessages.push(messageId);
      if (kind === 'text') {
        this.#lastText = '';
        events.push({ type: 'TEXT_MESSAGE_START', messageId, role: 'assistant' });
      } else {
        events.push({ type: 'REASONING_START', messageId });
        events.push({ type: 'REASONING_MESSAGE_START', messageId, role: 'reasoning' });
      }
    }
    const messageId = this.#open!.id;
    if (kind === 'text') this.#lastText += delta;
    const type = kind === 'text' ? 'TEXT_MESSAGE_CONTENT' : 'REASONING_MESSAGE_CONTENT';
    return [...events, { type, messageId, delta }];
  }

  #endMessage(): AgUiEvent[] {
    if (this.#open === undefined) return [];
    const { kind, id: messageId } = this.#open;
    this.#open = undefined;
    if (kind === 'text') return [{ type: 'TEXT_MESSAGE_END', messageId }];
    return [
      { type: 'REASONING_MESSAGE_END', messageId },
      { type: 'REASONING_END', messageId },
    ];
  }

  /** Says which messages of the turn are void: no event of the protocol takes text back. */
  #discard(): AgUiEvent[] {
    const closing = this.#endMessage();
    const message_ids = this.#turnMessages;
    this.#turnMessages = [];
    this.#lastText = '';
    if (message_ids.length === 0) return closing;
    return [...closing, { type: 'CUSTOM', name: 'platform.discarded', value: { message_ids } }];
  }

  #endTurn(): AgUiEvent[] {
    const closing = this.#endMessage();
    this.#turnMessages = [];
    const turns = [...this.#steps].filter((step) => step.startsWith(TURN));
    return [...closing, ...turns.flatMap((step) => this.#endStep(step))];
  }

  #startStep(stepName: string): AgUiEvent[] {
    if (this.#steps.has(stepName)) return [];
    this.#steps.add(stepName);
    return [...this.#endMessage(), { type: 'STEP_STARTED', stepName }];
  }

  #endStep(stepName: string): AgUiEvent[] {
    return this.#steps.delete(stepName) ? [{ type: 'STEP_FINISHED', stepName }] : [];
  }

  #endSteps(): AgUiEvent[] {
    return [...this.#steps].flatMap((step) => this.#endStep(step));
  }

  #call(toolCallId: string, toolCallName: string, delta: string): AgUiEvent[] {
    if (this.#called.has(toolCallId)) return [];
    this.#called.add(toolCallId);
    const closing = this.#endMessage();
    return [
      ...closing,
      { type: 'TOOL_CALL_START', toolCallId, toolCallName },
      { type: 'TOOL_CALL_ARGS', toolCallId, delta },
      { type: 'TOOL_CALL_END', toolCallId },
    ];
  }

  #return(toolCallId: string, content: string): AgUiEvent[] {
    if (this.#returned.has(toolCallId)) return [];
    this.#returned.add(toolCallId);
    return [{ type: 'TOOL_CALL_RESULT', messageId: `${toolCallId}.result`, toolCallId, content, role: 'tool' }];
  }

  /** Ends the calls that were answered, and of which the run says no more: a question of a program is none of its tools. */
  #settled(): AgUiEvent[] {
    return this.#run.answered.flatMap((id) => this.#return(id, DONE.ok));
  }

  #finished(more: Pick<Extract<AgUiEvent, { type: 'RUN_FINISHED' }>, 'outcome' | 'result' | 'usage'>): AgUiEvent {
    const { threadId, clientRunId: runId } = this.#run;
    return { type: 'RUN_FINISHED', threadId, runId, ...more };
  }

  #idOf({ turn, call }: { readonly turn: number; readonly call: number }): string {
    return approvalIdOf({ runId: this.#run.runId, turn, call });
  }
}

const TURN = 'turn ';
const turnStep = (turn: number): string => `${TURN}${turn}`;

/** Returns arguments as JSON: the whole of them if they are short enough for progress, else what progress says of them. */
function argumentsOf(brief: string): string {
  try {
    const value: unknown = JSON.parse(brief);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return brief;
  } catch {
    // A part of them.
  }
  return JSON.stringify({ brief });
}

function interruptOf(approval: Approval): Interrupt {
  const { kind, tool, args, question, options, schema, expiresAt } = approval;
  const id = approvalIdOf(approval);
  return {
    id,
    reason: kind === 'approve' ? 'approval' : 'question',
    message: question ?? `May the agent call ${tool}?`,
    toolCallId: id,
    responseSchema: kind === 'approve' ? approvalSchema(schema) : (schema ?? { type: 'string' }),
    expiresAt: isoTime(expiresAt),
    metadata: { platform: { tool, arguments: args, ...(options && { options: [...options] }) } },
  };
}

const approvalSchema = (ofArguments: Approval['schema']): NonNullable<Approval['schema']> => ({
  type: 'object',
  properties: {
    approved: { type: 'boolean' },
    arguments: ofArguments ?? { type: 'object' },
    reason: { type: 'string' },
    for: { enum: ['this', 'run'] },
  },
  required: ['approved'],
});
