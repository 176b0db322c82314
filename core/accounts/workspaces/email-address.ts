import * as z from 'zod';

/** RFC 5321, section 4.5.3.1.3, minus the angle brackets. */
const MAX_LENGTH = 254;

export const emailAddress = z
  .email('must be an e-mail address')
  .max(MAX_LENGTH, `must be at most ${MAX_LENGTH} characters`);
