import { afterAll } from 'vitest';
import { startLocalTarget } from '#test/helpers/platform.ts';
import { platformSuite } from './suite.ts';

const target = await startLocalTarget({ PLATFORM_SANDBOX_MEMORY_MB: '256', PLATFORM_SANDBOX_DISK_MB: '32' });
const { python, node } = target.interpreters;

platformSuite(() => target, { python: python !== undefined, node: node !== undefined });

afterAll(() => target.close());
