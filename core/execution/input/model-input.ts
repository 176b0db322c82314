import { PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { countText, sizeText } from '#core/base/size-text.ts';
import { isSurelyWithin } from '#core/ports/large-value.ts';

/** More than models can read, and what a 512 MB function on AWS has memory for (docs/costs.md). */
const MAX_BYTES = 10 * 1024 ** 2;

/** Checks the size of an input that goes to a model. Throws DOCUMENT_TOO_LARGE. */
export function checkModelInput(document: { readonly [member: string]: Json }): void {
  if (isSurelyWithin(MAX_BYTES, document as Json)) return;
  const bytes = Buffer.byteLength(JSON.stringify(document));
  if (bytes <= MAX_BYTES) return;
  throw new PlatformError(
    'DOCUMENT_TOO_LARGE',
    `The input has ${countText(bytes)} bytes of JSON, and a model is given ${sizeText(MAX_BYTES)} of it at most.`,
    { hint: 'Send large data as a file to an agent with tools or to a program: they find it in their sandbox.' },
  );
}
