import type { ServerResponse } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { type Answer, type Asked, fillIn, type ScriptedTurn, type Usage, type Wire } from './turns.ts';

/**
 * Answers a request with its turn, or with the fault that the turn describes. Returns the tokens of a model's answer.
 */
export async function answer(
  wire: Wire,
  turn: ScriptedTurn,
  asked: Asked,
  account: () => Omit<Usage, 'output'>,
  apiKey: string | undefined,
  response: ServerResponse,
  gone: AbortSignal,
): Promise<Usage | undefined> {
  if (turn.hang) {
    await leaving(gone);
    return undefined;
  }
  if (turn.delayMs) await setTimeout(turn.delayMs, undefined, { signal: gone });
  if (turn.contentType !== undefined) {
    response.writeHead(turn.status ?? 200, { 'content-type': turn.contentType });
    response.end('<html><body>This is not the API that you are looking for.</body></html>');
    return undefined;
  }
  if (turn.resetBeforeHeaders) {
    response.socket?.resetAndDestroy();
    return undefined;
  }
  const status = statusOf(turn, asked);
  if (status !== undefined) {
    const { message = `Scripted error ${status}.`, retryAfter, refusal } = turn;
    const scripted = refusal && wire.refusals[refusal];
    const body = scripted?.[1] ?? wire.error(status, message.replaceAll('$KEY', apiKey ?? ''), retryAfter);
    response.writeHead(scripted?.[0] ?? status, {
      'content-type': 'application/json',
      ...waitHeaders(turn),
      ...(turn.shouldRetry !== undefined && { 'x-should-retry': String(turn.shouldRetry) }),
    });
    response.end(JSON.stringify(body));
    return undefined;
  }
  const filled = fillIn(turn, asked, account());
  if (turn.gzip) {
    const type = asked.stream ? 'text/event-stream' : 'application/json';
    const whole = asked.stream ? wire.frames(filled).join('') : JSON.stringify(wire.body(filled));
    response.writeHead(200, { 'content-type': type, 'content-encoding': 'gzip' }).end(gzipSync(whole));
    return filled.usage;
  }
  if (asked.stream) await writeStream(wire, turn, filled, response, gone);
  else writeWhole(wire, turn, filled, response);
  if (turn.hangAfter !== undefined) await leaving(gone);
  return filled.usage;
}

/** Resolves when the client has disconnected. */
const leaving = (gone: AbortSignal): Promise<void> =>
  new Promise((resolve) => gone.addEventListener('abort', () => resolve()));

/**
 * Returns the status of an error answer. An error event at the start of a stream is a status for unstreamed answers.
 */
export const statusOf = ({ status, refusal, errorFirst }: ScriptedTurn, { stream }: Asked): number | undefined =>
  status ?? (refusal !== undefined ? 400 : errorFirst && !stream ? 529 : undefined);

function waitHeaders({ retryAfter, retryForm = 'seconds' }: ScriptedTurn): Record<string, string> {
  if (retryAfter === undefined) return {};
  switch (retryForm) {
    case 'seconds':
      return { 'retry-after': String(retryAfter) };
    case 'date':
      return {
        date: new Date(0).toUTCString(),
        'retry-after': new Date(retryAfter * 1000).toUTCString(),
      };
    case 'ms':
      // The header in seconds, rounded, is for clients that do not know the one in milliseconds.
      return { 'retry-after-ms': String(retryAfter * 1000), 'retry-after': String(Math.ceil(retryAfter)) };
    case 'body':
      return {};
  }
}

function writeWhole(wire: Wire, turn: ScriptedTurn, filled: Answer, response: ServerResponse): void {
  const body = Buffer.from(JSON.stringify(wire.body(filled)));
  const half = body.subarray(0, body.byteLength >> 1);
  if (turn.hangAfter !== undefined) {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.byteLength });
    response.flushHeaders();
    return;
  }
  if (turn.breakOff === 'reset') {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.byteLength });
    response.write(half, () => response.socket?.resetAndDestroy());
    return;
  }
  const sent = turn.malformed || turn.breakOff === 'end' ? half : body;
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': sent.byteLength });
  response.end(sent);
}

async function writeStream(
  wire: Wire,
  turn: ScriptedTurn,
  filled: Answer,
  response: ServerResponse,
  gone: AbortSignal,
): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  const all = wire.frames(filled);
  if (turn.hangAfter !== undefined) {
    response.flushHeaders();
    if (turn.hangAfter > 0) response.write(all.slice(0, turn.hangAfter).join(''));
    return;
  }
  if (turn.errorFirst) {
    response.end(wire.errorFrame('Overloaded'));
    return;
  }
  const isCut = turn.breakOff !== undefined || turn.malformed || turn.streamError;
  const frames = isCut ? all.slice(0, all.length >> 1) : all;
  if (turn.malformed) frames.push(all[all.length >> 1]!.slice(0, -10).concat('\n\n'));
  if (turn.streamError) frames.push(wire.errorFrame('Overloaded'));
  if (turn.chunkDelayMs) {
    for (const [index, frame] of frames.entries()) {
      if (index > 0) await setTimeout(turn.chunkDelayMs, undefined, { signal: gone });
      response.write(frame);
    }
  } else {
    response.write(frames.join(''));
  }
  if (turn.breakOff === 'reset') response.write('', () => response.socket?.resetAndDestroy());
  else response.end();
}
