import { resumedText } from '#core/base/attempt-text.ts';
import { waitingText } from './approvals.ts';
import type { Cli } from './cli.ts';
import { printable, textOf } from './output.ts';

/** A progress record of a call (`docs/interface/calls.md#streams`). */
export type Progress = Readonly<Record<string, unknown>>;

/**
 * Shows the progress records of a run. After a lost connection, the records come again from the beginning, with consecutive
 * pieces of text joined; what was shown before is skipped, so that each line is shown once.
 */
export class RunProgress {
  readonly #print: (record: Progress) => void;
  /** What was received: characters of text, or the number of records, by type. */
  readonly #received = new Map<string, number>();
  /** What is still to be skipped. */
  #known = new Map<string, number>();

  /** @param print shows one record. @default - on stderr, without the text of answers */
  constructor(cli: Cli, print: (record: Progress) => void = (record) => printStep(cli, record)) {
    this.#print = print;
  }

  /** The records from here on begin with the first one of the run. */
  restart(): void {
    this.#known = new Map(this.#received);
  }

  show(record: Progress): void {
    const type = String(record.type);
    const text = typeof record.text === 'string' ? record.text : undefined;
    const size = text === undefined ? 1 : text.length;
    const known = this.#known.get(type) ?? 0;
    this.#known.set(type, Math.max(0, known - size));
    if (known >= size) return;
    this.#received.set(type, (this.#received.get(type) ?? 0) + size - known);
    this.#print(text === undefined ? record : { ...record, text: text.slice(known) });
  }
}

function printStep({ output }: Cli, event: Progress): void {
  const dim = (text: string) => output.note(output.style('dim', text));
  switch (event.type) {
    // `stdout` is skipped: programs write their answer there, and the result follows.
    case 'stderr':
      dim(printable(String(event.text)).trimEnd());
      break;
    case 'turn_start':
      dim(`turn ${event.turn} of ${event.max_turns}`);
      break;
    case 'tool_call':
      dim(`${event.tool} ${textOf(event.args_brief)}`);
      break;
    case 'tool_result':
      if (event.status !== 'ok') dim(`${event.tool} failed`);
      break;
    case 'waiting':
      output.note(waitingText(event));
      break;
    case 'resumed':
      dim(resumedText(event));
      break;
    default:
  }
}
