import { EXIT, UsageError } from '#client/usage-error.ts';
import type { Client } from '#core/api/client.ts';
import type { heldText } from '#core/base/held-text.ts';
import { requestIdOf } from '#core/http/request-id.ts';
import type { Cli } from './cli.ts';
import { followRun, messagesOf, streamError, untilAnswered } from './follow.ts';
import { RunBar } from './run-bar.ts';
import { RunProgress } from './run-progress.ts';

/** What a call is answered. Without `data`, the run continues. */
export interface Answer {
  readonly run_id?: string;
  /** When a run that waits for its time begins. */
  readonly run_at?: string;
  /** The rule for which a run waits for its turn. */
  readonly held_by?: Parameters<typeof heldText>[0];
  readonly data?: unknown;
  readonly warnings?: readonly { readonly code: string; readonly message: string }[];
  readonly metadata?: { readonly version: string; readonly processing_time_ms?: number };
}

/** A run whose call waits for its answer: in the stream of the call, then in the events of the run. */
export class FollowedRun {
  readonly runId: string;
  readonly bar: RunBar;
  readonly #cli: Cli;
  readonly #client: Client;
  readonly #progress: RunProgress;
  readonly #workspaceId: () => Promise<string>;

  constructor(
    cli: Cli,
    client: Client,
    runId: string,
    workspaceId: () => Promise<string>,
    progress = new RunProgress(cli),
  ) {
    this.#cli = cli;
    this.#client = client;
    this.runId = runId;
    this.#workspaceId = workspaceId;
    this.#progress = progress;
    this.bar = new RunBar(cli);
  }

  /** Reads the stream of the call. If that ends before the run, or its connection is lost, follows the run's events. */
  async readStream(response: Response): Promise<Answer> {
    void this.#watch();
    try {
      for await (const { event, data } of messagesOf(response)) {
        const value = JSON.parse(data);
        if (event === 'result') return value;
        if (event === 'error') throw streamError(value);
        if (event === 'continues')
          return await this.follow(value.after === undefined ? undefined : String(value.after));
        this.#progress.show(value);
      }
    } catch (error) {
      if ((error as Error).name === 'ApiError' || error instanceof UsageError) throw error;
    }
    if (this.runId === '') throw new UsageError('The connection was lost before the run began.', LOST);
    this.#cli.output.note('Connection lost. Reconnecting.');
    this.#progress.restart();
    return this.follow();
  }

  /** Reads the events of the run to its end, and its answer from its record. Throws the error of a run that failed. */
  async follow(after?: string): Promise<Answer> {
    const params = await untilAnswered(() => this.#params());
    void this.#watch();
    for await (const { type, data } of followRun(this.#cli, params, { client: this.#client, after })) {
      if (type === 'progress') this.#progress.show(data);
    }
    const run = await untilAnswered(() => this.#client.getRun({ params }));
    const metadata = { request_id: requestIdOf(run.id), version: run.agent_version };
    if (run.status !== 'completed') {
      const code = run.error_code ?? 'INTERNAL_ERROR';
      throw streamError({
        error: { code, message: run.error_message ?? `The run ended with ${run.status}.` },
        metadata,
      });
    }
    return { data: run.output_data, metadata: { ...metadata, processing_time_ms: run.duration_ms ?? 0 } };
  }

  #isWatched = false;
  async #watch(): Promise<void> {
    if (this.#isWatched || !this.#cli.output.isLive) return;
    this.#isWatched = true;
    await this.#params().then(
      (params) => this.bar.watch(this.#cli, this.#client, params),
      () => {},
    );
  }

  async #params(): Promise<{ readonly workspace_id: string; readonly run_id: string }> {
    return { workspace_id: await this.#workspaceId(), run_id: this.runId };
  }
}

const LOST = { exitCode: EXIT.network };
