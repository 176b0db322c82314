import { test } from 'vitest';
import { QUICK_SEEDS, simulateAll } from './seeds.ts';

test('one machine', { timeout: 600_000 }, () => simulateAll('local', QUICK_SEEDS));
