import type { ProgressEvent } from '#core/execution/engines/progress.ts';
import { type Clock, isoTime } from '#core/ports/clock.ts';
import { type Approval, approvalIdOf, asksPeople } from '#core/runs/approvals/approval.ts';
import type { End, RunMapping, TextKind } from '../run-mapping.ts';
import type { RunWriter } from '../run-stream.ts';
import type { StreamResponse, Task, TaskStatus } from './objects.ts';
import { ARTIFACT_ID, artifactOf, askingStatus, endStatus } from './task.ts';

/** What a stream of a task begins with, and what it leaves out. */
export interface Followed {
  readonly task: Task;
  readonly text: TextKind;
  /** Ids of the questions that were answered before. */
  readonly answered: readonly string[];
}

/**
 * Translates the progress of a run to events of A2A (`docs/interface/a2a.md#streams`): the text of a model that is the answer
 * is sent as it is written. The last event of an artifact has all of it.
 */
export class TaskEvents implements RunMapping<StreamResponse> {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #followed: Followed;
  #hasText = false;

  constructor(clock: Pick<Clock, 'now'>, followed: Followed) {
    this.#clock = clock;
    this.#followed = followed;
  }

  start(): StreamResponse[] {
    return [{ task: this.#followed.task }];
  }

  progress(event: ProgressEvent): StreamResponse[] {
    // What a model says after one of these replaces what it said before.
    if (event.type === 'retry' || event.type === 'interrupted') this.#hasText = false;
    if (event.type !== 'text_delta' || event.text === '' || this.#followed.text !== 'answer') return [];
    const append = this.#hasText;
    this.#hasText = true;
    return [
      {
        artifactUpdate: {
          ...this.#ids,
          artifact: { artifactId: ARTIFACT_ID, parts: [{ text: event.text }] },
          append,
          lastChunk: false,
        },
      },
    ];
  }

  isInterrupt({ approvals }: Extract<ProgressEvent, { type: 'waiting' }>): boolean {
    return approvals.some((each) => asksPeople(each) && !this.#followed.answered.includes(each.id));
  }

  interrupt(waiting: readonly Approval[]): StreamResponse[] {
    const asked = waiting.filter(
      (each) => each.status === 'waiting' && asksPeople(each) && !this.#followed.answered.includes(approvalIdOf(each)),
    );
    return [this.#update(askingStatus(this.#followed.task, asked, this.#clock.now()))];
  }

  end(end: End): StreamResponse[] {
    const status = this.#update(endStatus(this.#followed.task, end, isoTime(this.#clock.now())));
    if ('error' in end) return [status];
    return [
      { artifactUpdate: { ...this.#ids, artifact: artifactOf(end.output), append: false, lastChunk: true } },
      status,
    ];
  }

  get #ids() {
    const { id: taskId, contextId } = this.#followed.task;
    return { taskId, contextId };
  }

  #update(status: TaskStatus): StreamResponse {
    return { statusUpdate: { ...this.#ids, status } };
  }
}

/** Writes events as records of a binding. */
export class TaskWriter implements RunWriter<StreamResponse> {
  readonly #recordOf: (event: StreamResponse) => object;
  readonly #errorOf: (error: unknown) => object;

  constructor(recordOf: (event: StreamResponse) => object, errorOf: (error: unknown) => object) {
    this.#recordOf = recordOf;
    this.#errorOf = errorOf;
  }

  /** Clients take the first text of an artifact in place of what they have. */
  restart(): void {}

  write(events: readonly StreamResponse[]): Uint8Array | undefined {
    if (events.length === 0) return undefined;
    return Buffer.from(events.map((event) => record(this.#recordOf(event))).join(''));
  }

  /** The protocol has no event for it: clients subscribe again to a task whose stream ended before it. */
  goesOn(): Uint8Array {
    return Buffer.from(': continues\n\n');
  }

  refusal(error: unknown): Uint8Array {
    return Buffer.from(record(this.#errorOf(error)));
  }
}

/** JSON text is one line: line ends inside it are escaped. */
const record = (data: object): string => `data: ${JSON.stringify(data)}\n\n`;
