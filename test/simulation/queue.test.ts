import { test } from 'vitest';
import { QUICK_SEEDS, simulateAll } from './seeds.ts';

test('timers that wake at least once', { timeout: 600_000 }, () => simulateAll('queue', QUICK_SEEDS));
