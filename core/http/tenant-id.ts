import * as z from 'zod';

/** Customer of a caller, as `X-Platform-Tenant` names it. The characters are safe in keys of items. */
export const tenantId = z.string().regex(/^[\w.:@-]{1,128}$/, 'must be 1-128 letters, digits or . : @ _ -');

/** The header `X-Platform-Tenant`. */
export const tenantHeader = tenantId
  .optional()
  .describe(
    'Counts the call under this tenant in /usage/tenants, and keeps the sessions and the memory of tenants apart.',
  );
