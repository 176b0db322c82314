import { expect, test } from 'vitest';
import type { Workspace } from '#core/base/workspace.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { reserveUpload, waitingUploadBytes } from './waiting-uploads.ts';

const MINUTE_MS = 60_000;
const workspace: Workspace = { id: 'w', slug: 'acme', name: 'acme', type: 'team', createdAt: '', plan: 'free' };

function setUp(uploadBytes: number | null) {
  const base = memoryDeps();
  const plans = { ...base.config.plans, free: { ...base.config.plans.free, upload_bytes: uploadBytes } };
  const deps = { ...base, config: { ...base.config, plans } };
  const reserve = (bytes: number, minutes = 60) =>
    reserveUpload(deps, workspace, { bytes, expiresAt: deps.clock.now() + minutes * MINUTE_MS });
  return { deps, reserve, used: () => waitingUploadBytes(deps, workspace.id) };
}

test('an expired form gives its bytes back, to any later form', async () => {
  const { deps, reserve, used } = setUp(100);
  await reserve(60);
  await deps.clock.advance(30 * MINUTE_MS);
  await reserve(40);
  await expect(reserve(1)).rejects.toMatchObject({ code: 'RATE_LIMITED', extra: { suggested_wait_time: 1800 } });
  await deps.clock.advance(36 * MINUTE_MS);
  expect(await used()).toBe(40);
  await reserve(60);
  expect(await used()).toBe(100);
  await expect(reserve(1)).rejects.toMatchObject({ code: 'RATE_LIMITED' });
});

test('a larger plan counts too, and one item holds any number of forms', async () => {
  const { deps, reserve, used } = setUp(null);
  for (let n = 0; n < 200; n++) {
    await reserve(10);
    await deps.clock.advance(MINUTE_MS);
  }
  const item = await deps.counters.get({ pk: 'WS#w#LIMITS', sk: 'UPLOADS' });
  expect(Object.keys(item!).length).toBeLessThan(20);
  expect(await used()).toBeGreaterThanOrEqual(590);
  expect(await used()).toBeLessThanOrEqual(650);
});
