import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { Journal, MAX_JOURNAL_BYTES } from './journal.ts';
import { RunSeal } from './sealing.ts';

test('a run that has to remember more than a journal holds fails, with the way to avoid it', async () => {
  const deps = memoryDeps();
  const seal = new RunSeal(randomBytes(32), 'r');
  const place = { workspaceId: 'w', runId: 'r', seal, keptUntil: deps.clock.now() + 3_600_000 };
  const journal = Journal.begin(deps, place);
  const bytes = MAX_JOURNAL_BYTES / 8;
  const result = (call: number) => {
    const files = [{ name: 'image', mediaType: 'image/png', bytes: randomBytes(bytes) }];
    return { type: 'result', turn: 1, call, outcome: { text: '', isError: false, files }, durationMs: 1 } as const;
  };
  let written = 0;
  const fill = async (): Promise<void> => {
    for (; written < 10; written++) await journal.write(result(written));
  };
  await expect(fill()).rejects.toMatchObject({
    code: 'UNPROCESSABLE',
    message: expect.stringContaining('is larger than 64 MB'),
    extra: { hint: expect.stringContaining('return less') },
  });
  expect(written).toBe(7);
  // What was written before is still whole.
  expect((await Journal.read(deps, place)).past.length).toBe(written);
}, 60_000);
