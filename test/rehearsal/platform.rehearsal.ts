import { afterAll, expect, inject, test } from 'vitest';
import { platformSuite } from '#test/e2e/suite.ts';
import { chaosSuite } from './chaos.ts';
import { countRequests } from './costs.ts';
import { startRehearsal } from './platform.ts';

const target = await startRehearsal(inject('awsEndpoints'));
const { python, node } = target.interpreters;

platformSuite(() => target, { python: python !== undefined, node: node !== undefined });
chaosSuite(() => target);

test('what a request costs is counted, and a prompt call is cheap', async () => {
  const counted = await countRequests(target);
  const of = (what: string) => counted.find((each) => each.what === what)!;
  const { invocations, readUnits, writeUnits, others } = of('prompt call');
  expect(invocations).toHaveLength(1);
  expect(writeUnits).toBeGreaterThan(0);
  expect(writeUnits).toBeLessThan(12);
  expect(readUnits).toBeGreaterThan(0);
  expect(readUnits).toBeLessThan(8);
  // Secrets are kept in memory for some minutes.
  expect(others).toEqual([]);
  expect(of('`GET /health`')).toMatchObject({ tableRequests: 0, s3Gets: 0, others: [] });
});

test('no function needed what its policy does not allow', () => {
  expect([...target.gate.refused]).toEqual([]);
});

afterAll(() => target.close());
