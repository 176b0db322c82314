import { join } from 'node:path';

/** The sources of the pages. The build runs in `docs/site`. */
export const DOCS = join(process.cwd(), '..');
/** Public path of the site. */
export const BASE = '/docs/';
