import { afterAll } from 'vitest';
import { remoteTarget } from './remote-target.ts';
import { platformSuite } from './suite.ts';

/** Set by scripts/e2e.ts. */
const {
  PLATFORM_E2E_URL: url = '',
  PLATFORM_E2E_KEY: key = '',
  PLATFORM_E2E_INTERPRETERS: has = '',
  PLATFORM_E2E_MODEL_PORT: modelPort,
} = process.env;
const target = await remoteTarget(url, key, modelPort ? Number(modelPort) : undefined);

platformSuite(() => target, { python: has.includes('python'), node: has.includes('node') });

afterAll(() => target.close());
