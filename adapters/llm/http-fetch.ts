import { Readable } from 'node:stream';
import { headersOf, type Send, wholeOf } from './send.ts';

/** Statuses whose `Response` must not have a body. */
const BODYLESS = [204, 205, 304];

/** `fetch` for the AI SDK, implemented with `send`. */
export function fetchOver(send: Send): typeof fetch {
  return async (input, init = {}) => {
    const request = {
      url: new URL(input as string | URL),
      headers: Object.fromEntries(new Headers(init.headers)),
      body: init.body as string,
    };
    const message = await send(request, init.signal ?? undefined);
    const status = message.statusCode!;
    const isStream = message.headers['content-type']?.startsWith('text/event-stream') === true;
    // Responses that are not streamed are read completely: a web stream costs as much as the request.
    const body = isStream ? (Readable.toWeb(message) as ReadableStream) : wholeOf(message);
    return new Response(BODYLESS.includes(status) ? null : await body, { status, headers: headersOf(message) });
  };
}
