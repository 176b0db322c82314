import { resumedText } from '#core/base/attempt-text.ts';
import type { Output } from '../shared/output.ts';
import { printable, textOf } from '../shared/output.ts';
import type { Progress } from '../shared/run-progress.ts';

/** Maximum number of characters of the line that shows a thought. */
const MAX_THOUGHT = 100;

/**
 * Shows an answer while it is written: its text on stdout, what happens meanwhile in dim lines on stderr. Texts of agents
 * reach the terminal without control characters and escape sequences, which could rewrite it.
 */
export class AnswerView {
  readonly #output: Output;
  /** Text of this turn. */
  #text = '';
  /** Whether the answer follows a schema: pieces of JSON are not shown while they arrive. */
  #isData = false;
  #isInLine = false;
  #thought = '';

  constructor(output: Output) {
    this.#output = output;
  }

  show(record: Progress): void {
    const { type, text } = record;
    if (type === 'reasoning_delta') {
      this.#thought += String(text);
      return;
    }
    this.#endThought();
    switch (type) {
      case 'text_delta':
        this.#addText(String(text));
        break;
      case 'turn_start':
        this.#beginAnew();
        break;
      case 'retry':
        if (record.discard_text === true && this.#text !== '') this.#step('The answer begins anew.');
        this.#beginAnew();
        break;
      case 'tool_call':
        if (record.tool !== 'submit_result') this.#step(`${record.tool} ${textOf(record.args_brief)}`);
        break;
      case 'tool_result':
        if (record.status !== 'ok') this.#step(`${record.tool} failed`);
        break;
      case 'stderr':
        this.#step(String(text));
        break;
      case 'resumed':
        this.#step(resumedText(record));
        break;
      default:
    }
  }

  /** Shows what of the answer was not shown yet, and ends its line. */
  end(answer: string): void {
    this.#endThought();
    if (this.#isData || this.#text.trim() !== answer.trim()) {
      this.#endLine();
      this.#write(answer);
    }
    this.#endLine();
  }

  /** Shows what was held back, and ends the line of a text, before something else is shown. */
  pause(): void {
    this.#endThought();
    this.#endLine();
  }

  #endLine(): void {
    if (this.#isInLine) this.#write('\n');
  }

  /** Shows a line about what happens. */
  #step(text: string): void {
    this.#endLine();
    this.#output.note(this.#output.style('dim', printable(text).trimEnd()));
  }

  #addText(text: string): void {
    this.#text += text;
    this.#isData ||= /^\s*(?:[[{]|`{3})/.test(this.#text.slice(0, 100));
    if (!this.#isData && this.#text.trim() !== '')
      this.#write(this.#text.trim() === text.trim() ? text.trimStart() : text);
  }

  #write(text: string): void {
    const shown = printable(text);
    if (shown === '') return;
    this.#output.part(shown);
    this.#isInLine = !shown.endsWith('\n');
  }

  #beginAnew(): void {
    this.#endLine();
    this.#text = '';
    this.#isData = false;
  }

  /** Thoughts are folded: their beginning is shown. */
  #endThought(): void {
    const thought = textOf(this.#thought.trim());
    this.#thought = '';
    if (thought === '') return;
    this.#step(`thought: ${thought.length > MAX_THOUGHT ? `${thought.slice(0, MAX_THOUGHT)}…` : thought}`);
  }
}
