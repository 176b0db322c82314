import { PlatformError } from '#core/base/errors.ts';
import { errorEnvelope } from '#core/http/envelope.ts';
import { requestIdOf } from '#core/http/request-id.ts';
import { type Run, usageOf } from '#core/runs/run.ts';

/** Stored answer to a call, sent again on every retry. */
export interface KeptAnswer {
  readonly status: number;
  /** JSON text. */
  readonly body: string;
  /** @default - only the headers that name the run */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Builds the answer to a call that threw `error`. */
export function errorAnswer(error: unknown, runId: string): KeptAnswer {
  const { status, body } = errorEnvelope(error, runId);
  return { status, body: JSON.stringify(body) };
}

/** Builds the answer to a call whose host died from its run's record: the original answer without its warnings. */
export const answerFromRecord = (run: Run, output: unknown): KeptAnswer =>
  run.errorCode === null
    ? resultAnswer(run, output)
    : errorAnswer(new PlatformError(run.errorCode, run.errorMessage ?? 'The run failed.'), run.id);

const resultAnswer = (run: Run, data: unknown): KeptAnswer => ({
  status: 200,
  body: JSON.stringify({
    data,
    metadata: {
      request_id: requestIdOf(run.id),
      processing_time_ms: run.durationMs,
      version: run.agentVersion,
      execution_time_ms: run.executionMs ?? 0,
      ...usageOf(run),
    },
  }),
});
