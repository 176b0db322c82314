import type { ProgressEvent } from '#core/execution/engines/progress.ts';
import type { McpContext } from '#core/ports/mcp-endpoint.ts';

/** Maximum of notifications for a call: a program may say as much as it likes. */
const MAX_NOTIFICATIONS = 500;
const MAX_MESSAGE = 200;

/** Tells a client the progress of a run, as far as a person wants to know it: texts and outputs are no part of it. */
export class ProgressNotifier {
  readonly #context: McpContext;
  readonly #token: string | number;
  #sent = 0;
  #isStopped = false;

  /** Returns `undefined` if the client wants no progress. */
  static for(context: McpContext): ProgressNotifier | undefined {
    const { progressToken } = context.meta;
    if (typeof progressToken !== 'string' && typeof progressToken !== 'number') return undefined;
    return new ProgressNotifier(context, progressToken);
  }

  private constructor(context: McpContext, token: string | number) {
    this.#context = context;
    this.#token = token;
  }

  readonly emit = (event: ProgressEvent): void => {
    const text = textOf(event);
    if (text === undefined || this.#isStopped || this.#sent === MAX_NOTIFICATIONS) return;
    this.#sent += 1;
    this.#context.notify('notifications/progress', {
      progressToken: this.#token,
      progress: this.#sent,
      message: text.slice(0, MAX_MESSAGE),
    });
  };

  /** Drops what comes after the result: the protocol forbids it. */
  stop(): void {
    this.#isStopped = true;
  }
}

function textOf(event: ProgressEvent): string | undefined {
  switch (event.type) {
    case 'sandbox_start':
      return 'The sandbox starts.';
    case 'setup_step':
      return `${event.name}: ${event.status}`;
    case 'turn_start':
      return `Turn ${event.turn} of at most ${event.max_turns}`;
    case 'tool_call':
      return `Calls ${event.tool}`;
    case 'tool_result':
      return `${event.tool}: ${event.status}`;
    case 'retry':
      return `Tries turn ${event.turn} again: ${event.reason}`;
    case 'interrupted':
      return 'The sandbox was lost: the program starts again.';
    case 'context_compacted':
      return 'Earlier turns were summarized.';
    case 'waiting':
      return event.approvals.length === 0 ? 'Waits.' : 'Waits for a person.';
    default:
      return undefined;
  }
}
