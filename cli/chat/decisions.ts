import type { Client } from '#core/api/client.ts';
import { waitingText } from '../shared/approvals.ts';
import type { Cli } from '../shared/cli.ts';
import { failureOf, failureText } from '../shared/failure.ts';
import { printable, textOf } from '../shared/output.ts';
import type { Progress } from '../shared/run-progress.ts';
import type { TerminalReader } from './message-reader.ts';

type Approval = Awaited<ReturnType<Client['getApproval']>>;
type Waiting = Parameters<typeof waitingText>[0];
type Decision = Parameters<Client['decideApproval']>[0]['body'];

/** Asks at the terminal what a run waits for. Without one, says how to decide. */
export class Decisions {
  readonly #cli: Cli;
  readonly #client: Client;
  readonly #workspaceId: string;
  readonly #terminal: TerminalReader | undefined;
  readonly #leave: () => void;
  #asking = new AbortController();

  /** @param leave what Ctrl-C does at a question */
  constructor(cli: Cli, client: Client, workspaceId: string, terminal: TerminalReader | undefined, leave: () => void) {
    this.#cli = cli;
    this.#client = client;
    this.#workspaceId = workspaceId;
    this.#terminal = terminal;
    this.#leave = leave;
  }

  /** Begins to ask. The run may continue before the user answers, because somebody else has decided. */
  ask(record: Progress): void {
    const waiting = record as Waiting;
    const asked = (waiting.approvals ?? []).filter(({ kind }) => kind === 'approve' || kind === 'answer');
    if (this.#terminal === undefined || asked.length === 0) {
      this.#cli.output.note(waitingText(waiting));
      return;
    }
    this.#asking.abort();
    this.#asking = new AbortController();
    void this.#askAll(this.#terminal, asked, this.#asking.signal).catch(async (error) => {
      if (this.#asking.signal.aborted) return;
      this.#cli.output.error(failureText(this.#cli, await failureOf(error, this.#cli.last)));
      this.#cli.output.note(waitingText(waiting));
    });
  }

  stop(): void {
    this.#asking.abort();
  }

  async #askAll(
    terminal: TerminalReader,
    asked: readonly { readonly id: string }[],
    signal: AbortSignal,
  ): Promise<void> {
    for (const { id } of asked) {
      const params = { workspace_id: this.#workspaceId, approval_id: id };
      const approval = await this.#client.getApproval({ params });
      if (approval.status !== 'waiting' || signal.aborted) continue;
      const body = await this.#decisionOn(approval, terminal, signal);
      if (signal.aborted) return;
      if (body === undefined) return this.#leave();
      await this.#client.decideApproval({ params, body });
    }
  }

  /** Returns the user's decision; `undefined` if the user wants to leave. */
  async #decisionOn(
    { kind, tool, arguments: args, question, options }: Approval,
    terminal: TerminalReader,
    signal: AbortSignal,
  ): Promise<Decision | undefined> {
    const { output } = this.#cli;
    if (kind === 'answer') {
      output.note(output.style('bold', printable(question ?? '')));
      if (options !== null) output.note(options.map((option) => `  ${textOf(option)}`).join('\n'));
      const answer = await terminal.answer('answer: ', signal);
      return answer === undefined ? undefined : { decision: 'answer', answer };
    }
    output.note(output.style('bold', `${textOf(tool)} ${textOf(args)}`));
    if (question !== null) output.note(printable(question));
    for (;;) {
      const said = (await terminal.answer('approve? y, n, or why not: ', signal))?.trim();
      if (said === undefined) return undefined;
      if (/^(y|yes)$/i.test(said)) return { decision: 'approve' };
      if (/^(n|no)$/i.test(said)) return { decision: 'deny' };
      if (said !== '') return { decision: 'deny', reason: said };
    }
  }
}
