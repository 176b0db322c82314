import { createApp } from '#core/api/app.ts';
import type { HttpResponse } from '#core/http/message.ts';

/** Wraps {@link createApp} in web types, for convenience in tests. */
export function createWebApp(...parts: Parameters<typeof createApp>) {
  const app = createApp(...parts);
  return async (request: Request, address?: string): Promise<Response> => webResponse(await app(request, address));
}

export function webResponse({ body, ...init }: HttpResponse): Response {
  const isWhole = body === null || typeof body === 'string' || body instanceof Uint8Array;
  return new Response(isWhole ? (body as string | Uint8Array<ArrayBuffer> | null) : ReadableStream.from(body), init);
}
