import { EventSourceParserStream } from 'eventsource-parser/stream';

/** A `progress` record of a streamed call, see `docs/interface/calls.md#streams`. */
export interface ProgressRecord {
  readonly type: string;
  readonly text?: string;
  readonly tool?: string;
  readonly args_brief?: string;
  readonly turn?: number;
  readonly status?: string;
  readonly name?: string;
  readonly discard_text?: boolean;
  readonly attempt?: number;
  readonly reason?: string;
  readonly approvals?: readonly { readonly kind: string; readonly tool: string }[];
}

/** The record that ends the stream of a call: `result`, `error` or `continues`. */
export interface LastRecord {
  readonly event: string;
  readonly value: Readonly<Record<string, unknown>>;
}

/** Reads the stream of a call. Returns its last record; `undefined` if the connection was lost before it. */
export async function readRecords(
  response: Response,
  onProgress: (record: ProgressRecord) => void,
): Promise<LastRecord | undefined> {
  const records = response
    .body!.pipeThrough(new TextDecoderStream() as never)
    .pipeThrough(new EventSourceParserStream());
  try {
    for await (const { event = '', data } of records as unknown as AsyncIterable<{ event?: string; data: string }>) {
      const value = JSON.parse(data);
      if (event !== 'progress') return { event, value };
      onProgress(value);
    }
  } catch {
    // The browser tells no reason.
  }
  return undefined;
}
