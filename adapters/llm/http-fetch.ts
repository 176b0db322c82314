import { Readable } from 'node:stream';
import { EventReader } from './direct/event-reader.ts';
import { isObject, type Members } from './direct/members.ts';
import { headersOf, type ProviderResponse, type Send, wholeOf } from './send.ts';

/** Statuses whose `Response` must not have a body. */
const BODYLESS = [204, 205, 304];

/** Completes an answer, or an event of one, that lacks what the SDK requires. */
export type Repair = (value: Members) => Members;

/**
 * `fetch` for the AI SDK, implemented with `send`.
 *
 * @param repair Applied to the JSON of successful responses, and of their events.
 */
export function fetchOver(send: Send, repair?: Repair): typeof fetch {
  return async (input, init = {}) => {
    const request = {
      url: new URL(input as string | URL),
      headers: Object.fromEntries(new Headers(init.headers)),
      body: init.body as string,
    };
    const message = await send(request, init.signal ?? undefined);
    const status = message.statusCode!;
    const fix = status < 300 ? repair : undefined;
    const isStream = message.headers['content-type']?.startsWith('text/event-stream') === true;
    // Responses that are not streamed are read completely: a web stream costs as much as the request.
    const body = isStream
      ? (Readable.toWeb(fix ? Readable.from(repairedEvents(message, fix)) : message) as ReadableStream)
      : wholeOf(message).then((whole) => (fix ? repairedJson(whole, fix) : whole));
    return new Response(BODYLESS.includes(status) ? null : await body, { status, headers: headersOf(message) });
  };
}

async function* repairedEvents(message: ProviderResponse, repair: Repair): AsyncGenerator<Buffer> {
  const events = new EventReader();
  for await (const chunk of message) {
    const data = events.push(chunk as Buffer).map((event) => `data: ${repairedJson(event, repair)}\n\n`);
    if (data.length > 0) yield Buffer.from(data.join(''));
  }
}

/** Returns text that is not a JSON object unchanged. */
function repairedJson<Text extends string | Buffer>(text: Text, repair: Repair): Text | string {
  try {
    const value: unknown = JSON.parse(text.toString());
    return isObject(value) ? JSON.stringify(repair(value)) : text;
  } catch {
    return text;
  }
}
