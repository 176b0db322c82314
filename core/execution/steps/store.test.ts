import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { orderKey } from '#core/runs/items.ts';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { ProgramSteps } from './store.ts';

const PLACE = {
  workspaceId: '00000000-0000-4000-8000-000000000001',
  runId: '00000000-0000-4000-8000-000000000002',
};
const step = (text: string, value: unknown = text) =>
  ({ kind: 'step', text, number: 1, value: value as never }) as const;
const question = (text: string) => ({ kind: 'ask_human', text, number: 1, wait: { expiresAt: 1 } }) as const;
const suspension = { kind: 'suspension', text: '', number: 1, marks: 'suspended' } as const;

/** Steps of a run as one process sees them; another one may open the same. */
async function newSteps({ hasSteps = true } = {}) {
  const deps = memoryDeps();
  const { sealed } = await deps.vault.newDataKey(PLACE.workspaceId);
  const steps = hasSteps ? { steps: { max_wait_seconds: 60 } } : {};
  const ttl = Math.floor(deps.clock.now() / 1000) + 3600;
  await deps.runs.put({ ...orderKey(PLACE.workspaceId, PLACE.runId), version: 1, sealed_key: sealed, ...steps, ttl });
  const open = async () => (await ProgramSteps.open(deps, PLACE))!;
  return { deps, open, steps: await open() };
}

const textsOf = async (steps: ProgramSteps) => (await steps.page(0)).entries.map(({ kind, text }) => text || kind);

test('a run whose manifest has no steps has none', async () => {
  const { deps } = await newSteps({ hasSteps: false });
  expect(await ProgramSteps.open(deps, PLACE)).toBeUndefined();
  expect(await ProgramSteps.open(deps, { ...PLACE, runId: PLACE.workspaceId })).toBeUndefined();
});

test('the first value at a position is kept, and the same step again gets it', async () => {
  const { steps, open } = await newSteps();
  expect(await steps.put(1, step('pay', 1))).toMatchObject({ value: 1 });
  expect(await (await open()).put(1, step('pay', 2))).toMatchObject({ value: 1, position: 1 });
  await expect(steps.put(1, step('refund'))).rejects.toMatchObject({
    code: 'CONFLICT',
    message: 'Position 1 of this run has step "pay" (1), not step "refund" (1).',
  });
  await expect(steps.put(3, step('late'))).rejects.toMatchObject({ code: 'CONFLICT' });
});

test('of two processes that keep a step at the same time, both get the same value', async () => {
  const { open } = await newSteps();
  const all = await Promise.all([1, 2, 3, 4].map(async (value) => (await open()).put(1, step('pay', value))));
  expect(new Set(all.map((each) => 'value' in each && each.value)).size).toBe(1);
});

test('a program of an earlier start cannot keep a step once the next one has started', async () => {
  const { steps, open } = await newSteps();
  await steps.put(1, step('pay'));
  expect(await (await open()).start(new Map())).toBe(2);
  await expect(steps.put(2, step('send'))).rejects.toMatchObject({
    code: 'CONFLICT',
    message: expect.stringContaining('has start (1), not step "send" (1)'),
  });
  expect(await steps.put(3, step('send'))).toMatchObject({ value: 'send' });
});

test('waits end once, before the start that follows, whatever an old program writes meanwhile', async () => {
  const { steps, open } = await newSteps();
  await steps.put(1, question('First?'));
  await steps.put(2, question('Second?'));
  await steps.put(3, suspension);
  expect(await steps.isSuspended(0)).toBe(true);
  expect(await steps.isSuspended(3)).toBe(false);
  const ends = new Map([[2, { value: 'two' }]]);
  const [, last] = await Promise.all([steps.put(4, step('old')).catch(() => {}), (await open()).start(ends)]);
  expect((await steps.waits()).map(({ text }) => text)).toEqual(['First?']);
  expect(await steps.isSuspended(0)).toBe(false);
  expect(await (await open()).start(ends)).toBe(last + 1);
  const texts = await textsOf(steps);
  expect(texts.filter((text) => text === 'Second?')).toHaveLength(2);
  expect(texts.slice(-2)).toEqual(['start', 'start']);
});

test('marks are no progress', async () => {
  const { steps } = await newSteps();
  expect(await steps.progress()).toBe(0);
  await steps.put(1, step('pay'));
  await steps.start(new Map());
  await steps.start(new Map());
  expect(await steps.progress()).toBe(1);
});

test('a run waits for at most 50 things at the same time', async () => {
  const { steps } = await newSteps();
  for (let position = 1; position <= 50; position++) await steps.put(position, question(`${position}?`));
  await expect(steps.put(51, question('More?'))).rejects.toMatchObject({ code: 'UNPROCESSABLE' });
  expect(await steps.start(new Map([[1, { value: 'yes' }]]))).toBe(52);
  expect(await steps.put(53, question('More?'))).toMatchObject({ position: 53 });
});

test('large values come whole, in pages', async () => {
  const { steps } = await newSteps();
  const value = randomBytes(450_000).toString('hex');
  for (let position = 1; position <= 5; position++) await steps.put(position, step(`${position}`, value));
  const { entries, hasMore } = await steps.page(0);
  expect(hasMore).toBe(true);
  const rest = await steps.page(entries.length);
  expect(rest.hasMore).toBe(false);
  const all = [...entries, ...rest.entries];
  expect(all.map(({ position }) => position)).toEqual([1, 2, 3, 4, 5]);
  expect(all.every((each) => 'value' in each && each.value === value)).toBe(true);
});

test('all values of a run together are bounded', async () => {
  const { steps, deps } = await newSteps();
  await steps.put(1, step('first'));
  const { items } = await deps.runs.query({ pk: orderKey(PLACE.workspaceId, PLACE.runId).pk });
  const item = items.find(({ sk }) => sk.startsWith('DONE#'))!;
  await deps.runs.put({ ...item, bytes: 64 * 1024 * 1024 - 100 });
  const second = step('second', randomBytes(200).toString('hex'));
  await expect(steps.put(2, second)).rejects.toMatchObject({
    code: 'UNPROCESSABLE',
    message: expect.stringContaining('64 MB'),
  });
});

test('nothing of an entry is stored in plain text, and a damaged one is said to be damaged', async () => {
  const { steps, deps } = await newSteps();
  await steps.put(1, step('a name', 'a value'));
  const { items } = await deps.runs.query({ pk: orderKey(PLACE.workspaceId, PLACE.runId).pk });
  const item = items.find(({ sk }) => sk.startsWith('DONE#'))!;
  expect(JSON.stringify(item)).not.toMatch(/a name|a value/);
  await deps.runs.put({ ...item, data: Buffer.from('other').toString('base64') });
  await expect(steps.page(0)).rejects.toMatchObject({ code: 'DAMAGED' });
});
