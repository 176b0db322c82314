import { tableParts } from '#aws/deps.ts';
import { operatorTelemetryParts } from '#aws/operator-telemetry.ts';
import { type StreamEvent, sumFromStream } from '#aws/usage/sum-from-stream.ts';
import { host } from '../host.ts';

const deps = { ...host, ...tableParts(host), ...operatorTelemetryParts(host) };

/** Invoked with ends of runs from the stream of the table `runs`. If it throws, Lambda sends the same records again. */
export async function handler(event: StreamEvent): Promise<object> {
  await sumFromStream(deps, event);
  // Lambda requires the state of a tumbling window.
  return { state: {} };
}
