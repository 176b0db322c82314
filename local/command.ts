import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** Only a clone has it: neither the package nor the image contains it. */
const LOCK = join(import.meta.dirname, '../package-lock.json');

/** The command that starts the command line. In a clone, npm finds it; the package and the image install it. */
export const COMMAND = import.meta.filename.endsWith('.ts') && existsSync(LOCK) ? 'npx platform' : 'platform';
