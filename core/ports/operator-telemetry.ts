import type { TraceContext } from '#core/base/trace-context.ts';
import type { OutboundExchanges } from './outbound.ts';

/** The operator's own collector of spans, of the runs of all workspaces. */
export interface OperatorTelemetry {
  /** Address of its traces. */
  readonly url: string;
  /** Returns the headers of each request. Throws if they cannot be read. */
  headers(): Promise<Readonly<Record<string, string>>>;
  /** Sends to the operator's address, which may be private. */
  readonly exchanges: OutboundExchanges;
  /** What all spans have in common. */
  readonly resource: Readonly<Record<string, string>>;
  /**
   * Whether the spans of a run are sent. All runs of a trace get the same answer.
   *
   * @param hasCaller Whether a caller began the trace, and chose whether it is sampled.
   */
  isSampled(span: TraceContext, hasCaller: boolean): boolean;
}
