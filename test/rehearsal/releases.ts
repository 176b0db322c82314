import { cpSync, mkdtempSync, renameSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { request } from '#test/helpers/platform.ts';
import { BUNDLES } from '../../scripts/build-functions.ts';
import type { Deployment } from './change-set.ts';
import type { Rehearsal } from './platform.ts';

/** Creates bundles in which some functions start with other code; the original code follows unless that throws. */
export function bundlesWith(first: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'platform-bundles-'));
  cpSync(BUNDLES, folder, { recursive: true });
  for (const [fn, code] of Object.entries(first)) {
    renameSync(join(folder, fn, 'index.mjs'), join(folder, fn, 'whole.mjs'));
    writeFileSync(join(folder, fn, 'index.mjs'), code);
  }
  return folder;
}
const SAME = "// changed\nexport { handler } from './whole.mjs';";
const BROKEN = "export const handler = async () => { throw new Error('a mistake'); };";
const REFUSING = `export const handler = async () => ({ statusCode: 503, headers: {}, body: '{}' });`;
const BROKEN_STREAM = `export const handler = awslambda.streamifyResponse(async (event, raw) => {
  awslambda.HttpResponseStream.from(raw, { statusCode: 200, headers: {} }).write('first');
  await new Promise((resolve) => setTimeout(resolve, 50));
  throw new Error('a mistake');
});`;

/** Deployments of a platform in use: all functions switch to the new version together, or none does. */
export function releaseSuite(getTarget: () => Rehearsal): void {
  const target = () => getTarget();
  /** Returns the status of an answer, or 599 if it breaks off. */
  const ask = async (path: string): Promise<number> =>
    request(target(), 'GET', path, { key: target().key }).then(
      ({ status }) => status,
      () => 599,
    );
  /** Deploys under load and returns the answers that callers got. */
  async function deployUnder(load: () => Promise<number>, first: Readonly<Record<string, string>>) {
    const statuses: number[] = [];
    let deployment: Deployment | undefined;
    const deploying = target()
      .deploy(bundlesWith(first))
      .then((done) => {
        deployment = done;
      });
    while (deployment === undefined) {
      statuses.push(await load());
      await setTimeout(100);
    }
    await deploying;
    return { ...(deployment as Deployment), statuses };
  }
  /** Returns the versions that served the next requests. */
  async function serving(path: string, fn: string): Promise<(string | undefined)[]> {
    const from = target().lambda.invocations.length;
    for (let i = 0; i < 12; i++) expect(await ask(path)).toBe(200);
    await target().lambda.settled();
    const mine = target()
      .lambda.invocations.slice(from)
      .filter((each) => each.fn.endsWith(`-${fn}`));
    expect(mine.length).toBeGreaterThanOrEqual(12);
    return [...new Set(mine.map(({ version }) => version))];
  }

  describe('a release', () => {
    test.each([
      ['throws', { tasks: BROKEN }, '/tasks', 'faults'],
      ['answers 5xx', { tasks: REFUSING }, '/tasks', 'faults'],
      ['breaks its streams', { downloads: BROKEN_STREAM }, '/agents/none/bundle', 'errors'],
    ])('that %s is taken back, with all its functions', { timeout: 180_000 }, async (_, broken, path, alarm) => {
      const before = await serving('/tasks', 'tasks');
      const changed = { ...broken, runs: SAME, collector: BROKEN };
      const { failure, steps, statuses } = await deployUnder(() => ask(path), changed);
      expect(failure).toContain(`rolled back by ${target().platform}-release-${alarm}`);
      // Callers met both versions during the canary.
      expect(new Set(statuses.map((status) => status < 500))).toEqual(new Set([true, false]));
      // The stage never moved, and functions without requests never changed.
      expect(steps).not.toContain('update AWS::ApiGateway::Stage');
      const tried = steps.slice(0, steps.indexOf('update Custom::Release'));
      // The function that makes the compile caches was updated as well.
      expect(tried.filter((step) => step === 'update AWS::Lambda::Function')).toHaveLength(3);
      expect(target().api.canary).toBeUndefined();
      expect(await serving('/tasks', 'tasks')).toEqual(before);
      expect((await ask(path)) < 500).toBe(true);
      await target().tick('collector');
    });

    test('without faults moves every function to its new version at once', { timeout: 180_000, retry: 0 }, async () => {
      const [before] = await serving('/tasks', 'tasks');
      const changed = { tasks: SAME, runs: SAME, collector: SAME };
      const { failure, steps, statuses } = await deployUnder(() => ask('/tasks'), changed);
      expect(failure).toBeUndefined();
      expect(new Set(statuses)).toEqual(new Set([200]));
      const order = ['AWS::Lambda::Version', 'Custom::Release', 'AWS::ApiGateway::Stage'].map((type) =>
        steps.findLastIndex((step) => step.endsWith(type)),
      );
      expect(order.toSorted((a, b) => a - b)).toEqual(order);
      expect(steps.lastIndexOf('update AWS::Lambda::Function')).toBeGreaterThan(order.at(-1)!);
      const [after, ...others] = await serving('/tasks', 'tasks');
      expect(others).toEqual([]);
      expect(Number(after)).toBeGreaterThan(Number(before));
      // Both versions served requests during the canary.
      const seen = target().lambda.invocations.filter(({ fn }) => fn.endsWith('-tasks'));
      expect(new Set(seen.map(({ version }) => version))).toEqual(new Set([before, after]));
      await target().tick('collector');
    });
  });
}
