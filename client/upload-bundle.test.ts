import { afterAll, expect, test } from 'vitest';
import { clientOf, startLocalTarget } from '#test/helpers/platform.ts';
import { zip } from '#test/helpers/zip.ts';
import { uploadBundle } from './upload-bundle.ts';

const MB = 1024 ** 2;
const target = await startLocalTarget({ PLATFORM_MAX_DIRECT_BODY_MB: '4', PLATFORM_MAX_BUNDLE_MB: '6' });
afterAll(() => target.close());
const client = clientOf(target);

/** Creates a bundle of approximately this size. */
const bundleOf = (bytes: number): Uint8Array =>
  zip([
    { name: 'main.py', content: 'print("{}")' },
    { name: 'data', content: Buffer.alloc(bytes, 7), method: 0 },
  ]);

test.each([
  ['small', 1000],
  ['large', 5 * MB],
])('a %s bundle is uploaded', async (name, bytes) => {
  const bundle = bundleOf(bytes);
  const body = { name, type: 'tool', description: 'is uploaded', required_secrets: [] };
  const { agent } = await client.createAgent({ body });
  const told: number[] = [];
  const onUpload = (sent: number, all: number) => {
    expect(all).toBe(bundle.byteLength);
    told.push(sent);
  };
  expect(await uploadBundle(client, agent.id, bundle, onUpload)).toMatchObject({ size_bytes: bundle.byteLength });
  expect(told).toEqual(told.toSorted((one, other) => one - other));
  expect([told[0], told.at(-1)]).toEqual([0, bundle.byteLength]);
  if (name === 'large') expect(told.length).toBeGreaterThan(3);
  const stored = await client.downloadOwnBundle({ params: { id: agent.id } });
  expect(Buffer.from(await stored.arrayBuffer()).equals(bundle)).toBe(true);
});

test("a bundle above the platform's limit is not sent", async () => {
  const bundle = bundleOf(6 * MB);
  await expect(uploadBundle(client, crypto.randomUUID(), bundle)).rejects.toThrow(
    `The bundle is too large: ${bundle.byteLength} bytes; the platform accepts ${6 * MB}.`,
  );
});
