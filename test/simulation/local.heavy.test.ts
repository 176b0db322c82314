import { test } from 'vitest';
import { OTHER_SEEDS, simulateAll } from './seeds.ts';

test('one machine', { timeout: 600_000 }, () => simulateAll('local', OTHER_SEEDS));
