import { PlatformError } from '#core/base/errors.ts';
import type { RequestHeaders } from '#core/http/message.ts';
import { tenantId } from '#core/http/tenant-id.ts';

/** Returns the tenant that a request names, in the header that calls use. Throws INVALID_INPUT. */
export function tenantOf(headers: RequestHeaders): string | undefined {
  const tenant = headers.get('x-platform-tenant');
  if (tenant === null) return undefined;
  if (tenantId.safeParse(tenant).success) return tenant;
  throw new PlatformError('INVALID_INPUT', 'header.x-platform-tenant: must be 1-128 letters, digits or . : @ _ -');
}
