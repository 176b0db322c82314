import { test } from 'vitest';
import { simulateAll } from './seeds.ts';

test('timers that wake at least once', { timeout: 600_000 }, () => simulateAll('queue', 500));
