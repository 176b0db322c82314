import { remoteTarget } from './remote-target.ts';
import { platformSuite } from './suite.ts';

/** Set by scripts/e2e.ts. */
const { PLATFORM_E2E_URL: url = '', PLATFORM_E2E_KEY: key = '', PLATFORM_E2E_INTERPRETERS: has = '' } = process.env;
const target = remoteTarget(url, key);

platformSuite(() => target, { python: has.includes('python'), node: has.includes('node') });
