import { config } from 'zod/v4/core';

/**
 * Compiling a schema pays off after a thousand values; most processes see fewer. A schema looks for this setting when it is made, so the
 * build has entries import this first.
 */
config({ jitless: true });
