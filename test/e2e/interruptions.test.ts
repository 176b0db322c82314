import { afterAll } from 'vitest';
import { startLocalTarget } from '#test/helpers/platform.ts';
import { interruptionsSuite } from './interruptions.ts';

const target = await startLocalTarget();

interruptionsSuite(() => target);

afterAll(() => target.close());
