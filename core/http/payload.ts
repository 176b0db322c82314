import { hasCode, PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { type BodyLimit, mediaType, parseJson, readBounded } from './body.ts';
import type { HttpRequest } from './message.ts';

/**
 * Reads the payload of a webhook; `undefined` without a body. A JSON body is accepted with any content type, so senders
 * need
 * no header.
 *
 * Throws INVALID_INPUT for a body that is not JSON, UNSUPPORTED_TYPE if its content type is not JSON either,
 * DOCUMENT_TOO_LARGE.
 */
export async function readPayload(
  request: Pick<HttpRequest, 'headers' | 'body' | 'bytes'>,
  limit: BodyLimit,
): Promise<Json | undefined> {
  const bytes = await readBounded(request, limit);
  if (bytes.byteLength === 0) return undefined;
  try {
    return parseJson(bytes, 'The body');
  } catch (error) {
    const type = mediaType(request);
    if (!hasCode(error, 'INVALID_INPUT') || type === '' || type === 'application/json' || type.endsWith('+json')) {
      throw error;
    }
    throw new PlatformError('UNSUPPORTED_TYPE', `The body must be JSON, but it is "${type.slice(0, 100)}".`, {
      hint: 'Have the sender deliver JSON: on GitHub, set the content type of the webhook to application/json.',
    });
  }
}
