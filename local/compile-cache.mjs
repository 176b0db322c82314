import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

/**
 * `npm start` loads this module before all others. Node then caches the compiled TypeScript: the next start takes half
 * the time, and no thread loads the compiler (about 30 MB each). The file is JavaScript because a TypeScript file would
 * load the compiler.
 */
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/platform'));
