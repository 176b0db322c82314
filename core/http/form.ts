import { PlatformError } from '#core/base/errors.ts';
import { type BodyLimit, mediaType, readBounded } from './body.ts';
import type { HttpRequest } from './message.ts';

/** Reads the fields of a form. Throws UNSUPPORTED_TYPE and DOCUMENT_TOO_LARGE. */
export async function readForm(request: HttpRequest, limit: BodyLimit): Promise<Record<string, string>> {
  if (mediaType(request) !== 'application/x-www-form-urlencoded') {
    throw new PlatformError('UNSUPPORTED_TYPE', 'The body must be a form: application/x-www-form-urlencoded.');
  }
  const bytes = await readBounded(request, limit);
  return Object.fromEntries(new URLSearchParams(new TextDecoder().decode(bytes)));
}
