import { test } from 'vitest';
import { simulateAll } from './seeds.ts';

test('one machine', { timeout: 600_000 }, () => simulateAll('local', 500));
