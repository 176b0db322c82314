import * as z from 'zod';

const EARLIEST = '1970-01-01T00:00:00.000Z';
const LATEST = '2999-12-31T23:59:59.999Z';
const OUTSIDE = `must be from ${EARLIEST} to ${LATEST}`;

/**
 * Schema of a time in a request (`docs/interface/identifiers.md#times`). The range ensures that the sum with any period
 * of the platform has a year of four digits, so that times compare as texts.
 */
export const requestTime = z.iso
  .datetime({
    offset: true,
    error: `must be a time with an offset, such as 2026-11-21T09:30:00Z, from ${EARLIEST} to ${LATEST}`,
  })
  .refine((text) => isWithin(Date.parse(text)), OUTSIDE)
  // Tells readers of the OpenAPI document about the rule above, which they do not see.
  .meta({ pattern: String.raw`^(?:19[7-9]\d|2\d{3})-` });

const isWithin = (time: number): boolean => time >= Date.parse(EARLIEST) && time <= Date.parse(LATEST);
