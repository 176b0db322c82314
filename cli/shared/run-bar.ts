import type { Client } from '#core/api/client.ts';
import type { Cli } from './cli.ts';
import { type FollowedEvent, followRun } from './follow.ts';
import { textOf } from './output.ts';

const TICK_MS = 1_000;

interface RunParams {
  readonly workspace_id: string;
  readonly run_id: string;
}

/**
 * A line at the bottom of a terminal that says what a run does now: its turn, what is at work, money so far, elapsed
 * time and time left. Elsewhere it shows nothing.
 */
export class RunBar {
  readonly #output: Cli['output'];
  /** Epoch milliseconds. */
  #startedAt = Date.now();
  #deadline: number | undefined;
  #turn = '';
  /** Steps in progress: span -> name. The last one is shown. */
  readonly #steps = new Map<string, string>();
  #isWaiting = false;
  #costUsd = 0;
  #isHidden = false;
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #ended = new AbortController();

  constructor({ output }: Cli) {
    this.#output = output;
    if (!output.isLive) return;
    this.#timer = setInterval(this.#draw, TICK_MS);
    this.#timer.unref();
  }

  /** Reads when the run began and when it must end. Never throws: the bar is shown without. */
  async read(client: Client, params: RunParams): Promise<void> {
    if (!this.#output.isLive) return;
    const run = await client.getRun({ params, query: { body: 'false' } }).catch(() => undefined);
    if (run === undefined) return;
    this.#startedAt = Date.parse(run.started_at ?? run.created_at);
    this.#deadline = Date.parse(run.deadline);
    this.#draw();
  }

  /** Shows a run on a connection of its own until {@link end}. Never throws. */
  async watch(cli: Cli, client: Client, params: RunParams): Promise<void> {
    if (!this.#output.isLive) return;
    try {
      await this.read(client, params);
      const { signal } = this.#ended;
      for await (const event of followRun(cli, params, { client, signal, isQuiet: true })) this.tell(event);
    } catch {
      // What the command itself reads has the error.
    }
  }

  tell({ type, data }: FollowedEvent): void {
    if (!this.#output.isLive) return;
    if (type === 'progress') this.#tellProgress(data);
    else if (type === 'trace') this.#tellStep(data);
    else if (type === 'sub_call') {
      const hasEnded = data.completed_at !== null;
      this.#step(String(data.run_id), hasEnded ? undefined : textOf(data.agent_name));
      if (hasEnded) this.#costUsd += Number(data.cost_usd ?? 0);
    } else if (type === 'waiting' || type === 'resumed') this.#isWaiting = type === 'waiting';
    else if (type === 'end') this.end();
    this.#draw();
  }

  /** Removes the line while something else needs its place. */
  hide(isHidden: boolean): void {
    this.#isHidden = isHidden;
    if (isHidden) this.#output.footer('');
  }

  /** Removes the line for good. */
  end(): void {
    this.#ended.abort();
    clearInterval(this.#timer);
    this.#output.footer('');
  }

  #tellProgress(data: FollowedEvent['data']): void {
    if (data.type === 'turn_start') this.#turn = `turn ${data.turn} of ${data.max_turns}`;
    else if (data.type === 'interrupted') this.#steps.clear();
    else if (data.type === 'waiting' || data.type === 'resumed') this.#isWaiting = data.type === 'waiting';
  }

  #tellStep(data: FollowedEvent['data']): void {
    const [, kind, moment] = /^(\w+?)_(started|succeeded|failed)$/.exec(String(data.event_type)) ?? [];
    this.#costUsd += Number(data.cost_usd ?? 0);
    if (kind === undefined) return;
    const { name, tool_name = name } = (data.payload ?? {}) as Record<string, unknown>;
    const what = NAMES[kind] ?? textOf(kind === 'llm_call' ? (data.model ?? 'model') : (tool_name ?? kind));
    this.#step(String(data.span_id), moment === 'started' ? what : undefined);
  }

  #step(span: string, name: string | undefined): void {
    if (name === undefined) this.#steps.delete(span);
    else this.#steps.set(span, name);
  }

  readonly #draw = (): void => {
    if (this.#ended.signal.aborted || this.#isHidden) return;
    const now = Date.now();
    const left = this.#deadline === undefined ? 0 : this.#deadline - now;
    const parts = [
      this.#turn,
      this.#isWaiting ? 'waiting' : ([...this.#steps.values()].at(-1) ?? 'running'),
      this.#costUsd > 0 ? `$${this.#costUsd.toFixed(this.#costUsd < 1 ? 4 : 2)}` : '',
      whole(now - this.#startedAt),
      left > 0 ? `${whole(left)} left` : '',
    ];
    this.#output.footer(parts.filter((part) => part !== '').join(', '));
  };
}

/** What kinds of steps are called; the others have the name of their tool or model. */
const NAMES: { readonly [kind: string]: string } = { sandbox: 'program', queue: 'in the queue' };

/** A duration in whole seconds, because the line is drawn once a second. */
function whole(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}
