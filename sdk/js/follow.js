import { errorOf, statusOf, TimeoutExceededError } from './errors.js';
import { pause, send } from './http.js';

/** A run is followed over so many failed connections in a row: a platform that starts again takes some seconds. */
export const FOLLOW_RETRIES = 10;
const FIRST_POLL_MS = 500;
const MAX_POLL_MS = 5_000;
const ENDED = ['completed', 'failed', 'timeout', 'cancelled'];
/** Codes whose runs may succeed if they are called again. */
const RETRYABLE_CODES = ['RATE_LIMITED', 'LLM_RATE_LIMITED', 'INTERNAL_ERROR', 'LLM_ERROR', 'TIMEOUT'];

/**
 * Waits for the end of a run. Throws the error that a call of it would.
 *
 * @param {string} id
 * @param {import('./http.js').Request} request Reads the run.
 * @returns {Promise<import('./platform.js').Answer>} What a call of it would have been answered, as far as its record says.
 */
export async function answerOf(id, request) {
  const record = await recordOf(request).catch((error) => {
    if (!(error instanceof TimeoutExceededError)) throw error;
    throw late(`The run ${id} did not end in time`, id);
  });
  if (record.status !== 'completed') throw failureOf(id, record, request.makeError);
  return { data: record.output_data, warnings: [], metadata: metadataOf(id, record), runId: id };
}

/** @param {import('./http.js').Request} request */
async function recordOf(request) {
  for (let wait = FIRST_POLL_MS; ; wait = Math.min(wait * 1.5, MAX_POLL_MS)) {
    // Input and output may be large.
    const { body } = await send({ ...request, url: `${request.url}?body=false` });
    if (ENDED.includes(body.status)) return (await send(request)).body;
    await pause(wait, request);
  }
}

/**
 * @param {string} id
 * @param {any} record
 * @returns {Record<string, any>}
 */
function metadataOf(id, record) {
  const { agent_version, duration_ms, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = record;
  return {
    request_id: requestIdOf(id),
    processing_time_ms: duration_ms,
    version: agent_version,
    ...(typeof input_tokens === 'number' && {
      usage: {
        input_tokens,
        output_tokens,
        ...(cache_read_tokens > 0 && { cache_read_tokens }),
        ...(cache_write_tokens > 0 && { cache_write_tokens }),
      },
    }),
  };
}

/**
 * @param {string} id
 * @param {any} record
 * @param {import('./http.js').Request['makeError']} [makeError]
 */
function failureOf(id, record, makeError = errorOf) {
  const code =
    record.error_code ?? { timeout: 'TIMEOUT', cancelled: 'RUN_CANCELLED' }[String(record.status)] ?? 'INTERNAL_ERROR';
  return makeError(record.error_message ?? `The run ${record.status}`, {
    code,
    status: statusOf(code),
    isRetryable: RETRYABLE_CODES.includes(code),
    requestId: requestIdOf(id),
    runId: id,
    responseBody: record,
  });
}

/** @param {string} id */
const requestIdOf = (id) => `req_${id.replaceAll('-', '')}`;

/**
 * @param {string} message
 * @param {string} runId
 */
export const late = (message, runId) =>
  new TimeoutExceededError(message, { code: 'TIMEOUT', isRetryable: true, runId });
