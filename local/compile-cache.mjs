import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

/**
 * Loaded before everything else by `npm start`. Node then keeps what it makes of TypeScript files: the next start takes half
 * the time, and no thread loads the compiler, of about 30 MB each. It is JavaScript because the compiler would be loaded for it.
 */
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/platform'));
