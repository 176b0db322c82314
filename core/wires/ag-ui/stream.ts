import type { PlatformError } from '#core/base/errors.ts';
import { errorEnvelope } from '#core/http/envelope.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { TextKind } from '../run-mapping.ts';
import { RunStream, type RunStreamOptions, type RunWriter } from '../run-stream.ts';
import type { AgUiEvent } from './events.ts';
import { type AgUiRun, Mapping } from './mapping.ts';
import { type IdentifiedEvent, Numbering, type Place } from './numbering.ts';

interface StreamOptions extends Pick<RunStreamOptions<AgUiEvent>, 'local' | 'until' | 'check' | 'takePlace'> {
  readonly run: AgUiRun;
  readonly text: TextKind;
  /** What the client has received. */
  readonly after: Place;
  readonly requestUuid: string;
}

/** Returns the stream of a client's run (`docs/interface/ag-ui.md#streams`). */
export const agUiStream = (deps: Deps, { run, text, after, requestUuid, ...options }: StreamOptions) =>
  new RunStream(deps, {
    ...options,
    run,
    newMapping: () => new Mapping(run, text),
    writer: new AgUiWriter(run.runId, after, requestUuid),
  });

class AgUiWriter implements RunWriter<AgUiEvent> {
  readonly #runId: string;
  readonly #requestUuid: string;
  #numbering: Numbering;

  constructor(runId: string, after: Place, requestUuid: string) {
    this.#runId = runId;
    this.#requestUuid = requestUuid;
    this.#numbering = new Numbering(after);
  }

  /** What was sent is left out. */
  restart(): void {
    this.#numbering = new Numbering(this.#numbering.place);
  }

  write(events: readonly AgUiEvent[]): Uint8Array | undefined {
    const identified = this.#numbering.add(events);
    return identified.length === 0 ? undefined : bytesOf(identified);
  }

  /** Has no number, because the next stream has it no more. */
  goesOn(): Uint8Array {
    return bytesOf([{ event: { type: 'CUSTOM', name: 'platform.continues', value: { run_id: this.#runId } } }]);
  }

  refusal(error: unknown): Uint8Array {
    return bytesOf([{ event: refusal(error, this.#requestUuid) }]);
  }
}

/** Answers with an error as the only event of a run: for what a client cannot learn from a status. */
export async function* refusedStream(
  { threadId, clientRunId }: Pick<AgUiRun, 'threadId' | 'clientRunId'>,
  error: PlatformError,
  requestUuid: string,
): AsyncGenerator<Uint8Array> {
  const started = { type: 'RUN_STARTED', threadId, runId: clientRunId, protocolVersion: '1.0', metadata: {} } as const;
  yield bytesOf([{ event: started }, { event: refusal(error, requestUuid) }]);
}

function refusal(error: unknown, requestUuid: string): AgUiEvent {
  const { code, message } = errorEnvelope(error, requestUuid).body.error;
  return { type: 'RUN_ERROR', message, code };
}

/** JSON text is one line: line ends inside it are escaped. */
const bytesOf = (events: readonly (Pick<IdentifiedEvent, 'event'> & Partial<IdentifiedEvent>)[]): Uint8Array =>
  Buffer.from(
    events
      .map(({ id, event }) => `${id === undefined ? '' : `id: ${id}\n`}data: ${JSON.stringify(event)}\n\n`)
      .join(''),
  );
