import { hash, timingSafeEqual } from 'node:crypto';
import { PlatformError } from '#core/base/errors.ts';
import { bearerOf } from '#core/http/bearer.ts';
import type { HttpRequest } from '#core/http/message.ts';
import type { OperatorKey } from '#core/ports/operator-key.ts';

/** Throws UNAUTHORIZED for a wrong key, and FORBIDDEN if the operator has set none. */
export async function checkOperator(
  { operatorKey }: { readonly operatorKey: OperatorKey },
  { headers }: Pick<HttpRequest, 'headers'>,
): Promise<void> {
  const wanted = await operatorKey();
  if (wanted === undefined) {
    throw new PlatformError(
      'FORBIDDEN',
      'This platform accepts no operator requests over the API: no operator key is configured (docs/billing.md).',
    );
  }
  const given = hash('sha256', bearerOf(headers.get('authorization')));
  if (timingSafeEqual(Buffer.from(given), Buffer.from(wanted))) return;
  throw new PlatformError(
    'UNAUTHORIZED',
    'The operator key is required: send the header "Authorization: Bearer <operator key>". User keys are not accepted.',
  );
}
