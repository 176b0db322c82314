import { config } from 'zod/v4/core';

/**
 * Compiling a schema pays off after a thousand values; most processes see fewer. A schema reads this setting on
 * creation, so the build makes entries import this file first.
 */
config({ jitless: true });
